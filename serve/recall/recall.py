"""
One recall from top to bottom, without a model or I/O on the way.

    analyse          the question's words and conditions (`analysis`, `classification`)
    find_candidates  the documents that may answer it (`candidates`)
    gather_evidence  the evidence for each, fused to a score (`evidence`, `neighbours`, `scoring`)
    rank             the confidence of each, and the order of the profile (`ranking`, `scoring`)
    select           the hits: near duplicates folded, conflicts side by side (`selection`)
    explain          a report of every stage, on request (`explanation`)

A memory that a later claim ended gives its place to that claim and follows it, marked.

The stages run once each, in this order, on the results of those before.
"""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from serve.reader.held import is_held
from serve.reader.memory_json import role
from serve.reader.state import Change
from serve.reader.view import Superseded, View
from serve.recall.accounts import place_first
from serve.recall.analysis import LEAST_IDF, Analysis, Mode, Question, analyse
from serve.recall.candidates import Candidates, Scratch, find_candidates
from serve.recall.evidence import Evidence, gather_evidence
from serve.recall.explanation import (
    NEAREST,
    explain_answer,
    explain_empty,
    explain_hit,
    time_notice,
)
from serve.recall.ranking import SURE, Ranked, rank
from serve.recall.scoring import Docs
from serve.recall.selection import Selection, round_scores, select
from store.log.event_kinds import Route
from store.memories.memory import Memory


class Timings:
    """The durations of a recall's stages: `us` are microseconds by stage, in their order."""

    def __init__(self) -> None:
        self.us: dict[str, int] = {}
        self._last = time.perf_counter()

    def end(self, stage: str) -> None:
        """Record that a stage has ended."""
        now = time.perf_counter()
        self.us[stage] = round((now - self._last) * 1e6)
        self._last = now


__all__ = ["LEAST_IDF", "Answer", "Hit", "Mode", "Question", "recall"]


