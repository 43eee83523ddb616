"""
Forging: invalid backups: damaged, inconsistent, or made to write outside their folder.

Each is a pure function of a seeded generator and a whole backup, so its name and number reproduce a
failure.
"""

import io
import json
import random
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

LIST, LOG = "backup.json", "log.sqlite"
_ZEROS = 1 << 20
_DEEP = 100_000
_ZIP64 = 0xFFFFFFFF  # stands for a size stored elsewhere


@dataclass(frozen=True)
class Whole:
    """A whole backup: the file's bytes, its parts by name, its listing."""

    data: bytes
    parts: dict[str, bytes]
    listing: dict[str, Any]
    outside: str  # a folder that must stay unchanged


Forge = Callable[[random.Random, Whole], bytes]


def whole(data: bytes, outside: str) -> Whole:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    return Whole(data, parts, json.loads(parts[LIST]), outside)


def zipped(members: list[tuple[str | zipfile.ZipInfo, bytes]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members:
            packed.writestr(name, data)
    return file.getvalue()


def relisted(backup: Whole, parts: dict[str, bytes], **changes: Any) -> bytes:
    """Return a backup of other parts with a correct listing of them, except for some changes."""
    entries = [
        {"name": name, "bytes": len(data), "sha256": sha256(data).hexdigest()}
        for name, data in parts.items()
        if name != LIST
    ]
    listing = backup.listing | {"parts": entries} | changes
    rest = [(name, data) for name, data in parts.items() if name != LIST]
    return zipped([(LIST, json.dumps(listing).encode()), *rest])


# -- the file's bytes


def flipped(chance: random.Random, backup: Whole) -> bytes:
    data = bytearray(backup.data)
    for _ in range(chance.choice((1, 1, 1, 3, 20))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def cut(chance: random.Random, backup: Whole) -> bytes:
    return backup.data[: chance.randrange(len(backup.data))]


def holed(chance: random.Random, backup: Whole) -> bytes:
    at, size = chance.randrange(len(backup.data)), chance.choice((1, 16, 512, 4096))
    filling = bytes(size) if chance.random() < 0.5 else chance.randbytes(size)
    return backup.data[:at] + filling + backup.data[at + size :]


def spliced(chance: random.Random, backup: Whole) -> bytes:
    start, stop = sorted(chance.randrange(len(backup.data)) for _ in range(2))
    at = chance.randrange(len(backup.data))
    return backup.data[:at] + backup.data[start:stop] + backup.data[at:]


def garnished(chance: random.Random, backup: Whole) -> bytes:
    more = chance.randbytes(chance.choice((1, 22, 100, 70_000)))
    return backup.data + more if chance.random() < 0.5 else more + backup.data


# -- names and members


def _evil(chance: random.Random, backup: Whole) -> str:
    return chance.choice(
        (
            "../evil",
            "../../../../evil",
            f"{backup.outside}/evil",
            "cold/log/../../../../evil",
            "cold\\..\\..\\evil",
            "C:\\evil",
            "/evil",
            "log.sqlite/evil",
            "log.sqlite-wal",
            "log.sqlite-journal",
            "HEAD",
            "cold/log/000000000001-000000000002-0123456789abcdef.parquet/../../evil",
            "e" * 5_000,
            "\u202eevil",
            "cold/log/" + "x/" * 300 + "evil",
            "\n",
        )
    )


def named(chance: random.Random, backup: Whole) -> bytes:
    """Add a member with an evil name, listed or not."""
    name, data = _evil(chance, backup), b"evil"
    if chance.random() < 0.5:
        return relisted(backup, backup.parts | {name: data})
    return zipped([*backup.parts.items(), (name, data)])


def renamed(chance: random.Random, backup: Whole) -> bytes:
    """Give the log another name, in the list too."""
    parts = dict(backup.parts)
    parts[_evil(chance, backup)] = parts.pop(LOG)
    return relisted(backup, parts)


def linked(chance: random.Random, backup: Whole) -> bytes:
    """Make a member of the zip a link, a folder, a pipe or a device."""
    kind = chance.choice((stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFDIR))
    name = chance.choice((LOG, "cold", "cold/log", "evil"))
    entry = zipfile.ZipInfo(name + ("/" if kind == stat.S_IFDIR else ""))
    entry.external_attr = (kind | 0o777) << 16
    rest = [(each, data) for each, data in backup.parts.items() if each != name]
    link = (entry, f"{backup.outside}/evil".encode())
    return zipped([link, *rest] if chance.random() < 0.5 else [*rest, link])


def doubled(chance: random.Random, backup: Whole) -> bytes:
    name = chance.choice(list(backup.parts))
    again = backup.parts[name] if chance.random() < 0.5 else b"other"
    return _quietly([*backup.parts.items(), (name, again)])


def missing(chance: random.Random, backup: Whole) -> bytes:
    dropped = chance.choice(list(backup.parts))
    remaining = {name: data for name, data in backup.parts.items() if name != dropped}
    if chance.random() < 0.5 and dropped != LIST:
        return relisted(backup, remaining)
    return zipped(list(remaining.items()))


def nested(chance: random.Random, backup: Whole) -> bytes:
    if chance.random() < 0.3:
        return zipped([("backup.zip", backup.data)])
    name = chance.choice([each for each in backup.parts if each != LIST])
    return relisted(backup, backup.parts | {name: backup.data})


def emptied(chance: random.Random, backup: Whole) -> bytes:
    name = chance.choice([each for each in backup.parts if each != LIST])
    return relisted(backup, backup.parts | {name: b""})


# -- the listing of the parts


def miscounted(chance: random.Random, backup: Whole) -> bytes:
    listing = json.loads(json.dumps(backup.listing))
    part = chance.choice(listing["parts"])
    key = chance.choice(("bytes", "sha256", "name"))
    if key == "bytes":
        part[key] = chance.choice((0, 1, part[key] + 1, part[key] - 1, 2**31, 2**61, 2**70, -1))
    elif key == "sha256":
        part[key] = chance.choice(("", "0" * 64, part[key].upper(), 7, None, [part[key]]))
    else:
        part[key] = chance.choice((_evil(chance, backup), 7, None, LIST, part[key].upper()))
    return zipped([(LIST, json.dumps(listing).encode()), *_rest(backup)])


def versioned(chance: random.Random, backup: Whole) -> bytes:
    key = chance.choice(list(backup.listing))
    value = chance.choice((0, 2, -1, 2**63, 1e308, "1", None, [], {}, True, "\x1b[2J", "../x"))
    return zipped([(LIST, json.dumps(backup.listing | {key: value}).encode()), *_rest(backup)])


def unreadable(chance: random.Random, backup: Whole) -> bytes:
    data = chance.choice(
        (
            b"",
            b"\xff\xfe",
            b"null",
            b"[" * _DEEP,
            b'{"format":1,"parts":' + b"[" * _DEEP + b"]" * _DEEP + b"}",
            b'{"format":' + b"9" * 10_000 + b"}",
            b'{"format":1e400}',
            b'{"format":NaN}',
            b'{"format":1,"format":2}',
            b'{"format":1,"tenant":"\\ud800"}',
            b'{"format":1,"x":"' + b"y" * (5 << 20) + b'"}',
            backup.parts[LIST][:-1],
            backup.parts[LIST] + b"{}",
        )
    )
    return zipped([(LIST, data), *_rest(backup)])


def missized(chance: random.Random, backup: Whole) -> bytes:
    """Let the zip's own directory lie about sizes, places, methods and flags."""
    data = bytearray(backup.data)
    at = data.find(b"PK\x01\x02")
    entries = []
    while at >= 0:
        entries.append(at)
        at = data.find(b"PK\x01\x02", at + 4)
    entry = chance.choice(entries)
    place, code = chance.choice(
        (
            (8, "<H"),
            (10, "<H"),
            (16, "<L"),
            (20, "<L"),
            (24, "<L"),
            (28, "<H"),
            (30, "<H"),
            (42, "<L"),
        )
    )
    value = chance.choice((0, 1, 8, 12, 14, 99, 0xFFFF, 0xFFFFFFFE, 0xFFFFFFFF))
    top = 0xFFFF if code == "<H" else 0xFFFFFFFF
    struct.pack_into(code, data, entry + place, min(value, top))
    return bytes(data)


# -- the content of the parts, with a correct listing


def rotten(chance: random.Random, backup: Whole) -> bytes:
    """Damage a part and hash it anew: only its content shows the damage."""
    name = chance.choice([each for each in backup.parts if each != LIST])
    data = bytearray(backup.parts[name])
    for _ in range(chance.choice((1, 1, 4))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return relisted(backup, backup.parts | {name: bytes(data)})


def shortened(chance: random.Random, backup: Whole) -> bytes:
    name = chance.choice([each for each in backup.parts if each != LIST])
    data = backup.parts[name]
    size = chance.choice((len(data) // 2, 4096, 100, len(data) - 1))
    return relisted(backup, backup.parts | {name: data[:size]})


def swapped(chance: random.Random, backup: Whole) -> bytes:
    first, other = chance.sample([each for each in backup.parts if each != LIST], 2)
    parts = dict(backup.parts)
    parts[first], parts[other] = parts[other], parts[first]
    return relisted(backup, parts)


# -- bombs


def bomb(size: int, backup: Whole, *, is_honest: bool) -> Iterator[bytes]:
    """Yield the pieces of a backup with a log of `size` zeros; its listing is honest or lies."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(bytes(_ZEROS)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(_ZEROS)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.flush(zlib.Z_FINISH)
    times = size // _ZEROS
    packed = len(start) + len(again) * (times - 1) + len(end)
    claimed = times * _ZEROS if is_honest else 4096
    listing = backup.listing | {"parts": [{"name": LOG, "bytes": claimed, "sha256": "0" * 64}]}
    data = json.dumps(listing).encode()
    yield from _raw_zip(
        (LIST, 0, len(data), len(data), zlib.crc32(data), iter((data,))),
        (LOG, 8, packed, claimed, 0, iter((start, *((again,) * (times - 1)), end))),
    )


def crowd(members: int, backup: Whole) -> Iterator[bytes]:
    """Yield the pieces of a zip of empty members."""
    names = (f"{number:07}" for number in range(members))
    yield from _raw_zip(*((name, 0, 0, 0, 0, iter(())) for name in names))


Member = tuple[str, int, int, int, int, Iterator[bytes]]


def _raw_zip(*members: Member) -> Iterator[bytes]:
    """Yield a zip of members given by name, method, packed and whole size, CRC and bytes."""
    at, index = 0, []
    for name, method, packed, size, crc, pieces in members:
        more = struct.pack("<2HQ", 1, 8, size) if size >= _ZIP64 else b""
        header = (20, 0, method, 0, 0x21, crc, packed, min(size, _ZIP64), len(name), len(more))
        head = struct.pack("<4s5H3L2H", b"PK\x03\x04", *header) + name.encode() + more
        yield head
        yield from pieces
        index.append(
            struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *header, 0, 0, 0, 0, at)
            + name.encode()
            + more
        )
        at += len(head) + packed
    whole_index = b"".join(index)
    count = min(len(members), 0xFFFF)
    yield whole_index
    yield struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(whole_index), at, 0)


def _rest(backup: Whole) -> list[tuple[str | zipfile.ZipInfo, bytes]]:
    return [(name, data) for name, data in backup.parts.items() if name != LIST]


def _quietly(members: list[tuple[str, bytes]]) -> bytes:
    """Return a zip with a duplicate name, without zipfile's warning."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return zipped(list(members))


FORGES: tuple[Forge, ...] = (
    *(flipped, cut, holed, spliced, garnished),
    *(named, renamed, linked, doubled, missing, nested, emptied),
    *(miscounted, versioned, unreadable, missized),
    *(rotten, rotten, shortened, swapped),
)
