"""
Pages: rows read off the pages of a SQLite file or its write-ahead file, without SQLite.

SQLite gives nothing back that lies behind a damaged page, and drops every transaction after a
damaged frame. Each row here has a hash of its own, so a page can be read wherever it lies, and what
is found is true or is not taken. Leaf pages of a table, records and overflow as in
https://www.sqlite.org/fileformat2.html
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from store.logfile.file import Row

_PAGE = 4096  # SQLite's default, which every log has
_LEAF = 0x0D
_WAL_HEADER, _FRAME_HEADER = 32, 24
_COLUMNS = 11
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes, by serial type
_MOST_LOCAL = _PAGE - 35  # of a payload, before it flows over
_LEAST_LOCAL = (_PAGE - 12) * 32 // 255 - 23

Fetch = Callable[[int], bytes]  # the page of a number, from 1; empty where there is none


def of_file(data: bytes) -> Iterator[Row]:
    """Yield what may be rows of the log on the pages of a database file."""
    pages = {number: data[(number - 1) * _PAGE : number * _PAGE] for number in _numbers(data)}
    for number in pages:
        yield from _rows(pages[number], 100 if number == 1 else 0, lambda n: pages.get(n, b""))


def of_ahead(data: bytes, beneath: bytes) -> Iterator[Row]:
    """Yield what may be rows on the pages of a write-ahead file, the newest of each last.

    Pages that it does not hold are those of the file `beneath`. Frames of an earlier round, which
    lie behind those of this one, come first.
    """
    size = _FRAME_HEADER + _PAGE
    frames = [data[at : at + size] for at in range(_WAL_HEADER, len(data) - size + 1, size)]
    rounds = Counter(frame[8:16] for frame in frames)
    current = rounds.most_common(1)[0][0] if frames else b""
    if data[16:24] in rounds:
        current = data[16:24]
    frames.sort(key=lambda frame: frame[8:16] == current)  # which is stable
    numbered = [(int.from_bytes(one[:4], "big"), one[_FRAME_HEADER:]) for one in frames]
    newest = dict(numbered)

    def fetch(wanted: int) -> bytes:
        return newest.get(wanted) or beneath[(wanted - 1) * _PAGE : wanted * _PAGE]

    for number, page in numbered:
        yield from _rows(page, 100 if number == 1 else 0, fetch)


def _numbers(data: bytes) -> range:
    return range(1, len(data) // _PAGE + 1)


def _rows(page: bytes, start: int, fetch: Fetch) -> Iterator[Row]:
    """Yield the rows of a leaf page whose numbers ascend, as a table's do."""
    if len(page) < _PAGE or page[start] != _LEAF:
        return
    cells = int.from_bytes(page[start + 3 : start + 5], "big")
    found = []
    for cell in range(min(cells, _PAGE // 4)):
        place = start + 8 + 2 * cell
        row = _row(page, int.from_bytes(page[place : place + 2], "big"), fetch)
        if row is not None:
            found.append(row)
    yield from _ascending(found)


def _ascending(rows: list[Row]) -> list[Row]:
    """Return the most rows whose numbers ascend: one that does not fit has a damaged number."""
    ends: list[int] = []  # the smallest number that a run of each length ends with
    chains: list[list[Row]] = []
    for row in rows:
        place = bisect_left(ends, row[0])
        chain = [*(chains[place - 1] if place else []), row]
        ends[place : place + 1] = [row[0]]
        chains[place : place + 1] = [chain]
    return chains[-1] if chains else []


def _row(page: bytes, at: int, fetch: Fetch) -> Row | None:
    """Return the row of a cell; None where there is none of the log's."""
    try:
        size, at = _varint(page, at)
        seq, at = _varint(page, at)
        values = _record(_payload(page, at, size, fetch))
    except (IndexError, ValueError, UnicodeDecodeError):
        return None
    return (seq, *values[1:]) if len(values) == _COLUMNS and values[0] is None else None


def _payload(page: bytes, at: int, size: int, fetch: Fetch) -> bytes:
    if size <= _MOST_LOCAL:
        return page[at : at + size]
    local = _LEAST_LOCAL + (size - _LEAST_LOCAL) % (_PAGE - 4)
    local = local if local <= _MOST_LOCAL else _LEAST_LOCAL
    found = [page[at : at + local]]
    left, number = size - local, int.from_bytes(page[at + local : at + local + 4], "big")
    while left > 0:
        more = fetch(number)
        if len(more) < _PAGE:
            raise ValueError("an overflow page is missing")
        number = int.from_bytes(more[:4], "big")
        found.append(more[4 : 4 + min(left, _PAGE - 4)])
        left -= len(found[-1])
    return b"".join(found)


def _record(payload: bytes) -> list[Any]:
    end, at = _varint(payload, 0)
    types = []
    while at < end:
        kind, at = _varint(payload, at)
        types.append(kind)
    if len(types) != _COLUMNS:
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
    """Return the number at a place, and the place after it."""
    value = 0
    for count in range(9):
        byte = data[at + count]
        if count == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    raise ValueError("no number")
