"""
The backup file: a zip that any tool opens, with a list of its parts.

It may be damaged or forged. Reading one guarantees: nothing is written but the parts that may be in
a backup, each at the path its name gives and nowhere else; no more than MOST_RATIO times the file's
own size, and no more than the disk has room for; in little memory; and every part matches the list
by size and SHA-256. APPNOTE.TXT is the format:
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
"""

import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Annotated

import msgspec

from store.home import files
from store.home.capped_files import MOST_RATIO, PACKINGS, SmallReads
from store.home.errors import LogFull, SourceError
from store.home.files import make_folder, sync_folder, sync_folders, temporary_name
from store.log.segments import hash_of

FORMAT = 1
LOG, QUEUE, LIST = "log.sqlite", "ingest.sqlite", "backup.json"
MOST_INDEX = 2 << 20  # bytes of the zip's directory, which is read whole: some 15,000 parts
MOST_LIST = 4 << 20
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999
_CHUNK = 1 << 20
_SEGMENT = r"cold/log/\d{12}-\d{12}-[0-9a-f]{16}\.parquet"
_PART = re.compile(rf"{re.escape(LOG)}|{re.escape(QUEUE)}|{_SEGMENT}")
_END = struct.Struct("<4s4H2LH")  # the zip's last record, if it has no comment

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Moment = Annotated[int, msgspec.Meta(ge=FIRST, le=LAST)]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file in a backup, by its path below the tenant's folder; `sha256` is hex."""

    name: str
    bytes: Count
    sha256: str


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup's listing; moments are microseconds UTC.

    `newest_at` is the time of its newest event, `jobs` the number of waiting batches.
    """

    format: int = FORMAT
    mnemolog: str
    tenant: str
    made_at: Moment
    events: Count
    newest_at: Moment
    jobs: Count
    parts: tuple[Part, ...]


class _Format(msgspec.Struct, frozen=True):
    format: int


_format = msgspec.json.Decoder(_Format)
_listing = msgspec.json.Decoder(Listing)


def parts_of(folder: Path) -> tuple[Part, ...]:
    """Return the parts in a folder with a tenant's layout."""
    names = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    return tuple(
        Part(name, (folder / name).stat().st_size, hash_of(folder / name))
        for name in names
        if _PART.fullmatch(name)
    )


def pack(path: Path, folder: Path, listing: Listing) -> None:
    """Write a backup of a folder's parts, whole or not at all, for its owner alone.

    Raise OSError for disk errors.
    """
    temporary = temporary_name(path)
    whole = sum(part.bytes for part in listing.parts)
    try:
        for method in reversed(PACKINGS):
            _write(temporary, folder, listing, method)
            if whole <= MOST_RATIO * temporary.stat().st_size:
                break
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.absolute().parent)


