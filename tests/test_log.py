"""The promises of the event log: order, all or none, no loss, no secrets, no changes."""

import os
import random
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from subprocess import Popen

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from older_logs import make_older
from plain_receipt import plain_receipt

from store.home.errors import (
    ChangedSince,
    IdConflict,
    IdempotencyMismatch,
    InvalidInput,
    LogCorrupt,
    LogReadOnly,
    MnemologError,
)
from store.log import checks, integrity, log_queries
from store.log.event_kinds import Forgotten, Pinned, Rated, Recorded, Revised, Unknown
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_file import AHEAD_BYTES, SCHEMA_VERSION, Row
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.snapshots.projection import Inputs, build_checked, digest

NOW = 1_790_000_000_000_000
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3  # assembled, so that no scanner reports it as a leak

Child = Callable[..., "Popen[str]"]

APPENDS = """
import sys
from pathlib import Path
from store.log.event_kinds import Recorded
from store.log.events import Event
from store.log.event_log import EventLog

path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with EventLog(path, create=True) as log:
    for number in range(count):
        id_ = f"{name}-{number}"
        log.append([Event(id_, 1, Recorded(content="words"), id_)])
        print(id_, flush=True)
    sys.stdin.read()
"""


def memory(id_: str, content: str = "some words") -> Event:
    return Event(id_, NOW, Recorded(content=content), id_)


def ids(log: EventLog) -> list[str]:
    return [event.id for event in log.read()]


def test_events_come_back_in_order_numbered_from_one(log: EventLog):
    log.append([memory("b"), memory("a")])
    log.append([memory("c")])
    assert [(event.seq, event.id) for event in log.read()] == [(1, "b"), (2, "a"), (3, "c")]


def test_an_event_comes_back_as_it_went_in(log: EventLog):
    event = Event("e", NOW, Pinned(pinned=False), "m", "acme/web", "s1", "codex", "tool")
    appended = log.append([event])[0]
    assert list(log.read()) == [appended.event] == [event.with_seq(1)]


def test_read_returns_the_events_between_two_seqs(log: EventLog):
    log.append([memory(str(number)) for number in range(1, 10)])
    assert [event.seq for event in log.read(3, 6)] == [4, 5, 6]
    assert list(log.read(9)) == []


@pytest.mark.parametrize("sql", ["UPDATE events SET body = '{}'", "DELETE FROM events"])
def test_a_row_cannot_be_changed_or_deleted(log: EventLog, sql: str):
    log.append([memory("a")])
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        apsw.Connection(str(log.path)).execute(sql)
    assert ids(log) == ["a"]


def test_the_same_id_again_is_the_same_event(log: EventLog):
    first = log.append([memory("a")])[0]
    again = log.append([memory("a")])[0]
    assert (first.is_new, again.is_new) == (True, False)
    assert again.event == first.event and log.head() == 1


@pytest.mark.parametrize("value", [(1, 2), float("nan"), TOKEN], ids=["tuple", "nan", "secret"])
def test_a_retry_is_known_by_what_was_kept_of_it(log: EventLog, value: object):
    event = Event("a", NOW, Recorded(content="words", metadata={"x": value}), "a")
    log.append([event])
    assert not log.append([event])[0].is_new


def test_an_id_used_for_something_else_writes_nothing_of_the_batch(log: EventLog):
    log.append([memory("a")])
    with pytest.raises(IdConflict, match="id a was already used"):
        log.append([memory("b"), memory("a", "other words"), memory("c")])
    assert ids(log) == ["a"]
    log.append([memory("d")])
    assert log.head() == 2


@pytest.mark.parametrize(
    "body",
    [Recorded(content="half \ud800"), Recorded(content="words", parent_id=TOKEN)],
    ids=["surrogate", "secret as an id"],
)
def test_invalid_events_are_refused_and_nothing_is_written(log: EventLog, body: Recorded):
    with pytest.raises(InvalidInput, match="event a cannot be recorded"):
        log.append([memory("b"), Event("a", NOW, body, "a")])
    assert log.head() == 0


def test_an_empty_batch_is_no_event(log: EventLog):
    assert log.append([]) == [] and log.head() == 0


