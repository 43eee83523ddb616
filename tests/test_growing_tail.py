"""Recall indexes the log's events since the last build in steps, without delaying answers."""

import threading
from pathlib import Path

import pytest

from serve.reader import tail, tail_storage
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.recall import Answer, Question, recall
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.home.tenant import Tenant, tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog

NOW = 1_800_000_000_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of two notes, and room for six."""
    monkeypatch.setattr(tail, "AT_ONCE", 200)
    monkeypatch.setattr(tail, "BEHIND", 100)
    monkeypatch.setattr(tail, "MOST", 640)


WORDS = "anvil brook cedar dunes ember fjord glade heron inlet jetty kelp lagoon".split()


def note(number: int) -> Draft:
    """A note with its own word, as long as there are words."""
    word = WORDS[number] if number < len(WORDS) else f"{number}"
    return Draft(id=f"n{number}", content=f"{word} lies over the pier ".ljust(99, "x"))


def asked(reader: Reader, word: str, embedder) -> Answer:
    return reader.answer(lambda view: recall(view, Question(word, Filter(now=NOW), 5, "lexical")))


def found(reader: Reader, word: str, embedder) -> list[str]:
    return [hit.memory.id for hit in asked(reader, word, embedder).hits]


@pytest.fixture
def polled(tenant: Tenant, log: EventLog, embedder) -> Reader:
    return Reader(tenant, log, embedder, polled=True)


def test_a_recall_answers_from_what_is_indexed_and_says_so(polled, log, embedder):
    commands.record_batch(log, [note(number) for number in range(5)], NOW)
    answer = asked(polled, WORDS[0], embedder)
    assert [hit.memory.id for hit in answer.hits] == ["n0"]
    (text,) = answer.notices
    assert text.startswith("3 new memories are not found by their words yet")
    assert found(polled, WORDS[4], embedder) == []


def test_the_rest_is_indexed_behind_the_answers_the_newest_first(polled, log, embedder):
    commands.record_batch(log, [note(number) for number in range(5)], NOW)
    found(polled, WORDS[0], embedder)
    assert polled.grow()
    assert found(polled, WORDS[4], embedder) == ["n4"]
    while polled.grow():
        pass
    assert found(polled, WORDS[2], embedder) == ["n2"]
    assert asked(polled, WORDS[2], embedder).notices == ()


def test_where_nothing_waits_the_view_stays_as_it_is(polled, log, embedder):
    commands.record(log, note(0), NOW)
    polled.keep_up()
    with polled.view() as before:
        polled.keep_up()
    with polled.view() as after:
        assert after is before


def test_no_more_than_a_bound_is_indexed_before_the_next_build(polled, log, embedder):
    commands.record_batch(log, [note(number) for number in range(20)], NOW)
    polled.keep_up()
    while polled.grow():
        pass
    with polled.view() as view:
        assert view.tail.waiting == 14 and view.tail.changes == 20
        assert view.tail.bytes > 20 * 90


def test_what_is_forgotten_is_gone_at_once_however_much_waits(polled, log, embedder):
    commands.record(log, note(0), NOW)
    assert found(polled, WORDS[0], embedder) == ["n0"]
    commands.record_batch(log, [note(number) for number in range(1, 20)], NOW)
    commands.forget(log, "n0", NOW)
    assert found(polled, WORDS[0], embedder) == []
    with polled.view() as view:
        assert view.tail.find("n19").content == note(19).content


def test_of_a_long_memory_the_beginning_is_found_until_a_build(polled, log, embedder, monkeypatch):
    monkeypatch.setattr(tail_storage, "LONGEST", 50)
    monkeypatch.setattr(tail, "LONGEST", 50)
    commands.record(log, Draft(id="long", content="beacon " + "x" * 60 + " lighthouse"), NOW)
    assert found(polled, "beacon", embedder) == ["long"]
    assert found(polled, "lighthouse", embedder) == []
    assert "found by their beginning" in asked(polled, "beacon", embedder).notices[0]


def test_a_reader_that_nobody_polls_indexes_before_it_answers(tenant, log, embedder):
    reader = Reader(tenant, log, embedder)
    commands.record_batch(log, [note(number) for number in range(5)], NOW)
    assert found(reader, WORDS[4], embedder) == ["n4"]


def test_a_tenant_that_is_being_opened_keeps_nobody_else_waiting(home: Path, monkeypatch):
    for name in ("slow", "other"):
        EventLog(tenant(home, name).log, create=True).close()
    opened = OpenTenants(Settings(home))
    begun, may_end = threading.Event(), threading.Event()
    newly = opened._newly_opened

    def held(one: Tenant):
        if one.name == "slow":
            begun.set()
            assert may_end.wait(30)
        return newly(one)

    monkeypatch.setattr(opened, "_newly_opened", held)
    opening = threading.Thread(target=opened.get, args=("slow",))
    opening.start()
    assert begun.wait(30)
    other = threading.Thread(target=opened.get, args=("other",))
    other.start()
    other.join(30)
    has_opened = not other.is_alive()
    may_end.set()
    opening.join()
    opened.close()
    assert has_opened
