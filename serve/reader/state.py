"""
What of a view's memories holds no longer, by later claims: `store.derived.state`, laid over by the
tail.

The claims of the tail are compared with the newest of the snapshot once, as the build will do it
with all. What came later than a moment asked of, what was forgotten since and what a user restored
does not count.
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
_HOPS = 8  # from what a claim gave way to, to what holds now
_SHORT = 160  # characters of a memory that is shown whole where one sentence of it changed another
_WHOLE = 0.6  # of a memory's text that is over with it


class Change(msgspec.Struct, frozen=True):
    """What became of a memory: the sentence of it that is over, and the memory, time and words that
    hold now. `is_whole` where little else is in it; not `is_sure`: both may hold.
    """

    relation: State
    outdated: str
    by: str
    at: int
    text: str
    is_sure: bool
    is_whole: bool


Found = tuple[Said, Said, State, float]  # what is over, what it gave way to, how likely


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
        """Return the links of the tail's claims that a memory may be over by, or may have made."""
        return (self._made if made else self._over).get(id_, ())

    def changes(self, id_: str, *, made: bool) -> Iterator[Found]:
        for link in self.links(id_, made=made):
            if made or not self.is_void(link.older, link.newer):
                older, newer = self.claims.said[link.older], self.claims.said[link.newer]
                yield older, newer, NAMES[link.relation], link.probability

    def is_void(self, older: int, newer: int) -> bool:
        """Return whether a claim that gave way to another was made again since."""
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
        self._claims: dict[int, Said] = {}  # by row: those of links that were asked for
        self._projects: dict[str, _Project] = {}  # where the tail says something
        self._seen: set[str] = set()  # ids of the tail's memories that were read
        self._source: object = None  # of the tail's slots that were read, and how many
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
        Read the claims of what the tail has more than when it was read last: of an import or of
        another flood the newest alone. The next build reads all.
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
            return  # what happened before is put in its place by the next build
        if memory.id in project.ids:
            return
        for claim in claims:
            project.add(claim)

    def changes(self, memory: Memory, *, made: bool = False) -> list[Found]:
        """Return the claims of a memory that may be over, with what each gave way to; or, `made`,
        those that may be over by it.
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
        """Return whether the tail makes a claim again that the snapshot knows to be over."""
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
    """Return what became of a memory up to a moment, None where it holds."""
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
    """Return the surest change of a memory, among those the newest; of one `claim` of it alone."""
    best = None
    for change in _standing(index, tail, memory, until):
        older, newer, _, chance = change
        if claim is not None and older.text != claim:
            continue
        # "that was based on wrong figures" ends, too, but the figure that holds says more
        order = chance >= SURE, not parse(newer.text).has("falsified"), newer.at
        if best is None or order > best[0]:
            best = order, change
    return None if best is None else best[1]


def _standing(index: StateIndex, tail: Tail, memory: Memory, until: int | None) -> Iterator[Found]:
    """Yield the changes of a memory up to a moment that nobody took back."""
    restored = max(index.restored.get(memory.id, -1), tail.restored.get(memory.id, -1))
    for change in index.changes(memory):
        _, newer, _, chance = change
        if newer.at <= restored or (until is not None and newer.at > until) or chance < UNSURE:
            continue
        by = tail.find(newer.id)
        if by is not None and by.state != FORGOTTEN:
            yield change


def holding_text(index: StateIndex, tail: Tail, memory: Memory) -> str:
    """Return a memory's text, and in place of its sentences that are surely over three dots."""
    text = memory.content
    for older, *_, chance in _standing(index, tail, memory, None):
        if chance >= SURE:
            text = text.replace(older.text, "...")
    return text


def retraction_of(index: StateIndex, memory: Memory) -> str | None:
    """Return what a memory quotes only to say that it is over."""
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
