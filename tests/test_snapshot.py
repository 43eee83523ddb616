"""A part is complete or absent, and any damage to it is reported by name."""

import os
import stat
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from store.home.errors import SnapshotDamaged
from store.home.files import replace_file
from store.snapshots import snapshot
from store.snapshots.projection import Built, Part, Projection, digest
from store.snapshots.snapshot import SnapshotRef, glance, keep, read, verify, write

SCHEMAS = {
    "words": pa.schema([("word", pa.string()), ("count", pa.int32())]),
    "vectors": pa.schema([("vector", pa.list_(pa.float32(), 2))]),
}
THINGS = Projection("things", "1", (), SCHEMAS, lambda inputs, previous: TABLES)
TABLES = {
    "words": pa.table({"word": ["a", "b", "c"], "count": [1, 2, 3]}, schema=SCHEMAS["words"]),
    "vectors": pa.table({"vector": [[0.5, 1.0], [2.0, 3.0]]}, schema=SCHEMAS["vectors"]),
}
# the first two words are one part, the third another
BUILT = Built(
    SCHEMAS,
    {
        "words": [Part.of(TABLES["words"][:2]), Part.of(TABLES["words"][2:])],
        "vectors": [Part.of(TABLES["vectors"])],
    },
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


@pytest.fixture
def ref(root: Path) -> SnapshotRef:
    return write(root, THINGS, 7, {"log": "7"}, BUILT, 0.25)[0]


def test_tables_come_back_as_they_went(root: Path, ref: SnapshotRef):
    tables = read(root, ref, THINGS)
    assert digest(tables) == ref.digest == digest(BUILT)
    assert {name: table.schema for name, table in tables.items()} == SCHEMAS
    assert all(tables[name].equals(TABLES[name]) for name in SCHEMAS)
    assert dict(ref.rows) == tables.rows == {"words": 3, "vectors": 2}
    assert tables["words"].column("word").num_chunks == 2


def test_a_digest_knows_where_parts_end(ref: SnapshotRef):
    assert digest(TABLES) == digest(Built(SCHEMAS, {n: [Part.of(t)] for n, t in TABLES.items()}))
    assert digest(TABLES) != ref.digest


def test_every_file_is_named_after_its_table_and_rows_with_its_size(root: Path, ref: SnapshotRef):
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert there == {file.path for file in ref.files} and len(there) == 3
    for name, parts in ref.parts.items():
        for file in parts:
            assert file.path == f"things/{name}-{file.digest[:16]}.arrow"
            assert file.bytes == (root / file.path).stat().st_size


def test_every_file_is_its_owners_alone_from_the_first(root: Path, ref: SnapshotRef):
    for path in (root, *root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_part_that_lies_there_is_named_and_not_written_again(root: Path, ref: SnapshotRef):
    before = read(root, ref, THINGS)
    more = pa.table({"word": ["d"], "count": [4]}, schema=SCHEMAS["words"])
    words = [before.parts["words"][0], Part.of(more)]
    after, _ = write(root, THINGS, 8, {}, Built(SCHEMAS, {**before.parts, "words": words}), 0.0)
    assert after.parts["words"][0] == ref.parts["words"][0]
    assert after.parts["vectors"] == ref.parts["vectors"]
    assert sum(path.is_file() for path in root.rglob("*")) == 4
    assert read(root, after, THINGS)["words"].column("word").to_pylist() == ["a", "b", "d"]


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
    for number in range(3):
        ref, _ = write(root, THINGS, 7, {}, BUILT, 0.0)
        path = root / ref.files[number].path
        DAMAGES[damage](path)
        for look in (verify, glance):
            with pytest.raises(SnapshotDamaged, match="mnemolog build") as caught:
                look(root, ref)
            assert str(path) in str(caught.value)
        (damaged,) = (name for name, parts in ref.parts.items() if ref.files[number] in parts)
        with pytest.raises(SnapshotDamaged, match="mnemolog build") as caught:
            read(root, ref, THINGS)[damaged]
        assert str(path) in str(caught.value)
        for sound in SCHEMAS.keys() - {damaged}:
            assert read(root, ref, THINGS)[sound].equals(TABLES[sound])


def test_a_glance_hashes_only_what_was_written_to(root: Path, ref: SnapshotRef):
    path = root / ref.files[0].path
    os.utime(path, ns=(1, 1))
    glance(root, ref)  # touched or copied, but unchanged
    flip(path)
    os.utime(path, ns=(ref.files[0].modified, ref.files[0].modified))
    glance(root, ref)  # damage by the disk itself is for `verify`
    with pytest.raises(SnapshotDamaged, match="hash"):
        verify(root, ref)


def test_a_folder_that_is_gone_is_noticed(root: Path, ref: SnapshotRef):
    (root / "things").rename(root / "elsewhere")
    with pytest.raises(SnapshotDamaged, match=ref.files[0].path):
        verify(root, ref)


def test_bytes_that_are_no_arrow_are_damaged_even_unchecked(root: Path, ref: SnapshotRef):
    path = root / ref.parts["words"][0].path
    path.write_bytes(b"not an Arrow file")
    with pytest.raises(SnapshotDamaged, match=path.name):
        read(root, ref, THINGS, check=False)["words"]


def test_the_same_rows_again_take_files_of_their_own(root: Path, ref: SnapshotRef):
    again, _ = write(root, THINGS, 7, {"log": "7"}, BUILT, 0.25)
    assert again.digest == ref.digest
    assert {file.path for file in again.files}.isdisjoint(file.path for file in ref.files)
    verify(root, ref)
    verify(root, again)


def test_a_part_of_another_schema_is_refused(root: Path):
    with pytest.raises(TypeError, match=r"things\.words has schema"):
        keep(root, THINGS, "words", pa.table({"word": ["a"]}))
    assert not root.exists()


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_failure_before_the_rename_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    def fail(*arguments: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="the disk is gone"):
        write(root, THINGS, 7, {}, BUILT, 0.0)
    assert [path for path in root.rglob("*") if path.is_file()] == []


KILLED = """
import os, sys
from pathlib import Path
import pyarrow as pa
from store.snapshots import snapshot
from store.snapshots.projection import Projection

schema = pa.schema([("a", pa.int64())])
one = Projection("things", "1", (), {"t": schema}, lambda inputs, previous: {})
os.replace = lambda *paths: os.kill(os.getpid(), 9)
snapshot.keep(Path(sys.argv[1]), one, "t", pa.table({"a": [1]}, schema=schema))
"""


def test_a_kill_before_the_rename_leaves_nothing_visible(root: Path, child):
    process = child(KILLED, root)
    process.communicate()
    assert process.returncode == -9
    names = [path.name for path in (root / "things").iterdir()]
    assert len(names) == 1 and names[0].startswith(".new-")
    verify(root, write(root, THINGS, 7, {}, BUILT, 0.0)[0])


def test_a_reference_comes_back_from_json(ref: SnapshotRef):
    assert msgspec.json.decode(msgspec.json.encode(ref), type=SnapshotRef) == ref


def test_a_small_file_is_replaced_whole_and_private(tmp_path: Path):
    path = tmp_path / "folder" / "HEAD"
    for data in (b"one", b"two"):
        replace_file(path, data)
        assert path.read_bytes() == data
    assert [other.name for other in path.parent.iterdir()] == ["HEAD"]
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
    assert [other.name for other in tmp_path.iterdir()] == ["HEAD"]


def test_a_table_is_mapped_and_not_copied(root: Path, ref: SnapshotRef):
    before = pa.total_allocated_bytes()
    table = read(root, ref, THINGS)["words"]
    assert pa.total_allocated_bytes() == before and table.num_rows == 3
