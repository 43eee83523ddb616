"""
Constraints: the rules that every table of a manifest keeps, checked beyond its hashes.

A hash proves that a file is unchanged, not that its content is valid: a faulty builder, another
program or a half-compatible version may have written it. Row counts are checked when a snapshot is
opened, from the manifest alone; values are checked whenever a file is hashed, which reads it
anyway. `verify` compares texts and moments with the log's.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.home.errors import SnapshotDamaged
from store.home.instants import EARLIEST, LATEST
from store.index import segments
from store.log.event_kinds import MEMORY_KINDS, TIERS, TRUSTS
from store.memories.memory import STATES
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Projection, column_view
from store.snapshots.snapshot import SnapshotRef

# The constraints of the tables of projections, beyond their schemas.
#
# Rows of one table are numbered by another's, and columns of places (rows, documents, codes) lead
# into others: a place out of range breaks its reader, and one below 0 silently counts from the end.
# `store.derived.constraints` holds files to this.

Order = Literal["any", "ascending", "rising", "each once"]  # ascending ones may repeat

# stand for a limit from the manifest
WATERMARK = "watermark"
HERE = "@"  # after a table's name: its part of the same number


class Numbers(msgspec.Struct, frozen=True):
    """From `least` up to below a number, or the rows of a table (`projection.table`), and `more`.

    Without `below` there is no limit. No integer is null, but in a column that `may_lack` some.
    """

    least: int | None = 0
    below: int | str | None = None
    more: int = 0
    order: Order = "any"
    may_lack: bool = False


class Present(msgspec.Struct, frozen=True):
    """A column without nulls, or lists with nulls; texts that `are_json` must parse."""

    are_json: bool = False


Rule = Numbers | Present

_ROW = "memories.memories"
_DOCUMENT = Numbers(below=_ROW)
_DOCUMENTS = Numbers(below=_ROW, order="ascending")
_OR_NONE = Numbers(-1, _ROW)
_FLAG = Numbers(below=2)
_MOMENT = Numbers(EARLIEST, LATEST + 1)
_SOMEWHEN = Numbers(EARLIEST)  # or NEVER
_COUNT = Numbers()
_PRESENT = Present()
_FILED = {"hash": Numbers(order="ascending"), "document": _DOCUMENT}
_RISING = Numbers(order="rising")


def _codes(values: tuple[str, ...], *, least: int = 0) -> Numbers:
    return Numbers(least, len(values))


def _index(of: str, documents: str) -> dict[str, dict[str, Rule]]:
    """Return the constraints on an index's tables (`store.index.segments`)."""
    return {
        "terms": {
            "hash": _RISING,
            "documents": Numbers(below=documents, more=1),
            "idf": _PRESENT,
        },
        "words": {
            "hash": _RISING,
            "word": _PRESENT,
            "offset": Numbers(below=f"{of}.postings{HERE}", order="rising"),
        },
        "postings": {"document": Numbers(below=documents), "impact": _PRESENT, "count": _COUNT},
        "wide": {"term": Numbers(below=f"{of}.words{HERE}", order="rising")},
        "documents": {"length": Numbers(-1)},
        "trigrams": {
            "trigram": Numbers(order="ascending"),
            "term": Numbers(below=f"{of}.words{HERE}"),
        },
        "spread": {"impact": _PRESENT},
        "statistics": {
            "documents": Numbers(below=documents, more=1),
            **dict.fromkeys(("average_length", "average_idf", "sample_coverage"), _PRESENT),
        },
    }


