"""
Requests and answers: the code shared by HTTP and the command line, so both answer alike.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import fields, replace

from serve import version
from serve.reader.filters import FieldFilters, Filter, field_filters
from serve.reader.memory_json import is_withheld, metadata_json, role, short_json
from serve.reader.reader import Reader
from serve.reader.request_fields import KnownAt, ProjectName, Query, Reason, TenantName
from serve.reader.view import View
from serve.recall.analysis import Question, default_question
from serve.recall.deciding import code
from serve.recall.recall import Answer, Hit, Timings, recall
from serve.recall.team_draft import team_draft
from store.derived.routing import Router
from store.home.config import Choices, Profile
from store.home.errors import InvalidInput
from store.home.instants import isoformat, micros, new_id
from store.home.projects import check_project
from store.log.event_kinds import Basis, Door, Id, Instant, Recalled, Tried, Verdict
from store.log.event_kinds import Hit as ReceiptHit
from store.log.events import Event
from store.memories.memory import ACTIVE

KEPT = 2_000  # characters of a query in its receipt
Seq = Annotated[int, msgspec.Meta(ge=1, le=2**62)]  # SQLite's range


class RecallRequest(FieldFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `POST /v1/recall` takes; what is left out comes from the settings.

    `as_of` is a moment, or the position of an event in the log and stands for when that happened.
    `known_at` is a place in the log: whoever asks has to open the memory as it was known there. The
    project "" asks for memories that belong to none. `cold` asks for what was archived or has
    expired too. `min_score` is a floor under a hit's `score`, which orders the hits of one answer;
    how sure a hit is says its `confidence`. `for_agents` leaves out what is held back from agents
    until a person accepts it; other answers mark it `held`.
    """

    query: Query
    tenant: TenantName | None = None
    project: ProjectName | None = None
    top_k: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None
    mode: Literal["auto", "lexical", "vector", "entity"] = "auto"
    profile: Profile | None = None
    since: Instant | None = None
    until: Instant | None = None
    active_only: bool = True
    cold: bool = False
    as_of: Instant | Seq | None = None
    known_at: KnownAt | Seq | None = None
    min_confidence: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    min_score: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    explain: bool = False
    touch: bool = True
    for_agents: bool = False


class RateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `POST /v1/rate` takes: the id of a memory, or of a recall, and how it helped."""

    id: Id
    verdict: Verdict
    reason: Reason | None = None
    tenant: TenantName | None = None


class Asker(msgspec.Struct, frozen=True):
    """The caller, as far as known."""

    session: str | None = None
    agent: str | None = None
    door: Door = "rest"
    shared: tuple[str, ...] = ()  # projects of the notes that the caller's work tree shares


NOBODY = Asker()


def answer(
    reader: Reader,
    request: RecallRequest,
    choices: Choices,
    now: int,
    asker: Asker = NOBODY,
) -> tuple[dict[str, Any], Event | None]:
    """Return the answer as it is sent, and the receipt to append after it (None: not touched).

    The receipt's id is the answer's `recall`, by which it can be rated.
    """
    began = time.perf_counter()
    since = micros(request.since) if request.since else None
    until = micros(request.until) if request.until else None
    if since is not None and until is not None and since >= until:
        raise InvalidInput("`since` must lie before `until`")
    if request.cold and request.as_of is not None:
        raise InvalidInput("`cold` covers the current archive: omit `as_of`")
    conditions = Filter(
        now=now,
        project=check_project(request.project) if request.project else request.project,
        since=since,
        until=until,
        active_only=request.active_only,
        as_of=moment_of(reader, request.as_of),
        cold=request.cold,
        for_agents=request.for_agents,
        shared=asker.shared,
        **field_filters(request),
    )
    question = _question(request, conditions, choices)
    receipt_id = new_id(now) if request.touch else None
    is_tried = receipt_id and request.as_of is None and not request.cold
    other = choices.trial.other_choices(choices, now) if is_tried else None

    timings = Timings()

    def ask(view: View) -> Answer:
        router = _router(view, request, choices, conditions.as_of, receipt_id)
        recalled = recall(view, replace(question, router=router), timings)
        if other is None:
            return recalled
        changed = replace(_question(request, conditions, other), router=router)
        return join_answers(recalled, recall(view, changed), receipt_id or "")

    recalled = reader.answer(ask, without_log=True)
    took_us = round((time.perf_counter() - began) * 1e6)
    payload = _payload(recalled, took_us, timings, now)
    if receipt_id is None:
        return payload, None
    body = _receipt_body(request, question, recalled, choices, took_us, asker.door)
    if other is not None:
        sure = {hit.id for hit in body.hits}
        pairs = zip(recalled.hits, recalled.teams, strict=True)
        teams = "".join(team for hit, team in pairs if hit.memory.id in sure)
        body = msgspec.structs.replace(body, trial=tried(choices, teams))
    project = request.project or None
    receipt = Event(receipt_id, now, body, receipt_id, project, asker.session, asker.agent)
    return payload | {"recall": receipt_id}, receipt


def _question(request: RecallRequest, conditions: Filter, choices: Choices) -> Question:
    """Return the question of a request, completed from the settings."""
    default = default_question(request.query, conditions, choices)
    return replace(
        default,
        top_k=request.top_k or default.top_k,
        mode=request.mode,
        profile=request.profile or default.profile,
        min_confidence=(
            default.min_confidence if request.min_confidence is None else request.min_confidence
        ),
        min_score=request.min_score,
        explain=request.explain,
    )


def join_answers(recalled: Answer, other: Answer, receipt: str) -> Answer:
    """Return an answer with the hits of another interleaved, for the receipt of an id."""
    hits, teams = team_draft(recalled.hits, other.hits, receipt)
    return replace(recalled, hits=hits, teams=teams, hint="" if hits else recalled.hint)


def tried(choices: Choices, teams: str) -> Tried:
    """Return the receipt's record of a trial."""
    return Tried(choices.trial.plan, choices.trial.set, teams)


def _router(
    view: View, request: RecallRequest, choices: Choices, as_of: int | None, receipt: str | None
) -> Router | None:
    """Return the router of a recall; None if the request sets `min_confidence` or `top_k`.

    A recall of the past uses the policy of that time, without exploration.
    """
    if request.min_confidence is not None or request.top_k is not None:
        return None
    if as_of is not None:
        return Router(view.policy(as_of))
    return Router(view.policy(), explore=choices.explore, receipt=receipt)


def moment_of(reader: Reader, as_of: datetime | int | None) -> int | None:
    """Return the microseconds of a moment or of an event in the log; raise InvalidInput."""
    return reader.time_of(as_of) if isinstance(as_of, int) else micros(as_of) if as_of else None


def _payload(recalled: Answer, took_us: int, timings: Timings, now: int) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "hits": [_hit_json(hit, now) for hit in recalled.hits],
        "below_bar": recalled.below_bar,
        "min_confidence": recalled.bar,
        "degraded": recalled.is_degraded,
        "manifest": recalled.manifest,
        "watermark": recalled.watermark,
        "took_ms": round(took_us / 1000, 3),
    }
    if held_back := recalled.dropped.get("held", 0):
        payload["held_back"] = held_back
    if recalled.notices:
        payload["notices"] = list(recalled.notices)
    if recalled.hint:
        payload["hint"] = recalled.hint
    if recalled.why is not None:
        payload["why"] = recalled.why | {"took_us": timings.us}
    return payload


