"""Contradictions are found, with both sides and a way to settle them; nothing else is."""

from collections.abc import Callable
from typing import Any

import pytest
from command_line import answer, run, succeed

from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Planned
from store.log.event_log import EventLog
from store.maintenance import build
from store.memories.fold import Fold
from store.plans import plans, steps

Clock = Callable[[], int]
Listed = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def say(log: EventLog, clock: Clock) -> Callable[..., str]:
    def record(text: str, **fields: Any) -> str:
        return commands.record(log, Draft(content=text, **fields), clock()).event.id

    return record


@pytest.fixture(params=["tail", "built"])
def listed(request, tenant: Tenant, log: EventLog, clock: Clock) -> Listed:
    """Return the output of `mnemolog conflicts`, before a build and after one."""

    def run(*words: str) -> list[dict[str, Any]]:
        if request.param == "built":
            build.rebuild(tenant, log, LexicalEmbedder(), clock())
        conflicts: list[dict[str, Any]] = answer("conflicts", *words)["conflicts"]
        return conflicts

    return run


def ids(conflicts: list[dict[str, Any]]) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (conflict["what"], tuple(side["id"] for side in conflict["sides"]))
        for conflict in conflicts
    ]


def test_a_value_replaced_by_another_speaker_conflicts_and_by_its_own_does_not(say, listed):
    anna = say("us", key="deploy.region", value="us", created_by="Anna Smith")
    bob = say("eu", key="deploy.region", value="eu", created_by="Bob Lee")
    for value in ("8080", "9090"):
        say(value + " it is", key="api.port", value=value, created_by="Anna Smith")
    (conflict,) = listed()
    assert ids([conflict]) == [("overridden", (anna, bob))]
    assert [(side["value"], side["holds"]) for side in conflict["sides"]] == [
        ("us", False),
        ("eu", True),
    ]
    assert conflict["settle"][:2] == ["mnemolog history deploy.region", f"mnemolog restore {anna}"]


def test_two_current_values_of_one_relation_conflict(say, listed):
    fact = {"entity": "numpy", "relation": "version", "value": "1.26", "singleton": True}
    first = say("numpy stays at 1.26 in all of it", metadata={"fact": fact}, project="acme/web")
    second = say("Everybody upgraded", key="numpy.version", value="2.1")
    say("Elsewhere", key="numpy.version", value="3.0", project="acme/api")
    pairs = ids(listed("--project", "acme/web"))
    assert pairs == [("facts", (first, second))]
    assert len(listed()) == 2  # acme/api's and the one of no project, too


def test_values_of_a_relation_with_several_values_agree(say, listed):
    for value in ("Redis", "Postgres"):
        fact = {"entity": "queue", "relation": "uses", "value": value}
        say(f"The queue is made with {value}, says the plan", metadata={"fact": fact})
    assert listed() == []


def test_texts_that_differ_only_in_a_value_conflict(say, listed):
    older = say("The database port is 5432")
    newer = say("The database port is now 5433")
    say("The database is written to every night")
    assert ids(listed()) == [("wording", (older, newer))]


def test_facts_of_two_things_and_repeated_events_do_not_conflict(say, listed):
    say("Test 12 fails on Windows")
    say("Test 13 fails on Windows")
    say("Released version 1.2 to everybody", kind="milestone")
    say("Released version 1.3 to everybody", kind="milestone")
    for number in range(4):
        say(f"The replica count is {number}")
    assert listed() == []


def test_a_link_of_conflict_counts_while_both_ends_hold(log: EventLog, clock: Clock, say, listed):
    tabs, spaces = say("Tabs are used everywhere"), say("We indent by spaces")
    commands.link(log, spaces, tabs, "conflict", clock())
    commands.link(log, tabs, spaces, "support", clock())
    (conflict,) = listed()
    assert ids([conflict]) == [("linked", (tabs, spaces))]
    words = conflict["settle"][0].split()[1:]
    succeed(*words)
    assert listed() == []


def test_a_memory_about_a_changed_file_is_listed_with_the_file(
    log: EventLog, clock: Clock, say, listed
):
    id_ = say("The limits stand in src/limits.py: ten at most")
    fold = Fold()
    for event in log.read():
        fold.apply(event)
    step = steps.stale(fold.rows[id_], "src/limits.py changed", "src/limits.py")
    body = Planned(job="distill", watermark=log.head(), steps=(step,))
    plans.apply(log, plans.propose(log, body, clock()).id, clock())
    (conflict,) = listed()
    assert (conflict["what"], conflict["about"]) == ("stale", "src/limits.py")
    assert conflict["settle"][0] == f"mnemolog restore {id_}"


def test_conflicts_are_shown_to_people_without_control_characters(say):
    say("us\x1b[31m region", key="deploy.region", value="us\x1b[31m", created_by="Anna Smith")
    say("eu region", key="deploy.region", value="eu", created_by="Bob Lee")
    text = run("conflicts").output
    assert "1. deploy.region: another author's value was replaced" in text
    assert "\x1b" not in text and "$ mnemolog history deploy.region" in text


def test_the_command_reports_no_conflicts(log: EventLog):
    assert run("conflicts").output == "no conflicts\n"
