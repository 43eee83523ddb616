"""
Feedback: the use and the success of recalled memories, folded from the log.

`usage` counts recalls, ratings and judgments of each memory; `lessons` counts how often each lesson
was shown and followed and how its turns came out, and keeps the drafts that await review. Reading
changes nothing here: a recall counts from the next build on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.log.event_kinds import (
    Accepted,
    Followed,
    Judged,
    Proposed,
    Rated,
    Recalled,
    Rejected,
    Surfaced,
)
from store.log.events import Event
from store.log.rows import redact_event
from store.memories.parts import MemoryParts, fields_of
from store.redaction import redact
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables, column_view
from store.text.text_features import MAY_RULE

# Usage: memories that were never recalled or rated have no row. The rating of a recall counts for
# all its memories, for the newest KEPT_RECEIPTS recalls. Judgments without evidence do not count,
# nor does any verdict of a tool or the web.

USAGE = pa.schema(
    [
        ("document", pa.int32()),
        ("id", pa.string()),
        ("recalled", pa.int64()),
        ("last_recalled_at", pa.int64()),  # microseconds UTC; 0 for never
        ("ratings", pa.int64()),
        ("verdicts", pa.int64()),  # the sum of the ratings, in thousandths: sums stay exact
        ("judged", pa.int64()),  # by a job, from the work done afterwards
        ("judgments", pa.int64()),  # the sum of these, in thousandths
    ]
)
RECEIPTS = pa.schema([("id", pa.string()), ("hits", pa.list_(pa.string()))])  # the oldest first
_COUNTS = ("recalled", "last_recalled_at", "ratings", "verdicts", "judged", "judgments")

KEPT_RECEIPTS = 2_000  # receipts that may still be rated

_Use = tuple[str, int, int, int, int, int, int, int]  # id, seq, and the counts


def build_usage(inputs: Inputs, previous: Previous | None) -> Made:
    """Add the receipts and ratings since `previous` to its counts."""
    receipts: dict[str, list[str]] = {}
    if previous is not None:
        rows = previous.tables["receipts"].to_pylist()
        receipts = {row["id"]: row["hits"] for row in rows}
    uses: list[_Use] = []
    for event in inputs.read(0 if previous is None else previous.watermark):
        uses.extend(_uses(event, receipts))
    if not uses:
        if previous is not None:
            return previous.tables.parts
        return {"usage": USAGE.empty_table(), "receipts": RECEIPTS.empty_table()}
    # a use before the memory's recording was of another one: an earlier build had no row for it
    memories = _memory_rows(inputs.tables["memories"], {use[0] for use in uses})
    kept = [
        (memories[id_][0], *counts)
        for id_, seq, *counts in uses
        if id_ in memories and seq > memories[id_][1]
    ]
    counts = np.array(kept, np.int64).reshape(-1, 1 + len(_COUNTS))
    if previous is not None:
        before = previous.tables["usage"]
        names = ("document", *_COUNTS)
        old = [column_view(before, name).astype(np.int64) for name in names]
        counts = np.concatenate([np.stack(old, axis=1), counts])
    documents, places = np.unique(counts[:, 0], return_inverse=True)
    usage = np.zeros((len(documents), len(_COUNTS)), np.int64)
    for column, name in enumerate(_COUNTS):
        fold = np.maximum if name == "last_recalled_at" else np.add
        fold.at(usage[:, column], places, counts[:, 1 + column])
    ids = fields_of(inputs.tables["memories"], documents, ["id"]).column("id")
    columns = [pa.array(documents, pa.int32()), ids, *(pa.array(column) for column in usage.T)]
    receipt_rows = [{"id": id_, "hits": hits} for id_, hits in receipts.items()]
    return {
        "usage": pa.table(columns, schema=USAGE),
        "receipts": pa.Table.from_pylist(receipt_rows, RECEIPTS),
    }


def _uses(event: Event, receipts: dict[str, list[str]]) -> Iterable[_Use]:
    """Yield the uses of memories in an event; keep the newest of the `receipts`."""
    match event.body:
        case Recalled(hits=hits) if hits:
            receipts[event.id] = [hit.id for hit in hits]
            if len(receipts) > KEPT_RECEIPTS:
                del receipts[next(iter(receipts))]
            yield from ((hit.id, event.seq, 1, event.at, 0, 0, 0, 0) for hit in hits)
        case Rated(verdict=verdict) if event.trust in MAY_RULE:
            thousandths = round(verdict * 1_000)
            for id_ in receipts.get(event.subject, [event.subject]):
                yield (id_, event.seq, 0, 0, 1, thousandths, 0, 0)
        case Judged(verdicts=verdicts) if event.trust in MAY_RULE:
            for id_, judgment in verdicts.items():
                if judgment:
                    yield (id_, event.seq, 0, 0, 0, 0, 1, round(judgment * 1_000))


def _memory_rows(tables: Tables, ids: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the document and the recording seq of each id that is a memory."""
    memories = MemoryParts.open(tables)
    rows = {id_: row for id_ in ids if (row := memories.row(id_)) is not None}
    seqs = (
        tables["columns"].column("seq").take(pa.array(list(rows.values()), pa.int64())).to_pylist()
    )
    return {id_: (row, seq) for (id_, row), seq in zip(rows.items(), seqs, strict=True)}


