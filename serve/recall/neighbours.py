"""
Scores that a document takes from its neighbours: turns beside it, its session, shared entities.

A short turn is often an answer that repeats no word of its question ("By the lake, last summer"),
so it takes a share of its neighbours' scores, most of a neighbour before it that asked. Only turns
that answer another speaker have neighbours (-1 stands for none), so a memory that says all by
itself is ranked by itself. The neighbours' shares follow passage retrieval with local context
(Fernandez et al. 2011, https://doi.org/10.1007/s10791-010-9146-4).

Personalised PageRank walks the graph of entities and the memories that mention them: from an entity
asked about to one of its memories, on to one of that memory's entities, and now and then back to
the start. Memories that join what is asked about, if only by a third entity, are where it often
stands (Haveliwala 2002, https://doi.org/10.1145/511446.511513; for recall HippoRAG, Gutiérrez et
al. 2024, https://arxiv.org/abs/2405.14831, whose damping and start by rarity are taken).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Docs = npt.NDArray[np.int64]
Links = npt.NDArray[np.int32]  # by document: another document's number, or -1
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

# A session's share for a memory that nobody answered: its topic still says a little.
UNANSWERED = 0.15
BEST_OF_SESSION = 3  # turns whose vectors stand for their session


def take_scores(
    scores: npt.NDArray[np.float32], places: Links, allowed: Mask | None = None
) -> Values:
    """Return the score at each place, [places]; zero for -1 and for a place not allowed.

    `scores` and `allowed` are [documents]; without the latter all are.
    """
    values = np.zeros(len(places))
    found = np.flatnonzero(places >= 0)
    if allowed is not None:
        found = found[allowed[places[found]]]
    values[found] = scores[places[found]]
    return values


def scale(values: Values, greatest: float) -> Values:
    """Return values as shares of the greatest, in [0, 1]; zeros where that is not positive."""
    if greatest <= 0:
        return np.zeros(len(values))
    shares: Values = np.clip(values / greatest, 0.0, 1.0)
    return shares


def turn_shares(
    own: Values, before: Values, after: Values, asked: npt.NDArray[np.bool_]
) -> dict[str, Values]:
    """Return the shares of the turns before and after, and of a turn before that asked.

    All are [documents]; a share is of the greatest score among the documents and their neighbours.
    """
    greatest = max((float(one.max()) for one in (own, before, after) if len(one)), default=0.0)
    return {
        "before": scale(before, greatest),
        "after": scale(after, greatest),
        "question": scale(np.where(asked, before, 0.0), greatest),
    }


def session_shares(scores: Values, own: Values, is_turn: npt.NDArray[np.bool_]) -> Values:
    """Return the share each document takes of its session's score, [documents].

    A turn takes it whole. A note is a session of one: its `own` share in [0, 1] counts, and
    `UNANSWERED` parts of what it was written among.
    """
    greatest = float(scores.max()) if len(scores) else 0.0
    shares = scale(scores, greatest)
    return np.where(is_turn, shares, (own + UNANSWERED * shares) / (1.0 + UNANSWERED))


def runs(starts: Links, ends: Links) -> Docs:
    """Return the numbers from each start up to its end, one run after the other."""
    sizes = (ends - starts).astype(np.int64)
    firsts = np.cumsum(sizes) - sizes
    places: Docs = np.arange(sizes.sum()) + np.repeat(starts - firsts, sizes)
    return places


def best_of_groups(scores: npt.NDArray[np.float32], sizes: Links, count: int) -> Values:
    """Return the mean of the `count` greatest scores of each group, [groups].

    `scores` are those of one group after the other; `sizes` are the groups', at least one each.
    Negative scores count as zero, and so do those that a smaller group lacks.
    """
    values = scores.astype(np.float64)
    firsts = np.cumsum(sizes, dtype=np.int64) - sizes
    groups = np.repeat(np.arange(len(sizes)), sizes)
    sums = np.zeros(len(sizes))
    for _ in range(count if len(values) else 0):
        greatest = np.maximum.reduceat(values, firsts)
        sums += np.maximum(greatest, 0.0)
        hits = np.flatnonzero(values == greatest[groups])
        _, one_each = np.unique(groups[hits], return_index=True)
        values[hits[one_each]] = 0.0
    return sums / count


def siblings(docs: Docs, session: npt.NDArray[np.int32], at: npt.NDArray[np.int64]) -> Docs:
    """Return the neighbours of `docs` in their sessions, ascending, each once.

    `session` (-1: none) and `at` are [documents]; a session's order is that of `at`, then of the
    numbers. What is no turn of a session has no neighbour.
    """
    turns = docs[session[docs] >= 0]
    rows = np.flatnonzero(np.isin(session, session[turns]))
    said = rows[np.lexsort((rows, at[rows], session[rows]))]
    places = np.flatnonzero(np.isin(said, turns))
    found = [np.empty(0, np.int64)]
    for step in (-1, 1):
        beside = places + step
        inside = (beside >= 0) & (beside < len(said))
        own, other = said[places[inside]], said[beside[inside]]
        found.append(other[session[own] == session[other]])
    return np.unique(np.concatenate(found))


DAMPING = 0.5
STEPS = 12  # what is left out then weighs 2 ** -12
MAX_SEEDS = 8  # the rarest
MAX_DOCUMENTS = 1_000  # of an entity; the newest
MAX_MENTIONS = 20_000  # of the graph that is walked; the entities of few memories first

Numbers = npt.NDArray[np.integer[Any]]


def neighbourhood(
    offsets: Numbers, counts: Numbers, documents: Numbers, seeds: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the mentions around the seeds as pairs: entities [m] and documents [m].

    The documents of entity e are `documents[offsets[e] : offsets[e] + counts[e]]`, ascending; these
    runs lie in the order of the entities. With the seeds are the entities of their documents.
    """
    seeds = seeds[np.argsort(counts[seeds], kind="stable")][:MAX_SEEDS]
    kept = np.minimum(counts, MAX_DOCUMENTS)
    starts = offsets + counts - kept
    near = np.zeros(int(documents.max(initial=-1)) + 1, np.bool_)
    near[documents[_positions(starts, kept, seeds)]] = True
    others = np.searchsorted(offsets, np.flatnonzero(near[documents]), side="right") - 1
    others = np.setdiff1d(others, seeds)
    others = others[np.argsort(kept[others], kind="stable")]
    room = MAX_MENTIONS - int(kept[seeds].sum())
    entities = np.concatenate([seeds, others[np.cumsum(kept[others]) <= room]])
    return np.repeat(entities, kept[entities]), documents[_positions(starts, kept, entities)]


