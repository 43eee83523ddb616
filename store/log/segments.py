"""
Segments: the bodies of old receipts, in immutable Parquet files in `cold/log`.

A segment is part of the log, not derived from it: it is written, synced, hashed and renamed, and
its folder synced, before the rows in SQLite are emptied. The log's table `segments` lists each with
its hash, so a missing or damaged one is reported by name, and every body must match its row's hash.
Any Parquet reader can read them; `pyarrow.parquet` is imported only when one is needed.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from store.home.errors import LogCorrupt
from store.home.files import remove_files, replace_file, sync_path
from store.log.log_file import Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile


_GROUP = 2_000  # rows decoded at a time
_KEPT = 8  # groups kept in memory
_CURE = "restore it from a backup; recording and recall work without it"


class Segment(msgspec.Struct, frozen=True):
    """One file, by its name in `cold/log`; `first` and `last` are seqs, `sha256` is hex."""

    name: str
    first: int
    last: int
    events: int
    bytes: int
    sha256: str


def folder_of(log: Path) -> Path:
    """Return the folder of a log's segments."""
    return log.parent / "cold" / "log"


def write(folder: Path, rows: Sequence[Row]) -> Segment:
    """Write whole rows of the log, in their order, to a new file; return its description.

    The file is synced when this returns.
    """
    data = encode(rows)
    mark = sha256(data).hexdigest()
    first, last = rows[0][0], rows[-1][0]
    name = _name(first, last, mark)
    replace_file(folder / name, data)
    sync_path(folder)
    return Segment(name, first, last, len(rows), len(data), mark)


def read(folder: Path, segment: Segment) -> list[Row]:
    """Return the whole rows of a segment; raise LogCorrupt if it is missing or damaged."""
    return [row for group in _groups(_open(folder, segment)) for row in group]


def list_segments(folder: Path) -> list[Segment]:
    """Return the segments whose files match the hash in their names, the newest first.

    `events` is left at 0.
    """
    segments = []
    for path in sorted(folder.glob("*.parquet"), key=lambda path: -path.stat().st_mtime_ns):
        first, last, _ = (*path.stem.split("-"), "", "", "")[:3]
        mark = hash_of(path)
        if first.isdigit() and last.isdigit() and path.name == _name(int(first), int(last), mark):
            size = path.stat().st_size
            segments.append(Segment(path.name, int(first), int(last), 0, size, mark))
    return segments


def problem(folder: Path, segment: Segment) -> str | None:
    """Return the problem with a segment's file and its fix; None if there is none."""
    if segment.name != _name(segment.first, segment.last, segment.sha256):
        return f"the log's entry for segment {segment.name} is damaged: {_CURE}"
    try:
        is_whole = (
            hash_of(folder / segment.name) == segment.sha256
            and (folder / segment.name).stat().st_size == segment.bytes
        )
    except OSError as error:
        return _unreadable(folder, segment, error)
    return None if is_whole else _hash_mismatch(folder, segment)


def sweep(folder: Path, named: Sequence[Segment]) -> None:
    """Delete the files that the log does not list: an interrupted run left them."""
    wanted = {segment.name for segment in named}
    paths = list(folder.glob("*")) if folder.is_dir() else []
    remove_files(path for path in paths if path.name not in wanted)


