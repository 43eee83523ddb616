"""Old receipts leave the log's file, and every reader still gets the same answers."""

import signal
import time
from collections.abc import Callable

import pytest
from command_line import answer

from serve.reader.reader import Reader
from store.home.errors import IdConflict, LogCorrupt
from store.home.instants import new_id
from store.log import commands, compaction, integrity, segments
from store.log.commands import Draft
from store.log.event_kinds import Acted, Followed, Hit, Prompted, Recalled, SessionTold, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.maintenance.checkup import _log as looked_at
from store.maintenance.export import export
from store.maintenance.verify import verify

DAY = 86_400_000_000
NOW = 1_790_000_000_000_000
OLD = NOW - 100 * DAY
RECALLED = {"mode": "auto", "manifest": 1, "watermark": 1, "dropped": {}, "took_us": 900}


def receipts(log: EventLog, count: int = 300, at: int = OLD) -> None:
    events = []
    for number in range(count):
        moment = at + number
        id_ = new_id(moment)
        hits = (Hit(f"m{number % 5:02}", 1.0, 0.9),)
        bodies = (
            Recalled(query=f"where do we deploy number {number}?", hits=hits, **RECALLED),
            Recalled(
                query=f"please look at the failing test number {number} " * 8, hits=hits, **RECALLED
            ),
            Surfaced(place="tool", about=f"pytest tests/test_{number}.py " * 4),
            Followed(verdict="followed", evidence=f"turn {number} ran pytest"),
        )
        events.append(
            Event(id_, moment, bodies[number % 4], id_, None, f"session-{number // 50}", "codex")
        )
    log.append(events)


def everything(log: EventLog) -> list[object]:
    """Return the result of each way of reading the log."""
    head = log.head()
    return [
        list(log.read()),
        list(log.read(20, head - 20)),
        list(log.bodies(0, head)),
        log.session_events("session-2"),
        log.events_between(("recalled", "surfaced"), OLD, OLD + 200),
        [log.events_for(event.subject) for event in log.read(40, 60)],
        list(export(log, NOW, all_states=True)),
    ]


@pytest.fixture
def worn(built):
    """A built tenant with 300 receipts that are 100 days old."""
    receipts(built.log)
    built.rebuild()
    return built


def compacted(one) -> compaction.Compacted:
    return compaction.compact(one.log, one.log.head(), NOW)


def test_compacted_the_log_reads_as_before_and_its_file_is_smaller(worn):
    receipts(worn.log, 3_000, OLD + 1_000)
    worn.rebuild()
    before = everything(worn.log)
    done = compacted(worn)
    assert done.events == 3_300 and done.is_settled
    assert done.bytes_after < 0.6 * done.bytes_before
    assert everything(worn.log) == before
    assert integrity.problems(worn.log) == []
    with EventLog(worn.log.path) as again:
        assert everything(again) == before


def test_every_projection_is_the_same_before_and_after(worn):
    digests = worn.rebuild().digests
    before = build.digests(worn.log, worn.embedder, worn.log.head())
    compacted(worn)
    after = build.digests(worn.log, worn.embedder, worn.log.head())
    for name, tables in before.items():
        assert all(tables[table].equals(after[name][table]) for table in tables), name
    assert worn.rebuild(full=True).digests == digests
    assert verify(worn.tenant, worn.log, worn.embedder).ok


def test_what_is_new_or_changes_a_memory_stays_in_the_file(worn):
    receipts(worn.log, 200, NOW - DAY)
    planned = compaction.compact(worn.log, worn.log.head(), NOW, dry_run=True)
    assert planned.events == 300 and planned.bytes > 10_000
    assert not (worn.tenant.cold).exists()
    assert compacted(worn).events == planned.events
    assert compacted(worn).events == 0
    away = worn.log.select_rows("body = ''", ())
    assert {row[3] for row in away} <= set(compaction.KINDS) and len(away) == 300


def test_what_turns_told_is_a_memory_and_stays_in_the_file(built):
    for number in range(200):
        id_ = new_id(OLD + number)
        bodies = (
            Prompted(prompt=f"look at test {number}"),
            Acted(tool="Bash", doing="run", command="pytest"),
            SessionTold(stage="stopped", said="done"),
        )
        built.log.append([Event(id_, OLD + number, bodies[number % 3], id_, None, "s1", "codex")])
    built.rebuild()
    assert compacted(built).events == 0


def test_what_was_not_built_yet_is_left_for_the_next_time(worn):
    assert compaction.compact(worn.log, 20, NOW).events == 0


def test_the_log_stays_append_only_for_everybody_else(worn, tamper):
    compacted(worn)
    import apsw

    with apsw.Connection(str(worn.log.path)) as other:
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            other.execute("UPDATE events SET body = '{}' WHERE seq = 1")
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            other.execute("DELETE FROM events WHERE seq = 1")


def test_the_same_receipt_again_is_known_though_it_was_put_away(worn):
    event = next(event for event in worn.log.read() if isinstance(event.body, Surfaced))
    compacted(worn)
    assert not worn.log.append([event])[0].is_new
    other = Event(event.id, NOW, Acted(tool="Bash"), event.id)
    with pytest.raises(IdConflict):
        worn.log.append([other])


