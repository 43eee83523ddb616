"""
Candidates: what each channel brings, and the order that the evidence for each of them makes.

Documents are numbered through: first the snapshot's rows, then the tail's slots. What is as long as
the memory is borrowed, and gone when the candidates are found: they carry what was gathered of it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from serve.recall import evidence as evidences
from serve.recall import optional_evidence
from serve.recall.analysis import Analysis, Question
from serve.recall.channels import Nearness, Scratch
from serve.recall.evidence import Heard
from serve.recall.scoring import Ranking, beside, reciprocal_rank, weighted_sum
from store.index.top_k import top_k

Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

_NO_DOCS = np.empty(0, np.int64)

WINDOW = 200  # candidates of a channel
INSIGHTS_LOOKED_AT = 1_024  # the newest: bounds what a question costs
INSIGHTS_ENTERING = 16  # that each channel adds to the candidates
# by rank a channel cannot say that its best is poor: a heavier second one loses to plain BM25
_RANK_WEIGHTS = {"lexical": 1.0, "vector": 0.15, "entity": 0.1}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The fused order, best first, and what it was made of."""

    channels: dict[str, Ranking]
    docs: Docs
    scores: Values
    evidence: dict[str, Values]  # by kind, in the order of `docs`; empty for fusion by rank
    weights: Mapping[str, float]  # of the evidence
    nearness: Scores  # what the vectors say, in the order of `docs`; zeros without them
    questions: Docs  # the turn before that asked, in the order of `docs`; -1: none
    passing: Mask  # the filter's mask over all documents
    heard: Heard


class Channel(Protocol):
    """What one channel says of every document."""

    least: ClassVar[float]  # a score says something over it

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]: ...

    def of(self, docs: Docs) -> Scores: ...


@dataclass(frozen=True, slots=True)
class Scored:
    """A channel that has the score of every document at hand, [rows + slots]."""

    scores: Scores
    least: ClassVar[float] = 0.0

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]:
        docs = top_k(self.scores, mask, k)
        return docs, self.scores[docs]

    def of(self, docs: Docs) -> Scores:
        return self.scores[docs]


def candidates(view: View, question: Question, analysis: Analysis) -> Candidates:
    """Return the candidates of the question's mode, in the order of its fusion."""
    with Scratch() as scratch:
        return _candidates(view, question, analysis, scratch)


def _candidates(view: View, question: Question, analysis: Analysis, scratch: Scratch) -> Candidates:
    passing = view.masks.of(question.filter)
    mask, insights = passing, _NO_DOCS
    if "insight" not in question.filter.kinds:
        mask, insights = view.derived.apart(passing)
    topic = evidences.words(view, analysis.topic, scratch)
    channels = _channels(view, question, analysis, topic, scratch)
    rankings = {
        name: Ranking(*one.best(mask, WINDOW), _RANK_WEIGHTS[name])
        for name, one in channels.items()
    }
    insights = entering_insights(channels, rankings, insights, WINDOW)
    heard = evidences.heard(view, analysis)
    weights = evidences.weights(view, analysis) | optional_evidence.WEIGHTS
    if question.fusion == "rrf":
        docs, fused = reciprocal_rank(list(rankings.values()))
        if len(insights):
            gains = beside([*rankings.values()], [one.of(insights) for one in channels.values()])
            docs, fused = np.concatenate([docs, insights]), np.concatenate([fused, gains])
            order = np.lexsort((-docs, -fused))
            docs, fused = docs[order], fused[order]
        questions = evidences.questions(view, docs, mask)
        found: dict[str, Values] = {}
        near = channels["vector"].of(docs) if "vector" in channels else None
    else:
        added = optional_evidence.evidence(view, question, analysis, mask)
        entering = optional_evidence.entering(view, question, added, rankings, mask)
        entering = np.concatenate([entering, insights])
        docs = _union(view, rankings, entering, mask, with_answers=question.mode == "auto")
        place = evidences.around(view, docs, mask)
        said = {name: one.of(docs) for name, one in channels.items()}
        topic[insights] = 0.0  # an insight's words are no measure for those of turns
        found = {
            name: evidences.of_channel(name, said[name], one)
            for name, one in rankings.items()
            if name != "entity" or question.mode == "entity"
        }
        if question.mode == "auto":
            found |= _lent(view, analysis, channels, found, topic, place, mask, heard, scratch)
        found |= {name: values[docs] for name, values in added.items()}
        docs, fused, order = weighted_sum(docs, found, weights)
        questions = place.question[order]
        found = {name: values[order] for name, values in found.items()}
        near = said["vector"][order] if "vector" in said else None
    if near is None:
        near = np.zeros(len(docs), np.float32)
    return Candidates(rankings, docs, fused, found, weights, near, questions, passing, heard)


