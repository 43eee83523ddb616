"""
Candidates: the documents that may answer a question, by the channels and the optional layers.

Documents are numbered through: first the snapshot's rows, then the tail's slots. A filter is
applied before any ranking is cut. Insights are searched apart, so that they take no other
document's place.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from serve.recall import optional_evidence
from serve.recall.analysis import Analysis, Question
from serve.recall.channels import Channel, Scratch, bm25_scores, open_channels
from serve.recall.scoring import Ranking
from store.index.top_k import top_k

Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

_NO_DOCS = np.empty(0, np.int64)

WINDOW = 200  # candidates of a channel
INSIGHTS_SEARCHED = 1_024  # the newest: bounds what a question costs
MOST_INSIGHTS = 16  # that each channel adds to the candidates
# by rank a channel cannot say that its best is poor: a heavier second one loses to plain BM25
_RANK_WEIGHTS = {"lexical": 1.0, "vector": 0.15, "entity": 0.1}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of every channel, and what the channels say.

    `topic` and the scores of the channels are borrowed: they hold until the evidence is gathered.
    """

    docs: Docs  # ascending: of all channels and layers
    rankings: dict[str, Ranking]  # each channel's best
    insights: Docs  # those among `docs`, ascending
    optional: dict[str, Values]  # evidence of the layers that are on, [rows + slots] each
    passing: Mask  # what the filter lets pass, [rows + slots]
    mask: Mask  # the same without insights, unless they are asked for
    channels: Mapping[str, Channel]
    topic: Scores  # BM25 of the topic's words, [rows + slots]


def find_candidates(
    view: View, question: Question, analysis: Analysis, scratch: Scratch
) -> Candidates:
    """Return the candidates of the question's mode."""
    passing = view.masks.of(question.filter)
    mask, insights = passing, _NO_DOCS
    if "insight" not in question.filter.kinds:
        mask, insights = view.insights.apart(passing)
    topic = bm25_scores(view, analysis.topic, scratch)
    channels = open_channels(view, question, analysis, topic, scratch)
    rankings = {
        name: Ranking(*one.best(mask, WINDOW), _RANK_WEIGHTS[name])
        for name, one in channels.items()
    }
    insights = _top_insights(channels, rankings, insights, WINDOW)
    optional: dict[str, Values] = {}
    entering = insights
    if question.fusion == "weighted":
        optional = optional_evidence.evidence(view, question, analysis, mask)
        added = optional_evidence.top_documents(view, question, optional, rankings, mask)
        entering = np.concatenate([added, insights])
    with_answers = question.fusion == "weighted" and question.mode == "auto"
    docs = _union(view, rankings, entering, mask, with_answers=with_answers)
    return Candidates(docs, rankings, insights, optional, passing, mask, channels, topic)


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
    return _distinct(np.concatenate([found, answers[mask[answers]], entering]))


def _distinct(docs: Docs) -> Docs:
    """Return each of some documents once, ascending; of a few hundred faster than numpy's own."""
    docs = np.sort(docs)
    return docs[np.concatenate([[True], docs[1:] != docs[:-1]])] if len(docs) else docs


def _top_insights(
    channels: Mapping[str, Channel], rankings: Mapping[str, Ranking], insights: Docs, window: int
) -> Docs:
    """Return those of some insights, ascending, that are candidates: each channel's best few.

    They pass what the last of the channel's `window` others passed.
    """
    docs = insights[-INSIGHTS_SEARCHED:]
    found = [_NO_DOCS]
    for name, one in channels.items() if len(docs) else ():
        others = rankings[name].scores
        least = float(others[-1]) if len(others) >= window else one.least
        found.append(docs[top_k(one.of(docs), None, MOST_INSIGHTS, above=least)])
    return np.unique(np.concatenate(found))