VALUES: Mapping[str, Mapping[str, Mapping[str, Rule]]] = {
    "memories": {
        "memories": {
            "id": _PRESENT,
            "seq": Numbers(1, WATERMARK, 1, "rising"),
            **dict.fromkeys(
                "kind state content tags trust tier source_ids text_hash importance score".split(),
                _PRESENT,
            ),
            "pinned": _PRESENT,
            "metadata": Present(are_json=True),
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "expires_at": Numbers(EARLIEST, may_lack=True),
            "ended_at": Numbers(EARLIEST, LATEST + 1, may_lack=True),
        },
        "columns": {
            "seq": Numbers(1, WATERMARK, 1, "rising"),
            "state": _codes(STATES),
            "kind": _codes(MEMORY_KINDS, least=-1),
            "tier": _codes(TIERS, least=-1),
            "trust": _codes(TRUSTS, least=-1),
            "pinned": _FLAG,
            "project": Numbers(-1, "memories.projects"),
            "importance": _PRESENT,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "expires_at": _SOMEWHEN,
            "ended_at": _SOMEWHEN,
            "text_hash": _PRESENT,
        },
        "projects": {"name": _PRESENT},
        "ids": {**_FILED, "document": Numbers(below=_ROW, order="each once")},
        "keys": _FILED,
        "episodes": _FILED,
        "replaced": _FILED,
        "made_of": _FILED,
        "edges": dict.fromkeys(("source", "target", "relation"), _PRESENT),
    },
    "postings": _index("postings", _ROW),
    "sessions": {
        "turns": {
            "session": Numbers(-1, "sessions.documents"),
            "before": _OR_NONE,
            "after": _OR_NONE,
            "speaker": Numbers(-1, "sessions.speakers"),
            **dict.fromkeys(("asks", "dated", "personal", "rule"), _FLAG),
        },
        "speakers": {"name": _PRESENT},
        "members": {"row": _DOCUMENT},
        "starts": {"start": Numbers(below="sessions.members", more=1, order="ascending")},
        **_index("sessions", "sessions.documents"),
    },
    "vectors": {
        "rows": {"text_hash": _PRESENT},
        "codes": {"vector": _PRESENT, "scale": _PRESENT},
        "calibration": dict.fromkeys(
            ("unrelated", "related", "knows_meaning", "stretch"), _PRESENT
        ),
    },
    "entities": {
        "entities": {
            "kind": _PRESENT,
            "name": _PRESENT,
            "aliases": _PRESENT,
            "documents": Numbers(below="entities.mentions", more=1),
            "offset": Numbers(below="entities.mentions", more=1, order="ascending"),
        },
        "mentions": {
            "entity": Numbers(below="entities.entities", order="ascending"),
            "document": _DOCUMENT,
        },
        "edges": {
            "source": Numbers(below="entities.entities", order="ascending"),
            "target": Numbers(below="entities.entities"),
            "weight": _PRESENT,
        },
        "aliases": {"alias": _PRESENT, "entity": Numbers(below="entities.entities")},
        "found": {"document": _DOCUMENTS, **dict.fromkeys(("kind", "name", "alias"), _PRESENT)},
    },
    "duplicates": {
        "duplicates": {
            "document": _DOCUMENTS,
            "of": _DOCUMENT,
            **dict.fromkeys(("kind", "likeness", "was", "becomes"), _PRESENT),
        },
    },
    "facts": {
        "facts": {
            "document": _DOCUMENT,
            **dict.fromkeys(("entity", "relation", "value"), _PRESENT),
            "valid_from": _MOMENT,
            "valid_to": _SOMEWHEN,
        },
    },
    "state": {
        "claims": {
            **dict.fromkeys(("id", "mark", "project", "session", "text", "terms"), _PRESENT),
            "at": _MOMENT,
            **dict.fromkeys(("is_note", "is_own"), _PRESENT),
        },
        "links": {
            "older": Numbers(below="state.claims"),
            "newer": Numbers(below="state.claims", order="ascending"),
            "relation": Numbers(below=6),
            **dict.fromkeys(("probability", "is_void"), _PRESENT),
        },
        "restored": {"id": _PRESENT, "at": _MOMENT},
    },
    "goals": {"goals": {"document": _DOCUMENT}, "milestones": {"document": _DOCUMENT}},
    "usage": {
        "usage": {
            "document": Numbers(below=_ROW, order="rising"),
            "id": _PRESENT,
            **dict.fromkeys(("recalled", "ratings", "judged"), _COUNT),
            "last_recalled_at": Numbers(EARLIEST, LATEST + 1),
            **dict.fromkeys(("verdicts", "judgments"), Numbers(None)),
        },
        "receipts": {"id": _PRESENT, "hits": _PRESENT},
    },
    "lessons": {
        "lessons": {"id": _PRESENT, "last_surfaced_at": Numbers(EARLIEST, LATEST + 1)},
        "efforts": {"id": _PRESENT, "effort": _PRESENT},
        "drafts": {"id": _PRESENT, "at": _MOMENT, "draft": Present(are_json=True)},
    },
    "statement_weights": {
        "statement_weights": {
            "document": Numbers(below=_ROW, order="rising"),
            "lasting": _PRESENT,
            **dict.fromkeys(("restated", "routine"), _COUNT),
        },
    },
    "insights": {
        "insights": {
            "document": Numbers(below=_ROW, order="rising"),
            **dict.fromkeys(("id", "kind", "state"), _PRESENT),
            "sources": _DOCUMENT,
        },
    },
    "routes": {"policies": {"id": _PRESENT, "at": _MOMENT, "policy": Present(are_json=True)}},
}

# columns with the starts of runs in another table, and their row counts; None: each run ends where
# the next begins, and an extra last number ends the last run
RUNS: Mapping[str, tuple[str, str | None, str]] = {
    "entities.entities": ("offset", "documents", "entities.mentions"),
    "sessions.starts": ("start", None, "sessions.members"),
}