class Bodies:
    """The bodies moved to segments, looked up by seq. Threads may share it."""

    def __init__(self, folder: Path, listed: Callable[[], list[Segment]]) -> None:
        self._folder, self._listed = folder, listed
        self._lock = Lock()
        self._files: dict[str, tuple[ParquetFile, list[tuple[int, int]]]] = {}  # one at a time
        self._at_hand: OrderedDict[tuple[str, int], dict[int, str]] = OrderedDict()

    def of(self, seqs: Sequence[int]) -> dict[int, str]:
        """Return the bodies of some events.

        Raise LogCorrupt, naming the file, if a segment is missing or damaged, and naming the event
        if no segment has it.
        """
        bodies: dict[int, str] = {}
        with self._lock:
            for segment in reversed(self._listed()):
                wanted = {
                    seq
                    for seq in seqs
                    if segment.first <= seq <= segment.last and seq not in bodies
                }
                if wanted:
                    bodies |= self._in_segment(segment, wanted)
        if missing := set(seqs) - bodies.keys():
            raise LogCorrupt(
                f"the body of event {min(missing)} is in no file of cold/log: restore a backup"
            )
        return bodies

    def _in_segment(self, segment: Segment, seqs: set[int]) -> dict[int, str]:
        file, groups = self._open_segment(segment)
        first, last = min(seqs), max(seqs)
        bodies: dict[int, str] = {}
        for group, (low, high) in enumerate(groups):
            if low <= last and first <= high and any(low <= seq <= high for seq in seqs):
                there = self._group(segment, file, group)
                bodies |= {seq: there[seq] for seq in seqs & there.keys()}
        return bodies

    def _open_segment(self, segment: Segment) -> "tuple[ParquetFile, list[tuple[int, int]]]":
        """Return the file, verified on opening, and the first and last seq of each group."""
        if segment.name not in self._files:
            file = _open(self._folder, segment)
            groups = range(file.metadata.num_row_groups)
            numbers = (file.metadata.row_group(group).column(0).statistics for group in groups)
            self._files = {segment.name: (file, [(number.min, number.max) for number in numbers])}
        return self._files[segment.name]

    def _group(self, segment: Segment, file: "ParquetFile", group: int) -> dict[int, str]:
        key = (segment.name, group)
        if key not in self._at_hand:
            table = file.read_row_group(group, columns=["seq", "body"])
            pairs = zip(*(table.column(name).to_pylist() for name in ("seq", "body")), strict=True)
            self._at_hand[key] = dict(pairs)
            while len(self._at_hand) > _KEPT:
                self._at_hand.popitem(last=False)
        self._at_hand.move_to_end(key)
        return self._at_hand[key]


def _name(first: int, last: int, mark: str) -> str:
    return f"{first:012}-{last:012}-{mark[:16]}.parquet"


def _open(folder: Path, segment: Segment) -> "ParquetFile":
    """Return a segment's file, read whole and verified by its hash."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        data = (folder / segment.name).read_bytes()
    except OSError as error:
        raise LogCorrupt(_unreadable(folder, segment, error)) from error
    if sha256(data).hexdigest() != segment.sha256:
        raise LogCorrupt(_hash_mismatch(folder, segment))
    return ParquetFile(pa.BufferReader(data))


def _unreadable(folder: Path, segment: Segment, error: OSError) -> str:
    file = f"{folder / segment.name}, {segment.events} old receipts of the log"
    return f"{file}, cannot be read ({error.strerror}): {_CURE}"


def _hash_mismatch(folder: Path, segment: Segment) -> str:
    return f"{folder / segment.name} does not match its hash: {_CURE}"


def encode(rows: Sequence[Row]) -> bytes:
    """Return whole rows of the log, in their order, as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = _schema()
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    sink = pa.BufferOutputStream()
    parquet.write_table(
        pa.table(arrays, schema=schema), sink, compression="zstd", row_group_size=_GROUP
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: bytes, most_bytes: int) -> Iterator[list[Row]]:
    """Yield the whole rows of a Parquet file that `encode` made, a group at a time.

    Raise ValueError for one that would unpack to more than so many bytes, pyarrow's ArrowException
    for anything else.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(pa.BufferReader(data))
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    if (size := sum(group.total_byte_size for group in groups)) > most_bytes:
        raise ValueError(f"it would unpack to {size} bytes")
    return _groups(file)


def _groups(file: "ParquetFile") -> Iterator[list[Row]]:
    schema = _schema()
    for group in range(file.metadata.num_row_groups):
        table = file.read_row_group(group)
        columns = [_values(table, name) for name in schema.names]
        yield list(zip(*columns, strict=True))


def _values(table: "pa.Table", name: str) -> list[Any]:
    """Return a column's values; None for one that the version which wrote the file did not have."""
    import pyarrow as pa

    if name not in table.column_names:
        return [None] * table.num_rows
    column = table.column(name)
    values: list[Any] = (column.cast(pa.int64()) if name == "at" else column).to_pylist()
    return values


def _schema() -> "pa.Schema":
    """Return the columns of a segment: those of the log, in the order of `rows.COLUMNS`."""
    import pyarrow as pa

    texts = "kind subject project session agent trust body author origin".split()
    return pa.schema(
        [
            ("seq", pa.int64()),
            ("id", pa.string()),
            ("at", pa.timestamp("us", tz="UTC")),
            *((name, pa.string()) for name in texts),
            ("clock", pa.int64()),
            ("sha256", pa.binary()),
        ]
    )


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
