"""
Optional evidence: layers beyond words, vectors and the turns around, each off unless a setting
names it.

A layer gives every document evidence in [0, 1], which is fused by its weight, and its best enter
the candidates; but `siblings` only adds candidates, and `fields` only raises what the vectors say.
docs/recall.md has figures for each.

`parts` splits a compound question only into what surely stands alone: whole questions in a row, a
question after "and", the two sides of a comparison in time. `hints` looks words up as entity names
though nothing marks them as one: "why do we use redis" names a package once a memory imported it.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from serve.recall import neighbours
from serve.recall.analysis import MAX_QUERY, Analysis, Question
from serve.recall.channels import Scratch, bm25_scores
from serve.recall.neighbours import siblings
from serve.recall.scoring import Ranking
from store.extensions import Decomposer
from store.home.config import Layer
from store.index.top_k import top_k
from store.text import tokenizer
from store.text.mentions import Mention
from store.text.tokenizer import STOP_WORDS, terms

MAX_PARTS = 4
_ASKS = "|".join(
    """who whom whose what when where why which how wer was wann wo warum wie qui quand où pourquoi
    comment quién qué cuándo dónde cómo""".split()
)
_SENTENCE = re.compile(r"(?<=[?？]) ")
_AND_ASKS = re.compile(
    rf"(?:[,;]? (?:and|und|et|y|as well as) (?:also )?|; )(?=(?:{_ASKS})\b)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(rf"(?:[^?]*, )?(?:{_ASKS})\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|should|would|will|ist|sind|war|haben|"
    r"hat|wurde|est|sont|avons|a|es|son|fue|hemos)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|that|those|these|er|ihm|ihr|"
    r"dies\w*|elle|ils|elles|ello)\b",
    re.IGNORECASE,
)
# what begins a comparison in time, and the word between its two sides
_COMPARISONS = (
    (re.compile(r"\bbetween (.+)", re.IGNORECASE), re.compile(r",? and ")),
    (
        re.compile(r"\b(?:first|last|earlier|later|sooner)[,:] (.+)", re.IGNORECASE),
        re.compile(r",? or "),
    ),
)
_ANOTHER = re.compile(r" (?:and|or) ")


def parts(question: str) -> Sequence[str]:
    """Return the questions of a question, at most four; a simple one comes back alone."""
    whole = " ".join(question.split())
    for split in (_sentence_parts, _comparison_parts, _conjunction_parts):
        found = split(whole)
        if 1 < len(found) <= MAX_PARTS and all(map(_says_enough, found)):
            return found
    return (question,)


def _sentence_parts(text: str) -> Sequence[str]:
    found = [one for one in _SENTENCE.split(text) if one]
    each_asks = all(one.endswith(("?", "？")) for one in found)
    return found if each_asks and not any(map(_POINTS_BACK.search, found[1:])) else ()


def _conjunction_parts(text: str) -> Sequence[str]:
    found = _AND_ASKS.split(text)
    stand_alone = all(_FIRST_WORD.match(one) and _VERB.search(one) for one in found)
    return found if stand_alone and not any(map(_POINTS_BACK.search, found[1:])) else ()


def _comparison_parts(text: str) -> Sequence[str]:
    for begins, joint in _COMPARISONS:
        if match := begins.search(text):
            sides = joint.split(match[1].rstrip(" ?.!"))
            # of three things, which two are compared is a guess
            return () if len(sides) > 2 or any(map(_ANOTHER.search, sides)) else sides
    return ()


def _says_enough(part: str) -> bool:
    return sum(not term.isdigit() for term in terms(part)) > 1


Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

ENTERING = 200  # candidates of a layer
FROM_BEST = 20  # candidates whose siblings enter
WEIGHTS: dict[str, float] = {
    "parts": 2.0,
    "hints": 0.2,
    "pagerank": 0.2,
    "aggregate": 0.2,
    "dates": 0.3,
}
_decompose: Decomposer = parts  # the built-in one


def evidence(view: View, question: Question, analysis: Analysis, mask: Mask) -> dict[str, Values]:
    """Return the evidence of each layer that is on and has some, in [0, 1], [rows + slots] each.

    Only documents under the mask have evidence; another mode than `auto` has no layers.
    """
    if question.mode != "auto":
        return {}
    chosen = {name: layer for name, layer in _LAYERS.items() if name in question.layers}
    found = {
        name: _shares(np.where(mask, layer(view, question, analysis), np.float32(0.0)))
        for name, layer in chosen.items()
    }
    return {name: values.astype(np.float64) for name, values in found.items() if values.any()}


def top_documents(
    view: View,
    question: Question,
    found: Mapping[str, Values],
    channels: Mapping[str, Ranking],
    mask: Mask,
) -> Docs:
    """Return the documents that the layers add to the candidates: their best, and siblings.

    Siblings are the neighbours of the best by words in their sessions, and bring no evidence of
    their own: the turns around them do. The tail has none until the next build.
    """
    added = [top_k(values.astype(np.float32), mask, ENTERING) for values in found.values()]
    sessions, rows = view.snapshots.sessions, view.snapshots.rows
    wanted = question.mode == "auto" and "siblings" in question.layers
    if wanted and sessions is not None and "lexical" in channels:
        first = channels["lexical"].docs[:FROM_BEST]
        beside = siblings(first[first < len(rows)], sessions.session, rows.created_at)
        added.append(beside[mask[beside]])
    return np.concatenate([np.empty(0, np.int64), *added])


def _parts(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return how well each document answers that part of the question it answers best."""
    found = _decompose(question.text[:MAX_QUERY])
    shares = np.zeros(view.size, np.float32)
    for part in found if len(found) > 1 else ():
        topic = [term for term in tokenizer.terms(part) if term not in analysis.names]
        with Scratch() as scratch:
            shares = np.maximum(shares, _shares(bm25_scores(view, topic, scratch)))
    return shares


