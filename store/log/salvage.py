"""
Salvage: make a new log of every row of a damaged one whose hash is valid.

The damaged files are first copied into `damaged` and never deleted. The new log is written whole
under another name. Once it is named `log.repaired` it is the log, and the next process to open the
log moves it into place. A crash at any moment leaves either the old log or the new one.
"""

import os
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from store.home.errors import LogBusy, LogCorrupt, LogError
from store.home.files import replace_file, sync_folder
from store.log import log_file, log_head, segments, vocabulary
from store.log.event_kinds import Lost
from store.log.events import decode
from store.log.log_file import Ask, Row
from store.log.log_head import Gap
from store.log.rows import BODY, PUT_AWAY, encode_row, insert_numbered, row_hash
from store.log.segments import Segment

REPAIRING = "log.repairing"  # the new log's name while it is written
_SHARED, _SHARED_BYTES = 0x4000_0002, 510  # where SQLite locks a file that is open


class Salvaged(msgspec.Struct, frozen=True):
    """The readable rows of a damaged log. `gaps` are runs of numbers whose events are lost and not
    yet stated as lost; `ids` are those of their ids that can be read. `newest` is the largest
    number ever assigned.
    """

    rows: tuple[Row, ...]
    segments: tuple[Segment, ...]
    newest: int
    gaps: tuple[tuple[int, int], ...]
    ids: tuple[str, ...]
    read_from: tuple[object, ...]  # changes if the log is written meanwhile


def folder_of(log: Path) -> Path:
    """Return the folder for copies of damaged files."""
    return log.parent / "damaged"


