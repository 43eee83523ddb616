"""The envelope of an event: its author, its home of origin, its place among other homes' events."""

import stat
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from older_logs import make_older

from store.home.errors import LogCorrupt
from store.log import compaction, integrity, salvage
from store.log.event_clock import MAX_SKEW, next_clock
from store.log.event_kinds import AUTHORS, Called, Recorded, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.fold import Fold
from store.memories.memory import Memory

NOW = 1_790_000_000_000_000


def memory(id_: str, **envelope: object) -> Event:
    return replace(Event(id_, NOW, Recorded(content="some words"), id_), **envelope)  # type: ignore[arg-type]


def fold(*events: Event) -> Memory:
    folded = Fold()
    for event in events:
        folded.apply(event)
    return folded.rows[events[0].id]


# Origin and clock


def test_the_log_fills_in_origin_and_clock(tmp_path: Path):
    path = tmp_path / "home" / "tenants" / "default" / "log.sqlite"
    with EventLog(path, create=True, wall=lambda: NOW) as log:
        log.append([memory("a"), memory("b")])
        first, second = log.read()
    assert (first.clock, second.clock) == (NOW, NOW + 1)
    origin = tmp_path / "home" / "origin"
    assert first.origin == second.origin == origin.read_text().strip()
    assert stat.S_IMODE(origin.stat().st_mode) == 0o600


def test_every_tenant_of_a_home_has_its_origin(tmp_path: Path):
    found = set()
    for name in ("default", "work", "default"):
        path = tmp_path / "tenants" / name / "log.sqlite"
        with EventLog(path, create=True) as log:
            found |= {result.event.origin for result in log.append([memory("a"), memory(name)])}
    assert len(found) == 1


def test_a_home_that_takes_no_file_takes_events(tmp_path: Path):
    (tmp_path / "origin").mkdir()
    path = tmp_path / "tenants" / "default" / "log.sqlite"
    with EventLog(path, create=True, wall=lambda: NOW) as log:
        log.append([memory("a")])
        log.append([memory("b")])
        assert [(event.origin, event.clock) for event in log.read()] == [
            (None, NOW),
            (None, NOW + 1),
        ]


def test_what_another_home_wrote_keeps_its_origin_and_clock(log: EventLog):
    log.append([memory("theirs", origin="OTHER", clock=5)])
    assert [(event.origin, event.clock) for event in log.read()] == [("OTHER", 5)]


def test_a_clock_set_back_moves_no_event_back(tmp_path: Path):
    shown = iter((NOW, NOW - 3_600_000_000, NOW + 7))
    with EventLog(tmp_path / "log.sqlite", create=True, wall=lambda: next(shown)) as log:
        for id_ in "abc":
            log.append([memory(id_)])
        assert [event.clock for event in log.read()] == [NOW, NOW + 1, NOW + 7]


def test_clocks_go_on_after_those_of_others_came_in(tmp_path: Path):
    with EventLog(tmp_path / "log.sqlite", create=True, wall=lambda: NOW) as log:
        log.append([memory("a")])
        log.append([memory("b", origin="OTHER", clock=NOW + 500), memory("c")])
        log.append([memory("d", origin="OTHER", clock=3)])
        log.append([memory("e")])
        own = [event.clock for event in log.read() if event.origin != "OTHER"]
    assert own == [NOW, NOW + 501, NOW + 502]


def test_one_wrong_clock_does_not_hide_the_right_ones(tmp_path: Path):
    with EventLog(tmp_path / "log.sqlite", create=True, wall=lambda: NOW) as log:
        log.append([memory("b", origin="B", clock=NOW + 500)])
        log.append([memory("c", origin="C", clock=NOW * 2), memory("a")])
        assert [event.clock for event in log.read() if event.id == "a"] == [NOW + 501]


clocks = st.integers(0, 2**52)


@given(clocks, clocks, clocks)
def test_a_clock_never_goes_back_and_is_bent_by_no_wrong_one(wall: int, last: int, heard: int):
    found = next_clock(wall, last, heard)
    assert found > last and found >= wall
    assert found <= max(last, wall + MAX_SKEW) + 1
    if heard <= wall + MAX_SKEW:
        assert found > heard


