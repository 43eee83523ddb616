"""
The projection `sessions`: the order and the speakers of each session's memories, and its words.

A turn of a conversation omits the content of its neighbours, so recall lends it their words. A
memory's turn `before` (`after`) is its neighbour in the session, if by another speaker: then the
two are question and answer, or remark and reply. One speaker's consecutive notes have no
neighbours. Forgotten memories take no part. `members` lists the rows of each session, one session
after the other. Fingerprints show the changed memories: only those are read, and only their
sessions' words are summed again, from the postings' counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.index import segments
from store.index.bm25 import Formula, gather_lists, join_lists
from store.index.postings import PostingsIndex
from store.index.segments import Counted, Fingerprints
from store.log.event_kinds import TRUSTS
from store.memories.table import text_fingerprints
from store.snapshots.parallel import pack_table, unpack_table
from store.snapshots.projection import (
    Built,
    Inputs,
    Made,
    Previous,
    Projection,
    Tables,
    column_view,
    take_rows,
)
from store.text import tokenizer
from store.text.mentions import speaker_name
from store.text.text_features import Traits, of_memory

# one row a memory; numbers of sessions, of documents and of rows in `speakers`, -1 for none
TURNS = pa.schema(
    [
        ("session", pa.int32()),
        ("before", pa.int32()),
        ("after", pa.int32()),
        ("speaker", pa.int32()),
        ("asks", pa.int8()),  # 1 or 0, like the three below: see store.text.text_features
        ("dated", pa.int8()),
        ("personal", pa.int8()),
        ("rule", pa.int8()),
    ]
)
READ = pa.schema([("fingerprint", pa.uint64())])  # of each memory's trait inputs
MEMBERS = pa.schema([("row", pa.int32())])
STARTS = pa.schema([("start", pa.int32())])  # of each session in `members`, and the end of the last
SPEAKERS = pa.schema([("name", pa.string())])

_AT_ONCE = 16_384  # memories whose texts are read together
_MEMBERS = 131_072  # memories whose words are added up together: bounds the memory of a build

Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.int8]


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Return the turns, the speakers, and an index whose documents are sessions."""
    table, columns = (inputs.tables["memories"][name] for name in ("memories", "columns"))
    marks = text_fingerprints(columns)
    said_by, persons, names = speakers(table, columns)
    placed = turns(table, columns, marks != 0, said_by)
    old = None if previous is None else previous.tables
    read = _trait_fingerprints(table, marks)
    traits = _traits(inputs, table, read, old)
    return {
        "turns": pa.table(
            [placed.session, placed.before, placed.after, persons, *traits.T], schema=TURNS
        ),
        "read": pa.table([read], schema=READ),
        "speakers": pa.table([pa.array(names, pa.string())], schema=SPEAKERS),
        "members": pa.table([placed.members], schema=MEMBERS),
        "starts": pa.table([placed.starts], schema=STARTS),
        **segments.update_segments(
            _session_fingerprints(marks[placed.members], placed.starts),
            old,
            partial(_sum_counts, inputs.tables["postings"], placed.members, placed.starts),
            inputs.keep,
            Formula(),
        ),
    }


def _trait_fingerprints(table: pa.Table, marks: Fingerprints) -> Fingerprints:
    """Return fingerprints of the traits' inputs: the text, and the length of its content."""
    import pyarrow.compute as pc  # jobs only

    sizes = [pc.binary_length(chunk).to_numpy() for chunk in table.column("content").chunks]
    sized = np.concatenate([np.empty(0, np.uint64), *sizes]).astype(np.uint64)
    return np.where(marks != 0, _mix_bits(marks + sized), np.uint64(0))


