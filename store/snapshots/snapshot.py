"""
A snapshot: one projection's tables frozen on disk, in immutable files that are fsynced and hashed.

Each part of a table is an Arrow IPC file of its own, which the snapshots of several builds may
share. A file is written under a temporary name, fsynced and renamed; a snapshot's reference names
its files and is itself no file, so only files named by a manifest are ever read. A flipped bit goes
unnoticed by the layers below: every file is hashed when it is written, and again by callers that
must be sure.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.ipc

from store.home.errors import SnapshotDamaged
from store.home.files import make_folder, sync_folder, sync_written, temporary_name
from store.log.segments import hash_of
from store.snapshots.projection import Built, Count, Part, PartFile, Projection, digest

_CHUNK = 4 << 20


class SnapshotRef(msgspec.Struct, frozen=True):
    """A snapshot's files and contents, as recorded in the manifest.

    `inputs` are its sources: the log's watermark, other projections' digests. `parts` are by table.
    """

    projection: str
    version: str
    watermark: Count
    digest: str
    inputs: Mapping[str, str]
    parts: Mapping[str, tuple[PartFile, ...]]
    seconds: float = 0.0

    @property
    def files(self) -> tuple[PartFile, ...]:
        return tuple(file for parts in self.parts.values() for file in parts)

    @property
    def rows(self) -> dict[str, int]:
        return {name: sum(file.rows for file in parts) for name, parts in self.parts.items()}

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def missing(self) -> int:
        """The number of rows it lacks because their model did not answer; its table lists them."""
        return self.rows.get("missing", 0)


def write(
    root: Path,
    projection: Projection,
    watermark: int,
    inputs: Mapping[str, str],
    tables: Built,
    seconds: float,
) -> tuple[SnapshotRef, Built]:
    """Freeze tables under `root`; return the reference for the manifest, and the stored tables.

    Parts that are already stored are only referenced.
    """
    lying = {
        name: [part if part.file else keep(root, projection, name, part.table) for part in parts]
        for name, parts in tables.parts.items()
    }
    ref = SnapshotRef(
        projection=projection.name,
        version=projection.version,
        watermark=watermark,
        inputs=inputs,
        digest=digest(tables),
        parts={name: tuple(_file(part) for part in parts) for name, parts in lying.items()},
        seconds=round(seconds, 3),
    )
    return ref, Built(projection.schemas, lying)


def keep(root: Path, projection: Projection, name: str, table: pa.Table) -> Part:
    """Write a table's rows as one part of the projection's table `name`; return it, mapped.

    It always writes a new file: an existing one with the same rows may be damaged.
    """
    part = Part.of(table)
    if not part.table.schema.equals(projection.schemas[name]):
        raise TypeError(f"{projection.name}.{name} has schema {part.table.schema}")
    folder = root / projection.name
    make_folder(folder)
    path = folder / f"{name}-{part.digest[:16]}.arrow"
    if path.exists():
        path = path.with_stem(f"{path.stem}-{uuid4().hex[:4]}")
    temporary = temporary_name(folder / "new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            with pa.ipc.new_file(opened, part.table.schema) as writer:
                writer.write_table(part.table)
            sync_written(opened)
        mark = hash_of(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(folder)
    status = path.stat()
    file = PartFile(
        path=path.relative_to(root).as_posix(),
        rows=part.rows,
        digest=part.digest,
        bytes=status.st_size,
        sha256=mark,
        modified=status.st_mtime_ns,
    )
    return Part(partial(_read, path, validate=False), file)


def read(
    root: Path,
    ref: SnapshotRef,
    projection: Projection,
    *,
    check: bool = True,
    validate: bool = True,
) -> Built:
    """Return a snapshot's tables, each part checked and mapped on first access.

    Accessing a table raises SnapshotDamaged, naming the file, if it differs from the written one.
    Validate unhashed files: an offset beyond the file would crash the process.
    """

    def loader(file: PartFile, schema: pa.Schema) -> Callable[[], pa.Table]:
        def load() -> pa.Table:
            if check:
                _check(root, [file], _problem)
            table = _read(root / file.path, validate=validate)
            if not table.schema.equals(schema) or table.num_rows != file.rows:
                raise _damage(f"{root / file.path} does not hold what the manifest says")
            return table

        return load

    parts = {
        name: [Part(loader(file, schema), file) for file in ref.parts.get(name, ())]
        for name, schema in projection.schemas.items()
    }
    return Built(projection.schemas, parts)


def verify(root: Path, ref: SnapshotRef) -> None:
    """Check every file's length and hash; raise SnapshotDamaged at the first that differs."""
    _check(root, ref.files, _problem)


