"""The live snapshots equal a rebuild from the log, and the first row that differs is named."""

import tempfile
import time
from hashlib import sha256
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.ipc
import pytest

from store.derived import catalog
from store.embedders.lexical import LexicalEmbedder
from store.home.files import replace_file
from store.home.tenant import Tenant, tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build
from store.maintenance.verify import first_difference, verify
from store.snapshots import manifest, snapshot
from store.snapshots.manifest import Manifest

EMBEDDER = LexicalEmbedder()


@pytest.fixture
def log(tmp_path: Path):
    with EventLog(tenant(tmp_path).log, create=True) as log:
        for number in range(5):
            draft = Draft(id=f"m{number}", content=f"Memory number {number} of a few", kind="fact")
            commands.record(log, draft, time.time_ns() // 1000)
        yield log


@pytest.fixture
def built(tmp_path: Path, log: EventLog) -> Tenant:
    build.rebuild(tenant(tmp_path), log, EMBEDDER, time.time_ns() // 1000)
    return tenant(tmp_path)


def forge(
    tenant: Tenant, name: str, table_name: str, table: pa.Table, digest: str | None = None
) -> None:
    """Replace a table in a snapshot, and its hash in the manifest and HEAD."""
    live = manifest.current(tenant)
    ref = live.projections[name]
    projection = next(other for other in catalog.all_projections(EMBEDDER) if other.name == name)
    part = snapshot.keep(tenant.snapshots, projection, table_name, table)
    named = msgspec.structs.replace(part.file, digest=digest or part.digest)
    parts = dict(ref.parts) | {table_name: (named,)}
    forged = dict(live.projections) | {name: msgspec.structs.replace(ref, parts=parts)}
    point_head_at(tenant, msgspec.structs.replace(live, projections=forged))


def point_head_at(tenant: Tenant, forged: Manifest) -> None:
    data = msgspec.json.encode(forged)
    replace_file(tenant.manifests / f"{forged.number:08d}.json", data)
    head = {"number": forged.number, "sha256": sha256(data).hexdigest()}
    replace_file(tenant.head, msgspec.json.encode(head))


def live_table(tenant: Tenant, name: str, table: str) -> pa.Table:
    ref = manifest.current(tenant).projections[name]
    projection = next(other for other in catalog.all_projections(EMBEDDER) if other.name == name)
    return snapshot.read(tenant.snapshots, ref, projection)[table]


def test_what_was_just_built_is_what_the_log_gives(built, log):
    report = verify(built, log, EMBEDDER)
    assert report.ok
    assert [projection.projection for projection in report.projections if projection.ok] == list(
        manifest.current(built).projections
    )


def test_events_after_the_build_do_not_matter(built, log):
    commands.forget(log, "m1", time.time_ns() // 1000)
    assert verify(built, log, EMBEDDER).ok


def test_before_the_first_build_the_log_alone_is_checked(tmp_path, log):
    report = verify(tenant(tmp_path), log, EMBEDDER)
    assert report.ok
    assert (report.manifest, report.projections) == (None, ())


def test_a_row_changed_behind_the_hashes_is_named(built, log):
    table = live_table(built, "memories", "memories")
    contents = table.column("content").to_pylist()
    contents[3] = "Something nobody said"
    place = table.column_names.index("content")
    forge(built, "memories", "memories", table.set_column(place, "content", pa.array(contents)))
    report = verify(built, log, EMBEDDER)
    (wrong,) = [projection for projection in report.projections if not projection.ok]
    difference = wrong.difference
    assert (wrong.projection, difference.table, difference.row) == ("memories", "memories", 3)
    assert (difference.column, difference.live) == ("content", "Something nobody said")
    assert difference.rebuilt == "Memory number 3 of a few"


def test_a_row_changed_behind_the_digests_too_is_named(built, log):
    table = live_table(built, "memories", "memories")
    place = table.column_names.index("content")
    other = table.set_column(place, "content", pa.array(["Nobody said so"] * 5))
    (file,) = manifest.current(built).projections["memories"].parts["memories"]
    forge(built, "memories", "memories", other, file.digest)
    (wrong,) = [
        projection for projection in verify(built, log, EMBEDDER).projections if not projection.ok
    ]
    assert (wrong.difference.row, wrong.difference.live) == (0, "Nobody said so")


def test_what_was_built_to_compare_is_gone_afterwards(built, log, tmp_path, monkeypatch):
    passing = tmp_path / "passing"
    passing.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(passing))
    progress: list[int] = []
    verify(
        built,
        log,
        EMBEDDER,
        on_progress=lambda _: progress.append(len([*passing.rglob("*.arrow")])),
    )
    assert max(progress) > len(catalog.all_projections(EMBEDDER))
    assert not [*passing.iterdir()]


def test_a_row_left_out_behind_the_hashes_is_named(built, log):
    table = live_table(built, "memories", "memories")
    forge(built, "memories", "memories", table.slice(0, 4))
    (wrong,) = [
        projection for projection in verify(built, log, EMBEDDER).projections if not projection.ok
    ]
    assert (wrong.difference.row, wrong.difference.live) == (4, "no row")


def test_a_flipped_byte_is_found_by_its_hash(built, log):
    path = next(built.snapshots.glob("postings/postings-*.arrow"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    (wrong,) = [
        projection for projection in verify(built, log, EMBEDDER).projections if not projection.ok
    ]
    assert wrong.projection == "postings"
    assert "hash" in wrong.detail


def test_a_changed_event_is_a_problem_of_the_log(built, log):
    log._connections.writer.execute("DROP TRIGGER events_keep_update")
    log._connections.writer.execute(
        "UPDATE events SET body = replace(body, 'few', 'lot') WHERE seq = 2"
    )
    report = verify(built, log, EMBEDDER)
    assert not report.ok
    assert "event 2" in report.problems[0]
    assert report.projections == ()


def test_a_log_shorter_than_what_was_built_is_a_problem(built, log):
    ahead = msgspec.structs.replace(manifest.current(built), watermark=99)
    point_head_at(built, ahead)
    assert "99" in verify(built, log, EMBEDDER).problems[0]


def test_a_damaged_head_is_a_problem(built, log):
    built.head.write_text("{")
    assert not verify(built, log, EMBEDDER).ok


def test_the_first_difference_is_by_row_and_then_by_column():
    tables = {"t": pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})}
    other = {"t": pa.table({"a": [1, 2, 4], "b": ["x", "q", "z"]})}
    difference = first_difference(tables, other)
    assert (difference.row, difference.column, difference.live, difference.rebuilt) == (
        1,
        "b",
        "y",
        "q",
    )
    assert first_difference(tables, tables) is None


def test_not_a_number_equals_itself():
    tables = {"t": pa.table({"a": [float("nan"), 1.0]})}
    assert first_difference(tables, {"t": pa.table({"a": [float("nan"), 1.0]})}) is None
