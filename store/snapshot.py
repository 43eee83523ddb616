"""
A snapshot: one projection's tables frozen on disk, immutable, fsynced and hashed.

Arrow IPC for what the server maps, Lance for what the jobs query. Neither writer calls fsync and
neither notices a flipped bit, so both are done here: a snapshot is written into a temporary folder,
every file is fsynced and hashed, the folder is renamed into place and its parent fsynced. Who reads
one checks its files against the manifest's hashes first.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.ipc

from store.errors import SnapshotDamaged
from store.files import make_folder, sync_folder, sync_tree
from store.projection import Projection, Tables, digest

_CHUNK = 4 << 20


class FileMark(msgspec.Struct, frozen=True):
    """What a file was when it was written."""

    bytes: int
    sha256: str


class SnapshotRef(msgspec.Struct, frozen=True):
    """Where a snapshot lies and what it holds, as the manifest says it.

    `inputs` says what it was made from: the log's watermark, other projections' digests. `path` is
    relative to the tenant's snapshots folder; `files` is by path inside the snapshot.
    """

    projection: str
    version: str
    watermark: int
    digest: str
    path: str
    inputs: Mapping[str, str]
    rows: Mapping[str, int]
    files: Mapping[str, FileMark]
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(mark.bytes for mark in self.files.values())

    @property
    def missing(self) -> int:
        """How many rows it lacks, because what makes them did not answer; its table lists them."""
        return self.rows.get("missing", 0)


def write(
    root: Path,
    projection: Projection,
    watermark: int,
    inputs: Mapping[str, str],
    tables: Tables,
    seconds: float,
) -> SnapshotRef:
    """Freeze tables under `root`; return the reference that a manifest keeps.

    It always takes a new folder: one that an older manifest names may be mapped, or damaged.
    """
    rows_digest = digest(tables)
    name = _free_name(root, f"{projection.name}/{watermark:012d}-{rows_digest[:16]}")
    temporary = root / f"{projection.name}/.new-{uuid4().hex[:8]}"
    make_folder(temporary)
    try:
        for table_name, table in tables.items():
            if table_name in projection.lance:
                _write_lance(temporary, table_name, table)
            else:
                _write_arrow(temporary / f"{table_name}.arrow", table)
        ref = SnapshotRef(
            projection=projection.name,
            version=projection.version,
            watermark=watermark,
            inputs=inputs,
            digest=rows_digest,
            path=name,
            rows={table_name: table.num_rows for table_name, table in tables.items()},
            files={path: _mark(temporary / path) for path in _files(temporary)},
            seconds=round(seconds, 3),
        )
        sync_tree(temporary)
        os.replace(temporary, root / name)
        sync_folder((root / name).parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return ref


def read(root: Path, ref: SnapshotRef, projection: Projection, *, check: bool = True) -> Tables:
    """Return a snapshot's tables, each checked and opened when first asked for, Arrow ones mapped.

    Asking for a table raises SnapshotDamaged, naming the file, where it is not what was written.
    """
    return _Stored(root / ref.path, projection, ref.files if check else {})


class _Stored(Mapping[str, pa.Table]):
    """The tables of a snapshot; a Lance one nobody asks for costs no import of lancedb."""

    def __init__(self, folder: Path, projection: Projection, files: Mapping[str, FileMark]) -> None:
        self._folder, self._projection, self._files = folder, projection, files
        self._opened: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._opened:
            if name not in self._projection.schemas:
                raise KeyError(name)
            is_lance = name in self._projection.lance
            start = f"{name}.lance/" if is_lance else f"{name}.arrow"
            own = {path: mark for path, mark in self._files.items() if path.startswith(start)}
            _check(self._folder, own)
            self._opened[name] = (read_lance if is_lance else read_arrow)(self._folder, name)
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._projection.schemas)

    def __len__(self) -> int:
        return len(self._projection.schemas)


def read_arrow(folder: Path, name: str) -> pa.Table:
    """Return a table whose columns point into the mapped file; nothing is copied."""
    path = folder / f"{name}.arrow"
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise SnapshotDamaged(f"{path}: {error}") from error


def read_lance(folder: Path, name: str) -> pa.Table:
    """Return a Lance table in memory, in the order it was written."""
    import lancedb  # jobs only: costs 1.6 CPU seconds

    try:
        return lancedb.connect(folder).open_table(name).to_arrow()
    except (ValueError, OSError, RuntimeError) as error:
        raise SnapshotDamaged(f"{folder / name}.lance: {error}") from error


def verify(root: Path, ref: SnapshotRef) -> None:
    """Check every file's length and hash; raise SnapshotDamaged at the first that differs."""
    _check(root / ref.path, ref.files)


def _check(folder: Path, files: Mapping[str, FileMark]) -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:  # hashing releases the interpreter's lock
        problems = list(pool.map(lambda item: _problem(folder, *item), files.items()))
    if found := [problem for problem in problems if problem]:
        raise SnapshotDamaged(f"{found[0]}: `mnemolog build` mends it")


def _problem(folder: Path, name: str, mark: FileMark) -> str | None:
    path = folder / name
    try:
        size = path.stat().st_size
        if size != mark.bytes:
            return f"{path} has {size} bytes, not {mark.bytes}"
        return None if _mark(path) == mark else f"{path} does not match its hash"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"


def _mark(path: Path) -> FileMark:
    total, size = sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
            size += len(chunk)
    return FileMark(size, total.hexdigest())


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _write_arrow(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _write_lance(folder: Path, name: str, table: pa.Table) -> None:
    import lancedb  # jobs only: costs 1.6 CPU seconds

    lancedb.connect(folder).create_table(name, table)


def _free_name(root: Path, name: str) -> str:
    return name if not (root / name).exists() else f"{name}-{uuid4().hex[:4]}"
