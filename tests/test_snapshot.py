"""A snapshot is whole or it is not there, and whatever happened to it is noticed by name."""

import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from store import snapshot
from store.errors import SnapshotDamaged
from store.files import replace_file
from store.projection import Projection, digest
from store.snapshot import SnapshotRef, read, verify, write

SCHEMAS = {
    "words": pa.schema([("word", pa.string()), ("count", pa.int32())]),
    "vectors": pa.schema([("vector", pa.list_(pa.float32(), 2))]),
}
THINGS = Projection(
    "things", "1", (), SCHEMAS, lambda inputs, previous: TABLES, frozenset({"vectors"})
)
TABLES = {
    "words": pa.table({"word": ["a", "b"], "count": [1, 2]}, schema=SCHEMAS["words"]),
    "vectors": pa.table({"vector": [[0.5, 1.0], [2.0, 3.0]]}, schema=SCHEMAS["vectors"]),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


@pytest.fixture
def ref(root: Path) -> SnapshotRef:
    return write(root, THINGS, 7, {"log": "7"}, TABLES, 0.25)


def test_tables_come_back_as_they_went(root: Path, ref: SnapshotRef):
    tables = read(root, ref, THINGS)
    assert digest(tables) == ref.digest == digest(TABLES)
    assert {name: table.schema for name, table in tables.items()} == SCHEMAS
    assert dict(ref.rows) == {"words": 2, "vectors": 2}


def test_the_path_says_watermark_and_digest(ref: SnapshotRef):
    assert ref.path == f"things/000000000007-{ref.digest[:16]}"


def test_every_file_is_named_with_its_size(root: Path, ref: SnapshotRef):
    there = [path for path in (root / ref.path).rglob("*") if path.is_file()]
    assert len(there) == len(ref.files) > 3  # Lance writes several
    assert ref.bytes == sum(path.stat().st_size for path in there)


DAMAGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "one bit flipped": lambda path: flip(path),
    "missing": lambda path: path.unlink(),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_file_is_noticed_and_the_file_named(root: Path, damage: str):
    for name in write(root, THINGS, 7, {}, TABLES, 0.0).files:
        ref = write(root, THINGS, 7, {}, TABLES, 0.0)  # Lance names its files anew each time
        kind = Path(name).suffix
        path = next(root / ref.path / one for one in ref.files if Path(one).suffix == kind)
        DAMAGES[damage](path)
        damaged = path.relative_to(root / ref.path).parts[0].partition(".")[0]
        with pytest.raises(SnapshotDamaged, match="mnemolog build"):
            verify(root, ref)
        with pytest.raises(SnapshotDamaged, match="mnemolog build") as caught:
            read(root, ref, THINGS)[damaged]
        assert str(path) in str(caught.value)
        for sound in SCHEMAS.keys() - {damaged}:
            assert read(root, ref, THINGS)[sound].equals(TABLES[sound])


def test_a_whole_snapshot_that_is_gone_is_noticed(root: Path, ref: SnapshotRef):
    (root / ref.path).rename(root / "elsewhere")
    with pytest.raises(SnapshotDamaged, match=ref.path):
        verify(root, ref)


def test_bytes_that_are_no_arrow_are_damaged_even_unchecked(root: Path, ref: SnapshotRef):
    path = root / ref.path / "words.arrow"
    path.write_bytes(b"not an Arrow file")
    with pytest.raises(SnapshotDamaged, match=r"words\.arrow"):
        read(root, ref, THINGS, check=False)["words"]


def test_the_same_rows_again_take_a_folder_of_their_own(root: Path, ref: SnapshotRef):
    again = write(root, THINGS, 7, {"log": "7"}, TABLES, 0.25)
    assert again.path != ref.path and again.digest == ref.digest
    verify(root, ref)
    verify(root, again)


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_failure_before_the_rename_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    def fail(*arguments: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="the disk is gone"):
        write(root, THINGS, 7, {}, TABLES, 0.0)
    assert list((root / "things").iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
import pyarrow as pa
from store import snapshot
from store.projection import Projection

schema = pa.schema([("a", pa.int64())])
one = Projection("things", "1", (), {"t": schema}, lambda inputs, previous: {})
os.replace = lambda *paths: os.kill(os.getpid(), 9)
snapshot.write(Path(sys.argv[1]), one, 7, {}, {"t": pa.table({"a": [1]}, schema=schema)}, 0.0)
"""


def test_a_kill_before_the_rename_leaves_nothing_visible(root: Path, child):
    process = child(KILLED, root)
    process.communicate()
    assert process.returncode == -9
    left = [path.name for path in (root / "things").iterdir()]
    assert len(left) == 1 and left[0].startswith(".new-")
    assert write(root, THINGS, 7, {}, TABLES, 0.0).path.startswith("things/000000000007-")


def test_a_small_file_is_replaced_whole_and_private(tmp_path: Path):
    path = tmp_path / "folder" / "HEAD"
    for data in (b"one", b"two"):
        replace_file(path, data)
        assert path.read_bytes() == data
    assert [one.name for one in path.parent.iterdir()] == ["HEAD"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_failed_replacement_keeps_the_old_file(tmp_path: Path, monkeypatch):
    replace_file(path := tmp_path / "HEAD", b"one")

    def fail(*arguments: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(snapshot.os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        replace_file(path, b"two")
    assert path.read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["HEAD"]


def test_a_table_is_mapped_and_not_copied(root: Path, ref: SnapshotRef):
    before = pa.total_allocated_bytes()
    table = snapshot.read_arrow(root / ref.path, "words")
    assert pa.total_allocated_bytes() == before and table.num_rows == 2
