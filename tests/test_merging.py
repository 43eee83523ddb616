"""The events of several homes in one log: every order of arrival gives the same memories."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from serve.reader.tail import LiveTail
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import Tenant
from store.index.postings import POSTINGS_PROJECTION, PostingsIndex
from store.log import erasing, integrity, merging
from store.log.event_kinds import (
    Acted,
    Archived,
    Body,
    Forgotten,
    Linked,
    Made,
    Pinned,
    Prompted,
    Recorded,
    Restored,
    Revised,
    SessionTold,
    Superseded,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.maintenance.build import log_inputs
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import Memory
from store.memories.parts import MemoryParts
from store.memories.rows import MemoryRows
from store.snapshots.projection import Built, Previous, build_checked, digest

NOW = 1_790_000_000_000_000
HOMES = ("01J0000000000000000000000A", "01J0000000000000000000000B", "01J0000000000000000000000C")
HOUR = 3_600 * 1_000_000


@dataclass
class Home:
    """One of a person's homes: its log, its clock error and its last build."""

    id: str
    log: EventLog
    skew: int = 0
    sent: dict[str, int] = field(default_factory=dict)  # the number of received events, by home
    built: Previous | None = None

    def own(self) -> list[Event]:
        return [event for event in self.log.read() if event.origin == self.id]

    def build(self) -> Built:
        head = self.log.head()
        tables = build_checked(MEMORIES_PROJECTION, log_inputs(self.log, head), self.built)
        self.built = Previous(head, tables)
        return tables


def memories(tables: Built) -> dict[str, Memory]:
    """Return the memories by id, without their positions in one home's log."""
    parts = MemoryParts.open(tables)
    rows = (parts.memory(row) for row in range(len(parts)))
    return {row.id: without_place(row) for row in rows}


def without_place(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, seq=0)


def edges(tables: Built) -> set[tuple[str, str, str]]:
    names = ("source", "target", "relation")
    return {tuple(row[name] for name in names) for row in tables["edges"].to_pylist()}  # type: ignore[misc]


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[list[Home]]:
    results = []
    for id_ in HOMES:
        folder = tmp_path / id_
        (folder / "tenants" / "default").mkdir(parents=True)
        (folder / "origin").write_text(f"{id_}\n")
        results.append(
            Home(id_, EventLog(folder / "tenants" / "default" / "log.sqlite", create=True))
        )
    yield results
    for home in results:
        home.log.close()


class Author:
    """Writes random events of a person and agents to a home."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._numbers, self._now = chance, count(), NOW

    def write(self, home: Home) -> None:
        self._now += self._chance.randrange(1, 50_000_000)
        events = [event for event in home.log.read() if event.kind in ("recorded", "prompted")]
        body, subject, session = self._body(home, events)
        id_ = f"{home.id[-1]}{next(self._numbers):05}"
        wall = self._now + home.skew
        event = Event(id_, wall, body, subject or id_, "shop", session, trust="user")
        home.log._wall = lambda: wall
        home.log.append([event])

    def _body(self, home: Home, events: Sequence[Event]) -> tuple[Body, str | None, str | None]:
        chance, text = self._chance, f"text {next(self._numbers)}"
        kinds = "plain keyed made revised forgotten archived restored pinned linked superseded"
        kind = chance.choice((*kinds.split(), "prompted", "acted", "told"))
        session = f"session-{home.id[-1]}-{chance.randrange(2)}"
        if kind == "keyed":
            key = f"deploy.{chance.choice(('region', 'owner'))}"
            return Recorded(content=text, key=key, value=text), None, None
        if kind == "prompted":
            return Prompted(prompt=text), None, session
        if kind == "acted":
            return Acted(tool="Bash", doing="run", command=text), None, session
        if kind == "told":
            return SessionTold(stage="stopped", said=text), None, session
        if kind == "plain" or not events:
            return Recorded(content=text), None, None
        first, other = chance.choice(events).id, chance.choice(events).id
        if kind == "made":
            origin = Made(job="reflect")
            return Recorded(content=text, source_ids=(first, other), made=origin), None, None
        bodies: dict[str, Body] = {
            "revised": Revised(content=text, tags=(text,)),
            "forgotten": Forgotten(),
            "archived": Archived(),
            "restored": Restored(),
            "pinned": Pinned(pinned=chance.random() < 0.5),
            "linked": Linked(target=other, relation="support"),
            "superseded": Superseded(by=other),
        }
        return bodies[kind], first, None


def send(chance: random.Random, source: Home, target: Home, *, everything: bool = False) -> None:
    """Send some of a home's own events to another home, in order."""
    own = source.own()
    after = target.sent.get(source.id, 0)
    until = len(own) if everything else chance.randint(after, len(own))
    again = max(0, after - chance.randrange(3))  # some arrive twice
    merging.merge(target.log, own[again:until], source.id)
    target.sent[source.id] = max(after, until)


def tail_over(home: Home, tables: Built, watermark: int) -> LiveTail:
    """Return a tail that begins at a watermark, over the tables built up to it."""
    above = replace(log_inputs(home.log, watermark), tables={"memories": tables})
    postings = PostingsIndex.open(build_checked(POSTINGS_PROJECTION, above, None))
    rows = MemoryRows.open(tables)
    return LiveTail(rows, postings, LexicalEmbedder(), watermark=watermark, log=home.log)