# Hashes and older logs


def test_a_row_of_an_older_log_keeps_its_hash_and_a_new_one_is_hashed_whole(log: EventLog):
    log.append([memory("a")])
    make_older(log.path)
    before = sums(log.path)
    with EventLog(log.path) as again:
        again.append([memory("b", author="typed")])
        old, new = again.read()
        assert (old.author, old.origin, old.clock) == (None, None, 0)
        assert new.author == "typed" and new.clock
        assert integrity.problems(again) == []
    assert sums(log.path)[:1] == before


@pytest.mark.parametrize("change", ["author = 'typed'", "origin = 'X'", "clock = clock + 1"])
def test_an_envelope_that_was_tampered_with_is_found(log: EventLog, tamper, change: str):
    log.append([memory("a", author="agent", origin="HOME")])
    tamper(log.path, f"UPDATE events SET {change} WHERE seq = 1")
    with pytest.raises(LogCorrupt):
        list(log.read())


def test_an_older_row_that_was_given_an_author_is_found(log: EventLog, tamper):
    log.append([memory("a")])
    make_older(log.path)
    with EventLog(log.path) as again:
        tamper(log.path, "UPDATE events SET author = 'typed' WHERE seq = 1")
        with pytest.raises(LogCorrupt):
            list(again.read())


def test_salvage_reads_rows_of_both_forms(log: EventLog):
    long = "many words " * 2_000
    log.append([memory("a"), memory("long", body=Recorded(content=long))])
    make_older(log.path)
    with EventLog(log.path) as again:
        again.append([memory("b", author="typed"), memory("c", body=Recorded(content=long))])
        before = [(event, event.origin, event.clock) for event in again.read()]
    log.close()
    salvage.write(log.path, salvage.salvage(log.path), NOW)
    with EventLog(log.path) as mended:
        assert [(event, event.origin, event.clock) for event in mended.read()] == before


def test_a_segment_of_an_older_version_is_read_and_rewritten(log: EventLog, monkeypatch):
    def call(id_: str) -> Event:
        body = Called(purpose="test", model="m", tier="cheap", prompt_sha256="0")
        return Event(id_, NOW, body, id_)

    monkeypatch.setattr(compaction, "LEAST", 1)
    log.append([call("a")])
    make_older(log.path)
    later = NOW + 400 * 86_400_000_000
    with EventLog(log.path) as again:
        assert compaction.compact(again, 1, later).events == 1
        again.append([call("b")])
        assert compaction.compact(again, 2, later).events == 1
        assert [event.id for event in again.read()] == ["a", "b"]
        assert integrity.problems(again) == []


# Author


def test_a_memory_has_the_author_of_its_event():
    assert fold(memory("a", author="quoted")).author == "quoted"
    assert fold(memory("a")).author is None


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("typed", "typed", "typed"),
        ("typed", "agent", "agent"),
        ("agent", "typed", "agent"),
        ("repository", "typed", "repository"),
        (None, "typed", None),
        (None, "agent", "agent"),
        ("typed", None, None),
    ],
)
def test_a_revised_text_has_the_lower_author(first, second, left):
    revised = Event("r", NOW, Revised(content="other words"), "a", author=second)
    assert fold(memory("a", author=first), revised).author == left


def test_who_changes_no_word_is_no_author():
    revised = Event("r", NOW, Revised(importance=0.9), "a", author="agent")
    assert fold(memory("a", author="typed"), revised).author == "typed"


def test_an_existing_event_keeps_its_author(log: EventLog):
    log.append([memory("a", author="repository")])
    appended = log.append([memory("a", author="typed")])
    assert not appended[0].is_new and appended[0].event.author == "repository"


@pytest.mark.parametrize("author", AUTHORS)
def test_every_author_is_read_back(log: EventLog, author):
    log.append([memory("a", author=author)])
    assert [event.author for event in log.read()] == [author]


def sums(path: Path) -> list[bytes]:
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT sha256 FROM events ORDER BY seq").fetchall()
    connection.close()
    return [row[0] for row in found]