def _traits(
    inputs: Inputs, table: pa.Table, read: Fingerprints, old: Built | None
) -> npt.NDArray[np.int8]:
    """Return the traits of each memory's text, [memories, traits]; a forgotten one has none."""
    traits = np.zeros((len(read), len(Traits._fields)), np.int8)
    changed = read != 0
    if old is not None and (read_before := old.rows["read"]) <= len(read):
        changed[:read_before] &= column_view(old["read"], "fingerprint") != read[:read_before]
        is_live = read[:read_before] != 0
        for place, name in enumerate(Traits._fields):
            traits[:read_before, place] = column_view(old["turns"], name) * is_live
    rows = np.flatnonzero(changed)
    runs = np.split(rows, range(_AT_ONCE, len(rows), _AT_ONCE))
    texts = table.select(["content", "kind", "trust"])
    pieces = (pack_table(take_rows(texts, run)) for run in runs)
    mapped = map(_parse_traits, pieces) if len(runs) == 1 else inputs.map(_parse_traits, pieces)
    for run, traits_of_run in zip(runs, mapped, strict=True):
        traits[run] = traits_of_run
    return traits


def _parse_traits(data: pa.Buffer) -> npt.NDArray[np.int8]:
    table = unpack_table(data)
    columns = (table.column(name).to_pylist() for name in ("content", "kind", "trust"))
    flags = chain.from_iterable(map(of_memory, *columns))
    return np.fromiter(flags, np.int8).reshape(-1, len(Traits._fields))


