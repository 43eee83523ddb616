"""A backup: one file of one tenant, taken during writes, verified, and restored whole or not."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from command_line import run, succeed
from conftest import NOW, Built, raw
from older_logs import make_older

from serve.cli import processes
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import Conflict, InvalidName, LogFull, MnemologError, SourceError
from store.home.registry import sole
from store.home.tenant import Tenant
from store.ingest import batch
from store.ingest.job_queue import Queue
from store.log import commands, compaction, erasing, integrity, log_queries
from store.log.commands import Draft
from store.log.event_kinds import Staled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_head import Gap
from store.maintenance import backup, backup_file, erase
from store.maintenance.backup_file import Listing
from store.maintenance.build import rebuild
from store.maintenance.erase_scan import FileHit, ScanReport


@pytest.fixture
def kept(built: Built, tmp_path: Path) -> Path:
    """A backup of the tenant of `built`."""
    path = tmp_path / "kept.zip"
    backup.make_backup(built.tenant, path, "1.2", NOW)
    return path


def restored(home: Path, path: Path, name: str = "again", *, replace: bool = False) -> Tenant:
    backup.restore_backup(Settings(home), path, name, NOW, replace=replace)
    return tenants.find_tenant(home, name)


def events(log: EventLog) -> list[Event]:
    return list(log.read())


def test_a_restored_tenant_holds_the_events_that_were_there_and_builds_the_same(
    built: Built, kept: Path, home: Path
):
    again = restored(home, kept)
    with EventLog(again.log) as log:
        assert events(log) == events(built.log)
        manifest = rebuild(again, log, built.embedder, NOW)
    digests = {name: ref.digest for name, ref in built.manifest.projections.items()}
    assert {name: ref.digest for name, ref in manifest.projections.items()} == digests
    assert not list(again.root.parent.glob(".*"))


def test_a_backup_tells_what_it_holds_and_is_its_owners_alone(built: Built, kept: Path):
    told = backup.check_backup(kept)
    assert (told.tenant, told.mnemolog, told.made_at) == ("default", "1.2", NOW)
    assert (told.events, told.newest_at) == (
        built.log.head(),
        log_queries.time_of(built.log, built.log.head()),
    )
    assert [part.name for part in told.parts] == ["log.sqlite"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in kept.parent.iterdir()} == {"kept.zip", "home"}


def test_a_backup_has_segments_and_the_waiting_queue(log: EventLog, tenant: Tenant, home: Path):
    from store.log.event_kinds import Surfaced

    old = [Event(f"p{n:03}", NOW, Surfaced(place="tool", about=f"{n}"), "s") for n in range(150)]
    log.append(old)
    compaction.compact(log, log.head(), NOW + 91 * 86_400_000_000)
    queue = Queue(tenant.ingest)
    one = batch.make_batch("j1", NOW, [Draft(content="the tide comes at noon")])
    queue.accept("j1", NOW, one)
    queue.accept("j2", NOW, batch.make_batch("j2", NOW, [Draft(content="the moon is full")]))
    lease = queue.lease("me", NOW)
    assert lease is not None and queue.finish(lease, [], NOW)
    lease = queue.lease("me", NOW)
    path = tenant.root.parent.parent / "b.zip"
    told = backup.make_backup(tenant, path, "1", NOW).listing
    assert told.jobs == 1
    assert {part.name.partition("/")[0] for part in told.parts} == {
        "log.sqlite",
        "ingest.sqlite",
        "cold",
    }
    again = restored(home, path)
    with EventLog(again.log) as other:
        assert events(other) == events(log)
        assert integrity.problems(other) == []
    waiting = Queue(again.ingest)
    found = waiting.lease("another", NOW)
    assert found is not None and found.job.id == "j2" and len(found.left) == 1
    waiting.close()
    queue.close()


def test_a_backup_is_of_one_moment_while_others_write(
    log: EventLog, tenant: Tenant, tmp_path: Path
):
    stop = threading.Event()

    def write() -> None:
        number = 0
        with EventLog(tenant.log) as own:
            while not stop.is_set():
                number += 1
                commands.record_batch(
                    own,
                    [
                        Draft(id=f"a{number}-{copy}", content=f"note {number} {copy}")
                        for copy in range(3)
                    ],
                    NOW,
                )

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while log.head() < 30:
            pass
        told = [
            backup.make_backup(tenant, tmp_path / f"{n}.zip", "1", NOW).listing for n in range(4)
        ]
    finally:
        stop.set()
        writer.join()
    assert all(backup.events and backup.events % 3 == 0 for backup in told)  # no batch is cut
    assert [backup.events for backup in told] == sorted(backup.events for backup in told)
    assert backup.check_backup(tmp_path / "3.zip") == told[3]


def test_a_damaged_log_makes_no_backup(built: Built, tmp_path: Path):
    with raw(built.tenant.log) as connection:
        connection.execute("DROP TRIGGER events_keep_update")
        connection.execute(
            "UPDATE events SET body = replace(body, 'SQLite', 'sqlite') WHERE seq = 2"
        )
    with pytest.raises(MnemologError):
        backup.make_backup(built.tenant, tmp_path / "b.zip", "1", NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"home"}


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder here takes no file")
def test_an_unwritable_backup_folder_is_refused_at_once(built: Built):
    with pytest.raises(Conflict, match="/proc takes no file"):
        backup.make_backup(built.tenant, Path("/proc/kept.zip"), "1", NOW)


@pytest.mark.parametrize("name", ["pipe", "device", "folder", "missing/kept.zip"])
def test_a_backup_takes_no_place_but_a_new_files(built: Built, tmp_path: Path, name: str):
    if name == "pipe":
        os.mkfifo(tmp_path / name)
    elif name == "device":
        (tmp_path / name).symlink_to("/dev/full")
    else:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    if name == "folder":
        (tmp_path / name).mkdir()
    elif name.startswith("missing"):
        (tmp_path / name).parent.rmdir()
    before = sorted(tmp_path.rglob("*"))
    result = run("backup", "make", str(tmp_path / name))
    assert result.exit_code == 2 and str(tmp_path / name) in result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_no_file_and_no_tenant_is_ever_written_over(built: Built, kept: Path, home: Path):
    before = kept.read_bytes()
    with pytest.raises(Conflict, match="give a new file"):
        backup.make_backup(built.tenant, kept, "1", NOW)
    with pytest.raises(Conflict, match="there is a tenant default"):
        backup.restore_backup(Settings(home), kept, None, NOW, replace=False)
    with pytest.raises(InvalidName):
        backup.restore_backup(Settings(home), kept, "../x", NOW, replace=True)
    assert kept.read_bytes() == before
    assert events(built.log)


def test_a_tenant_that_is_replaced_is_put_away_whole(built: Built, kept: Path, home: Path):
    commands.record(built.log, Draft(content="said after the backup"), NOW)
    had = events(built.log)
    done = backup.restore_backup(Settings(home), kept, None, NOW, replace=True)
    assert done.replaced is not None
    with EventLog(Path(done.replaced) / "log.sqlite") as old, EventLog(built.tenant.log) as new:
        assert events(old) == had
        assert events(new) == had[:-1]
    assert not built.tenant.head.exists()  # no derived file comes along


def test_what_was_erased_since_is_erased_from_what_is_restored(
    built: Built, kept: Path, home: Path
):
    erasing.erase(built.log, ["m02", "m03"], NOW)
    done = backup.restore_backup(Settings(home), kept, None, NOW, replace=True)
    assert done.erased_again == 2
    data = b"".join(path.read_bytes() for path in built.tenant.root.rglob("*") if path.is_file())
    assert b"force-with-lease" not in data
    with EventLog(built.tenant.log) as log:
        assert integrity.problems(log) == []


def test_what_a_job_quoted_of_it_is_cut_out_of_what_is_restored(
    built: Built, home: Path, tmp_path: Path
):
    body = built.log.events_for("m02")[0].body
    built.log.append([Event("q1", NOW, Staled(reason=f"not so: {body.content}"), "m05")])
    backup.make_backup(built.tenant, tmp_path / "quoting.zip", "1.2", NOW)
    erasing.erase(built.log, ["m02"], NOW)
    backup.restore_backup(Settings(home), tmp_path / "quoting.zip", None, NOW, replace=True)
    data = b"".join(path.read_bytes() for path in built.tenant.root.rglob("*") if path.is_file())
    assert b"force-with-lease" not in data and not erase.has_start(built.tenant)


def test_what_a_restore_could_not_erase_again_is_left_for_the_doctor_to_name(
    built: Built, kept: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    erasing.erase(built.log, ["m02"], NOW)
    missed = ScanReport(found=(FileHit("log.sqlite", is_plain=True),))
    monkeypatch.setattr(backup, "scan", lambda *given: missed)
    backup.restore_backup(Settings(home), kept, None, NOW, replace=True)
    start = erase.load_starts(built.tenant)
    assert start is not None and start.ids == ("m02",)


KILLED = """
import os, sys
from pathlib import Path
from store.maintenance import backup
from store.home.config import Settings