def keep(path: Path) -> Path | None:
    """Copy a file that is damaged or about to be changed into `damaged`; return the copy.

    None if there is no file or it is empty. The same bytes are kept once.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if not data:
        return None
    copy = folder_of(path) / f"{path.name}-{sha256(data).hexdigest()[:16]}"
    if not copy.exists():
        replace_file(copy, data)
    return copy


def keep_dropped(log: Path, ask: Ask) -> None:
    """Copy the write-ahead file of a log that was just opened, if events of it are lost.

    SQLite drops everything after a damaged frame, and deletes the file when the log is closed.
    """
    with suppress(LogError):  # any other damage is reported by the next reader
        if isinstance(log_head.compare(log_head.read(log), ask), Gap):
            keep(_ahead(log))


def keep_orphaned(log: Path) -> None:
    """Copy the write-ahead file of an empty log: SQLite deletes it on opening the log."""
    if log.stat().st_size == 0:
        keep(_ahead(log))


def salvage(log: Path, least: int = 0) -> Salvaged:
    """Return the readable rows of a log and of the copies in `damaged`, and the gaps.

    `least` is a number known to have been assigned, such as a manifest's watermark.
    """
    stamps = _stamps(log)
    database, ahead = _bytes(log), _bytes(_ahead(log))
    segments, away = _segments(log)
    rows: dict[int, Row] = {}
    unread: dict[int, str] = {}
    for row in chain(
        _rows_of_copies(log), rows_of_database(database), rows_of_wal(ahead, database)
    ):
        if row[0] in away and away[row[0]][-1] == row[-1]:
            rows[row[0]] = _without_body(away[row[0]])  # its hash is valid
        elif _is_valid(row):
            rows[row[0]] = row
        elif isinstance(row[1], str):
            unread[row[0]] = row[1]
    for seq, row in away.items():
        rows.setdefault(seq, _without_body(row))
    # of two numbers for one id the smaller one is damaged
    by_id = {row[1]: row for row in sorted(rows.values())}
    by_seq = {row[0]: row for row in by_id.values()}
    head = log_head.read(log)
    newest = max([least, head.seq if head else 0, *by_seq])
    bodies = [decode("lost", row[BODY]) for row in by_seq.values() if row[3] == "lost"]
    stated = [gap for body in bodies if isinstance(body, Lost) for gap in body.gaps]
    gaps = tuple(_gaps(sorted(by_seq), newest, stated))
    lost = {seq for first, last in gaps for seq in range(first, last + 1) if seq in unread}
    ids = tuple(unread[seq] for seq in sorted(lost))
    ordered = tuple(by_seq[seq] for seq in sorted(by_seq))
    return Salvaged(ordered, segments, newest, gaps, ids, stamps)


def write(log: Path, salvaged: Salvaged, at: int) -> None:
    """Replace the damaged log, which is kept, by one made of the salvaged rows.

    If events are missing, the last event of the new log states it. Raise LogBusy if another process
    has the log open, LogFull or LogReadOnly if the disk is.
    """
    with log_file.translate_errors(log):
        for path in (log, _ahead(log), log_head.path_of(log)):
            keep(path)
        new = log.with_name(REPAIRING)
        for path in (new, _ahead(new), _shm_file(new)):
            path.unlink(missing_ok=True)
        _fill(new, salvaged, at)
        if salvaged.read_from != _stamps(log) or is_open(log):
            raise LogBusy(f"{log} is open in another process: end it (`mnemolog stop`) first")
        os.replace(new, _new_log(log))
        sync_folder(log.parent)
        _replace_log(log)


def finish(log: Path) -> None:
    """Move a repaired log into place, if a repair ended before it did."""
    if _new_log(log).exists():
        import filelock  # repairs are rare, and it costs a tenth of a server's start

        with filelock.FileLock(log.with_name("rewrite.lock"), timeout=10.0, mode=0o600):
            _replace_log(log)


def _replace_log(log: Path) -> None:
    if not _new_log(log).exists():
        return
    # the write-ahead file first: SQLite would apply the old log's to the new one
    for path in (_ahead(log), _shm_file(log)):
        path.unlink(missing_ok=True)
    sync_folder(log.parent)
    os.replace(_new_log(log), log)
    log_head.path_of(log).unlink(missing_ok=True)  # the next append writes it again
    sync_folder(log.parent)


def _fill(new: Path, salvaged: Salvaged, at: int) -> None:
    """Write the new log, complete and synced, with no write-ahead file beside it."""
    log_file.create_file(new)
    connection = log_file.connect(new)
    try:
        log_file.prepare(connection, new, create=True)
        with log_file.immediate(connection):
            insert_numbered(connection, salvaged.rows)
            kinds = {row[3] for row in salvaged.rows}
            needs = {kind: n for kind, n in vocabulary.versions().items() if kind in kinds}
            origins = {row[-3] for row in salvaged.rows if row[-3] is not None}
            needs |= {vocabulary.MERGED: 1} if len(origins) > 1 else {}
            log_file.note_vocabulary(connection, new, needs)
            for segment in salvaged.segments:
                values = msgspec.structs.astuple(segment)
                connection.execute("INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?)", values)
            if salvaged.gaps:
                _, row = encode_row(log_head.gap_event(salvaged.gaps, at, salvaged.ids))
                insert_numbered(connection, [(salvaged.newest + 1, *row, row_hash(row))])
        log_file.settle(connection)
    finally:
        connection.close()
    for path in (_ahead(new), _shm_file(new)):  # SQLite leaves it if the disk fails once
        path.unlink(missing_ok=True)


def _without_body(row: Row) -> Row:
    return (*row[:BODY], PUT_AWAY, *row[BODY + 1 :])


def _is_valid(row: Row) -> bool:
    try:
        return bool(row[BODY]) and row_hash(row[1:-1]) == row[-1]
    except (TypeError, UnicodeEncodeError):
        return False


def _gaps(
    there: Sequence[int], newest: int, stated: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the runs of numbers without an event, first and last, except those already stated."""
    expected = 1
    lost = {seq for first, last in stated for seq in range(first, last + 1)}
    for seq in [*there, newest + 1]:
        run = [missing for missing in range(expected, seq) if missing not in lost]
        while run:
            length = next((i for i, missing in enumerate(run) if missing != run[0] + i), len(run))
            yield run[0], run[length - 1]
            run = run[length:]
        expected = max(expected, seq + 1)