@settings(max_examples=20, deadline=None)
@given(batches=st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8))
def test_numbers_stay_unbroken_whatever_is_refused(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
):
    path = tmp_path_factory.mktemp("log") / "log.sqlite"
    expected: dict[str, str] = {}
    with EventLog(path, create=True) as log:
        for turn, batch in enumerate(batches):
            new = {str(number): str(turn // 2) for number in batch}
            try:
                log.append([memory(id_, "words " + text) for id_, text in new.items()])
            except IdConflict:
                continue
            expected = new | expected
        assert sorted(ids(log)) == sorted(expected)
        assert [event.seq for event in log.read()] == [*range(1, len(expected) + 1)]


def test_four_processes_append_at_once_and_lose_nothing(tmp_path: Path, child: Child):
    path = tmp_path / "new" / "log.sqlite"  # the first of them creates it
    writers = [child(APPENDS, path, name, 200) for name in "abcd"]
    for writer in writers:
        output, _ = writer.communicate("")
        assert writer.returncode == 0, output
    with EventLog(path) as log:
        events = list(log.read())
        assert {event.id for event in events} == {f"{n}-{i}" for n in "abcd" for i in range(200)}
        assert [event.seq for event in events] == [*range(1, 801)]
        assert integrity.problems(log) == []


def test_a_reader_sees_whole_batches_while_another_process_writes(log: EventLog, child: Child):
    writer = child(APPENDS, log.path, "w", 150)
    head = 0
    while head < 150:
        now = ids(log)
        assert now == [f"w-{number}" for number in range(len(now))] and len(now) >= head
        head = len(now)
        assert writer.poll() is None or head == 150
    writer.communicate("")


def test_threads_share_one_log(log: EventLog):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: log.append([memory(str(number))]), range(100)))
    assert sorted(map(int, ids(log))) == [*range(100)]


def test_acknowledged_events_survive_kill_9(tmp_path: Path, child: Child):
    path = tmp_path / "log.sqlite"
    writer = child(APPENDS, path, "a", 10_000)
    acknowledged = [writer.stdout.readline().strip() for _ in range(60)]
    writer.kill()
    rest = writer.communicate()[0].split()
    with EventLog(path) as log:
        assert ids(log)[: 60 + len(rest)] == [*acknowledged, *rest]
        assert integrity.problems(log) == []


def test_a_commit_is_synced_before_it_is_acknowledged(log: EventLog):
    # kill -9 cannot test it, only a power loss: FULL is 2, and the log is in WAL mode
    assert log._connections.writer.pragma("synchronous") == 2
    assert log._connections.writer.pragma("journal_mode") == "wal"


def test_the_write_ahead_file_is_short_again_after_a_reader_had_made_it_long(tmp_path):
    path, text = tmp_path / "log.sqlite", "words of a note " * 600
    ahead = path.with_name("log.sqlite-wal")
    with EventLog(path, create=True) as log:
        log.append([Event("first", NOW, Recorded(content="a note"), "first")])
        with closing(apsw.Connection(str(path))) as reader:
            reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
            log.append([Event(f"m{n}", NOW, Recorded(content=text), f"m{n}") for n in range(2_000)])
            assert ahead.stat().st_size > 2 * AHEAD_BYTES
        for number in range(3):
            log.append([Event(f"n{number}", NOW, Recorded(content="a note"), f"n{number}")])
        assert ahead.stat().st_size <= AHEAD_BYTES


def test_no_secret_is_on_the_disk_even_after_kill_9(tmp_path: Path, child: Child):
    code = f"""
import sys, time
from pathlib import Path
from store.log.event_kinds import Recalled, Recorded
from store.log.events import Event
from store.log.event_log import EventLog

log = EventLog(Path(sys.argv[1]), create=True)
token = "ghp_" + "a1B2c3D4e5F6" * 3
body = Recorded(content="it is " + token, context=token, tags=("x", token), source=token,
                metadata={{"a": [token], token: 1, "password": "hunter2hunter2"}})
log.append([Event("a", {NOW}, body, "a", project=token, session=token, agent=token)])
asked = Recalled(query="use " + token, mode="", manifest=None, watermark=0, hits=(), dropped={{}},
                 took_us=1)
log.append([Event("b", {NOW}, asked, "b")])
print("done", flush=True)
time.sleep(60)
"""
    writer = child(code, tmp_path / "log.sqlite")
    assert writer.stdout.readline() == "done\n"
    writer.kill()
    writer.wait()
    assert {"log.sqlite", "log.sqlite-wal"} <= {path.name for path in tmp_path.iterdir()}
    data = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"it is [redacted:github" in data
    assert b"a1B2c3D4e5F6" not in data and b"hunter2" not in data


