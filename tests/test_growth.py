"""The log separates memories of the user's own sessions from those of other sources."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.evaluation.growth import NOTED_AT_ONCE, list_arrivals
from store.agents.prompt_statements import FROM_PROMPT
from store.home.instants import moment
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Made, Prompted, Recorded
from store.log.event_log import EventLog
from store.log.events import Event

NOW = 1_790_000_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tmp_path / "log.sqlite", create=True) as opened:
        yield opened


def note(id_: str, **fields: Any) -> Draft:
    return Draft(id=id_, content=f"The lamp {id_} is lit", **fields)


def own(log: EventLog, after: int = 0) -> set[str]:
    arrivals = list_arrivals(log, after, log.head())
    return {id_ for id_, arrival in arrivals.items() if arrival.is_own}


def made(id_: str, *sources: str) -> Event:
    body = Recorded(content="Lamps are lit", source_ids=sources, made=Made("distill"))
    return Event(id_, NOW + 9, body, id_)


def test_notes_and_turns_of_sessions_are_the_users_own(log: EventLog):
    commands.record(log, note("mine"), NOW)
    commands.record(log, note("agent", trust="agent"), NOW + 1)
    commands.record_batch(log, [note(f"n{number}") for number in range(NOTED_AT_ONCE)], NOW + 2)
    commands.record(log, note("statement", kind="statement", source=FROM_PROMPT), NOW + 3)
    for id_, imported in (("turn", False), ("transcript", True)):
        body = Prompted(prompt="light the lamp", imported=imported)
        log.append([Event(id_, NOW + 4, body, id_, trust="agent")])
    everything = set(list_arrivals(log, 0, log.head()))
    assert own(log) == everything and {"mine", "agent", "statement", "turn"} < everything


@pytest.mark.parametrize(
    "fields",
    [{"trust": "web"}, {"trust": "tool"}, {"source": "git"}, {"created_at": moment(NOW)}],
    ids=lambda fields: next(iter(fields)),
)
def test_memories_of_others_are_not_counted_as_own(log: EventLog, fields: dict[str, Any]):
    commands.record(log, note("theirs", **fields), NOW)
    assert own(log) == set()


def test_a_turn_from_a_repository_is_not_counted_as_own(log: EventLog):
    body = Prompted(prompt="light the lamp", imported=True)
    log.append([Event("turn", NOW, body, "turn", trust="agent", author="repository")])
    assert own(log) == set()


def test_a_large_batch_is_not_counted_as_own(log: EventLog):
    commands.record_batch(log, [note(f"n{number}") for number in range(NOTED_AT_ONCE + 1)], NOW)
    commands.record(log, note("mine"), NOW + 1)
    assert own(log) == {"mine"}


def test_an_insight_of_a_job_is_own_if_its_sources_are(log: EventLog):
    commands.record(log, note("old"), NOW)
    before = log.head()
    commands.record(log, note("mine"), NOW + 1)
    commands.record(log, note("theirs", trust="web"), NOW + 2)
    log.append([made("of-old", "old"), made("of-mine", "mine"), made("of-both", "mine", "theirs")])
    assert own(log, before) == {"mine", "of-old", "of-mine"}