def test_who_has_the_log_open_meanwhile_reads_and_writes_on(worn):
    with EventLog(worn.log.path) as other:
        before = everything(other)
        compacted(worn)
        assert everything(other) == before
        assert other.append([Event("after", NOW, Acted(tool="Bash"), "after")])[0].is_new
        assert list(other.read(other.head() - 1)) == list(worn.log.read(worn.log.head() - 1))


def test_nothing_is_lost_of_what_is_written_meanwhile(worn, child):
    code = f"""
import sys
from pathlib import Path
from store.log.event_kinds import Acted
from store.log.events import Event
from store.log.event_log import EventLog
with EventLog(Path(sys.argv[1])) as log:
    print("ready", flush=True)
    for number in range(300):
        log.append([Event(f"w{{number}}", {NOW}, Acted(tool="Bash"), f"w{{number}}")])
print("done")
"""
    writer = child(code, worn.log.path)
    assert writer.stdout.readline() == "ready\n"
    assert compacted(worn).events == 300
    assert writer.communicate()[0] == "done\n"
    assert {f"w{number}" for number in range(300)} <= {event.id for event in worn.log.read()}
    assert integrity.problems(worn.log) == []


STEPS = {
    "before the file has its name": "os.replace = stop",
    "before its folder is synced": "segments.sync_path = stop",
    "before the rows are blanked": "compaction.EventLog.rewrite = stop",
    "while the rows are blanked": (
        "from store.log import rows as log_rows\nold = log_rows.rewrite_rows\n"
        "log_rows.rewrite_rows = lambda *given: (old(*given), stop())"
    ),
    "before the file shrinks": "compaction.EventLog.settle = stop",
}


@pytest.mark.parametrize("step", STEPS)
def test_killed_between_any_two_steps_it_loses_nothing(worn, child, step: str):
    before = everything(worn.log)
    code = f"""
import os, signal, sys
from pathlib import Path
from store.log import compaction, segments
def stop(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)
{STEPS[step]}
with compaction.EventLog(Path(sys.argv[1])) as log:
    compaction.compact(log, log.head(), {NOW})
"""
    killed = child(code, worn.log.path)
    assert killed.wait(60) == -signal.SIGKILL, killed.stdout.read()
    assert everything(worn.log) == before and integrity.problems(worn.log) == []
    compacted(worn)
    assert everything(worn.log) == before and integrity.problems(worn.log) == []
    named = {segment.name for segment in worn.log.segments()}
    assert {path.name for path in segments.folder_of(worn.log.path).iterdir()} == named
    assert sum(segment.events for segment in worn.log.segments()) == 300


def lost(path) -> None:
    path.unlink()


def flipped(path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [lost, flipped])
def test_a_segment_that_is_lost_is_named_and_stops_neither_recall_nor_writes(
    worn, damage: Callable[..., None]
):
    compacted(worn)
    path = next(segments.folder_of(worn.log.path).iterdir())
    damage(path)
    for problems in (
        integrity.problems(worn.log),
        verify(worn.tenant, worn.log, worn.embedder).problems,
        [finding.what for finding in looked_at(worn.log)],
    ):
        assert len(problems) == 1 and path.name in problems[0] and "backup" in problems[0]
    with pytest.raises(LogCorrupt, match=path.name):
        list(worn.log.read())
    added = commands.record(worn.log, Draft(content="We moved to Postgres 17"), NOW)
    assert worn.rebuild().watermark == added.event.seq
    worn.tenant.head.unlink()  # recall from the log alone
    with Reader(worn.tenant, worn.log, worn.embedder).view() as view:
        assert view.tail.find(added.event.id) and view.tail.find("m01")


def test_no_server_loads_the_reader_of_segments(worn, child):
    compacted(worn)
    code = """
import sys
from pathlib import Path
from serve.reader.reader import Reader
from store.embedders.embedder import LexicalEmbedder
from store.log.event_log import EventLog
from store.home.tenant import tenant
one = tenant(Path(sys.argv[1]))
with EventLog(one.log) as log:
    Reader(one, log, LexicalEmbedder())
print("pyarrow.parquet" in sys.modules)
"""
    assert child(code, worn.tenant.root.parents[1]).communicate()[0].split() == ["False"]


@pytest.mark.usefixtures("jobs_here")
def test_a_person_sees_what_would_go_and_then_lets_it_go(built):
    receipts(built.log, at=time.time_ns() // 1_000 - 100 * DAY)
    payload = answer("archive", "--compact", "--dry-run")
    assert payload["events"] == 300 and payload["bytes"] > 10_000 and not payload["segments"]
    assert built.log.segments() == []
    done = answer("archive", "--compact")
    assert done["events"] == 300 and done["bytes_after"] < done["bytes_before"]
    assert [segment.name for segment in built.log.segments()] == done["segments"]
    assert integrity.problems(built.log) == []