def _session_fingerprints(marks: Fingerprints, starts: Numbers) -> Fingerprints:
    """Return a fingerprint for each session of its members' marks; 0 for one without members."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix_bits(marks), dtype=np.uint64)])
    sums = np.maximum(total[starts[1:]] - total[starts[:-1]], np.uint64(1))
    return np.where(np.diff(starts) > 0, sums, np.uint64(0))


def _mix_bits(marks: Fingerprints) -> Fingerprints:
    """Return 64 mixed bits for each 64 bits (splitmix64's last steps)."""
    mixed = (marks ^ marks >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)


def _sum_counts(
    postings: Built, members: Numbers, starts: Numbers, runs: Sequence[npt.NDArray[np.int64]]
) -> Iterator[Counted]:
    """Yield the lists of each run of sessions: the postings' counts of their members."""
    covered = segments.ranges(postings.rows["documents"])
    every = column_view(postings["documents"], "length") if runs else np.empty(0, np.int32)
    into = np.full(len(every), -1, np.int32)
    for run in runs:
        lists = []
        sizes = (starts[run + 1] - starts[run]).astype(np.int64)
        for part in np.split(run, np.flatnonzero(np.diff((np.cumsum(sizes) - 1) // _MEMBERS)) + 1):
            rows = np.concatenate([members[starts[number] : starts[number + 1]] for number in part])
            into[rows] = np.repeat(part, starts[part + 1] - starts[part])
            near = [place for place, ends in enumerate(covered) if (into[slice(*ends)] >= 0).any()]
            lists.append(gather_lists((segments.lists_of(postings, place) for place in near), into))
            into[rows] = -1
        rows = np.concatenate([members[starts[number] : starts[number + 1]] for number in run])
        ends = np.cumsum(sizes)
        yield join_lists(lists), np.add.reduceat(every[rows], ends - sizes).astype(np.int32)


def by_part(names: Iterable[str]) -> dict[str, set[str]]:
    """Return the names that have each part of a name (given, family, handle)."""
    owners: dict[str, set[str]] = {}
    for name in names:
        for part in name.removeprefix("@").split():
            owners.setdefault(part, set()).add(name)
    return owners


SESSIONS_PROJECTION = Projection(
    name="sessions",
    version=f"5.{tokenizer.TOKENIZER_VERSION}",
    inputs=("memories", "postings"),
    schemas={
        "turns": TURNS,
        "read": READ,
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
            **{name: column_view(turns, name) for name in TURNS.names},
            members=column_view(tables["members"], "row"),
            starts=column_view(tables["starts"], "start"),
            names=tuple(tables["speakers"].column("name").to_pylist()),
            index=PostingsIndex.open(tables),
        )

    @cached_property
    def people(self) -> dict[str, set[str]]:
        """The full names that have each part of a name."""
        return by_part(self.names)

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each speaker's name in `names`."""
        return {name: place for place, name in enumerate(self.names)}


# Turns: the memories of each session, their order and their speakers, by arrays alone.
#
# A session is that of one project and has two memories or more. Its number dates from its second
# memory, forgotten ones included, so that no session's number changes when memories are added or
# forgotten. A session with one memory left keeps its number and has no members.

NONE = -1  # no session, no neighbour, no person


Codes = npt.NDArray[np.int64]


class Turns(msgspec.Struct, frozen=True):
    """Each memory's place in its session, [memories]; `members` and `starts` by session."""

    session: Numbers
    before: Numbers
    after: Numbers
    members: Numbers  # the rows of each session, one session after the other
    starts: Numbers  # the start of each session's, and the end of the last


def turns(
    memories: pa.Table, columns: pa.Table, live: npt.NDArray[np.bool_], said_by: Codes
) -> Turns:
    """Return the turns of the memories that are `live`; `said_by` are codes of the speakers."""
    numbers, sessions = _numbers(_codes(memories, "session")[0], column_view(columns, "project"))
    there = live & (numbers != NONE)
    sizes = np.bincount(numbers[there], minlength=sessions)
    rows = np.flatnonzero(there)
    rows = rows[sizes[numbers[rows]] > 1]
    members = rows[np.lexsort((rows, column_view(columns, "created_at")[rows], numbers[rows]))]
    session, before, after = (np.full(len(live), NONE, np.int32) for _ in range(3))
    session[members] = numbers[members]
    earlier, later = members[:-1], members[1:]
    answered = (session[earlier] == session[later]) & (said_by[earlier] != said_by[later])
    after[earlier[answered]] = later[answered]
    before[later[answered]] = earlier[answered]
    starts = np.searchsorted(session[members], np.arange(sessions + 1))
    return Turns(session, before, after, members.astype(np.int32), starts.astype(np.int32))


def speakers(memories: pa.Table, columns: pa.Table) -> tuple[Codes, Numbers, list[str]]:
    """Return codes of the speakers, each row's place among the persons' names, and those, sorted.

    The speaker is the author, else the memory's trust.
    """
    codes, authors = _codes(memories, "created_by")
    places = {author: place for place, author in enumerate(authors)}
    trusted = [places.setdefault(trust, len(places)) for trust in TRUSTS]
    unsaid = np.append(np.array([not author for author in authors], np.bool_), True)  # -1 is last
    said_by = np.where(unsaid[codes], np.array(trusted)[column_view(columns, "trust")], codes)
    persons_of_authors = [speaker_name(author) if author else None for author in authors]
    present = np.unique(codes)
    names = sorted({name for code in present[present >= 0] if (name := persons_of_authors[code])})
    place_of = {name: place for place, name in enumerate(names)}
    persons = [place_of.get(name, NONE) if name else NONE for name in persons_of_authors]
    return said_by, np.array([*persons, NONE], np.int32)[codes], names


def _numbers(sessions: Codes, projects: npt.NDArray[np.int32]) -> tuple[Numbers, int]:
    """Return each row's session, NONE if it is alone in it, and the number of sessions."""
    numbers = np.full(len(sessions), NONE, np.int32)
    rows = np.flatnonzero(sessions >= 0)
    keys = sessions[rows] << 32 | (projects[rows].astype(np.int64) + 1)
    _, first, group, sizes = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    is_first = np.zeros(len(rows), np.bool_)
    is_first[first] = True
    others = np.flatnonzero(~is_first)
    second = np.full(len(sizes), len(rows))
    np.minimum.at(second, group[others], others)
    number = np.full(len(sizes), NONE, np.int32)
    order = np.argsort(second)[: int((sizes > 1).sum())]
    number[order] = np.arange(len(order))
    numbers[rows] = number[group]
    return numbers, len(order)


def _codes(table: pa.Table, name: str) -> tuple[Codes, Sequence[str]]:
    """Return a column of texts as places in a list, [rows]: -1 for null; and that list."""
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if not column.num_chunks:
        return np.empty(0, np.int64), []
    coded = column.unify_dictionaries()
    codes = [chunk.indices.fill_null(-1).to_numpy() for chunk in coded.chunks]
    return np.concatenate(codes).astype(np.int64), coded.chunk(0).dictionary.to_pylist()
