"""
lessons: how often each lesson was shown and followed, how its turns came out, and the drafts that
wait for a person.

Folded from what hooks told, in sums alone, so the events after a build are added to its tables by
whoever wants to know how things stand now. A turn came out well if all that was tried in it
(tests, a build, a lint, a deployment) passed in the end; one that tried nothing says nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from store.log.event_kinds import Accepted, Followed, Proposed, Rejected, Surfaced
from store.log.events import Event
from store.log.rows import redact_event
from store.redaction import redact
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables

_SHOWN = ("surfaced", "followed", "ignored", "not_applicable")
_IN_VAIN = "in_vain"  # shown before a tool and not applicable, by what was done afterwards
_TURNS = ("good_followed", "bad_followed", "good_ignored", "bad_ignored")  # turns, by verdict
LESSONS = pa.schema(
    [
        ("id", pa.string()),
        *((name, pa.int64()) for name in (*_SHOWN, _IN_VAIN, *_TURNS)),
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
        ("draft", pa.string()),  # JSON: the fields of the memory that a yes records
    ]
)
_JUDGED = ("followed", "ignored")


class Counts(Counter[str]):
    """Counts by column; what was never counted is 0."""


@dataclass
class Tally:
    """The sums so far, by lesson and by lesson and effort, and the open drafts by id."""

    lessons: dict[str, Counts] = field(default_factory=dict)
    efforts: dict[tuple[str, str], Counts] = field(default_factory=dict)
    drafts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Tables) -> "Tally":
        """Return what a build counted."""
        tally = cls()
        for row in tables["lessons"].to_pylist():
            tally.lessons[row.pop("id")] = Counts(row)
        for row in tables["efforts"].to_pylist():
            tally.efforts[row.pop("id"), row.pop("effort")] = Counts(row)
        tally.drafts = {row["id"]: row for row in tables["drafts"].to_pylist()}
        return tally

    def add(self, event: Event) -> bool:
        """Count an event; return whether it is one that counts."""
        match event.body:
            case Surfaced():
                counts = self.lessons.setdefault(event.subject, Counts())
                counts["surfaced"] += 1
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


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Add what was told since `previous` to what it counted."""
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
    """What a build counted, opened."""

    tables: Tables

    def of(self, id_: str) -> Counts:
        """Return what was counted of one lesson."""
        return self._counts.get(id_, Counts())

    @cached_property
    def _counts(self) -> dict[str, Counts]:
        return Tally.of({name: self.tables[name] for name in LESSONS_PROJECTION.schemas}).lessons


LESSONS_PROJECTION = Projection(
    name="lessons",
    version=f"2.{redact.VERSION}",
    inputs=("log",),
    schemas={"lessons": LESSONS, "efforts": EFFORTS, "drafts": DRAFTS},
    build=build,
)