home, kept, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
rename, done = os.rename, []

def killed(source, to):
    rename(source, to)
    done.append(to)
    if len(done) == last:
        os._exit(9)

os.rename = killed
backup.restore_backup(Settings(home), kept, None, 1_700_000_000_000_000, replace=True)
print(len(done))
"""


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_a_restore_that_is_killed_between_its_renames_leaves_the_old_or_the_new(
    built: Built, kept: Path, home: Path, renames: int
):
    commands.record(built.log, Draft(id="later", content="Written after the backup"), NOW)
    built.log.close()
    words = [sys.executable, "-P", "-c", KILLED, str(home), str(kept), str(renames)]
    assert subprocess.run(words, check=False).returncode == 9
    assert [other.name for other in tenants.list_tenants(home)] == ["default"]
    tenant = tenants.find_tenant(home)
    with EventLog(tenant.log) as log:
        assert bool(log.present_ids(["later"])) == (renames == 1) and integrity.problems(log) == []
    assert backup.restore_backup(Settings(home), kept, None, NOW, replace=True).listing.events
    assert [path.name for path in (home / "tenants").iterdir()] == ["default"]


def test_a_deleted_tenant_is_not_brought_back_by_a_restore_that_was_killed(
    built: Built, kept: Path, home: Path
):
    restored(home, kept, "other")
    left = tenants.tenant(home, "other")
    shutil.copytree(left.root, left.successor)
    tenants.delete_tenant(Settings(home), "other", NOW)
    assert not left.exists


def test_a_log_that_cannot_be_read_is_replaced_and_its_erasures_are_not_known(
    built: Built, kept: Path, home: Path
):
    built.log.close()
    built.tenant.log.write_bytes(b"no log at all" * 1000)
    assert backup.restore_backup(Settings(home), kept, None, NOW, replace=True).erased_again is None
    with EventLog(built.tenant.log) as log:
        assert integrity.problems(log) == []


def test_a_folder_that_has_lost_its_log_is_not_written_into(built: Built, kept: Path, home: Path):
    built.log.close()
    built.tenant.log.unlink()
    with pytest.raises(Conflict):
        backup.restore_backup(Settings(home), kept, None, NOW, replace=False)
    backup.restore_backup(Settings(home), kept, None, NOW, replace=True)
    assert not built.tenant.head.exists()


def test_what_a_killed_restore_left_is_swept_by_the_next(kept: Path, home: Path):
    left = home / "tenants" / ".backup-12345678"
    left.mkdir()
    (left / "log.sqlite").write_text("half")
    left.with_suffix(".lock").touch()
    restored(home, kept)
    assert not list((home / "tenants").glob(".backup-*"))


def test_a_log_that_says_what_it_lost_is_kept_and_restored(
    built: Built, tmp_path: Path, home: Path
):
    head = built.log.head()
    integrity.state_gap(built.log, Gap(head + 1, head + 3), NOW)
    commands.record(built.log, Draft(content="It goes on after them"), NOW)
    made = backup.make_backup(built.tenant, tmp_path / "lost.zip", "1.2", NOW)
    assert made.listing.events == log_queries.row_count(built.log) == head + 2
    with EventLog(restored(home, tmp_path / "lost.zip").log) as log:
        assert events(log) == events(built.log) and integrity.gaps(log) == integrity.gaps(built.log)


def test_a_disk_that_is_full_when_a_backup_is_unpacked_is_not_the_backups_fault(
    kept: Path, monkeypatch: pytest.MonkeyPatch
):
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(LogFull):
        backup.check_backup(kept)


def packed(path: Path, to: Path, **changes: object) -> Path:
    """Copy a backup with its listing changed, or its log changed by a function."""
    with zipfile.ZipFile(path) as old:
        held = {name: old.read(name) for name in old.namelist()}
    listing = json.loads(held["backup.json"])
    listing |= changes
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in held.items():
            new.writestr(name, json.dumps(listing) if name == "backup.json" else data)
    return to


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"events": 7}, {"jobs": 1}, {"parts": []}, {"tenant": 7}, {"more": 1}]
)
def test_a_list_that_is_not_that_of_the_file_is_refused(kept: Path, home: Path, change, tmp_path):
    with pytest.raises(SourceError):
        restored(home, packed(kept, tmp_path / "changed.zip", **change))
    assert [tenant.name for tenant in tenants.list_tenants(home)] == ["default"]


@pytest.fixture
def forged(built: Built, tmp_path: Path) -> Tenant:
    """A tenant's folder for making a backup that bypasses every check."""
    folder = tmp_path / "forged"
    folder.mkdir()
    backup.copy_log(built.tenant.log, folder / "log.sqlite")
    return Tenant("default", folder)


