"""
Capped files: compressed files and JSON of other programs, read in pieces and never past a cap.

A few kilobytes can unpack to gigabytes, and a few megabytes of JSON decode to as many hundred. So a
file that unpacks to more than MOST_RATIO times its size or more than MOST_BYTES is refused; a zip
is read by its members, its directory too under a cap; a list of JSON is read one element at a time.
Packing is recognised by the first bytes: RFC 1952, RFC 8878, and APPNOTE.TXT of PKWARE.
"""

import gzip
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from store.home.errors import SourceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_RATIO = 100
MOST_BYTES = 1 << 30
MOST_VALUES = 400_000  # lists and objects decoded at once, each some 100 bytes and more
MOST_ITEMS = 2_000_000  # commas: short texts and numbers, each some 60 bytes
MOST_INDEX = 8 << 20  # bytes of a zip's directory: some 50,000 files
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # Python unpacks others without a bound
_SLACK = 1 << 20  # a few lines that repeat each other may be packed tighter
_PIECE = 1 << 16
_CHUNK = 1 << 18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_SPACE = b" \t\r\n"
_BROKEN = (OSError, EOFError, ValueError, NotImplementedError)
_BAD_ZIP = (*_BROKEN, zipfile.BadZipFile, zlib.error, struct.error)


def is_crowded(raw: bytes | bytearray) -> bool:
    """Return True if JSON has so many values that decoding it would fill the memory."""
    return len(raw) > _PIECE and (
        raw.count(b"{") + raw.count(b"[") > MOST_VALUES or raw.count(b",") > MOST_ITEMS
    )


