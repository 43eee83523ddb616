"""
Personalised PageRank over the graph of entities and the memories that mention them.

A walk starts at the entities asked about, goes to one of the memories of an entity, on to one of
the entities of that memory, and so forth, and now and then starts over: memories that join what is
asked about, if only by a third entity, are where it often stands. Haveliwala 2002,
https://doi.org/10.1145/511446.511513; for recall: HippoRAG (Gutiérrez et al. 2024,
https://arxiv.org/abs/2405.14831), whose damping and start by rarity are taken.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

DAMPING = 0.5
STEPS = 12  # what is left out then weighs 2 ** -12
MAX_SEEDS = 8  # the rarest
MAX_DOCUMENTS = 1_000  # of an entity; the newest
MAX_MENTIONS = 20_000  # of the graph that is walked; the entities of few memories first

Numbers = npt.NDArray[np.integer[Any]]
Values = npt.NDArray[np.float64]


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


def personalised(entities: Numbers, documents: Numbers, seeds: Numbers) -> tuple[Numbers, Values]:
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
    """Return where the documents of some entities lie, run by run."""
    runs = [np.arange(offsets[one], offsets[one] + counts[one]) for one in entities]
    return np.concatenate([np.empty(0, np.int64), *runs]).astype(np.int64)