def glance(root: Path, ref: SnapshotRef) -> None:
    """Check that no file was written to since: its length and time, and its hash if these differ.

    Raise SnapshotDamaged at the first that differs from the written one. Damage by the disk itself
    is for `verify` to find.
    """
    _check(root, ref.files, _problem_at_a_glance)


def is_doubted(root: Path, ref: SnapshotRef) -> bool:
    """Return True if a file has another time than when it was written, or is missing."""
    try:
        return any((root / file.path).stat().st_mtime_ns != file.modified for file in ref.files)
    except OSError:
        return True


def hashing(root: Path, file: PartFile) -> Iterator[int]:
    """Hash a file piece by piece, yielding the size of each in bytes, so that callers can pause.

    Raise SnapshotDamaged at the end if the file differs from the written one.
    """
    path, total, size = root / file.path, sha256(), 0
    try:
        with path.open("rb") as opened:
            while piece := opened.read(_CHUNK):
                total.update(piece)
                size += len(piece)
                yield len(piece)
    except OSError as error:
        raise _damage(f"{path} cannot be read ({error.strerror})") from error
    if size != file.bytes:
        raise _damage(f"{path} has {size} bytes, not {file.bytes}")
    if total.hexdigest() != file.sha256:
        raise _damage(f"{path} does not match its hash")


def doubt(root: Path, file: PartFile) -> None:
    """Make every later glance, also a build's, hash a file that was found damaged."""
    with suppress(OSError):  # gone, or not ours to change: the caller remembers the damage
        os.utime(root / file.path)


def _damage(problem: str) -> SnapshotDamaged:
    return SnapshotDamaged(f"{problem}: run `mnemolog build`")


def _check(
    root: Path, files: Sequence[PartFile], problem: Callable[[Path, PartFile], str | None]
) -> None:
    look = partial(problem, root)
    if sum(file.bytes for file in files) > _CHUNK:  # threads cost half a millisecond
        with ThreadPoolExecutor(max_workers=2) as pool:  # hashing releases the interpreter's lock
            problems = list(pool.map(look, files))
    else:
        problems = list(map(look, files))
    for text in filter(None, problems):
        raise _damage(text)


def _problem(root: Path, file: PartFile) -> str | None:
    path = root / file.path
    try:
        size = path.stat().st_size
        if size != file.bytes:
            return f"{path} has {size} bytes, not {file.bytes}"
        return None if hash_of(path) == file.sha256 else f"{path} does not match its hash"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"


def _problem_at_a_glance(root: Path, file: PartFile) -> str | None:
    try:
        status = (root / file.path).stat()
    except OSError:
        return _problem(root, file)
    is_as_written = (status.st_size, status.st_mtime_ns) == (file.bytes, file.modified)
    return None if is_as_written else _problem(root, file)


def _read(path: Path, *, validate: bool) -> pa.Table:
    """Return a table whose columns point into the mapped file; nothing is copied."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        if validate:  # free for numbers; a million short texts take 4 ms
            table.validate(full=True)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise _damage(f"{path}: {error}") from error
    return table


def _file(part: Part) -> PartFile:
    if part.file is None:
        raise TypeError("a part that was kept names its file")
    return part.file