class Usage(msgspec.Struct, frozen=True):
    """The usage counts, by document number; all arrays have one entry for each used memory."""

    documents: npt.NDArray[np.int32]
    recalled: npt.NDArray[np.int64]
    last_recalled_at: npt.NDArray[np.int64]
    ratings: npt.NDArray[np.int64]
    verdicts: npt.NDArray[np.int64]
    judged: npt.NDArray[np.int64]
    judgments: npt.NDArray[np.int64]

    @classmethod
    def open(cls, tables: Tables) -> "Usage":
        table = tables["usage"]
        return cls(*(column_view(table, name) for name in ("document", *_COUNTS)))

    def of(self, document: int) -> tuple[int, int]:
        """Return the number of recalls of a memory, and the moment of the last (0: never)."""
        place = int(np.searchsorted(self.documents, document))
        if place == len(self.documents) or int(self.documents[place]) != document:
            return 0, 0
        return int(self.recalled[place]), int(self.last_recalled_at[place])

    def counts(self, name: str, documents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return a column for some documents, [documents]; 0 for an unused one."""
        return self.columns((name,), documents)[0]

    def columns(
        self, names: Sequence[str], documents: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[np.int64]]:
        """Return columns for some documents, each [documents]; 0 for an unused one."""
        columns = [np.zeros(len(documents), np.int64) for _ in names]
        if len(self.documents):
            places = self.documents.searchsorted(documents)
            used = self.documents.take(places, mode="clip") == documents
            places = places[used]
            for name, counts in zip(names, columns, strict=True):
                counts[used] = getattr(self, name)[places]
        return columns


USAGE_PROJECTION = Projection(
    name="usage",
    version="2",
    inputs=("log", "memories"),
    schemas={"usage": USAGE, "receipts": RECEIPTS},
    build=build_usage,
    for_builds=frozenset({"receipts"}),
)


# Lessons: from hook events, in sums alone, so that readers can add the events after a build to its
# tables. A turn succeeded if all its tests, builds, lints and deployments passed in the end; a turn
# without any does not count.

_SHOWN = ("surfaced", "followed", "ignored", "not_applicable")
_BEFORE_TOOL = "before_tool"  # of those shown
_IN_VAIN = "in_vain"  # shown before a tool and not applicable, judged by the work done afterwards
_TURNS = ("good_followed", "bad_followed", "good_ignored", "bad_ignored")  # turns, by verdict
LESSONS = pa.schema(
    [
        ("id", pa.string()),
        *((name, pa.int64()) for name in (*_SHOWN, _BEFORE_TOOL, _IN_VAIN, *_TURNS)),
        ("last_surfaced_at", pa.int64()),  # microseconds UTC; 0 for never
    ]
)
EFFORTS = pa.schema(
    [("id", pa.string()), ("effort", pa.string()), *((name, pa.int64()) for name in _TURNS)]
)
DRAFTS = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.int64()),
        ("project", pa.string()),
        ("session", pa.string()),
        ("because", pa.string()),
        ("draft", pa.string()),  # JSON: the fields of the memory that is recorded on acceptance
    ]
)
_JUDGED = ("followed", "ignored")


class Counts(Counter[str]):
    """Counts by column; missing columns are 0."""


@dataclass
class Tally:
    """The sums so far, by lesson and by lesson and effort, and the open drafts by id."""

    lessons: dict[str, Counts] = field(default_factory=dict)
    efforts: dict[tuple[str, str], Counts] = field(default_factory=dict)
    drafts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Tables) -> "Tally":
        """Return the tally of a build."""
        tally = cls()
        for row in tables["lessons"].to_pylist():
            tally.lessons[row.pop("id")] = Counts(row)
        for row in tables["efforts"].to_pylist():
            tally.efforts[row.pop("id"), row.pop("effort")] = Counts(row)
        tally.drafts = {row["id"]: row for row in tables["drafts"].to_pylist()}
        return tally

    def add(self, event: Event) -> bool:
        """Count an event; return False if it does not count."""
        match event.body:
            case Surfaced():
                counts = self.lessons.setdefault(event.subject, Counts())
                counts["surfaced"] += 1
                counts[_BEFORE_TOOL] += event.body.place == "tool"
                counts["last_surfaced_at"] = max(counts["last_surfaced_at"], event.at)
            case Followed():
                self._judge(event.subject, event.body)
            case Proposed(what="lesson"):
                self.drafts[event.id] = _draft(redact_event(event))
            case Accepted() | Rejected():
                self.drafts.pop(event.subject, None)
            case _:
                return False
        return True

    def _judge(self, id_: str, body: Followed) -> None:
        counts = self.lessons.setdefault(id_, Counts())
        counts[body.verdict] += 1
        counts[_IN_VAIN] += body.verdict == "not_applicable" and body.place == "tool"
        if body.verdict not in _JUDGED or not body.stood:
            return
        counts[f"{_came_out(all(body.stood.values()))}_{body.verdict}"] += 1
        for effort, passed in body.stood.items():
            of_effort = self.efforts.setdefault((id_, effort), Counts())
            of_effort[f"{_came_out(passed)}_{body.verdict}"] += 1

    def tables(self) -> Tables:
        """Return the sums as tables, by id."""
        lessons = [
            {"id": id_, **_row_of(LESSONS, self.lessons[id_])} for id_ in sorted(self.lessons)
        ]
        efforts = [
            {"id": id_, "effort": effort, **_row_of(EFFORTS, self.efforts[id_, effort])}
            for id_, effort in sorted(self.efforts)
        ]
        drafts = [self.drafts[id_] for id_ in sorted(self.drafts)]
        return {
            "lessons": pa.Table.from_pylist(lessons, LESSONS),
            "efforts": pa.Table.from_pylist(efforts, EFFORTS),
            "drafts": pa.Table.from_pylist(drafts, DRAFTS),
        }


def build_lessons(inputs: Inputs, previous: Previous | None) -> Made:
    """Add the events since `previous` to its counts."""
    tally = Tally() if previous is None else Tally.of(previous.tables)
    counted = [tally.add(event) for event in inputs.read(previous.watermark if previous else 0)]
    if previous is not None and not any(counted):
        return previous.tables.parts
    return tally.tables()


def _draft(event: Event) -> dict[str, Any]:
    body = event.body
    assert isinstance(body, Proposed)
    return {
        "id": event.id,
        "at": event.at,
        "project": event.project,
        "session": event.session,
        "because": body.because,
        "draft": msgspec.json.encode(body.draft, order="sorted").decode(),
    }


def _came_out(well: bool) -> str:
    return "good" if well else "bad"


def _row_of(schema: pa.Schema, counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in schema.names if name not in ("id", "effort")}


@dataclass(frozen=True)
class Lessons:
    """The lesson counts of a build, opened."""

    tables: Tables

    def of(self, id_: str) -> Counts:
        """Return the counts of one lesson."""
        return self._counts.get(id_, Counts())

    @cached_property
    def _counts(self) -> dict[str, Counts]:
        return Tally.of({name: self.tables[name] for name in LESSONS_PROJECTION.schemas}).lessons


LESSONS_PROJECTION = Projection(
    name="lessons",
    version=f"3.{redact.VERSION}",
    inputs=("log",),
    schemas={"lessons": LESSONS, "efforts": EFFORTS, "drafts": DRAFTS},
    build=build_lessons,
)
