"""
Turns: which memories are of one session, in which order, and who said each, by arrays alone.

A session is that of one project and has two memories or more. It has its number from when it got
its second, forgotten ones among them, so that no session's number changes when memories are added
or forgotten. Of a session that has one left there is nothing to tell: it keeps its number and has
no members.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.events import TRUSTS
from store.snapshots.projection import column_view
from store.text.mentions import speaker_name

NONE = -1  # no session, no neighbour, no person

Numbers = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Turns:
    """Where each memory stands in its session, [memories]; `members` and `starts` by session."""

    session: Numbers
    before: Numbers
    after: Numbers
    members: Numbers  # the rows of each session, one session after the other
    starts: Numbers  # where each session's begin, and the end of the last


def turns(
    memories: pa.Table, columns: pa.Table, live: npt.NDArray[np.bool_], said_by: Codes
) -> Turns:
    """Return the turns of the memories that are `live`; `said_by` tells speakers apart."""
    numbers, sessions = _numbers(_codes(memories, "session")[0], column_view(columns, "project"))
    there = live & (numbers != NONE)
    held = np.bincount(numbers[there], minlength=sessions)
    rows = np.flatnonzero(there)
    rows = rows[held[numbers[rows]] > 1]
    members = rows[np.lexsort((rows, column_view(columns, "created_at")[rows], numbers[rows]))]
    session, before, after = (np.full(len(live), NONE, np.int32) for _ in range(3))
    session[members] = numbers[members]
    one, next_one = members[:-1], members[1:]
    answered = (session[one] == session[next_one]) & (said_by[one] != said_by[next_one])
    after[one[answered]] = next_one[answered]
    before[next_one[answered]] = one[answered]
    starts = np.searchsorted(session[members], np.arange(sessions + 1))
    return Turns(session, before, after, members.astype(np.int32), starts.astype(np.int32))


def speakers(memories: pa.Table, columns: pa.Table) -> tuple[Codes, Numbers, list[str]]:
    """Return who said each memory, each row's place among the persons' names, and those, sorted.

    Who said it is its author, else whose word it is.
    """
    codes, authors = _codes(memories, "created_by")
    places = {author: place for place, author in enumerate(authors)}
    trusted = [places.setdefault(trust, len(places)) for trust in TRUSTS]
    unsaid = np.append(np.array([not author for author in authors], np.bool_), True)  # -1 is last
    said_by = np.where(unsaid[codes], np.array(trusted)[column_view(columns, "trust")], codes)
    found = [speaker_name(author) if author else None for author in authors]
    present = np.unique(codes)
    names = sorted({name for code in present[present >= 0] if (name := found[code])})
    place_of = {name: place for place, name in enumerate(names)}
    persons = [place_of.get(name, NONE) if name else NONE for name in found]
    return said_by, np.array([*persons, NONE], np.int32)[codes], names


def _numbers(sessions: Codes, projects: npt.NDArray[np.int32]) -> tuple[Numbers, int]:
    """Return each row's session, NONE where it is alone in it, and how many sessions there are."""
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