def forge(forged: Tenant, *statements: str) -> Path:
    connection = raw(forged.log)
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()  # so nothing is left in the write-ahead log
    path = forged.root.with_name("forged.zip")
    listing = Listing(
        mnemolog="1",
        tenant="x",
        made_at=NOW,
        events=0,
        newest_at=0,
        jobs=0,
        parts=backup_file.parts_of(forged.root),
    )
    backup_file.pack(path, forged.root, listing)
    return path


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM segments; END", "never made"),
        ("CREATE VIEW v AS SELECT 1", "never made"),
        ("CREATE TABLE other (x)", "never made"),
        ("DROP TRIGGER events_keep_delete", "has no events_keep_delete"),
        ("PRAGMA application_id = 7", "another program's"),
        ("PRAGMA user_version = 99", "newer mnemolog"),
        ("INSERT INTO segments VALUES ('../../x', 1, 2, 3, 4, 'y')", "is missing"),
    ],
)
def test_a_log_that_mnemolog_would_not_have_made_is_refused(forged, home: Path, statement, said):
    with pytest.raises(SourceError, match=said):
        restored(home, forge(forged, statement))
    assert [tenant.name for tenant in tenants.list_tenants(home)] == ["default"]


def test_a_log_of_an_earlier_mnemolog_is_restored_and_brought_up_to_date(
    forged: Tenant, home: Path
):
    make_older(forged.log)
    path = forge(
        forged, "DROP INDEX events_by_kind", "DROP TABLE segments", "PRAGMA user_version = 3"
    )
    with EventLog(forged.log) as log:  # counted after packing: this opens it as a new log
        told = {"events": log.head(), "newest_at": max(event.at for event in log.read())}
    again = restored(home, packed(path, path.with_name("older.zip"), **told))
    with EventLog(again.log) as log:
        assert integrity.problems(log) == []