def _segments(log: Path) -> tuple[tuple[Segment, ...], dict[int, Row]]:
    """Return the segments that are whole, and the rows in them by number."""
    folder = segments.folder_of(log)
    whole: list[Segment] = []
    rows: dict[int, Row] = {}
    for segment in segments.list_segments(folder):
        with suppress(LogCorrupt):
            there = {row[0]: row for row in segments.read(folder, segment)}
            if rows.keys().isdisjoint(there):  # else an erasure left it, not swept yet
                whole.append(msgspec.structs.replace(segment, events=len(there)))
                rows |= there
    return tuple(whole), rows


def _rows_of_copies(log: Path) -> Iterator[Row]:
    """Yield the rows in the copies of files that were damaged before."""
    folder = folder_of(log)
    for path in sorted(folder.glob(f"{log.name}-*")) if folder.is_dir() else ():
        data = path.read_bytes()
        is_ahead = path.name.startswith(_ahead(log).name)
        yield from rows_of_wal(data, b"") if is_ahead else rows_of_database(data)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _ahead(log: Path) -> Path:
    return log.with_name(f"{log.name}-wal")


def _shm_file(log: Path) -> Path:
    return log.with_name(f"{log.name}-shm")


def _new_log(log: Path) -> Path:
    return log.with_name("log.repaired")


def is_open(log: Path) -> bool:
    """Return True if another process has a log open. None of our own connections may be open:
    checking drops their locks.
    """
    if sys.platform == "win32" or not log.exists():  # Windows replaces no open file anyway
        return False
    import fcntl

    descriptor = os.open(log, os.O_RDWR)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES, _SHARED)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _stamps(log: Path) -> tuple[object, ...]:
    """Return values that change when a log is written."""
    statuses = [path.stat() if path.exists() else None for path in (log, _ahead(log))]
    return tuple(
        status and (status.st_ino, status.st_size, status.st_mtime_ns) for status in statuses
    )


# Pages: rows read off the pages of a SQLite file or its write-ahead file, without SQLite.
#
# SQLite returns nothing beyond a damaged page, and drops every transaction after a damaged frame.
# Each row has its own hash, so any page can be read wherever it is: only valid rows are taken. Leaf
# pages of a table, records and overflow are as in https://www.sqlite.org/fileformat2.html

_PAGE = 4096  # SQLite's default, which every log has
_LEAF = 0x0D
_WAL_HEADER, _FRAME_HEADER = 32, 24
_COLUMNS, _ADDED = 11, 3  # as in the file: a row from before version 6 ends with its hash
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes, by serial type
_MOST_LOCAL = _PAGE - 35  # bytes of a payload that stay on the page
_LEAST_LOCAL = (_PAGE - 12) * 32 // 255 - 23

Fetch = Callable[[int], bytes]  # the page of a number, from 1; empty if there is none


