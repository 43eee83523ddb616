"""
State: the memories outdated by later claims in a view, `store.derived.state` overlaid by the tail.

The claims of the tail are compared once with the newest of the snapshot, as the build will compare
all. Claims after the requested moment, claims forgotten since and changes that a user restored do
not count.
"""

import threading
from collections.abc import Iterator, Sequence

import msgspec

from serve.reader.snapshots import Snapshots
from serve.reader.tail import Tail
from store.derived.claim_links import NAMES, Claims, Link, Said, State, is_change
from store.derived.state import (
    bears_claims,
    claims_of,
    read_claims,
    read_links,
    rows_by_project,
)
from store.memories.memory import FORGOTTEN, Memory
from store.snapshots.projection import Tables
from store.text.claim_pairs import SURE, UNSURE
from store.text.claims import parse

_WINDOW = 2_000  # claims of a project's snapshot that the tail's are compared with: the newest
_MOST = 32  # memories of the tail that are read at once, some milliseconds each
_CLAIMS_KEPT = 4_096
_HOPS = 8  # from a claim's successor to the current one
_SHORT = 160  # characters of a memory shown whole if one of its sentences changed another
_WHOLE = 0.6  # of a memory's text that is over with it


class Change(msgspec.Struct, frozen=True):
    """The change of a memory: its outdated sentence, and the memory, time and words that hold now.
    `is_whole` if it contains little else; if not `is_sure`, both may hold.
    """

    relation: State
    outdated: str
    by: str
    at: int
    text: str
    is_sure: bool
    is_whole: bool


Found = tuple[Said, Said, State, float]  # the outdated claim, its successor, relation, probability


class _Project:
    """The newest claims of a project's snapshot, and after them those of the tail."""

    def __init__(self, tables: Tables | None, rows: range) -> None:
        self.claims = Claims()
        self.start = rows.start  # the row of the first claim
        self.ids: set[str] = set()  # of the memories that make the claims
        self._over: dict[str, list[Link]] = {}  # links of the tail's claims, by the older's memory
        self._made: dict[str, list[Link]] = {}  # the same, by the newer's
        self._repeated: set[tuple[int, str]] = set()  # a claim, and the memory that repeats it
        if tables is not None and rows:
            links: dict[int, list[Link]] = {}  # by the place of the newer claim
            for link in read_links(tables, newer=rows):
                if link.older >= rows.start:
                    place = link.newer - rows.start
                    links.setdefault(place, []).append(
                        link._replace(older=link.older - rows.start, newer=place)
                    )
            for place, claim in enumerate(read_claims(tables, rows)):
                self.claims.add(claim, links.get(place, ()))
                self.ids.add(claim.id)

    def add(self, claim: Said) -> None:
        read = len(self.claims.links)
        self.claims.add(claim)
        self.ids.add(claim.id)
        for link in self.claims.links[read:]:
            older, newer = (self.claims.said[place].id for place in (link.older, link.newer))
            if is_change(link):
                self._over.setdefault(older, []).append(link)
                self._made.setdefault(newer, []).append(link)
            else:
                self._repeated.add((link.older, newer))

    def links(self, id_: str, *, made: bool) -> Sequence[Link]:
        """Return the links of the tail's claims that may end a memory, or that the memory made."""
        return (self._made if made else self._over).get(id_, ())

    def changes(self, id_: str, *, made: bool) -> Iterator[Found]:
        for link in self.links(id_, made=made):
            if made or not self.is_void(link.older, link.newer):
                older, newer = self.claims.said[link.older], self.claims.said[link.newer]
                yield older, newer, NAMES[link.relation], link.probability

    def is_void(self, older: int, newer: int) -> bool:
        """Return True if a superseded claim was made again since."""
        is_again = (older, self.claims.said[newer].id) in self._repeated
        return is_again or self.claims.is_repeated_since(older, newer)


