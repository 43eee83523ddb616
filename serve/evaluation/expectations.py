"""
Expectations: the user's questions that must return a certain memory, asked by every build.

A memory counts as returned by itself, by a duplicate or by its successor. Each question is asked
like the user's own, under the settings and with their threshold: a setting that hides the answer
fails it, like a change of the memory.
"""

import shlex
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.reader import open_view
from serve.reader.view import View
from serve.recall.analysis import Question, default_question
from serve.recall.recall import Answer, Hit, recall
from store.derived.routing import Policy, Router
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import NotFound
from store.home.tenant import Tenant
from store.log import commands
from store.log.event_kinds import Expected
from store.log.event_log import MOST_SEQ, EventLog
from store.log.events import Event
from store.snapshots.manifest import CANARIES, EXPECTED, CheckResult, Manifest

_NAMED = 3  # failed ones in the detail of the check


class Expectation(msgspec.Struct, frozen=True):
    """A question, asked in a project (None: in all), and the memory that it must return."""

    question: str
    id: str
    project: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """The rank of an expected memory, from 1; None if it was not returned."""

    expectation: Expectation
    rank: int | None


def expect(
    log: EventLog, question: str, id_: str, project: str | None, now: int, *, expected: bool = True
) -> Expectation:
    """Pin a question to a memory, or remove the pin; return it. No event is written if nothing
    changes.

    Raise NotFound for an unknown or erased memory, and for removing a missing pin; InvalidInput for
    a question that is empty or too long.
    """
    event = commands.expectation_event(log, question, id_, project, now, expected=expected)
    wanted = _expectation(event)
    is_there = wanted in list_expectations(log)
    if not is_there and not expected:
        raise NotFound(f"{id_} is not expected of that question: `mnemolog expect` lists what is")
    if is_there != expected:
        log.append([event])
    return wanted


def list_expectations(log: EventLog) -> list[Expectation]:
    """Return the questions that are pinned, in the order in which they were."""
    pinned: dict[Expectation, None] = {}
    for event in log.events_between(("expected",), 0, MOST_SEQ):
        assert isinstance(event.body, Expected)
        if event.body.expected and event.body.question:  # without one: its memory was erased
            pinned[_expectation(event)] = None
        else:
            pinned.pop(_expectation(event), None)
    return list(pinned)


def list_missing(missed: Sequence[Expectation]) -> str:
    """Return the first of some failed questions in words, for the end of a check's detail."""
    named = (f'"{expectation.question}" {expectation.id}' for expectation in missed[:_NAMED])
    return f"; missing: {', '.join(named)}" if missed else ""


def _expectation(event: Event) -> Expectation:
    assert isinstance(event.body, Expected)
    return Expectation(event.body.question, event.subject, event.project)


def ask(
    view: View,
    expectations: Sequence[Expectation],
    choices: Choices,
    now: int,
    policy: Policy | None = None,
) -> list[Outcome]:
    """Ask each question of one state of the memory; return the outcomes in the same order.

    They are routed by a policy, unless one is given by the view's.
    """
    outcomes = []
    for expectation in expectations:
        question = default_question(
            expectation.question, Filter(now=now, project=expectation.project), choices
        )
        answer = ask_as_routed(view, question, policy)
        outcomes.append(Outcome(expectation, rank_of(answer.hits, expectation.id)))
    return outcomes


def ask_as_routed(view: View, question: Question, policy: Policy | None = None) -> Answer:
    """Return the answer under a policy, else the one that the view's router serves; nothing is
    tried.
    """
    return recall(view, replace(question, router=Router(policy or view.policy())))


def rank_of(hits: Sequence[Hit], id_: str) -> int | None:
    """Return the rank, from 1, of a memory, of its copy or of its successor; else None."""
    for rank, hit in enumerate(hits, 1):
        if id_ in (hit.memory.id, *hit.copies, *(old.id for old in hit.history)):
            return rank
    return None


def check(
    log: EventLog,
    tenant: Tenant,
    manifest: Manifest,
    embedder: Embedder,
    choices: Choices,
    now: int,
) -> list[CheckResult]:
    """Return the check of a manifest, published or not, by the pinned questions; none without
    pinned questions.

    A failed question warns and is named with the fix. It does not block publication: an intended
    change may well be the reason.
    """
    if not (expectations := list_expectations(log)):
        return []
    view = open_view(tenant, manifest, embedder)
    missed = [
        outcome.expectation
        for outcome in ask(view, expectations, choices, now)
        if outcome.rank is None
    ]
    total = len(expectations)
    detail = f"{total - len(missed)} of {total} pinned questions bring back their memory"
    detail += list_missing(missed)
    return [
        CheckResult(
            EXPECTED,
            not missed,
            detail,
            CANARIES,
            {"asked": total, "missed": msgspec.to_builtins(missed)},
            cure=_cure(missed[0]) if missed else "",
            warns=bool(missed),
        )
    ]


def _cure(missed: Expectation) -> str:
    question, scope = shlex.quote(missed.question), ""
    if missed.project is None:
        scope = " --all-projects"
    elif missed.project:
        scope = f" --project {shlex.quote(missed.project)}"
    return (
        f"`mnemolog bisect {question} --expect {missed.id}{scope}` names the event since which; if "
        f"that is meant, `mnemolog expect {question} {missed.id}{scope} --remove`"
    )