def rows_of_database(data: bytes) -> Iterator[Row]:
    """Yield the possible rows of the log on the pages of a database file."""
    numbers = range(1, len(data) // _PAGE + 1)
    pages = {number: data[(number - 1) * _PAGE : number * _PAGE] for number in numbers}
    for number in pages:
        yield from _rows(pages[number], 100 if number == 1 else 0, lambda n: pages.get(n, b""))


def rows_of_wal(data: bytes, beneath: bytes) -> Iterator[Row]:
    """Yield the possible rows on the pages of a write-ahead file, the newest version of each last.

    Pages that are not in it are taken from the file `beneath`. Frames of an earlier round, stored
    after those of the current one, come first.
    """
    size = _FRAME_HEADER + _PAGE
    frames = [data[at : at + size] for at in range(_WAL_HEADER, len(data) - size + 1, size)]
    rounds = Counter(frame[8:16] for frame in frames)
    current = rounds.most_common(1)[0][0] if frames else b""
    if data[16:24] in rounds:
        current = data[16:24]
    frames.sort(key=lambda frame: frame[8:16] == current)  # a stable sort
    numbered = [(int.from_bytes(frame[:4], "big"), frame[_FRAME_HEADER:]) for frame in frames]
    newest = dict(numbered)

    def fetch(wanted: int) -> bytes:
        return newest.get(wanted) or beneath[(wanted - 1) * _PAGE : wanted * _PAGE]

    for number, page in numbered:
        yield from _rows(page, 100 if number == 1 else 0, fetch)


def _rows(page: bytes, start: int, fetch: Fetch) -> Iterator[Row]:
    """Yield the rows of a leaf page whose numbers ascend, as a table's do."""
    if len(page) < _PAGE or page[start] != _LEAF:
        return
    cells = int.from_bytes(page[start + 3 : start + 5], "big")
    rows = []
    for cell in range(min(cells, _PAGE // 4)):
        place = start + 8 + 2 * cell
        row = _row(page, int.from_bytes(page[place : place + 2], "big"), fetch)
        if row is not None:
            rows.append(row)
    yield from _longest_ascent(rows)


def _longest_ascent(rows: list[Row]) -> list[Row]:
    """Return the longest run of rows whose numbers ascend; the others have damaged numbers."""
    ends: list[int] = []  # the smallest number that a run of each length ends with
    chains: list[list[Row]] = []
    for row in rows:
        place = bisect_left(ends, row[0])
        chain = [*(chains[place - 1] if place else []), row]
        ends[place : place + 1] = [row[0]]
        chains[place : place + 1] = [chain]
    return chains[-1] if chains else []


def _row(page: bytes, at: int, fetch: Fetch) -> Row | None:
    """Return the row in a cell; None if it is not one of the log."""
    try:
        size, at = _varint(page, at)
        seq, at = _varint(page, at)
        values = _record(_payload(page, at, size, fetch))
    except (IndexError, ValueError, UnicodeDecodeError):
        return None
    if values[0] is not None:
        return None
    added = [*values[_COLUMNS:], *[None] * _ADDED][:_ADDED]
    return (seq, *values[1 : _COLUMNS - 1], *added, values[_COLUMNS - 1])


def _payload(page: bytes, at: int, size: int, fetch: Fetch) -> bytes:
    if size <= _MOST_LOCAL:
        return page[at : at + size]
    local = _LEAST_LOCAL + (size - _LEAST_LOCAL) % (_PAGE - 4)
    local = local if local <= _MOST_LOCAL else _LEAST_LOCAL
    pieces = [page[at : at + local]]
    rest, number = size - local, int.from_bytes(page[at + local : at + local + 4], "big")
    while rest > 0:
        more = fetch(number)
        if len(more) < _PAGE:
            raise ValueError("an overflow page is missing")
        number = int.from_bytes(more[:4], "big")
        pieces.append(more[4 : 4 + min(rest, _PAGE - 4)])
        rest -= len(pieces[-1])
    return b"".join(pieces)


def _record(payload: bytes) -> list[Any]:
    end, at = _varint(payload, 0)
    types = []
    while at < end:
        kind, at = _varint(payload, at)
        types.append(kind)
    if not _COLUMNS <= len(types) <= _COLUMNS + _ADDED:
        raise ValueError("not a row of the log")
    values: list[Any] = []
    at = end
    for kind in types:
        size = _INTEGERS.get(kind, (kind - 12) // 2 if kind >= 12 else 0)
        data = payload[at : at + size]
        if len(data) < size:
            raise ValueError("a value is cut off")
        values.append(_value(kind, data))
        at += size
    return values


def _value(kind: int, data: bytes) -> Any:
    if kind in _INTEGERS:
        return int.from_bytes(data, "big", signed=True)
    if kind >= 12:
        return data if kind % 2 == 0 else data.decode()
    return {8: 0, 9: 1}.get(kind)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    value = 0
    for count in range(9):
        byte = data[at + count]
        if count == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    raise ValueError("no number")
