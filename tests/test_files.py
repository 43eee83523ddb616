"""Files made, written or deleted stay so after a power cut: each change is synced to disk."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from serve.reader.past import memory_at
from store.home.files import (
    is_gone,
    make_folder,
    remove_files,
    replace_file,
    temporary_folder,
)
from store.home.tenant import Tenant
from store.log import log_file, segments
from store.log.event_log import EventLog
from store.maintenance import erase, erase_receipt, memory_archive

NOW = 1_790_000_000_000_000
WasSynced = Callable[[Path], bool]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows cannot open a folder")


@pytest.fixture
def was_synced(monkeypatch: pytest.MonkeyPatch) -> WasSynced:
    """Return a function that tells whether a path was fsynced since."""
    found: list[os.stat_result] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        found.append(os.fstat(descriptor))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return lambda path: any(os.path.samestat(path.stat(), status) for status in found)


def test_a_new_folder_is_brought_to_the_disk_in_the_one_above(
    tmp_path: Path, was_synced: WasSynced
):
    make_folder(tmp_path / "a" / "b" / "c")
    assert all(map(was_synced, (tmp_path, tmp_path / "a", tmp_path / "a" / "b")))


def test_a_folder_that_is_there_costs_nothing(tmp_path: Path, was_synced: WasSynced):
    make_folder(tmp_path)
    assert not was_synced(tmp_path.parent)


def test_a_new_log_brings_to_the_disk_the_folders_that_others_made(
    tenant: Tenant, was_synced: WasSynced
):
    tenant.root.mkdir(parents=True)  # by a process that was killed before the sync
    with EventLog(tenant.log, create=True):
        assert all(map(was_synced, tenant.root.parents[:4]))


def test_a_log_that_is_there_costs_nothing(log: EventLog, was_synced: WasSynced):
    with EventLog(log.path, create=True):
        assert not was_synced(log.path.parent)


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path: Path, was_synced: WasSynced):
    replace_file(tmp_path / "one", b"1")
    assert was_synced(tmp_path / "one") and was_synced(tmp_path)


def test_what_is_deleted_does_not_come_back(tmp_path: Path, was_synced: WasSynced):
    (tmp_path / "one").write_bytes(b"1")
    remove_files([tmp_path / "one", tmp_path / "never"])
    assert was_synced(tmp_path) and not list(tmp_path.iterdir())


def test_what_an_erasing_deletes_does_not_come_back(built, was_synced: WasSynced):
    tenant, log = built.tenant, built.log
    with erase.lock_out_jobs(tenant):
        wiped = erase.wipe(tenant, log, erase.EraseRequest(("m01",)), NOW)
        built.rebuild()
        erase.drop_derived_files(tenant)
        erase_receipt.make_receipt(tenant.root.parents[1], tenant, wiped, "somebody", NOW, set())
    folders = [path for path in tenant.root.parents[1].rglob("*") if path.is_dir()]
    assert len(folders) > 15 and all(map(was_synced, folders))


def test_what_is_cold_or_put_away_is_deleted_for_good(built, was_synced: WasSynced):
    cold = built.tenant.cold
    left = [cold / "log" / "old", cold / "memories" / "old.parquet"]
    for path in left:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"1")
    segments.sweep(cold / "log", [])
    memory_archive.drop(built.tenant)
    assert all(was_synced(path.parent) and not path.exists() for path in left)


def test_what_was_settled_does_not_come_back(built, was_synced: WasSynced):
    ahead = built.log.path.with_name("log.sqlite-wal")
    assert built.log.settle()
    assert was_synced(ahead) and not ahead.stat().st_size


def test_a_segments_folders_are_on_the_disk_before_the_log_names_it(built, was_synced: WasSynced):
    folder = segments.folder_of(built.log.path)
    folder.mkdir(parents=True)  # by a process that was killed before the sync
    segments.write(folder, built.log.select_rows("seq <= ?", (3,)))
    assert all(map(was_synced, (folder, built.tenant.cold, built.tenant.root)))


def test_an_append_costs_one_fsync_and_no_more_for_all_this(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    from store.log.commands import Draft, record

    def refused(*given: object) -> None:
        raise AssertionError("an append fsyncs nothing but what SQLite does")

    record(log, Draft(content="zero"), 1)  # the first event of a home also creates its id
    monkeypatch.setattr(os, "fsync", refused)
    monkeypatch.setattr(log_file, "sync_path", refused)
    record(log, Draft(content="one"), 1)


def test_a_file_that_may_not_be_looked_at_is_not_gone(tmp_path: Path):
    there = tmp_path / "a"
    there.touch()
    assert not is_gone(there)
    assert is_gone(tmp_path / "b") and is_gone(there / "below")
    assert not is_gone(tmp_path / ("x" * 300))  # also refused to root, like others' folders to us


def test_a_fold_of_the_past_waits_for_no_disk_and_the_next_build_does(
    built, monkeypatch: pytest.MonkeyPatch
):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with memory_at(built.log, built.embedder, 10) as reader:
        assert len(reader.answer(lambda view: view.snapshots.rows)) == 10
    assert not synced
    built.rebuild(full=True)
    assert synced


def test_a_temporary_folder_of_a_killed_process_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make = (
        "import os, sys, tempfile; from store.home.files import temporary_folder;"
        "tempfile.tempdir = sys.argv[1]; given = temporary_folder('past');"
        "(given.__enter__() / 'part').write_text('x'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", make, tmp_path]).returncode == 9
    (killed,) = tmp_path.iterdir()
    with temporary_folder("past") as held:
        assert killed.is_dir()  # too young: its process may be about to lock it
        for path in (killed, held):
            os.utime(path, (1, 1))
        with temporary_folder("past"):
            assert held.is_dir() and not killed.exists()
    assert list(tmp_path.iterdir()) == []