def live(chance: random.Random, homes: Sequence[Home], steps: int) -> None:
    """Write, build and exchange events at random; in the end every home has all events."""
    author = Author(chance)
    for home in homes:
        home.skew = chance.choice((0, 0, 24 * HOUR, -24 * HOUR))
    for _ in range(steps):
        home = chance.choice(homes)
        match chance.randrange(10):
            case 0 | 1:
                others = [other for other in homes if other is not home]
                send(chance, chance.choice(others), home)
            case 2:
                home.build()
            case _:
                author.write(home)
    for home in homes:
        for other in homes:
            if other is not home:
                send(chance, other, home, everything=True)


@pytest.mark.parametrize("seed", range(12))
def test_every_order_of_arrival_gives_the_same_memories(homes: list[Home], seed: int) -> None:
    chance = random.Random(seed)
    live(chance, homes, 120)
    results: list[Any] = []
    for home in homes:
        head = home.log.head()
        early = chance.randrange(head)
        inputs = log_inputs(home.log, early)
        tail = tail_over(home, build_checked(MEMORIES_PROJECTION, inputs, None), early)
        while tail.watermark < head:
            events = home.log.read(tail.watermark, tail.watermark + chance.randrange(1, 20))
            assert tail.extend(events) == []
        grown = home.build()
        anew = build_checked(MEMORIES_PROJECTION, log_inputs(home.log, head), None)
        assert digest(grown) == digest(anew), "a build goes on from an earlier one, or from nothing"
        there = memories(grown)
        # the tail's fold, because the tail itself hides unfinished turns
        over = {id_: tail._fold.find(id_) for id_ in there}
        assert {id_: without_place(row) for id_, row in over.items() if row} == there
        results.append((there, edges(grown)))
    assert results[0] == results[1] == results[2]


def test_without_the_global_order_memories_would_differ(
    homes: list[Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    live(random.Random(0), homes, 120)
    monkeypatch.setattr(merging, "late_subjects", lambda log, after, until: [])
    ids = [
        memories(build_checked(MEMORIES_PROJECTION, log_inputs(home.log, home.log.head()), None))
        for home in homes
    ]
    assert ids[0] != ids[1]


def test_a_log_of_one_home_is_not_merged_and_one_of_two_is(homes: list[Home]) -> None:
    author = Author(random.Random(1))
    first, other, _ = homes
    author.write(first)
    author.write(other)
    assert not first.log.is_merged()
    assert [event.seq for event in first.log.read()] == [1]
    merged = merging.merge(first.log, other.own(), other.id)
    assert [event.origin for event in merged.new] == [other.id]
    assert first.log.is_merged() and not other.log.is_merged()
    assert merging.merge(first.log, other.own(), other.id).new == (), "an event arrives once"


def test_an_event_imported_by_two_homes_takes_the_earlier_position(homes: list[Home]) -> None:
    first, other, _ = homes
    commit = Event("commit-1", NOW, Recorded(content="Use uv"), "commit-1")
    first.log._wall = lambda: NOW + 5
    other.log._wall = lambda: NOW + 9
    for home in (first, other):
        home.log.append([commit])
    merging.merge(first.log, other.own(), other.id)
    merged = merging.merge(other.log, first.own(), first.id)
    assert (merged.new, merged.replaced, merged.moved) == ((), 1, ())
    (here,), (there,) = first.log.read(), other.log.read()
    assert (here.clock, here.origin) == (there.clock, there.origin) == (NOW + 5, first.id)
    assert integrity.problems(other.log) == []


def test_an_event_that_a_home_sends_in_two_forms_comes_in_once(homes: list[Home]) -> None:
    first, other, _ = homes
    first.log.append([Event("memory-1", NOW, Recorded(content="The code is 4711"), "memory-1")])
    before = first.own()  # as a copy of a home that is no longer in use still records it
    erasing.erase(first.log, ["memory-1"], NOW)
    merging.merge(other.log, [*before, *first.own()], first.id)
    assert [event.kind for event in other.log.read()] == ["recorded", "erased"]


def test_an_import_that_another_version_read_otherwise_moves_what_is_built(
    homes: list[Home],
) -> None:
    first, other, _ = homes
    for home, text in ((first, "Use uv"), (other, "Use uv, not pip")):
        home.log._wall = lambda home=home: NOW + HOMES.index(home.id)
        home.log.append([Event("commit-1", NOW, Recorded(content=text), "commit-1")])
    assert merging.merge(first.log, other.own(), other.id).replaced == 0
    assert merging.merge(other.log, first.own(), first.id).moved == ("commit-1",)
    texts = [[event.body.content for event in home.log.read()] for home in (first, other)]  # type: ignore[attr-defined]
    assert texts == [["Use uv"], ["Use uv"]]


def test_an_erased_event_arrives_without_its_text(homes: list[Home]) -> None:
    first, other, _ = homes
    memory = Event("memory-1", NOW, Recorded(content="The door code is 4711"), "memory-1")
    first.log.append([memory])
    merging.merge(other.log, first.own(), first.id)
    other.log.append([Event("change-1", NOW, Revised(content="It is 4712 now"), "memory-1")])
    erasing.erase(first.log, ["memory-1"], NOW)
    merging.merge(first.log, other.own(), other.id)
    texts = [
        event.body.content
        for event in first.log.read()
        if isinstance(event.body, Recorded | Revised)
    ]
    assert not any(texts)


def test_a_build_of_merged_logs_passes_its_audits(tmp_path: Path, homes: list[Home]) -> None:
    live(random.Random(3), homes, 200)
    for home in homes:
        tenant = Tenant("default", home.log.path.parent)
        candidate = build.start(tenant, home.log, LexicalEmbedder())
        for projection in candidate.projections:
            _, tables = build.step(candidate, projection)
            assert [
                result.detail
                for result in build.check(candidate, projection, tables)
                if result.stops
            ] == []
