"""
Facets: counts of the values that the memories of a list share, so that it can be narrowed.

Kind, project, trust and session count each memory once. Times count back from now: a memory of the
last day is one of the last week too, as in the filter of that name.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from serve.formatting import day
from serve.reader.memory_json import shown_text
from serve.reader.view import View
from store.home.instants import DAY, micros
from store.home.projects import SHARED
from store.memories.rows import MemoryRows
from store.text.excerpt import one_line

TIMES = {"1d": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days", "365d": "last year"}
SHOWN = 8  # values of a facet
MOST_BY_SESSION = 2_000  # memories whose sessions are counted: there is no column of them
_CODED = ("kind", "project", "trust")
_TITLES = {"kind": "Kind", "project": "Project", "since": "Time", "trust": "Trust"}
_TITLE_LENGTH = 48  # characters that name a session

Documents = npt.NDArray[np.int64]


class Value(msgspec.Struct, frozen=True):
    """One value of a facet: for the filter, as a label, and its number of memories."""

    value: str
    label: str
    count: int


class Facet(msgspec.Struct, frozen=True):
    """A facet's values, the commonest first, times by length. `more` counts those left out."""

    name: str
    title: str
    values: tuple[Value, ...]
    more: int = 0


def facets_of_documents(view: View, documents: Documents, now: int) -> list[Facet]:
    """Return the facets of some documents of a view: rows, then slots of the tail."""
    rows, tail = view.snapshots.rows, view.tail
    built = documents[documents < len(rows)]
    slots = documents[documents >= len(rows)] - len(rows)
    counts = {
        name: _count_codes(rows, name, built)
        + Counter(filter(None, tail.columns.column_values(name, slots)))
        for name in _CODED
    }
    moments = np.concatenate([rows.created_at[built], tail.columns.created_at[slots]])
    sessions: Counter[str] = Counter()
    if len(documents) <= MOST_BY_SESSION:
        values = (rows.memories.value(row, "session") for row in built.tolist())
        sessions.update(filter(None, values))
        sessions.update(memory.session for memory in tail.take(slots.tolist()) if memory.session)
    return _facets(view, counts, moments, sessions, now)


def facets_of_hits(view: View, hits: Sequence[Mapping[str, Any]], now: int) -> list[Facet]:
    """Return the facets of the hits of a recall, given as JSON."""
    counts = {name: Counter(filter(None, (hit.get(name) for hit in hits))) for name in _CODED}
    moments = np.array([micros(datetime.fromisoformat(hit["at"])) for hit in hits], np.int64)
    sessions = Counter(filter(None, (hit.get("session") for hit in hits)))
    return _facets(view, counts, moments, sessions, now)


def project_names(view: View, most: int) -> list[str]:
    """Return the names of the memories' projects, in order; a shared note adds no project of its
    own.
    """
    names = set(view.snapshots.rows.projects.column("name").to_pylist())
    names |= set(view.tail.columns.codes["project"])
    return sorted(name for name in names if SHARED not in name)[:most]


def _count_codes(rows: MemoryRows, name: str, built: Documents) -> Counter[str]:
    """Count the values of a coded column in some rows."""
    codes = rows.codes(name)[built]
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    pairs = zip(rows.column_values(name, built[first]), counts.tolist(), strict=True)
    return Counter({value: count for value, count in pairs if value is not None})


def _facets(
    view: View,
    counts: Mapping[str, Counter[str]],
    moments: Documents,
    sessions: Counter[str],
    now: int,
) -> list[Facet]:
    facets = [_facet(name, counts[name].items()) for name in ("kind", "project")]
    spans = []
    for span, label in TIMES.items():
        since = now - int(span.removesuffix("d")) * DAY
        if count := int(np.count_nonzero(moments >= since)):
            spans.append(Value(span, label, count))
    facets.append(Facet("since", _TITLES["since"], tuple(spans)))
    facets.append(_facet("trust", counts["trust"].items()))
    first = sessions.most_common(SHOWN)
    named = tuple(Value(id_, session_title(view, id_), count) for id_, count in first)
    facets.append(Facet("session", "Session", named, max(0, len(sessions) - SHOWN)))
    return [facet for facet in facets if facet.values]


def _facet(name: str, counts: Iterable[tuple[str, int]]) -> Facet:
    ordered = sorted(counts, key=lambda pair: (-pair[1], pair[0]))
    values = tuple(Value(of, of.replace("_", " "), count) for of, count in ordered[:SHOWN])
    return Facet(name, _TITLES[name], values, max(0, len(ordered) - SHOWN))


def session_title(view: View, session: str) -> str:
    """Return a session's title: the day and the words of its newest turn, else its id."""
    id_ = view.snapshots.rows.episode(session)
    memory = view.tail.find(id_) if id_ else None
    if memory is None or not memory.content:
        return session[:_TITLE_LENGTH]
    return f"{day(memory.created_at)} {one_line(shown_text(memory), _TITLE_LENGTH)}"
