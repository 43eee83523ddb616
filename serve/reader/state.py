"""
What of a view's memories holds no longer, by later claims: `store.derived.state`, laid over by the
tail.

The claims of the tail are compared with those of the snapshot once, as the build will do it; what
came later than a moment asked of, what was forgotten since and what a user restored does not count.
"""

import threading
from dataclasses import dataclass, field

from serve.reader.snapshots import Snapshots
from serve.reader.tail import Tail
from store.derived.state import (
    NAMES,
    Claims,
    Said,
    State,
    bears_claims,
    by_project,
    claims_of,
    read_claims,
    read_links,
)
from store.memories.memory import FORGOTTEN, Memory
from store.text.claim_pairs import SURE, UNSURE
from store.text.claims import parse

_HOPS = 8  # from what a claim gave way to, to what holds now
_SHORT = 160  # characters of a memory that is shown whole where one sentence of it changed another
_WHOLE = 0.6  # of a memory's text that is over with it


@dataclass(frozen=True, slots=True)
class Change:
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


@dataclass(slots=True)
class _Project:
    claims: Claims
    by_memory: dict[str, list[int]] = field(default_factory=dict)
    over: dict[int, list[int]] = field(default_factory=dict)  # by the older claim, places of links
    made: dict[int, list[int]] = field(default_factory=dict)  # the same, by the newer claim
    repeated: set[tuple[int, str]] = field(
        default_factory=set
    )  # an older claim, and by what memory
    read: int = 0  # links filed in `over`

    def file(self, place: int) -> None:
        self.by_memory.setdefault(self.claims.said[place].id, []).append(place)

    def file_links(self) -> None:
        links = self.claims.links
        for number in range(self.read, len(links)):
            if NAMES[links[number].relation] in ("replaces", "ends", "rests"):
                self.over.setdefault(links[number].older, []).append(number)
                self.made.setdefault(links[number].newer, []).append(number)
            elif NAMES[links[number].relation] == "repeats":
                newer = self.claims.said[links[number].newer].id
                self.repeated.add((links[number].older, newer))
        self.read = len(links)


class StateIndex:
    """The claims of a manifest, by project, and those of the tail after them. Threads share it."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._lock = threading.Lock()
        self._projects: dict[str, _Project] = {}
        self._seen: dict[str, str] = {}  # texts of the tail's memories, by id
        self._source: object = None  # of the tail's slots that were read, and how many
        self._slots = 0
        self.restored: dict[str, int] = {}
        if (tables := snapshots.state) is None:
            return
        self.restored = {row["id"]: row["at"] for row in tables["restored"].to_pylist()}
        for name, (said, links) in by_project(read_claims(tables), read_links(tables)):
            project = self._projects[name] = _Project(Claims())
            for place, one in enumerate(said):
                project.claims.add(one, links.get(place, ()))
                project.file(place)
            project.file_links()

    def extend(self, tail: Tail) -> None:
        """Read the claims of what the tail has more than when it was read last."""
        with self._lock:
            if tail.source is not self._source:
                self._source, self._slots = tail.source, 0
            slots = range(self._slots, len(tail))
            self._slots = max(self._slots, len(tail))
            memories = [memory for memory in tail.take(list(slots)) if bears_claims(memory)]
            for memory in sorted(memories, key=lambda one: (one.created_at, one.seq)):
                self._add(memory)

    def _add(self, memory: Memory) -> None:
        if self._seen.get(memory.id) == memory.content:
            return
        self._seen[memory.id] = memory.content
        project = self._projects.setdefault(memory.project or "", _Project(Claims()))
        if (
            memory.id in project.by_memory
        ):  # built as it is now, or revised: the next build reads it
            return
        said = project.claims.said
        if said and said[-1].at > memory.created_at:
            return  # what happened before is put in its place by the next build
        about = memory.id, memory.kind, memory.content, memory.project, memory.session
        for one in claims_of(*about, memory.created_at):
            project.claims.add(one)
            project.file(len(project.claims.said) - 1)
        project.file_links()

    def changes(
        self, memory: Memory, *, made: bool = False
    ) -> list[tuple[Said, Said, State, float]]:
        """Return the claims of a memory that may be over, with what each gave way to; or, `made`,
        those that may be over by it.
        """
        project = self._projects.get(memory.project or "")
        if project is None:
            return []
        claims, found = project.claims, []
        for place in project.by_memory.get(memory.id, ()):
            for number in (project.made if made else project.over).get(place, ()):
                link = claims.links[number]
                if made or not (
                    claims.is_repeated_since(place, link.newer)
                    or (place, claims.said[link.newer].id) in project.repeated
                ):
                    older, newer = claims.said[link.older], claims.said[link.newer]
                    found.append((older, newer, NAMES[link.relation], link.probability))
        return found


def change_of(
    index: StateIndex, tail: Tail, memory: Memory, until: int | None = None
) -> Change | None:
    """Return what became of a memory up to a moment, None where it holds."""
    latest = _latest(index, tail, memory, until)
    if latest is None:
        return None
    older, newer, relation, chance = latest
    seen = {memory.id}
    while len(seen) < _HOPS and newer.id not in seen:
        seen.add(newer.id)
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
    restored = max(index.restored.get(memory.id, -1), tail.restored.get(memory.id, -1))
    for one in index.changes(memory):
        older, newer, _, chance = one
        if claim is not None and older.text != claim:
            continue
        if newer.at <= restored or (until is not None and newer.at > until) or chance < UNSURE:
            continue
        by = tail.find(newer.id)
        if by is None or by.state == FORGOTTEN:
            continue
        # "that was based on wrong figures" ends, too, but the figure that holds says more
        order = chance >= SURE, not parse(newer.text).has("falsified"), newer.at
        if best is None or order > best[0]:
            best = order, one
    return None if best is None else best[1]


def retraction_of(index: StateIndex, memory: Memory) -> str | None:
    """Return what a memory quotes only to say that it is over."""
    for older, newer, relation, chance in index.changes(memory, made=True):
        quoted, said = parse(older.text).terms, parse(newer.text)
        if relation == "ends" and chance >= SURE and said.has("falsified") and quoted <= said.terms:
            return older.text
    return None