# tables with as many rows as another
SAME_ROWS: Mapping[str, str] = {
    "memories.columns": _ROW,
    "memories.ids": _ROW,
    "postings.documents": _ROW,
    "vectors.rows": _ROW,
    "vectors.codes": _ROW,
    "sessions.turns": _ROW,
    "sessions.read": _ROW,
    "entities.read": _ROW,
    "duplicates.statements": _ROW,
}


_ANY = Numbers(None)  # of a column that is not a place: an integer all the same
_EXPONENT = np.uint16(0x7C00)  # of a half: all bits set if the number is not finite


class Constraints(msgspec.Struct, frozen=True):
    """The constraints on the snapshots of one manifest, whose places lead into one another."""

    manifest: Manifest

    def check_rows(self, projection: Projection) -> None:
        """Raise SnapshotDamaged if a snapshot lacks a table, or its tables do not fit together.

        Only the manifest is read.
        """
        self.check_tables(projection)
        for problem in self._row_problems(projection.name):
            raise _not_agreed(projection.name, problem)

    def check_tables(self, projection: Projection) -> None:
        """Raise SnapshotDamaged if a snapshot lacks a table, or is of another manifest."""
        for problem in self._table_problems(projection):
            raise _not_agreed(projection.name, problem)

    def check_part(self, projection: str, table: str, number: int, rows: pa.Table) -> None:
        """Raise SnapshotDamaged if a part of a table violates a constraint."""
        for problem in self._part_problems(projection, table, number, rows):
            path = self.manifest.projections[projection].parts[table][number].path
            raise _not_agreed(path, f"{table}.{problem}")

    def _table_problems(self, projection: Projection) -> Iterator[str]:
        name, ref = projection.name, self.manifest.projections[projection.name]
        if ref.projection != name:
            yield f"it is {ref.projection}"
        if ref.watermark != self.manifest.watermark:
            yield f"it was built at {ref.watermark}, the manifest at {self.manifest.watermark}"
        if ref.parts.keys() != projection.schemas.keys():
            yield f"it has the tables {', '.join(ref.parts) or 'none'}"
        paths = [file.path for file in ref.files]
        if len(paths) != len({*paths}):
            yield "it names a file twice"

    def _row_problems(self, name: str) -> Iterator[str]:
        for table, other in SAME_ROWS.items():
            rows, limit = self._rows(table, 0), self._rows(other, 0)
            if table.startswith(f"{name}.") and limit is not None and rows != limit:
                yield f"{table} has {rows} rows, {other} has {limit}"
        yield from _row_count_problems(name, self.manifest.projections[name])

    def _part_problems(
        self, projection: str, name: str, number: int, table: pa.Table
    ) -> Iterator[str]:
        if name == "segments":
            yield from _segment_problems(self.manifest.projections[projection], table)
        rules = VALUES.get(projection, {}).get(name, {})
        for field in table.schema:
            rule = rules.get(field.name, _ANY)
            for array in table.column(field.name).chunks:
                if isinstance(rule, Present):
                    problem = _presence_problem(array, rule)
                elif pa.types.is_integer(getattr(array.type, "value_type", array.type)):
                    problem = _number_problem(array, rule, self._limit(rule, number))
                else:
                    problem = ""
                if problem or not _is_finite(array):
                    yield f"{field.name} {problem or 'has what is no number'}"
        if f"{projection}.{name}" in RUNS:
            yield from self._run_problems(*RUNS[f"{projection}.{name}"], table)

    def _run_problems(
        self, first: str, count: str | None, of: str, table: pa.Table
    ) -> Iterator[str]:
        """Yield the problems of runs of rows, which must be consecutive and cover all rows."""
        starts = column_view(table, first)
        if count is None:
            ends, starts = starts[1:], starts[:-1]
        else:
            ends = starts + column_view(table, count)
        rows, begins = self._rows(of, 0) or 0, np.concatenate([[0], ends])
        if begins[-1] != rows or (begins[:-1] != starts).any():
            yield f"{first} does not say where the rows of {of} are"

    def _limit(self, rule: Numbers, number: int) -> int | None:
        if isinstance(rule.below, int) or rule.below is None:
            return rule.below
        if rule.below == WATERMARK:
            return self.manifest.watermark + rule.more
        rows = self._rows(rule.below, number)
        return None if rows is None else rows + rule.more

    def _rows(self, name: str, number: int) -> int | None:
        """Return the rows of a table, or of its part of a number; None if it is missing."""
        projection, _, table = name.removesuffix(HERE).partition(".")
        ref = self.manifest.projections.get(projection)
        parts = () if ref is None else ref.parts.get(table, ())
        if ref is None or table not in ref.parts:
            return None
        if name.endswith(HERE):
            return parts[number].rows if number < len(parts) else 0
        return sum(part.rows for part in parts)


