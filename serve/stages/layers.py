"""
Layers: evidence beyond words, vectors and the turns around, each only where the settings name it.

A layer gives every document evidence in [0, 1], which is fused by its weight, and its best enter
the candidates; but `siblings` only adds candidates, and `fields` only lifts what the vectors say.
Which are worth it, docs/recall.md tells with figures; the others stay switches.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from serve.query.analysis import MAX_QUERY, Analysis, Question
from serve.query.hints import hints
from serve.query.parts import parts
from serve.ranking import pagerank
from serve.ranking.fusion import Ranking
from serve.ranking.siblings import siblings
from serve.reader.reader import View
from serve.stages.evidence import words
from serve.stages.scratch import Scratch
from store.config import Layer
from store.extensions import Decomposer
from store.text import tokenizer
from store.text.mentions import Mention
from store.topk import best

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


def entering(
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
    added = [best(values.astype(np.float32), mask, ENTERING) for values in found.values()]
    sessions, rows = view.snapshots.sessions, view.snapshots.rows
    wanted = question.mode == "auto" and "siblings" in question.layers
    if wanted and sessions is not None and "lexical" in channels:
        first = channels["lexical"].docs[:FROM_BEST]
        beside = siblings(first[first < len(rows)], sessions.session, rows.created_at)
        added.append(beside[mask[beside]])
    return np.concatenate([np.empty(0, np.int64), *added])


def lifts(question: Question) -> bool:
    """Return whether a document's nearest field may lift what its vector says."""
    is_fused = question.mode == "auto" and question.fusion == "weighted"
    return is_fused and "fields" in question.layers


def _parts(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return how well each document answers that part of the question it answers best."""
    found = _decompose(question.text[:MAX_QUERY])
    shares = np.zeros(view.size, np.float32)
    for part in found if len(found) > 1 else ():
        topic = [term for term in tokenizer.terms(part) if term not in analysis.names]
        with Scratch() as scratch:
            shares = np.maximum(shares, _shares(words(view, topic, scratch)))
    return shares


def _hints(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return the weight of the entities that the question may name, by who mentions them."""
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    asked = _named(question, analysis)
    snapshot = index.scores(index.lookup(asked), rows) if index else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.mentioning(asked)])


def _pagerank(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return how near each document lies to two entities or more that the question names."""
    scores, index = np.zeros(view.size, np.float32), view.snapshots.entities
    if index is None or len(seeds := index.lookup(_asked(question, analysis))) < 2:
        return scores
    start = np.asarray(seeds, np.int64)
    graph = pagerank.neighbourhood(*index.mentioned, start)
    docs, visits = pagerank.personalised(*graph, start)
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


def _named(question: Question, analysis: Analysis) -> Sequence[Mention]:
    """Return the entities that the question names or may name, but for who said something."""
    found = hints(question.text[:MAX_QUERY])
    return [
        *analysis.mentions,
        *(one for one in found if not set(tokenizer.terms(one.name)) & set(analysis.names)),
    ]


def _asked(question: Question, analysis: Analysis) -> Sequence[Mention]:
    """Return the entities and the people that the question names."""
    people = [Mention("person", name, name) for name in sorted(analysis.people)]
    return [*_named(question, analysis), *people]


def _shares(scores: Scores) -> Scores:
    """Return scores as shares of the greatest; zeros stay."""
    greatest = scores.max(initial=0.0)
    return scores / greatest if greatest > 0 else scores