def _write(path: Path, folder: Path, listing: Listing, method: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w+b") as file:
        with zipfile.ZipFile(file, "w", method, compresslevel=6) as packed:
            packed.writestr(_entry(LIST, method), msgspec.json.encode(listing))
            for part in listing.parts:
                with (
                    (folder / part.name).open("rb") as source,
                    packed.open(_entry(part.name, method), "w", force_zip64=True) as target,
                ):
                    shutil.copyfileobj(source, target, _CHUNK)
        file.flush()
        os.fsync(file.fileno())


def _entry(name: str, method: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # 1980: the list has the time it was made
    entry.compress_type = method
    entry.external_attr = 0o600 << 16
    return entry


def read_listing(path: Path) -> Listing:
    """Return the listing of a backup; raise SourceError if it cannot be one."""
    with _open_zip(path) as packed:
        return _list(path, packed)


def unpack(path: Path, folder: Path) -> Listing:
    """Write a backup's parts below an empty folder, to the disk; return its listing.

    Raise SourceError for a file that is no whole backup, LogFull if there is no room for it; then
    discard the files written so far.
    """
    with _open_zip(path) as packed:
        listing = _list(path, packed)
        wanted = sum(part.bytes for part in listing.parts)
        if wanted > (free := shutil.disk_usage(folder).free):
            raise LogFull(f"{path} unpacks to {wanted:,} bytes, {folder} has room for {free:,}")
        for part in listing.parts:
            _unpack(path, packed, part, folder / part.name)
    sync_folders(folder)
    return listing


def _list(path: Path, packed: zipfile.ZipFile) -> Listing:
    """Return the listing, checked against the rest of the file."""
    names = packed.namelist()
    if LIST not in names:
        raise SourceError(f"{path} is not a mnemolog backup: it has no {LIST}")
    if packed.getinfo(LIST).file_size > MOST_LIST:
        raise SourceError(f"{path} is not a backup: its list is over {MOST_LIST:,} bytes")
    with packed.open(LIST) as file:
        data = file.read(MOST_LIST)
    try:
        version = _format.decode(data).format
        if version != FORMAT:
            raise SourceError(
                f"{path} is a backup of format {version}, this mnemolog reads {FORMAT}: upgrade it"
            )
        listing = _listing.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # nested too deep
        raise SourceError(f"{path}: its list cannot be read ({error})") from error
    _check(path, packed, listing)
    return listing


def _check(path: Path, packed: zipfile.ZipFile, listing: Listing) -> None:
    names = [part.name for part in listing.parts]
    for name in names:
        if not _PART.fullmatch(name):
            raise SourceError(f"{path} lists {name!r:.200}, which is no part of a backup")
    if sorted(packed.namelist()) != sorted([LIST, *names]) or len(set(names)) != len(names):
        raise SourceError(f"{path} does not hold exactly the parts that its list names")
    if LOG not in names:
        raise SourceError(f"{path} holds no {LOG}")
    for part in listing.parts:
        if packed.getinfo(part.name).file_size != part.bytes:
            raise SourceError(f"{path}: {part.name} is not as long as the list says")
    most = MOST_RATIO * path.stat().st_size
    if (wanted := sum(part.bytes for part in listing.parts)) > most:
        raise SourceError(f"{path} would unpack to {wanted:,} bytes, far more than a backup can")


def _unpack(path: Path, packed: zipfile.ZipFile, part: Part, to: Path) -> None:
    make_folder(to.parent)
    total, written = sha256(), 0
    descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, packed.open(part.name) as source:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > part.bytes:
                break
            total.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if written != part.bytes or total.hexdigest() != part.sha256:
        raise SourceError(f"{path}: {part.name} does not match its hash: the backup is damaged")


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a backup's zip; raise SourceError if it is none, or anything in it is wrong.

    Raise LogFull if the block runs out of disk space.
    """
    try:
        if not path.is_file():  # never wait for a pipe, or read a device to its end
            raise SourceError(f"{path} is not a file: give a backup")
        with SmallReads(path, MOST_INDEX) as file:
            _check_ends(path, file)
            with zipfile.ZipFile(file) as packed:
                for entry in packed.infolist():
                    if entry.compress_type not in PACKINGS or entry.flag_bits & 1:
                        raise SourceError(f"{path} is not compressed like a backup")
                yield packed
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error) as error:
        raise SourceError(f"{path} is not a complete backup ({error})") from error
    except OSError as error:
        if isinstance(full := files.disk_error(error), LogFull):
            raise full from error
        raise SourceError(f"{path} cannot be unpacked ({error.strerror or error})") from error


def _check_ends(path: Path, file: BufferedReader) -> None:
    """Raise SourceError if there are bytes before or after the zip."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    file.seek(0)
    is_whole = len(end) == _END.size and end.startswith(b"PK\x05\x06") and end.endswith(b"\0\0")
    if not is_whole or file.read(4) != b"PK\x03\x04":
        raise SourceError(
            f"{path} is not a complete backup: it was truncated, or is something else"
        )
    file.seek(0)