def _not_agreed(name: str, problem: str) -> SnapshotDamaged:
    return SnapshotDamaged(f"{name} is not as agreed ({problem}): run `mnemolog build`")


def check(
    root: Path, manifest: Manifest, projection: Projection, but: frozenset[str] = frozenset()
) -> None:
    """Raise SnapshotDamaged if a snapshot violates a constraint; read all tables `but` these."""
    constraints, ref = Constraints(manifest), manifest.projections[projection.name]
    constraints.check_rows(projection)
    for name, parts in snapshot.read(root, ref, projection, check=False).parts.items():
        for number, part in enumerate(() if name in but else parts):
            constraints.check_part(projection.name, name, number, part.table)


def _row_count_problems(name: str, ref: SnapshotRef) -> Iterator[str]:
    """Yield the problems of row counts that follow from others of the same snapshot."""
    rows = ref.rows
    if name in ("postings", "sessions"):
        counts = {len(ref.parts[table]) for table in segments.IN_PARTS}
        if len(counts) != 1 or {rows["segments"]} != counts:
            yield "its segments have other parts than they say"
        elif any(
            wide.rows * documents.rows != spread.rows
            for wide, documents, spread in zip(
                *(ref.parts[table] for table in ("wide", "documents", "spread")), strict=True
            )
        ):
            yield "its wide words have other rows than they say"
        if rows["statistics"] != 1:
            yield f"it has {rows['statistics']} rows of statistics"
    if name == "sessions" and rows["starts"] != rows["documents"] + 1:
        yield f"it has {rows['documents']} sessions, and where {rows['starts'] - 1} begin"
    if name == "vectors":
        by_part = [[part.rows for part in ref.parts[table]] for table in ("rows", "codes", "signs")]
        if by_part[0] != by_part[1] or (by_part[2] and by_part[2] != by_part[0]):
            yield "its parts do not fit together"
        if rows["calibration"] > 1:
            yield f"it has {rows['calibration']} calibrations"


def _segment_problems(ref: SnapshotRef, table: pa.Table) -> Iterator[str]:
    for name in segments.IN_PARTS:
        if table.column(name).to_pylist() != [part.rows for part in ref.parts[name]]:
            yield f"{name} has other rows than its parts"


def _number_problem(array: pa.Array, rule: Numbers, limit: int | None) -> str:
    """Return the problem of integers, or lists of them; empty if there is none."""
    if array.null_count and not rule.may_lack:
        return "lacks a value"
    if pa.types.is_list(array.type):
        array = array.values
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=not array.null_count)
    if array.null_count:
        values = values[~np.isnan(values)]  # floats, to which nulls are NaN
    if not len(values):
        return ""
    least, most = int(values.min()), int(values.max())
    if rule.least is not None and least < rule.least:
        return f"has {least}, below {rule.least}"
    if limit is not None and most >= limit:
        return f"has {most}, and must be below {limit}"
    return "" if _is_in(rule.order, values) else "is not in order"


def _is_in(order: Order, values: npt.NDArray[Any]) -> bool:
    """Return True if numbers are in an order; for "each once" all are below their count."""
    if order == "ascending":
        return bool((values[1:] >= values[:-1]).all())
    if order == "rising":
        return bool((values[1:] > values[:-1]).all())
    if order == "each once":
        return bool((np.bincount(values) == 1).all())
    return True


def _presence_problem(array: pa.Array, rule: Present) -> str:
    if array.null_count or (pa.types.is_list(array.type) and array.values.null_count):
        return "lacks a value"
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        return "lacks a value"
    if rule.are_json:
        try:
            for text in {*array.to_pylist()}:
                msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            return "is not JSON"
    return ""


def _is_finite(array: pa.Array) -> bool:
    """Return True if all numbers of a column are finite; nulls and other types count as finite."""
    if pa.types.is_fixed_size_list(array.type):
        if array.null_count:
            return False
        return _is_finite(array.values)
    if not pa.types.is_floating(array.type) or not len(array):
        return True
    values = array.to_numpy(zero_copy_only=not array.null_count)
    if array.null_count:
        return not bool(np.isinf(values).any())  # a null is NaN here
    if values.dtype == np.float16:
        bits = values.view(np.uint16)
        return not bool(((bits & _EXPONENT) == _EXPONENT).any())
    return bool(np.isfinite(values).all())