def _lent(
    view: View,
    analysis: Analysis,
    channels: Mapping[str, Channel],
    own: Mapping[str, Values],
    topic: Scores,
    place: evidences.Around,
    mask: Mask,
    heard: Heard,
    scratch: Scratch,
) -> dict[str, Values]:
    """Return what goes beyond each document's own words and vector; its words weigh what is heard.

    `own` is the evidence of the channels.
    """
    found: dict[str, Values] = {}
    if "lexical" in own:
        of_words = {"lexical": own["lexical"]} | evidences.of_words(
            view, analysis, place, topic, own["lexical"], mask, scratch
        )
        # a question in another language shares but a name with the memory
        found |= {name: values * (1.0 - heard.unknown) for name, values in of_words.items()}
    if "vector" in channels:
        near = own["vector"]
        found |= evidences.of_vectors(view, place, near, channels["vector"].of, mask)
    found |= evidences.of_traits(place, analysis.answer_type in ("when", "how_long"))
    found["speaker"] = evidences.said_by(view, analysis.people, place.docs)
    return found


def holding(view: View, terms: Collection[str], docs: Docs) -> Mask:
    """Return which documents hold which terms, [terms, docs]; -1 holds none."""
    held = np.zeros((len(terms), len(docs)), np.bool_)
    order = np.argsort(docs)
    docs = docs[order]
    first, end = docs.searchsorted((0, len(view.snapshots.rows))).tolist()
    built, at = docs[first:end], order[first:end]
    held[:, at] = view.snapshots.postings.contains(terms, built)
    if end < len(docs):
        fresh, fresh_at = docs[end:] - len(view.snapshots.rows), order[end:]
        for number, term in enumerate(terms):
            held[number, fresh_at] = view.tail.holding(term, fresh)
    return held


def _channels(
    view: View, question: Question, analysis: Analysis, topic: Scores, scratch: Scratch
) -> dict[str, Channel]:
    """Return every channel that has something to say."""
    found: dict[str, Channel] = {}
    if question.wants("lexical") and (analysis.topic or analysis.names):
        words = topic
        if analysis.names:
            words = evidences.words(view, analysis.names, scratch)
            words += topic
        found["lexical"] = Scored(words)
    if question.wants("vector") and analysis.vector is not None:
        with_fields = optional_evidence.lifts(question)
        found["vector"] = Nearness(view, analysis.vector, with_fields=with_fields)
    if question.wants("entity") and analysis.mentions:
        found["entity"] = Scored(_mentioning(view, analysis, scratch))
    return found


def _mentioning(view: View, analysis: Analysis, scratch: Scratch) -> Scores:
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    scores = scratch.array(view.size)
    scores[:rows] = 0.0
    if index:
        index.scores(analysis.entities, rows, out=scores[:rows])
    scores[rows:] = view.tail.mentioning(analysis.mentions)
    return scores


def _union(
    view: View,
    rankings: Mapping[str, Ranking],
    entering: Docs,
    mask: Mask,
    *,
    with_answers: bool,
) -> Docs:
    """Return the documents of all channels and of the layers, ascending.

    With them are the answers to those of the channels that ask.
    """
    found = np.concatenate([entering[:0], *(one.docs for one in rankings.values())])
    sessions, answers = view.snapshots.sessions, entering[:0]
    if sessions is not None and with_answers:
        rows = found[found < len(view.snapshots.rows)]
        answers = sessions.after[rows[sessions.asks[rows] == 1]].astype(np.int64)
        answers = answers[answers >= 0]
    return distinct(np.concatenate([found, answers[mask[answers]], entering]))


def distinct(docs: Docs) -> Docs:
    """Return each of some documents once, ascending; of a few hundred faster than numpy's own."""
    docs = np.sort(docs)
    return docs[np.concatenate([[True], docs[1:] != docs[:-1]])] if len(docs) else docs


def entering_insights(
    channels: Mapping[str, Channel], rankings: Mapping[str, Ranking], insights: Docs, window: int
) -> Docs:
    """Return those of some insights, ascending, that are candidates: each channel's best few.

    They pass what the last of the channel's `window` others passed.
    """
    docs = insights[-INSIGHTS_LOOKED_AT:]
    found = [_NO_DOCS]
    for name, one in channels.items() if len(docs) else ():
        others = rankings[name].scores
        least = float(others[-1]) if len(others) >= window else one.least
        found.append(docs[top_k(one.of(docs), None, INSIGHTS_ENTERING, above=least)])
    return np.unique(np.concatenate(found))