def test_a_log_that_packs_too_tight_is_stored_as_it_is(log: EventLog, tenant: Tenant, home: Path):
    commands.record_batch(log, [Draft(content="a" * 60_000 + str(n)) for n in range(80)], NOW)
    path = home / "tight.zip"
    made = backup.make_backup(tenant, path, "1", NOW)
    assert made.bytes > sum(part.bytes for part in made.listing.parts)
    restored(home, path)


def test_the_command_makes_checks_and_restores(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    begun: list[str] = []

    def build(settings: Settings, *words: str, quiet: bool) -> int:
        begun.append(settings.choices.tenant)
        return 0

    monkeypatch.setattr(processes, "build", build)
    path = str(tmp_path / "b.zip")
    assert "events" in run("backup", "make", path).stdout
    assert json.loads(run("backup", "check", path, "--json").stdout)["ok"]
    result = succeed("backup", "restore", path, "--into", "again", "--json")
    assert json.loads(result.stdout)["tenant"] == "again"
    assert begun == ["again"]
    succeed("--tenant", "again", "status")
    assert run("backup", "make", path).exit_code == 2
    assert "holds no replica" in run("backup", "check", str(tmp_path)).stderr


def test_nothing_is_replaced_under_a_server(built: Built, kept: Path, home: Path):
    with sole(Settings(home)):
        refused = run("backup", "restore", str(kept), "--replace")
    assert refused.exit_code == 2
    assert "server" in refused.stderr
    assert events(built.log)