def test_files_are_private_from_the_first_byte(tmp_path: Path, child: Child):
    mask = os.umask(0)
    try:
        with EventLog(tmp_path / "new" / "log.sqlite", create=True) as log:
            log.append([memory("a")])
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode) for path in log.path.parent.iterdir()
            }
    finally:
        os.umask(mask)
    assert set(modes) == {"log.head", "log.sqlite", "log.sqlite-wal", "log.sqlite-shm"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_version_changes_with_own_and_foreign_appends_only(log: EventLog):
    start = log.version()
    assert list(log.read()) == [] and log.version() == start
    log.append([memory("own")])
    own = log.version()
    with EventLog(log.path) as other:
        other.append([memory("foreign")])
    assert len({start, own, log.version()}) == 3


def test_about_gives_the_events_of_one_memory(log: EventLog):
    log.append([memory("a"), memory("b"), Event("x", NOW, Forgotten(), "a")])
    assert [event.id for event in log.events_for("a")] == ["a", "x"]
    assert log.events_for("nobody") == []


def test_known_and_matching_look_ids_up(log: EventLog):
    log.append([memory("ab1"), memory("ab2"), Event("ab3", NOW, Forgotten(), "ab1")])
    assert log.present_ids(["ab1", "ab3", "zz"]) == {"ab1", "ab3"}
    assert log.ids_with_prefix("ab") == ["ab1", "ab2"]  # ab3 is no memory
    assert log.ids_with_prefix("%") == []


def test_an_id_is_looked_up_by_its_prefix_without_going_through_all_memories(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    plans: list[str] = []
    fetch = log.sql

    def explain(query: str, values: tuple[object, ...] = ()) -> list[Row]:
        plans.extend(str(row[-1]) for row in fetch(f"EXPLAIN QUERY PLAN {query}", values))
        return fetch(query, values)

    monkeypatch.setattr(log, "sql", explain)
    log.ids_with_prefix("ab")
    assert len(plans) == 1 and "id>? AND id<?" in plans[0], plans


def test_receipts_are_no_change(log: EventLog):
    assert log_queries.last_change(log) == 0
    log.append([memory("a"), Event("r", NOW, plain_receipt(), "r")])
    assert (log_queries.last_change(log), log.head()) == (1, 2)


def test_a_kind_of_a_later_version_is_read_and_changes_no_memory(log: EventLog, plant):
    log.append([memory("a")])
    plant(log, "z", Unknown(kind="dreamt"), kind="dreamt")
    events = list(log.read())
    assert events[1].body == Unknown(kind="dreamt")
    both = build_checked(MEMORIES_PROJECTION, Inputs(2, lambda after: iter(events)), None)
    alone = Inputs(1, lambda after: iter(events[:1]))
    assert digest(both) == digest(build_checked(MEMORIES_PROJECTION, alone, None))


def test_a_changed_body_is_found(log: EventLog, tamper):
    log.append([memory("a"), memory("b", "we deploy on Fridays"), memory("c")])
    tamper(log.path, "UPDATE events SET body = replace(body, 'Fridays', 'Mondays') WHERE seq = 2")
    assert integrity.problems(log) == ["event 2 does not match its hash: restore a backup"]
    with pytest.raises(LogCorrupt, match="event 2"):
        list(log.read())


def test_a_deleted_event_is_found(log: EventLog, tamper):
    log.append([memory("a"), memory("b"), memory("c")])
    tamper(log.path, "DELETE FROM events WHERE seq = 2")
    assert integrity.problems(log) == ["event 2 is missing"]


def test_a_flipped_bit_anywhere_is_found_or_harmless(tmp_path: Path):
    path, rng = tmp_path / "log.sqlite", random.Random(7)
    with EventLog(path, create=True) as log:
        log.append([memory(str(number), f"words {number} " * 40) for number in range(30)])
        before = list(log.read())
    good = path.read_bytes()
    for _ in range(150):
        bad, place = bytearray(good), rng.randrange(len(good))
        bad[place] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        try:
            with EventLog(path) as log:
                assert integrity.problems(log) or list(log.read()) == before, f"byte {place}"
        except MnemologError:
            pass  # opening it already fails: found
        for extra in tmp_path.glob("log.sqlite-*"):
            extra.unlink()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no mode bits")
def test_every_folder_that_is_made_is_its_owners_alone(tmp_path: Path):
    EventLog(tmp_path / "a" / "b" / "log.sqlite", create=True).close()
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")} == {0o700}


def test_the_events_of_a_session_are_found_without_those_of_others(log: EventLog):
    mine = [replace(memory(id_), session="s1") for id_ in ("a", "b", "c")]
    log.append([mine[0], memory("x"), replace(memory("y"), session="s2"), *mine[1:]])
    assert [event.id for event in log.session_events("s1")] == ["a", "b", "c"]
    assert [event.id for event in log.session_events("s1", after=1)] == ["b", "c"]
    assert log.session_events("s3") == []


def test_a_session_named_by_a_secret_is_found_by_its_name(log: EventLog):
    name = "ghp_" + "a1B2" * 9
    log.append([replace(memory("a"), session=name)])
    assert [event.id for event in log.session_events(name)] == ["a"]


def test_a_log_of_the_first_version_is_brought_up_to_date_and_keeps_its_events(log: EventLog):
    log.append([replace(memory("a"), session="s1")])
    make_older(log.path)
    older = apsw.Connection(str(log.path))
    older.execute("DROP INDEX events_by_session; DROP INDEX events_of_jobs; DROP TABLE segments")
    older.execute("DROP INDEX events_by_kind")
    older.execute("PRAGMA user_version = 1")
    older.close()
    with EventLog(log.path) as again:
        assert [event.id for event in again.session_events("s1")] == ["a"]
        assert integrity.problems(again) == []
    plain = apsw.Connection(str(log.path))
    assert plain.pragma("user_version") == SCHEMA_VERSION
    for name in ("events_by_session", "events_of_jobs", "events_by_kind", "segments"):
        assert plain.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
    plain.close()


# Checks on writing


def test_events_whose_check_objects_are_not_written(log: EventLog):
    log.append([Event("m1", NOW, Recorded(content="Use uv, never pip"), "m1")])
    change = Event("r1", NOW, Revised(importance=0.5), "m1")
    with pytest.raises(ChangedSince, match="m1"):
        log.append([change], [checks.require_unchanged("m1", {2})])
    assert log.head() == 1
    assert log.append([change], [checks.require_unchanged("m1", {1})])[0].is_new
    assert not log.append([change], [checks.require_unchanged("m1", {1}, "r1")])[0].is_new


@pytest.mark.parametrize(
    ("id_", "beginning", "fits"),
    [("AAA1", "AAA", True), ("AAB1", "AAB", True), ("AAA2", "AAA", False)],
)
def test_an_unambiguous_id_prefix_matches_one_event(
    log: EventLog, id_: str, beginning: str, fits: bool
):
    log.append([Event("AAA1", NOW, Recorded(content="Use uv, never pip"), "AAA1")])
    event = Event(id_, NOW, Recorded(content="Use uv, never pip"), id_)
    if fits:
        log.append([event], [checks.alone(id_, beginning)])
    else:
        with pytest.raises(IdempotencyMismatch):
            log.append([event], [checks.alone(id_, beginning)])
    assert (id_ in log.present_ids([id_])) is fits


def test_ratings_and_receipts_are_not_changes_of_a_memory(log: EventLog):
    log.append([Event("m1", NOW, Recorded(content="Use uv, never pip"), "m1")])
    log.append([Event("p1", NOW, Pinned(), "m1"), Event("t1", NOW, Rated(verdict=1.0), "m1")])
    assert log_queries.newest_change(log, "m1") == 2
    assert log_queries.newest_change(log, "unknown") == 0


def test_a_log_shows_its_past_and_takes_nothing_in_it(tmp_path: Path):
    path = tmp_path / "log.sqlite"
    with EventLog(path, create=True) as log:
        log.append([memory("one"), memory("two")])
        log.append([Event("gone", NOW, Forgotten(), "one")])
        with EventLog(path, until=1) as past:
            assert (ids(past), past.head(), integrity.head_gap(past)) == (["one"], 1, None)
            assert past.events_for("two") == [] and past.present_ids(["two"]) == set()
            past.show_until(3)
            assert [event.kind for event in past.events_for("one")] == ["recorded", "forgotten"]
            with pytest.raises(LogReadOnly, match="the past cannot be changed"):
                past.append([memory("three")])
        assert log.head() == 3