def _hit_json(hit: Hit, now: int) -> dict[str, Any]:
    """Return a hit as it is sent; empty marks are left out."""
    change, expires_at = hit.change, hit.memory.expires_at
    is_over = hit.memory.state == ACTIVE and expires_at is not None and expires_at <= now
    marks = {
        "metadata": metadata_json(hit.memory),
        "unsure": hit.is_unsure,
        "state": "expired" if is_over else None,
        "ended_at": isoformat(expires_at) if is_over and expires_at is not None else None,
        "copies": list(hit.copies),
        "conflicts_with": hit.conflicts_with,
        # a text that a later claim surely ended, the whole or a sentence
        **(
            {
                "until": isoformat(change.at),
                "replaced_by": {"id": change.by, "text": change.text, "at": isoformat(change.at)},
                "outdated": None if change.is_whole else change.outdated,
            }
            if change is not None and change.is_sure
            else {}
        ),
        "no_longer": hit.retracts,
        "insights": list(hit.insights),
        "history": [
            {
                "id": old.id,
                "text": old.content,
                "at": isoformat(old.created_at),
                "trust": old.trust,
            }
            for old in hit.history
            if not is_withheld(old)
        ],
        "why": hit.why,
    }
    return (
        short_json(hit.memory)
        | {"role": role(hit.memory), "score": hit.score, "confidence": hit.confidence}
        | {name: mark for name, mark in marks.items() if mark}
    )


def _receipt_body(
    request: RecallRequest,
    question: Question,
    recalled: Answer,
    choices: Choices,
    took_us: int,
    door: Door,
) -> Recalled:
    """Return the receipt: without the unsure hits, unless the settings or the request have a bar.

    Hits that are only near were not used, and are not rated with the recall.
    """
    has_bar = request.min_confidence is not None or choices.min_confidence > 0
    sure = [hit for hit in recalled.hits if has_bar or not hit.is_unsure]
    unsure = len(recalled.hits) - len(sure)
    return Recalled(
        query=question.text[:KEPT],
        mode=question.mode,
        manifest=recalled.manifest,
        watermark=recalled.watermark,
        hits=receipt_hits(sure),
        dropped=recalled.dropped | ({"unsure": unsure} if unsure else {}),
        took_us=took_us,
        route=recalled.route if request.as_of is None else None,
        door=door,
        basis=msgspec.structs.replace(
            basis(question, recalled),
            requested=tuple(name for name in _SETTINGS if getattr(request, name) is not None),
        ),
        digest=digest(msgspec.json.encode(receipt_hits(recalled.hits))),
    )


def receipt_hits(hits: Sequence[Hit]) -> tuple[ReceiptHit, ...]:
    """Return hits as a receipt keeps them."""
    return tuple(ReceiptHit(hit.memory.id, hit.score, hit.confidence) for hit in hits)


def digest(data: bytes) -> str:
    """Return the first 16 hex digits of the SHA-256 of an answer."""
    return sha256(data).hexdigest()[:16]


_SETTINGS = ("top_k", "profile", "min_confidence")  # that a request may set for itself
_WHERE = ("now", "project", "shared")  # the caller's time and place
_NARROWING = tuple(field.name for field in fields(Filter) if field.name not in _WHERE)
_DEFAULTS = default_question("", Filter(now=0), Choices())


def basis(question: Question, recalled: Answer) -> Basis:
    """Return the settings and code that decided an answer, but for the defaults."""
    conditions, usual = question.filter, _DEFAULTS
    weights = msgspec.structs.astuple(getattr(question.profiles, question.profile))
    usual_weights = msgspec.structs.astuple(getattr(usual.profiles, question.profile))
    return Basis(
        version=version(),
        embedder=recalled.embedder,
        code=code(),
        built=recalled.built,
        top_k=question.top_k if question.top_k != usual.top_k else None,
        fusion=question.fusion if question.fusion != usual.fusion else None,
        profile=question.profile if question.profile != usual.profile else None,
        weights=weights if weights != usual_weights else (),
        min_confidence=question.min_confidence or None,
        min_score=question.min_score or None,
        narrowed={
            name: value
            for name in _NARROWING
            if (value := getattr(conditions, name)) != getattr(usual.filter, name)
        },
        no_project=conditions.project == "",
        degraded=recalled.is_degraded,
        cut=len(question.text) > KEPT,
        moment=recalled.moment,
    )
