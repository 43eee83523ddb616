"""
Parts: the files of a replica, by their names, and which of them make up a log.

    tenants/TENANT/GENERATION/FIRST-LAST-MARK.parquet     the events FIRST to LAST
    tenants/TENANT/GENERATION/about.json                  which machine writes it
    tenants/TENANT/GENERATION/waiting-MARK.sqlite         accepted batches, not yet recorded
    home/config.toml, home/tokens.json

A generation is one log's growth as one home saw it; its name is a ULID and so records its start.
MARK is a digest of the hashes of the rows: equal rows give a part the same name, so a reader of the
log can tell without reading a part whether it still matches.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import NamedTuple

import msgspec

from store.home.errors import RemoteError
from store.log import segments
from store.log.log_file import Row
from store.log.rows import row_hash
from store.replica.remote import Entry, Remote

_PART = re.compile(r"(\d{12})-(\d{12})-([0-9a-f]{16})\.parquet")
_WAITING = re.compile(r"waiting-([0-9a-f]{16})\.sqlite")
_GENERATION = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_NUMBER = struct.Struct(">q")
ABOUT = "about.json"


class Part(NamedTuple):
    """One file of a generation; it covers every seq from `first` to `last`."""

    first: int
    last: int
    mark: str
    bytes: int

    @property
    def name(self) -> str:
        return f"{self.first:012}-{self.last:012}-{self.mark}.parquet"


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """A generation's description of itself: the machine and the home that alone write it.

    If others merge the generation, it also has the machine's display name, the `adopted` homes,
    which no longer exist and whose events it sends, its `vocabulary`, the versions of event bodies
    by kind, and its knowledge `knew`: since which clock the newest event of each other home, by its
    clock, the oldest first.
    """

    machine: str
    home: str
    format: int = 1
    name: str = ""
    adopted: tuple[str, ...] = ()
    vocabulary: dict[str, int] = {}
    knew: tuple[tuple[int, dict[str, int]], ...] = ()

    def is_of(self, other: "About") -> bool:
        """Return True if both are of the same home on the same machine."""
        return (self.machine, self.home) == (other.machine, other.home)


class Generation(NamedTuple):
    """A generation's files at a remote. `parts` make up its log, in order, without a hole; `others`
    are the rest, left by a killed writer.
    """

    folder: str
    parts: tuple[Part, ...]
    others: tuple[Part, ...]
    waiting: tuple[str, ...]
    has_about: bool

    @property
    def id(self) -> str:
        return self.folder.rpartition("/")[2]

    @property
    def last(self) -> int:
        return self.parts[-1].last if self.parts else 0

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def mark_of(hashes: Iterable[tuple[int, bytes]]) -> str:
    """Return the mark of some rows, by their seqs and hashes."""
    total = sha256()
    for seq, digest in hashes:
        total.update(_NUMBER.pack(seq) + digest)
    return total.hexdigest()[:16]


def mark_of_rows(rows: Sequence[Row]) -> str:
    return mark_of((row[0], row[-1]) for row in rows)


def tenant_folder(tenant: str) -> str:
    """Return the folder of a tenant's generations."""
    return f"tenants/{tenant}"


def list_generations(remote: Remote, top: str) -> list[Generation]:
    """Return the generations in a folder at a remote, the oldest first; raise RemoteError."""
    entries: dict[str, list[Entry]] = {}
    for entry in remote.list(top):
        generation, _, name = entry.name.removeprefix(f"{top}/").partition("/")
        if name and _GENERATION.fullmatch(generation):
            entries.setdefault(generation, []).append(Entry(name, entry.bytes))
    return [_generation(f"{top}/{id_}", entries[id_]) for id_ in sorted(entries)]


def _generation(folder: str, entries: Sequence[Entry]) -> Generation:
    there = [
        Part(int(named[1]), int(named[2]), named[3], entry.bytes)
        for entry in entries
        if (named := _PART.fullmatch(entry.name))
    ]
    parts = _chain(there)
    others = tuple(part for part in there if part not in set(parts))
    waiting = tuple(entry.name for entry in entries if _WAITING.fullmatch(entry.name))
    return Generation(folder, parts, others, waiting, any(entry.name == ABOUT for entry in entries))


def _chain(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts that follow one another from event 1 on, as far as they go.

    Of several chains the one with the widest parts: small ones are merged into a wide one and
    deleted last, and a folder may bring back files that its machine deleted.
    """
    by_first: dict[int, list[Part]] = {}
    for part in parts:
        by_first.setdefault(part.first, []).append(part)
    furthest: dict[int, int] = {}  # the last event reached from each first one
    for first in sorted(by_first, reverse=True):
        ends = (max(part.last, furthest.get(part.last + 1, 0)) for part in by_first[first])
        furthest[first] = max(ends)
    chain, first = [], 1
    while first in furthest:
        ways = [
            part
            for part in by_first[first]
            if furthest[first] in (part.last, furthest.get(part.last + 1))
        ]
        chain.append(max(ways, key=attrgetter("last", "mark")))
        first = chain[-1].last + 1
    return tuple(chain)


class DamagedPart(RemoteError):
    """A file of a replica does not match its name."""


_MOST_UNPACKED = 1 << 30  # bytes of a part: ours are far smaller
_CURE = "delete it, and who wrote it sends it again where the log still says it"


def read_part(remote: Remote, generation: Generation, part: Part) -> list[Row]:
    """Return the whole rows of a part; raise DamagedPart if it does not match its name."""
    import pyarrow as pa

    path = generation.path(part.name)
    data = remote.get(path)
    try:
        rows = [row for group in segments.decode(data, _MOST_UNPACKED) for row in group]
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, ValueError) as error:
        raise DamagedPart(f"{remote.url}: {path} is damaged ({error}): {_CURE}") from error
    is_whole = all(row_hash(row[1:-1]) == row[-1] for row in rows)
    if not rows or not is_whole or mark_of_rows(rows) != part.mark:
        raise DamagedPart(f"{remote.url}: {path} is damaged: {_CURE}")
    return rows


def read_about(remote: Remote, generation: Generation) -> About:
    """Return a generation's description; raise DamagedPart if it cannot be read."""
    data = remote.get(generation.path(ABOUT))
    try:
        return _about.decode(data)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise DamagedPart(f"{remote.url}: {generation.path(ABOUT)}: {error}") from error


_about = msgspec.json.Decoder(About)
