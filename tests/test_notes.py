"""Pending notes are kept while the log cannot be written, and are written later."""

import logging

import pytest

from serve.server import deferred_events as module
from serve.server.deferred_events import DeferredEvents
from store.home.errors import LogFull
from store.log import commands, erasing
from store.log.commands import Draft
from store.log.event_kinds import Acted, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event

NOW = 1_790_000_000_000_000


def note(id_: str, tool: str = "Bash") -> Event:
    return Event(id_, NOW, Acted(tool=tool, doing="run", command=f"make {id_}"), id_)


def written(log: EventLog) -> list[str]:
    return [event.id for event in log.read()]


@pytest.fixture
def notes(log: EventLog) -> DeferredEvents:
    return DeferredEvents(log, lambda events: None)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch, log: EventLog) -> pytest.MonkeyPatch:
    """Simulate a full disk until it is undone."""

    def append(events: object, checks: object = ()) -> None:
        raise LogFull("no space left")

    monkeypatch.setattr(log, "append", append)
    return monkeypatch


def test_deferred_events_are_written_later_in_order(
    notes: DeferredEvents, log: EventLog, full: pytest.MonkeyPatch
):
    for id_ in "abc":
        notes.add(note(id_))
        notes.write_if_possible()
    with pytest.raises(LogFull):
        notes.write()
    assert written(log) == [] and len(notes.waiting) == 3
    full.undo()
    notes.write()
    assert written(log) == ["a", "b", "c"] and notes.waiting == []


def test_callers_do_not_wait_for_a_log_that_just_failed(
    notes: DeferredEvents, full: pytest.MonkeyPatch
):
    notes.add(note("a"))
    notes.write_if_possible()
    full.setattr(notes, "write", lambda: pytest.fail("it was tried again"))
    notes.write_if_possible()


def test_the_backlog_is_limited_and_the_rest_is_reported_lost(
    notes: DeferredEvents, log: EventLog, full: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    full.setattr(module, "MOST", 3)
    notes.add(note("first"))
    with pytest.raises(LogFull):
        notes.write()
    notes.add(*map(note, "abcd"))
    notes.add(note("beyond"))
    assert [event.id for event in notes.waiting] == ["first", *"abcd"]
    full.undo()
    with caplog.at_level(logging.WARNING):
        notes.write()
    assert "1 are lost" in caplog.text
    assert written(log) == ["first", *"abcd"]


def test_overflow_is_reported_even_if_the_log_was_never_blocked(
    notes: DeferredEvents, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(module, "MOST", 1)
    notes.add(note("a"))
    notes.add(note("beyond"))
    notes.write()
    assert "1 are lost" in caplog.text


def test_an_event_the_log_refuses_blocks_no_other(
    notes: DeferredEvents, log: EventLog, caplog: pytest.LogCaptureFixture
):
    log.append([note("taken", tool="Edit")])
    notes.add(note("a"), note("taken"), note("b"))
    notes.write()
    assert written(log) == ["taken", "a", "b"] and notes.waiting == []
    assert "a note is lost" in caplog.text


def test_events_unwritten_at_shutdown_are_reported_lost(
    notes: DeferredEvents, full: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    notes.add(note("a"), note("b"))
    notes.give_up()
    assert "2 notes are lost: no space left" in caplog.text


def test_deferred_events_of_an_erased_memory_are_dropped(notes: DeferredEvents, log: EventLog):
    commands.record(log, Draft(id="m", content="we use SQLite"), NOW)
    erasing.erase(log, ["m"], NOW)
    notes.add(note("a"), Event("b", NOW, Surfaced(place="tool", about="SQLite"), "m"), note("c"))
    notes.write()
    assert written(log)[-2:] == ["a", "c"] and notes.waiting == []