def pagerank(entities: Numbers, documents: Numbers, seeds: Numbers) -> tuple[Numbers, Values]:
    """Return the documents of a graph and how often the walk stands at each, both [n], ascending.

    `entities` and `documents` are the mentions, [m] each, no pair twice. The walk starts at the
    seeds, the rarer the likelier. No seed that is mentioned gives two empty arrays.
    """
    names, entity = np.unique(entities, return_inverse=True)
    docs, document = np.unique(documents, return_inverse=True)
    of_entity = np.bincount(entity, minlength=len(names)).astype(np.float64)
    of_document = np.bincount(document, minlength=len(docs)).astype(np.float64)
    start = np.where(np.isin(names, seeds), 1.0 / np.maximum(of_entity, 1.0), 0.0)
    if not start.sum():
        return np.empty(0, np.int64), np.empty(0)
    start /= start.sum()
    at = start
    for _ in range(STEPS):
        there = np.bincount(document, (at / of_entity)[entity], len(docs))
        back = np.bincount(entity, (there / of_document)[document], len(names))
        at = (1.0 - DAMPING) * start + DAMPING * back
    visits = np.bincount(document, (at / of_entity)[entity], len(docs)).astype(np.float64)
    return docs, visits


def _positions(offsets: Numbers, counts: Numbers, entities: Numbers) -> Numbers:
    """The places of the documents of some entities, run by run."""
    runs = [np.arange(offsets[one], offsets[one] + counts[one]) for one in entities]
    return np.concatenate([np.empty(0, np.int64), *runs]).astype(np.int64)
