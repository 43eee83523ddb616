"""
sessions: which memories were said one after the other, by whom, and the words of whole sessions.

A turn of a conversation leaves out what the turns around it say, so recall lends it their words. A
memory's turn `before` (`after`) is its neighbour in the session, and only where another speaker
said that: then the two are question and answer, or remark and reply. One speaker's notes in a row
stand for themselves. A session is that of one project; of a session with one memory there is
nothing to tell. Forgotten memories take no part. `members` lists the rows of each session, one
session after the other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store import text
from store.columns import view
from store.mentions import speaker_name
from store.projection import Built, Inputs, Made, Previous, Projection, Tables
from store.projections import memories, postings
from store.projections.lexical import segments
from store.projections.postings import PostingsIndex
from store.traits import Traits, of_memory

NONE = -1  # no session, no neighbour, no person

# one row a memory; numbers of sessions, of documents and of rows in `speakers`
TURNS = pa.schema(
    [
        ("session", pa.int32()),
        ("before", pa.int32()),
        ("after", pa.int32()),
        ("speaker", pa.int32()),
        ("asks", pa.int8()),  # 1 or 0, like the three below: what store.traits says
        ("dated", pa.int8()),
        ("personal", pa.int8()),
        ("rule", pa.int8()),
    ]
)
MEMBERS = pa.schema([("row", pa.int32())])
STARTS = pa.schema([("start", pa.int32())])  # of each session in `members`, and the end of the last
SPEAKERS = pa.schema([("name", pa.string())])

Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.int8]


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Return the turns, the speakers, and an index whose documents are sessions.

    `previous` is not needed.
    """
    table = inputs.tables["memories"]["memories"]
    sessions = _sessions(table)
    numbers, before, after = (np.full(len(table), NONE, np.int32) for _ in range(3))
    said_by = _said_by(table)
    for number, rows in enumerate(sessions):
        numbers[rows] = number
        for one, next_one in pairwise(rows):
            if said_by[one] != said_by[next_one]:
                after[one], before[next_one] = next_one, one
    speakers, names = _speakers(table)
    columns = (numbers, before, after, speakers, *_traits(table).T)
    members = np.fromiter(chain.from_iterable(sessions), np.int32)
    starts = np.cumsum([0, *map(len, sessions)], dtype=np.int32)
    return {
        "turns": pa.table([pa.array(column) for column in columns], schema=TURNS),
        "speakers": pa.table([pa.array(names, pa.string())], schema=SPEAKERS),
        "members": pa.table([pa.array(members)], schema=MEMBERS),
        "starts": pa.table([pa.array(starts)], schema=STARTS),
        **_index(table, sessions).parts,
    }


def _sessions(table: pa.Table) -> list[list[int]]:
    """Return the rows of each session of two memories or more, in the order they were said."""
    columns = (_column(table, name) for name in ("project", "session", "created_at"))
    rows: dict[tuple[str | None, str], list[tuple[int, int]]] = {}
    states = memories.states(table)
    for row, (project, session, at) in enumerate(zip(*columns, strict=True)):
        if session is not None and states[row] != memories.FORGOTTEN:
            rows.setdefault((project, session), []).append((at, row))
    return [[row for _, row in sorted(some)] for some in rows.values() if len(some) > 1]


def _said_by(table: pa.Table) -> list[str]:
    """Return who said each memory: its author, else whose word it is."""
    return [
        author or trust
        for author, trust in zip(_column(table, "created_by"), _column(table, "trust"), strict=True)
    ]


def _speakers(table: pa.Table) -> tuple[Numbers, list[str]]:
    """Return each row's place among the persons' names, and those, sorted."""
    found = [speaker_name(author) if author else None for author in _column(table, "created_by")]
    names = sorted({name for name in found if name})
    places = {name: place for place, name in enumerate(names)}
    rows = [places[name] if name else NONE for name in found]
    return np.asarray(rows, np.int32), names


def _traits(table: pa.Table) -> npt.NDArray[np.int8]:
    """Return what each row's text shows, [rows, traits]."""
    shown = map(of_memory, *(_column(table, name) for name in ("content", "kind", "trust")))
    return np.fromiter(chain.from_iterable(shown), np.int8).reshape(-1, len(Traits._fields))


def _index(table: pa.Table, sessions: Sequence[Sequence[int]]) -> Built:
    """Return a BM25 index with the sessions as its documents."""
    within = np.zeros(len(table), np.bool_)
    within[list(chain.from_iterable(sessions))] = True
    rows = np.flatnonzero(within)
    texts = memories.searched_texts(table.take(pa.array(rows)))
    found = dict(zip(rows.tolist(), map(text.terms, texts), strict=True))
    return postings.index(
        list(chain.from_iterable(found[row] for row in session)) for session in sessions
    )


def _column(table: pa.Table, name: str) -> list[Any]:
    values: list[Any] = table.column(name).to_pylist()
    return values


def by_part(names: Iterable[str]) -> dict[str, set[str]]:
    """Return for each part of the names (given, family, handle) whose it is."""
    found: dict[str, set[str]] = {}
    for name in names:
        for part in name.removeprefix("@").split():
            found.setdefault(part, set()).add(name)
    return found


SESSIONS_PROJECTION = Projection(
    name="sessions",
    version=f"4.{text.TOKENIZER_VERSION}",
    inputs=("memories",),
    schemas={
        "turns": TURNS,
        "speakers": SPEAKERS,
        "members": MEMBERS,
        "starts": STARTS,
        **segments.SCHEMAS,
    },
    build=build,
)


@dataclass(frozen=True)
class Sessions:
    """The tables as recall reads them, [rows] each, mapped; `index` scores whole sessions."""

    session: Numbers
    before: Numbers
    after: Numbers
    speaker: Numbers
    asks: Flags
    dated: Flags
    personal: Flags
    rule: Flags
    members: Numbers
    starts: Numbers
    names: tuple[str, ...]
    index: PostingsIndex

    @classmethod
    def open(cls, tables: Tables) -> "Sessions":
        turns = tables["turns"]
        return cls(
            **{name: view(turns, name) for name in TURNS.names},
            members=view(tables["members"], "row"),
            starts=view(tables["starts"], "start"),
            names=tuple(tables["speakers"].column("name").to_pylist()),
            index=PostingsIndex.open(tables),
        )

    @cached_property
    def people(self) -> dict[str, set[str]]:
        """Whose each part of a name is."""
        return by_part(self.names)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each speaker's name stands."""
        return {name: place for place, name in enumerate(self.names)}