class StateIndex:
    """The claims of a manifest, by project, and those of the tail after them. Threads share it."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._lock = threading.Lock()
        self._tables = snapshots.state
        self._rows: dict[str, range] = {}  # of `claims`, by project
        self._over: dict[str, list[Link]] = {}  # by the older claim's memory
        self._made: dict[str, list[Link]] = {}  # by the newer claim's memory
        self._claims: dict[int, Said] = {}  # by row: those of requested links
        self._projects: dict[str, _Project] = {}  # those with claims in the tail
        self._seen: set[str] = set()  # ids of the tail's memories that were read
        self._source: object = None  # the source of the tail's slots already read, and their number
        self._slots = 0
        self.restored: dict[str, int] = {}
        if self._tables is not None:
            self._rows = rows_by_project(self._tables)
            self.restored = {row["id"]: row["at"] for row in self._tables["restored"].to_pylist()}
            links = [link for link in read_links(self._tables) if is_change(link)]
            ids = self._tables["claims"].column("id")
            for link in links:
                # one by one: `take` of Arrow loads its compute functions, which no server needs
                self._over.setdefault(ids[link.older].as_py(), []).append(link)
                self._made.setdefault(ids[link.newer].as_py(), []).append(link)

    def extend(self, tail: Tail) -> None:
        """
        Read the claims of the tail's new memories since the last read: of an import or another
        flood only the newest. The next build reads all.
        """
        with self._lock:
            if tail.source is not self._source:
                self._source, self._slots = tail.source, 0
            slots = range(self._slots, len(tail))
            self._slots = max(self._slots, len(tail))
            newest = list(slots[-_MOST:])
            memories = [memory for memory in tail.take(newest) if bears_claims(memory)]
            for memory in sorted(memories, key=lambda memory: (memory.created_at, memory.seq)):
                self._add(memory)

    def _add(self, memory: Memory) -> None:
        if memory.id in self._seen:  # revised: the next build reads it
            return
        self._seen.add(memory.id)
        about = memory.id, memory.kind, memory.content, memory.project, memory.session
        claims = list(claims_of(*about, memory.created_at))
        if not claims:
            return
        name = memory.project or ""
        if name not in self._projects:
            rows = self._rows.get(name, range(0))[-_WINDOW:]
            self._projects[name] = _Project(self._tables, rows)
        project = self._projects[name]
        statements = project.claims.said
        if statements and statements[-1].at > memory.created_at:
            return  # the next build inserts an earlier memory in its place
        if memory.id in project.ids:
            return
        for claim in claims:
            project.add(claim)

    def changes(self, memory: Memory, *, made: bool = False) -> list[Found]:
        """Return a memory's claims that may be over, each with its successor; or, `made`, the
        claims that the memory may have ended.
        """
        links = (self._made if made else self._over).get(memory.id, ())
        project = self._projects.get(memory.project or "")
        if not links and (project is None or not project.links(memory.id, made=made)):
            return []
        found: list[Found] = []
        for link in links:
            if not made and (link.is_void or self._is_void(project, link)):
                continue
            older, newer = self._claim(link.older), self._claim(link.newer)
            found.append((older, newer, NAMES[link.relation], link.probability))
        if project is not None:
            found += project.changes(memory.id, made=made)
        return [
            (older, newer, relation, chance)
            for older, newer, relation, chance in found
            if (newer if made else older).text in memory.content
        ]

    def _is_void(self, project: _Project | None, link: Link) -> bool:
        """Return True if the tail repeats a claim that is over in the snapshot."""
        if project is None or link.older < project.start:
            return False
        return project.is_void(link.older - project.start, link.newer - project.start)

    def _claim(self, row: int) -> Said:
        claim = self._claims.get(row)
        if claim is None:
            assert self._tables is not None
            (claim,) = read_claims(self._tables, range(row, row + 1))
            if len(self._claims) >= _CLAIMS_KEPT:
                self._claims.clear()
            self._claims[row] = claim
        return claim


def change_of(
    index: StateIndex, tail: Tail, memory: Memory, until: int | None = None
) -> Change | None:
    """Return a memory's change up to a moment, None if it holds."""
    latest = _latest(index, tail, memory, until)
    if latest is None:
        return None
    older, newer, relation, chance = latest
    visited = {memory.id}
    while len(visited) < _HOPS and newer.id not in visited:
        visited.add(newer.id)
        between = tail.find(newer.id)
        after = None if between is None else _latest(index, tail, between, until, newer.text)
        if after is None or after[3] < SURE:
            break
        newer = after[1]
    by = tail.find(newer.id)
    is_short = by is not None and len(by.content) <= _SHORT
    return Change(
        relation,
        older.text,
        newer.id,
        newer.at,
        by.content if by is not None and is_short else newer.text,
        chance >= SURE,
        len(older.text) >= _WHOLE * len(memory.content.strip()),
    )


def _latest(
    index: StateIndex, tail: Tail, memory: Memory, until: int | None, claim: str | None = None
) -> tuple[Said, Said, State, float] | None:
    """Return the surest change of a memory, or of one `claim` in it; the newest among equals."""
    best = None
    for change in _standing(index, tail, memory, until):
        older, newer, _, chance = change
        if claim is not None and older.text != claim:
            continue
        # "that was based on wrong figures" ends it, too, but the current figure says more
        order = chance >= SURE, not parse(newer.text).has("falsified"), newer.at
        if best is None or order > best[0]:
            best = order, change
    return None if best is None else best[1]


def _standing(index: StateIndex, tail: Tail, memory: Memory, until: int | None) -> Iterator[Found]:
    """Yield the changes of a memory up to a moment, without those taken back."""
    restored = max(index.restored.get(memory.id, -1), tail.restored.get(memory.id, -1))
    for change in index.changes(memory):
        _, newer, _, chance = change
        if newer.at <= restored or (until is not None and newer.at > until) or chance < UNSURE:
            continue
        by = tail.find(newer.id)
        if by is not None and by.state != FORGOTTEN:
            yield change


def holding_text(index: StateIndex, tail: Tail, memory: Memory) -> str:
    """Return a memory's text, with three dots in place of its sentences that are surely over."""
    text = memory.content
    for older, *_, chance in _standing(index, tail, memory, None):
        if chance >= SURE:
            text = text.replace(older.text, "...")
    return text


def retraction_of(index: StateIndex, memory: Memory) -> str | None:
    """Return the sentence that a memory quotes only to end it."""
    for older, newer, relation, chance in index.changes(memory, made=True):
        quoted, claim = parse(older.text).terms, parse(newer.text)
        if (
            relation == "ends"
            and chance >= SURE
            and claim.has("falsified")
            and quoted <= claim.terms
        ):
            return older.text
    return None
