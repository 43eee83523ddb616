"""`doctor --repair` mends all it can, asks before it changes the log, and names every loss."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from serve.cli import main
from store.home.config import Settings
from store.home.errors import LogBusy, LogCorrupt
from store.home.registry import sole
from store.log import commands, compaction, erasing, integrity, log_head, log_queries, salvage
from store.log.commands import Draft
from store.log.event_kinds import Recorded, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.maintenance.repair import repair
from store.maintenance.verify import verify
from store.snapshots import manifest

NOW = 1_790_000_000_000_000
DAY = 86_400_000_000
PAGE = 4096


def doctor(*words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *words])


@pytest.fixture
def wrecked(built) -> Path:
    """A closed log with one page of rows zeroed."""
    texts = [f"note {number} of the long list " * 9 for number in range(60)]
    built.log.append(
        [Event(f"n{number}", NOW, Recorded(content=text), f"n{number}")
         for number, text in enumerate(texts)]
    )  # fmt: skip
    built.log.settle()
    built.log.close()
    data = bytearray(built.log.path.read_bytes())
    page = data.index(b"note 30 of") // PAGE * PAGE
    data[page : page + PAGE] = bytes(PAGE)
    built.log.path.write_bytes(data)
    return built.log.path


def test_a_healthy_home_has_nothing_to_mend(built):
    built.log.close()
    assert list(repair(Settings(built.tenant.root.parents[1]), NOW, may_touch_log=True)) == []


def test_a_log_without_events_has_nothing_to_mend(home: Path, log: EventLog):
    log.close()
    assert list(repair(Settings(home), NOW, may_touch_log=True)) == []


def test_a_head_is_not_made_anew_beside_a_server_that_writes_it(built, home: Path):
    built.log.close()
    log_head.path_of(built.log.path).unlink()
    with sole(Settings(home)):
        (step,) = repair(Settings(home), NOW)
    assert step.state == "failed" and "mnemolog stop" in step.how
    assert not log_head.path_of(built.log.path).exists()


def test_a_damaged_log_is_only_told_of_without_leave(wrecked: Path):
    before = wrecked.read_bytes()
    answer = json.loads(doctor("--repair", "--json").stdout)
    assert [repair["state"] for repair in answer["repairs"]] == ["asked"]
    assert "lost: events" in answer["repairs"][0]["how"]
    assert wrecked.read_bytes() == before


def test_a_dry_run_changes_nothing(wrecked: Path):
    before = {path: path.read_bytes() for path in wrecked.parent.rglob("*") if path.is_file()}
    assert "would mend" in doctor("--repair", "--dry-run", "--yes").stdout
    assert all(path.read_bytes() == data for path, data in before.items())


def test_every_event_with_a_true_hash_is_saved_and_the_rest_is_named(wrecked: Path, home: Path):
    damaged = wrecked.read_bytes()
    assert doctor("--repair", "--yes").exit_code == 0
    with EventLog(wrecked) as log:
        assert integrity.problems(log) == []
        ((first, last),) = integrity.gaps(log)
        assert first <= 47 + 30 <= last and log_queries.row_count(log) == log.head() - (
            last - first + 1
        )
        assert log.present_ids(["m00", "n0", "n59"]) == {"m00", "n0", "n59"}
        (appended,) = log.append([Event("next", NOW, Recorded(content="x"), "next")])
        assert appended.event.seq == log.head()
    copies = [path.read_bytes() for path in salvage.folder_of(wrecked).glob("log.sqlite-*")]
    assert damaged in copies
    assert [step.state for step in repair(Settings(home), NOW, may_touch_log=True)] == []


def test_what_is_served_is_built_anew_from_what_was_saved(wrecked: Path, built):
    assert doctor("--repair", "--yes").exit_code == 0
    with EventLog(wrecked) as log:
        assert manifest.current(built.tenant).number > built.manifest.number
        assert verify(built.tenant, log, built.embedder).ok


def test_events_behind_a_damaged_frame_are_saved(built, tmp_path: Path, home: Path):
    built.log.settle()
    for number in range(20):
        commands.record(built.log, Draft(id=f"n{number}", content=f"Relay {number} hums"), NOW)
    ahead = built.log.path.with_name("log.sqlite-wal").read_bytes()
    files = {path: path.read_bytes() for path in built.tenant.root.glob("log.*")}
    built.log.close()
    for path, data in files.items():
        path.write_bytes(data)
    broken = bytearray(ahead)
    broken[len(ahead) // 2] ^= 1
    built.log.path.with_name("log.sqlite-wal").write_bytes(broken)
    with EventLog(built.log.path) as log:  # SQLite drops all after the bad frame, and then the file
        assert integrity.head_gap(log) is not None
    (mended,) = repair(Settings(home), NOW, may_touch_log=True)
    assert mended.how.endswith("lost: none")
    with EventLog(built.log.path) as log:
        assert log.present_ids([f"n{number}" for number in range(20)]) == {
            f"n{n}" for n in range(20)
        }
        assert integrity.problems(log) == [] and integrity.gaps(log) == []


def test_events_in_the_write_ahead_file_of_an_emptied_log_are_saved(built, home: Path):
    built.log.settle()
    for number in range(20):
        commands.record(built.log, Draft(id=f"n{number}", content=f"Relay {number} hums"), NOW)
    ahead = built.log.path.with_name("log.sqlite-wal")
    data = ahead.read_bytes()
    built.log.close()
    built.log.path.write_bytes(b"")
    ahead.write_bytes(data)
    with pytest.raises(LogCorrupt):  # SQLite deletes the file when it opens the log
        EventLog(built.log.path)
    assert {step.state for step in repair(Settings(home), NOW, may_touch_log=True)} == {"mended"}
    with EventLog(built.log.path) as log:
        assert log.present_ids([f"n{number}" for number in range(20)]) == {
            f"n{n}" for n in range(20)
        }


@pytest.mark.parametrize("column", ["id", "at", "sha256"])
def test_a_damaged_row_of_what_was_put_away_is_mended_from_its_segment(
    built, home: Path, tamper, column: str
):
    old = NOW - 100 * DAY
    surfaced = Surfaced(place="tool", about="it is done")
    built.log.append([Event(f"r{number}", old, surfaced, f"r{number}") for number in range(300)])
    built.rebuild()
    compaction.compact(built.log, built.log.head(), NOW)
    before = [(event.id, event.at) for event in built.log.read()]
    built.log.close()
    tamper(built.log.path, f"UPDATE events SET {column} = substr({column}, 2) WHERE body = ''")
    assert {step.state for step in repair(Settings(home), NOW, may_touch_log=True)} == {"mended"}
    with EventLog(built.log.path) as log:
        assert integrity.problems(log) == [] and integrity.gaps(log) == []
        assert [(event.id, event.at) for event in log.read()] == before


def test_what_was_erased_does_not_come_back(built, home: Path):
    built.log.append([Event("zz1", NOW, Recorded(content="the marker zyzzyva"), "zz1")])
    built.log.settle()
    before = built.log.path.read_bytes()
    erasing.erase(built.log, ["zz1"], NOW)
    built.log.settle()
    built.log.close()
    (salvage.folder_of(built.log.path)).mkdir()
    (salvage.folder_of(built.log.path) / "log.sqlite-00").write_bytes(before)
    data = bytearray(built.log.path.read_bytes())
    data[18:20] = b"\xff\xff"  # a file format that cannot be opened
    built.log.path.write_bytes(data)
    assert {step.state for step in repair(Settings(home), NOW, may_touch_log=True)} == {"mended"}
    assert b"zyzzyva" not in built.log.path.read_bytes()


def test_a_log_that_somebody_has_open_is_left_alone(wrecked: Path, home: Path, child: Callable):
    before = wrecked.read_bytes()
    code = (
        "import sys, apsw\nconnection = apsw.Connection(sys.argv[1])\n"
        "connection.execute('PRAGMA user_version').fetchall(); print('open', flush=True)\n"
        "sys.stdin.read()"
    )
    other = child(code, wrecked)
    assert other.stdout.readline() == "open\n"
    salvaged = salvage.salvage(wrecked)
    with pytest.raises(LogBusy, match="mnemolog stop"):
        salvage.write(wrecked, salvaged, NOW)
    assert wrecked.read_bytes() == before


def test_a_repair_that_was_ended_is_finished_by_whoever_opens_the_log(wrecked: Path, monkeypatch):
    monkeypatch.setattr(salvage, "_replace_log", lambda log: None)
    salvage.write(wrecked, salvage.salvage(wrecked), NOW)
    monkeypatch.undo()
    with EventLog(wrecked) as log:
        assert integrity.problems(log) == []
    assert not wrecked.with_name("log.repaired").exists()


@pytest.mark.parametrize("harm", ["HEAD", "manifest", "snapshot"])
def test_what_is_derived_is_built_anew_without_asking(built, home: Path, harm: str):
    live = next(iter(built.manifest.projections.values())).files[0]
    path = {
        "HEAD": built.tenant.head,
        "manifest": built.tenant.manifests / "00000001.json",
        "snapshot": built.tenant.snapshots / live.path,
    }[harm]
    path.write_bytes(path.read_bytes()[:-9])
    (mended,) = repair(Settings(home), NOW)
    assert (mended.state, mended.how) == ("mended", "built anew from the log")
    assert verify(built.tenant, built.log, built.embedder).ok


def test_modes_leftovers_and_the_head_are_mended_without_asking(built, home: Path):
    import os

    built.log.close()
    leftover = built.tenant.root / ".HEAD-0123abcd"
    leftover.write_bytes(b"{")
    os.utime(leftover, (1, 1))
    leftover.chmod(0o600)
    log_head.path_of(built.log.path).unlink(missing_ok=True)
    built.tenant.manifests.chmod(0o755)
    (home / "server.json").write_bytes(b"{}")
    (home / "server.json").chmod(0o600)
    assert {step.state for step in repair(Settings(home), NOW)} == {"mended"}
    assert list(repair(Settings(home), NOW)) == []
    assert log_head.read(built.log.path) is not None and not leftover.exists()


def test_indexes_are_made_anew(built, home: Path):
    import apsw

    built.log.settle()
    built.log.close()
    connection = apsw.Connection(str(built.log.path))
    root = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'events_by_kind'"
    ).fetchall()[0][0]
    connection.close()
    data = bytearray(built.log.path.read_bytes())
    data[data.rindex(b"recorded", (root - 1) * PAGE, root * PAGE)] ^= 2
    built.log.path.write_bytes(data)
    before = build.current_manifest(built.tenant)
    (mended,) = repair(Settings(home), NOW, may_touch_log=True)
    assert (mended.state, mended.how) == ("mended", "its indexes are made anew")
    with EventLog(built.log.path) as log:
        assert integrity.problems(log) == []
    assert build.current_manifest(built.tenant) == before


def test_a_queue_that_is_no_more_is_set_aside(built, home: Path):
    built.log.close()
    built.tenant.ingest.write_bytes(b"no database at all, but long enough to look like one" * 99)
    built.tenant.ingest.chmod(0o600)
    assert [step.state for step in repair(Settings(home), NOW, may_touch_log=True)] == ["mended"]
    assert list(salvage.folder_of(built.log.path).glob("ingest.sqlite-*"))


def test_how_to_repair_is_refused_without_repair():
    assert doctor("--yes").exit_code == 2