@contextmanager
def open_capped(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file, unpacked if it is gzip or zstd.

    Raise OSError for disk errors; reading raises SourceError for data that cannot be unpacked.
    """
    with path.open("rb") as file:
        first = file.peek(len(_ZSTD))
        packed = _Counted(file)
        if first.startswith(_GZIP):
            yield _Budget(str(path), lambda: packed.count).cap(gzip.GzipFile(fileobj=packed))
        elif first.startswith(_ZSTD):
            import pyarrow as pa

            source = pa.CompressedInputStream(pa.PythonFile(packed, "r"), "zstd")
            yield _Budget(str(path), lambda: packed.count).cap(source)
        else:
            yield file


class CappedZip:
    """A zip from outside; all reads of its members count against one budget."""

    def __init__(self, path: Path) -> None:
        """Open it; raise SourceError if it is not a zip or lists too many files."""
        self._path, size = path, path.stat().st_size
        self._budget = _Budget(str(path), lambda: size)
        file = SmallReads(path, MOST_INDEX)
        try:
            self._zip = zipfile.ZipFile(file)
        except _BAD_ZIP as error:
            raise SourceError(f"{path} cannot be unpacked: {error}") from error
        finally:
            if not hasattr(self, "_zip"):
                file.close()
        self._file = file

    def __enter__(self) -> "CappedZip":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def members(self) -> list[zipfile.ZipInfo]:
        """The files listed in the zip, in its order."""
        return self._zip.infolist()

    def open(self, member: zipfile.ZipInfo) -> io.BufferedReader:
        """Open a member, unpacked once more if it is itself gzip; raise SourceError."""
        place = f"{member.filename!a:.200} in {self._path}"
        if member.compress_type not in PACKINGS or member.flag_bits & 1:
            raise SourceError(
                f"{place} is encrypted or packed in a rare way: unpack it yourself and import it"
            )
        try:
            opened = self._budget.cap(self._zip.open(member), place)
        except _BAD_ZIP as error:
            raise SourceError(f"{place} cannot be unpacked: {error}") from error
        if not opened.peek(len(_GZIP)).startswith(_GZIP):
            return opened
        return self._budget.cap(gzip.GzipFile(fileobj=opened), place)


class SmallReads(io.BufferedReader):
    """A zip's file that refuses to read much at once, as zipfile reads a directory."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(io.FileIO(path))
        self._path, self._most = path, most

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._most + 1
        data = super().read(most if size is None or size < 0 else min(size, most))
        if len(data) > self._most:
            raise SourceError(
                f"{self._path} lists too many files: its directory is over "
                f"{self._most >> 20} MiB; unpack it yourself and import what you need of it"
            )
        return data


def json_elements(
    file: io.BufferedReader, place: str, longest: int, on_skip: Callable[[str], None]
) -> Iterator[bytes]:
    """Yield the objects of a JSON list in order, as they are written; one at a time is in memory.

    An element that is longer than `longest`, or has too many values, is skipped and reported in a
    sentence to `on_skip`. The contents of elements are not checked. Raise SourceError unless the
    file is a whole list of objects.
    """
    import numpy as np  # not for a command that imports nothing

    steps = np.zeros(256, np.int8)
    steps[list(b"[{")], steps[list(b"]}")] = 1, -1
    no_list = SourceError(f"{place} is no whole list of objects: make the export again")
    element, gap, number, is_long = bytearray(), b"", 0, False
    level = depth = in_text = 0  # `level` is the depth at the last edge of an element
    chunk, rest = file.read(_CHUNK).removeprefix(b"\xef\xbb\xbf"), b""
    while chunk:
        plain = _ESCAPE.sub(b"..", chunk)
        rest = b"\\" if plain.endswith(b"\\") else b""  # the escaped character is in the next chunk
        codes = np.frombuffer(plain, np.uint8, len(plain) - len(rest))
        inside = (np.cumsum(codes == ord('"'), dtype=np.int32) + in_text) & 1
        step = np.where(inside, 0, steps[codes])
        depths = np.cumsum(step, dtype=np.int32) + depth
        edges = np.flatnonzero(((step > 0) & (depths == 2)) | ((step < 0) & (depths <= 1)))
        begin = 0
        for at in (*edges.tolist(), len(codes)):
            if level < 2:
                gap += chunk[begin:at].strip(_SPACE)
                if len(gap) > 1:
                    raise no_list
            elif not is_long:
                element += chunk[begin:at]
                is_long = len(element) > longest
            begin = at
            if at == len(codes):
                break
            level = int(depths[at])
            if level == 2:
                number += 1
                if gap != (b"[" if number == 1 else b","):
                    raise no_list
                element, gap, is_long = bytearray(), b"", False
            elif level < 1:
                if gap != (b"" if number else b"["):
                    raise no_list
                return
            elif is_long or is_crowded(element):
                on_skip(
                    f"{place} element {number} was left out: it is over {longest >> 20} MiB, or "
                    "holds too much"
                )
                begin = at + 1
            else:
                begin = at + 1
                yield bytes(element + chunk[at:begin])
        if len(codes):
            depth, in_text = int(depths[-1]), int(inside[-1])
        piece = file.read(_CHUNK)
        chunk = rest + piece if piece else b""
    raise no_list


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Budget:
    """The unpacking budget of a file, of which `packed` bytes were read so far."""

    def __init__(self, place: str, packed: Callable[[], int]) -> None:
        self._place, self._packed, self._count = place, packed, 0

    def cap(self, source: _Source, place: str = "") -> io.BufferedReader:
        return io.BufferedReader(_Capped(self, source, place or self._place), _PIECE)

    def spend(self, size: int, place: str) -> None:
        self._count += size
        if self._count > min(MOST_BYTES, MOST_RATIO * self._packed() + _SLACK):
            raise SourceError(
                f"{place} unpacks to over {MOST_RATIO} times its size, or over "
                f"{MOST_BYTES >> 20} MiB: unpack it yourself, look at it, and import what it holds"
            )


class _Counted(io.RawIOBase):
    """A file that counts the bytes read from it; a pipe cannot."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__()
        self._file, self.count = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: "WriteableBuffer", /) -> int:
        size = self._file.readinto(into)
        self.count += size
        return size


class _Capped(io.RawIOBase):
    """The contents of a packed source, until the budget is exceeded."""

    def __init__(self, budget: _Budget, source: _Source, place: str) -> None:
        super().__init__()
        self._budget, self._source, self._place = budget, source, place

    def readable(self) -> bool:
        return True

    def readinto(self, into: "WriteableBuffer", /) -> int:
        room = memoryview(into)
        try:
            data = self._source.read(min(len(room), _PIECE))
        except _BAD_ZIP as error:
            raise SourceError(f"{self._place} cannot be unpacked: {error}") from error
        self._budget.spend(len(data), self._place)
        room[: len(data)] = data
        return len(data)