class Hit(msgspec.Struct, frozen=True):
    """A returned memory, with an explanation on request.

    `copies` are ids of duplicates; `conflicts_with` is a newer memory with another value;
    `history` are the memories it replaced, newest first. `insights` are ids of insights made from
    this memory and others, that gave way to it. `change` is the effect of a later claim,
    `retracts` a quoted text that no longer holds.
    """

    memory: Memory
    score: float
    confidence: float
    copies: tuple[str, ...] = ()
    conflicts_with: str | None = None
    history: tuple[Memory, ...] = ()
    insights: tuple[str, ...] = ()
    why: dict[str, Any] | None = None
    change: Change | None = None
    retracts: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the memory's statement is surely outdated, with little else in it.

        Never for a rule: it is shown, marked, until its user takes it back.
        """
        change = self.change if role(self.memory) != "rule" else None
        return change is not None and change.is_sure and change.is_whole

    @property
    def is_unsure(self) -> bool:
        return self.confidence < SURE


class Answer(msgspec.Struct, frozen=True):
    """The result of a recall, from the log up to `watermark`; the events up to `built` are in the
    manifest's snapshots. `below_bar` counts candidates with a confidence under `bar`. `hint` is
    the reason for an empty answer and the remedy. `route` is the router's choice, if there is a
    router; `teams` are the sources of the hits, if two rankings were interleaved (`team_draft`).
    """

    hits: tuple[Hit, ...]
    below_bar: int
    dropped: dict[str, int]
    notices: tuple[str, ...]
    is_degraded: bool
    manifest: int | None
    built: int
    watermark: int
    bar: float
    embedder: str  # the model of the question's vector
    moment: int  # to which ages were counted, microseconds UTC
    hint: str = ""
    route: Route | None = None
    why: dict[str, Any] | None = None
    teams: str = ""


def recall(view: View, question: Question, timings: Timings | None = None) -> Answer:
    """Answer a question from one state of the memory.

    The same question gets the same answer: how long it took is no part of it.
    """
    timings, notices = timings or Timings(), list(view.notices)
    analysis = analyse(view, question, notices)
    timings.end("analysis")
    route = question.router.route(analysis.task_mode) if question.router else None
    question = _apply_route(question, route)
    with Scratch() as scratch:
        candidates = find_candidates(view, question, analysis, scratch)
        if candidates.notice:
            notices.append(candidates.notice)
        evidence = gather_evidence(view, question, analysis, candidates, scratch)
    timings.end("candidates")
    ranked = rank(view, question, analysis, evidence)
    timings.end("weighing")
    selection = select(question, ranked, lambda places: _take(view, evidence.docs, places))
    held = 0  # back from agents
    if question.filter.for_agents:
        free = tuple(selected for selected in selection.chosen if not is_held(selected.memory))
        held = len(selection.chosen) - len(free)
        selection = replace(selection, chosen=free)
    timings.end("selection")
    hits = _hits(view, question, analysis, candidates, evidence, ranked, selection)
    hits = _follow_changes(view, question, hits)
    if analysis.account is not None and hits:
        weights = {
            term: analysis.weights[term] for term in analysis.topic if term in analysis.weights
        }
        place = place_first(analysis.account, weights, [hit.memory for hit in hits])
        if place:
            hits = (hits[place], *hits[:place], *hits[place + 1 :])
    is_degraded = bool(notices)
    if notice := time_notice(view, question, analysis, [hit.memory for hit in hits]):
        notices.append(notice)
    why = None
    if question.explain:
        why = _explain(view, question, analysis, candidates, evidence, ranked, selection)
        why["route"] = {"mode": route.state, "actions": route.actions} if route else None
    return Answer(
        hits=hits,
        below_bar=len(selection.below_bar),
        dropped=ranked.count_dropped(selection.dropped) | ({"held": held} if held else {}),
        notices=tuple(notices),
        is_degraded=is_degraded,
        manifest=view.snapshots.manifest.number if view.snapshots.manifest else None,
        built=view.snapshots.watermark,
        watermark=view.tail.watermark,
        bar=question.min_confidence,
        embedder=view.embedder.model,
        moment=view.moment,
        hint="" if selection.chosen else explain_empty(view, question, ranked, selection),
        route=route,
        why=why,
    )


def _apply_route(question: Question, route: Route | None) -> Question:
    """Return the question with the limits of its route; other settings stay."""
    search = route.actions.get("search") if route else None
    if search is None:
        return question
    return replace(
        question,
        min_confidence=confidence_floor(search, question.min_confidence),
        top_k=result_limit(search, question.top_k),
    )


def confidence_floor(search: str | None, usual: float) -> float:
    """Return the least confidence for the route `search`, given the settings' `usual` one; 0 if
    that is 0: no route hides a hit of a plain search.
    """
    match search:
        case "high_threshold" if usual:
            return usual + 0.3 * (1.0 - usual)
        case "low_threshold":
            return usual / 2
        case _:
            return usual


def result_limit(search: str | None, usual: int) -> int:
    """Return the most memories for the route `search`, given the settings' `usual` number."""
    match search:
        case "high_threshold":
            return max(1, usual // 2)
        case "low_threshold":
            return usual + usual // 2
        case _:
            return usual


def _hits(
    view: View,
    question: Question,
    analysis: Analysis,
    candidates: Candidates,
    evidence: Evidence,
    ranked: Ranked,
    selection: Selection,
) -> tuple[Hit, ...]:
    """Return the selected memories as hits, each with those it superseded that are no hits too."""
    superseded, scores = Superseded(view), round_scores(ranked)
    returned = {selected.memory.id for selected in selection.chosen}
    return tuple(
        Hit(
            memory=selected.memory,
            score=float(scores[selected.place]),
            confidence=round(float(ranked.confidence[selected.place]), 4),
            copies=selected.copies,
            conflicts_with=selected.conflicts_with,
            history=tuple(
                old
                for old in superseded.by(selected.memory.id, question.filter)
                if old.id not in returned and not (question.filter.for_agents and is_held(old))
            ),
            insights=ranked.insights.get(selected.place, ()),
            why=explain_hit(view, analysis, candidates, evidence, ranked, selected.place)
            if question.explain
            else None,
            retracts=view.retraction_of(selected.memory),
        )
        for selected in selection.chosen
    )


def _follow_changes(view: View, question: Question, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Return the hits with the outdated ones marked, each behind its successor. If there is room,
    possible successors are appended.
    """
    until = question.filter.as_of
    marked: list[Hit] = []
    for hit in hits:
        change = view.change_of(hit.memory, until)
        if change is not None:
            hit = replace(hit, change=change)
            if not change.is_sure:
                hit = replace(hit, conflicts_with=hit.conflicts_with or change.by)
        marked.append(hit)
    if not [hit for hit in marked if hit.change is not None]:
        return hits
    placed: list[Hit] = []
    for hit in marked:
        if hit.change is not None and not _is_placed(hit.change, placed):
            newer = next((other for other in marked if _makes(other.memory, hit.change)), None)
            if hit.change.is_sure:
                newer = newer or _successor(view, question, hit)
            if newer is not None and all(other.memory.id != newer.memory.id for other in placed):
                placed.append(newer)
        if all(other.memory.id != hit.memory.id for other in placed):
            placed.append(hit)
    placed = placed[: max(len(hits), 1)]
    for hit in marked[: question.top_k - len(placed)]:
        change = hit.change
        if change is not None and not change.is_sure and not _is_placed(change, placed):
            if (newer := _successor(view, question, hit)) is not None:
                placed.append(replace(newer, score=0.0, confidence=0.0))
    return tuple(placed)


def _is_placed(change: Change, placed: Sequence[Hit]) -> bool:
    return any(_makes(hit.memory, change) for hit in placed)


def _makes(memory: Memory, change: Change) -> bool:
    """Return True if a memory is the source of the claim that made a change, or repeats it."""
    return memory.id == change.by or (
        memory.created_at == change.at and change.text in memory.content
    )


def _successor(view: View, question: Question, hit: Hit) -> Hit | None:
    """Return the successor of a hit as a hit of its own; None if it may not be shown."""
    if hit.change is None:
        return None
    memory = view.tail.find(hit.change.by)
    if memory is None or not question.filter.accepts(memory) or is_held(memory):
        return None
    return replace(
        hit,
        memory=memory,
        copies=(),
        history=(),
        insights=(),
        change=None,
        retracts=view.retraction_of(memory),
    )


def _take(view: View, docs: Docs, places: Sequence[int]) -> list[Memory]:
    """Return the memories at some places of the candidates, in the order asked."""
    rows = len(view.snapshots.rows)
    chosen = [int(docs[place]) for place in places]
    built = iter(view.snapshots.rows.take([doc for doc in chosen if doc < rows]))
    fresh = iter(view.tail.take([doc - rows for doc in chosen if doc >= rows]))
    return [next(built) if doc < rows else next(fresh) for doc in chosen]


def _explain(
    view: View,
    question: Question,
    analysis: Analysis,
    candidates: Candidates,
    evidence: Evidence,
    ranked: Ranked,
    selection: Selection,
) -> dict[str, Any]:
    def nearest(places: Sequence[int]) -> list[tuple[Memory, float]]:
        few = places[:NEAREST]
        memories = _take(view, evidence.docs, few)
        return [
            (memory, float(ranked.confidence[place]))
            for memory, place in zip(memories, few, strict=True)
            if not (question.filter.for_agents and is_held(memory))
        ]

    return explain_answer(
        view,
        question,
        analysis,
        candidates,
        ranked,
        selection,
        nearest(selection.below_bar),
        nearest(selection.over_top_k),
    )
