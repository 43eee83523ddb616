"""
Explanation: the outcome of every stage of a recall, and the evidence for each hit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import fields, replace

from serve.reader.filters import Filter
from serve.reader.view import View
from serve.recall.analysis import Analysis, Question
from serve.recall.candidates import Candidates
from serve.recall.evidence import Evidence
from serve.recall.ranking import Ranked
from serve.recall.selection import Selection
from store.memories.memory import Memory
from store.text.excerpt import plural

NEAREST = 5  # of those dropped at a stage that are named


def explain_hit(
    view: View,
    analysis: Analysis,
    candidates: Candidates,
    evidence: Evidence,
    ranked: Ranked,
    place: int,
) -> dict[str, Any]:
    """Return the evidence for the candidate at a place."""
    doc = int(evidence.docs[place])
    channels = {}
    for name, ranking in candidates.rankings.items():
        rank = np.flatnonzero(ranking.docs == doc)
        if len(rank):
            score = float(ranking.scores[rank[0]])
            channels[name] = {"rank": int(rank[0]) + 1, "score": round(score, 4)}
    insights = ranked.insights.get(place, ())
    return {
        "channels": channels,
        "evidence": {
            name: round(float(values[place]), 4)
            for name, values in evidence.by_kind.items()
            if values[place] > 0
        },
        "adds": {
            name: round(evidence.weights[name] * float(values[place]), 4)
            for name, values in evidence.by_kind.items()
            if values[place] > 0
        },
        "fused": round(float(evidence.scores[place]), 6),
        "fused_rank": place + 1,
        "signals": {
            name: round(float(values[place]), 4) for name, values in ranked.signals.items()
        },
        "importance_told": round(float(ranked.importance[place]), 4),
        "words": _words_in(analysis, evidence.term_shares[:, place]),
        "question_words": _words_in(analysis, evidence.question_term_shares[:, place]),
        "confidence_from": {
            name: round(float(values[place]), 4) for name, values in ranked.signs.items()
        },
        "coverage": round(float(ranked.coverage[place]), 4),
        "nearness": round(float(evidence.nearness[place]), 4),
        "fresh": doc >= len(view.snapshots.rows),
        **({"insights": list(insights)} if insights else {}),
    }


def time_notice(
    view: View, question: Question, analysis: Analysis, returned: Sequence[Memory]
) -> str:
    """Return that nothing was recorded in the time asked for, or nothing of the kinds; else ""."""
    when = analysis.interval
    if when is None or question.mode != "auto":
        return ""
    if any(when.since <= memory.created_at < when.until for memory in returned) and not (
        analysis.kinds and analysis.kinds.isdisjoint(memory.kind for memory in returned)
    ):
        return ""
    of_kinds = replace(
        question.filter, since=when.since, until=when.until, kinds=tuple(sorted(analysis.kinds))
    )
    if view.masks.of(of_kinds).any():
        return "" if returned else f"Nothing on this was recorded {when.describe()}."
    missing = f"No {' or '.join(sorted(analysis.kinds))}" if analysis.kinds else "Nothing"
    others = " The nearest others are shown." if returned else ""
    return f"{missing} was recorded {when.describe()}.{others}"


def _words_in(analysis: Analysis, shares: npt.NDArray[np.float32]) -> dict[str, float]:
    """Return the words of the question in one document, and their weight."""
    words = zip(analysis.weights.items(), shares.tolist(), strict=True)
    return {term: round(weight, 2) for (term, weight), share in words if share > 0}


def explain_answer(
    view: View,
    question: Question,
    analysis: Analysis,
    candidates: Candidates,
    ranked: Ranked,
    selection: Selection,
    below_bar: Sequence[tuple[Memory, float]],
    over_top_k: Sequence[tuple[Memory, float]],
) -> dict[str, Any]:
    """Return the work of every stage as JSON.

    `below_bar` and `over_top_k` are the nearest of the dropped candidates.
    """
    index = view.snapshots.entities
    return {
        "words": {term: round(weight, 2) for term, weight in analysis.weights.items()},
        "unheard_of": [term for term in analysis.weights if not view.tail.frequency(term)],
        "people": sorted(analysis.people),
        "analysis": analysis.to_json(),
        # those mentioned in a memory that passes the filter
        "entities": [
            index.name(entity)
            for entity in analysis.entities
            if candidates.passing[index.documents(entity)].any()
        ]
        if index
        else [],
        "memories": len(view.snapshots.rows) + len(view.tail) - len(view.tail.hidden_rows),
        "passed_filter": int(candidates.passing.sum()),
        "candidates": {name: len(ranking.docs) for name, ranking in candidates.rankings.items()},
        "fusion": question.fusion,
        "profile": question.profile,
        "weights": ranked.weights,
        "min_confidence": question.min_confidence,
        "min_score": question.min_score,
        "top_k": question.top_k,
        "dropped": ranked.count_dropped(selection.dropped),
        "folded": {
            selected.memory.id: selected.copies for selected in selection.chosen if selected.copies
        },
        "nearest_below_bar": [_memory_line(*pair) for pair in below_bar],
        "nearest_over_top_k": [_memory_line(*pair) for pair in over_top_k],
    }


def explain_empty(view: View, question: Question, ranked: Ranked, selection: Selection) -> str:
    """Return the reason for an answer without hits, and the remedy."""
    conditions = question.filter
    if places := selection.below_bar:
        best, bar = float(ranked.confidence[places[0]]), question.min_confidence
        text = f"{plural(len(places), 'memory')} below min_confidence {bar:.2f}"
        return f"{text}, the nearest at {best:.2f}. Lower it."
    if selection.below_score:
        return f"{plural(len(selection.below_score), 'memory')} below min_score. Lower it."
    if passed := _count(view, conditions):
        mode = "" if question.mode == "auto" else ", or mode auto"
        return (
            f"None of {plural(passed, 'memory')} shares a word with the question or is similar to "
            f"it. Use words that the memory would contain{mode}."
        )
    current, every = Filter(conditions.now), Filter(conditions.now, active_only=False)
    if not (count := _count(view, current)):
        if ended := _count(view, every):
            return (
                f"{plural(ended, 'memory')}, none of them current. Include them: "
                "`--include-archived`, over HTTP `active_only` false."
            )
        return "The memory is empty. `mnemolog record` and `mnemolog import` fill it."
    if conditions.project is not None and not _count(
        view, replace(current, project=conditions.project)
    ):
        where = f"project {conditions.project}" if conditions.project else "no project"
        return (
            f"None of {plural(count, 'memory')} belongs to {where}. Search another project, or "
            "all: `--all-projects`, over HTTP no `project`."
        )
    usual = Filter(conditions.now)
    names = [
        field.name
        for field in fields(conditions)
        if field.name != "for_agents"  # no field of a request
        and getattr(conditions, field.name) != getattr(usual, field.name)
    ]
    return (
        f"No memory passes the filters ({', '.join(names)}). Leave one out; "
        f"without any there are {plural(count, 'memory')}."
    )


def _count(view: View, conditions: Filter) -> int:
    return int(view.masks.of(conditions).sum())


def _memory_line(memory: Memory, sure: float) -> dict[str, Any]:
    text = memory.content[:120]
    return {"id": memory.id, "text": text, "trust": memory.trust, "confidence": round(sure, 4)}