def _hints(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return the weight of the entities that the question may name, by who mentions them."""
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    asked = _entities(question, analysis)
    snapshot = index.scores(index.lookup(asked), rows) if index else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.entity_scores(asked)])


def _pagerank(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return how near each document lies to two entities or more that the question names."""
    scores, index = np.zeros(view.size, np.float32), view.snapshots.entities
    if index is None or len(seeds := index.lookup(_entities_and_people(question, analysis))) < 2:
        return scores
    start = np.asarray(seeds, np.int64)
    graph = neighbours.neighbourhood(*index.mention_runs, start)
    docs, visits = neighbours.pagerank(*graph, start)
    scores[docs] = visits
    return scores


def _aggregate(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return the documents of the entities named, for a question that wants all there is."""
    if analysis.answer_type not in ("how_many", "list"):
        return np.zeros(view.size, np.float32)
    return np.minimum(_hints(view, question, analysis), 1.0)


def _dates(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return 1 for what was made in the time that the question speaks of."""
    scores, when = np.zeros(view.size, np.float32), analysis.interval
    if when is not None:
        made = np.concatenate([view.snapshots.rows.created_at, view.tail.columns.created_at])
        scores[(made >= when.since) & (made < when.until)] = 1.0
    return scores


_LAYERS: Mapping[Layer, Callable[[View, Question, Analysis], Scores]] = {
    "parts": _parts,
    "hints": _hints,
    "pagerank": _pagerank,
    "aggregate": _aggregate,
    "dates": _dates,
}


def _entities(question: Question, analysis: Analysis) -> Sequence[Mention]:
    """Return the entities that the question names or may name, but for who said something."""
    found = hints(question.text[:MAX_QUERY])
    return [
        *analysis.mentions,
        *(one for one in found if not set(tokenizer.terms(one.name)) & set(analysis.names)),
    ]


def _entities_and_people(question: Question, analysis: Analysis) -> Sequence[Mention]:
    """Return the entities and the people that the question names."""
    people = [Mention("person", name, name) for name in sorted(analysis.people)]
    return [*_entities(question, analysis), *people]


def _shares(scores: Scores) -> Scores:
    """Return scores as shares of the greatest; zeros stay."""
    greatest = scores.max(initial=0.0)
    return scores / greatest if greatest > 0 else scores


MAX_HINTS = 24
_WORD = re.compile(r"[^\W\d_][\w-]{2,63}")


def hints(text: str) -> tuple[Mention, ...]:
    """Return the words of three letters and more that are no stop words, in order, each once.

    Their kind is a guess; entities are looked up by name whatever their kind.
    """
    words = dict.fromkeys(word.rstrip("-").casefold() for word in _WORD.findall(text))
    chosen = [word for word in words if word not in STOP_WORDS][:MAX_HINTS]
    return tuple(Mention("symbol", word, word) for word in chosen)
