"""
Listings: memories of one sort gathered from all, to be listed without a search.

`goals` holds the active goals, open ones first and then by last change, and the milestones, by
chain and then in the order they were reached. `insights` holds the jobs' insights and their source
memories, for lineage and recall.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.log.event_kinds import MEMORY_KINDS
from store.memories.memory import ACTIVE, STATES
from store.memories.parts import MemoryParts, fields_of, parts_of
from store.memories.table import indices
from store.snapshots.projection import (
    Inputs,
    Previous,
    Projection,
    Tables,
    column_array,
    column_view,
)

GOALS = pa.schema(
    [
        ("document", pa.int32()),
        ("id", pa.string()),
        ("project", pa.string()),
        ("content", pa.string()),
        ("status", pa.string()),
        ("progress", pa.float64()),
        ("updated_at", pa.int64()),
    ]
)
MILESTONES = pa.schema(
    [
        ("document", pa.int32()),
        ("id", pa.string()),
        ("project", pa.string()),
        ("chain", pa.string()),
        ("position", pa.int32()),
        ("content", pa.string()),
        ("created_at", pa.int64()),
    ]
)

_GOAL_FIELDS = "id seq kind project content status chain progress created_at updated_at".split()


def build_goals(inputs: Inputs, previous: Previous | None) -> Tables:
    """Gather the active goals and milestones; few enough that `previous` would save nothing."""
    memories = inputs.tables["memories"]
    documents = _goal_documents(memories["columns"])
    if not len(documents):
        return {"goals": GOALS.empty_table(), "milestones": MILESTONES.empty_table()}
    rows = fields_of(memories, documents, _GOAL_FIELDS).to_pylist()
    for document, row in zip(documents.tolist(), rows, strict=True):
        row["document"] = document
    goals = [row for row in rows if row["kind"] == "goal"]
    goals.sort(key=lambda row: (row["status"] != "open", -row["updated_at"], -row["seq"]))
    milestones = [row for row in rows if row["kind"] == "milestone" and row["chain"] is not None]
    milestones.sort(key=lambda row: (*_chain(row), row["created_at"], row["seq"]))
    for _, chain in groupby(milestones, _chain):
        for position, row in enumerate(chain):
            row["position"] = position
    return {
        "goals": pa.Table.from_pylist(goals, GOALS),
        "milestones": pa.Table.from_pylist(milestones, MILESTONES),
    }


def _chain(milestone: dict[str, Any]) -> tuple[bool, str, str]:
    """Return the sort key of a milestone's chain; chains of no project come first."""
    project = milestone["project"]
    return project is not None, project or "", milestone["chain"]


def _goal_documents(columns: pa.Table) -> npt.NDArray[np.int64]:
    """Return the active goals and milestones, ascending."""
    if not columns.num_rows:
        return np.empty(0, np.int64)
    kind, state = (columns.column(name).chunk(0).to_numpy() for name in ("kind", "state"))
    wanted = [MEMORY_KINDS.index(name) for name in ("goal", "milestone")]
    return np.flatnonzero((state == STATES.index(ACTIVE)) & np.isin(kind, wanted))


GOALS_PROJECTION = Projection(
    name="goals",
    version="1",
    inputs=("memories",),
    schemas={"goals": GOALS, "milestones": MILESTONES},
    build=build_goals,
)


# Insights: one row for each memory that a job made, in any state, by document; its sources are
# those of its `source_ids` that are memories, in their order. Recall reads from it the documents
# that repeat others, and those others, without opening a memory.

INSIGHTS = pa.schema(
    [
        ("document", pa.int32()),
        ("id", pa.string()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("job", pa.string()),
        ("insight_type", pa.string()),  # null for other memories
        ("state", pa.string()),
        ("project", pa.string()),
        ("sources", pa.list_(pa.int32())),
    ]
)
_INSIGHT_FIELDS = ["id", "kind", "job", "insight_type", "state", "project", "source_ids"]

Documents = npt.NDArray[np.int64]


def build_insights(inputs: Inputs, previous: Previous | None) -> Tables:
    """Gather the insights; few enough that `previous` would save nothing."""
    tables = inputs.tables["memories"]
    documents = _job_documents(tables)
    rows = fields_of(tables, documents, _INSIGHT_FIELDS).to_pylist()
    memories = MemoryParts.open(tables)
    for document, row in zip(documents.tolist(), rows, strict=True):
        sources = (memories.row(id_) for id_ in dict.fromkeys(row["source_ids"]))
        row["document"] = document
        row["sources"] = [source for source in sources if source is not None]
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in INSIGHTS]
    return {"insights": pa.table(columns, schema=INSIGHTS)}


def _job_documents(tables: Tables) -> Documents:
    """Return the documents that jobs made, ascending."""
    documents, start = [np.empty(0, np.int64)], 0
    for part in parts_of(tables, "memories"):
        jobs = part.table.column("job").chunk(0)
        documents.append(np.flatnonzero(indices(jobs) >= 0) + start)
        start += part.rows
    return np.concatenate(documents)


INSIGHTS_PROJECTION = Projection(
    name="insights",
    version="1",
    inputs=("memories",),
    schemas={"insights": INSIGHTS},
    build=build_insights,
)


@dataclass(frozen=True)
class Insights:
    """The insights of jobs among the rows of a snapshot, [insights], by document."""

    documents: Documents
    _starts: npt.NDArray[np.int32]  # [insights + 1], into the sources
    _sources: npt.NDArray[np.int32]

    @classmethod
    def open(cls, tables: Tables) -> "Insights":
        table = tables["insights"]
        kinds = column_array(table, "kind")
        wanted = [*(name == "insight" for name in kinds.dictionary.to_pylist()), False]
        rows = np.flatnonzero(np.array(wanted)[indices(kinds)])
        lists = column_array(table, "sources")
        offsets, sources = lists.offsets.to_numpy(), lists.values.to_numpy()
        sizes = np.diff(offsets)[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        places = np.repeat(offsets[rows] - starts[:-1], sizes) + np.arange(starts[-1])
        documents = column_view(table, "document")[rows].astype(np.int64)
        return cls(documents, starts, sources[places])

    def sources(self, document: int) -> Documents:
        """Return the rows of an insight's sources; none for any other memory."""
        place = int(self.documents.searchsorted(document))
        if place == len(self.documents) or int(self.documents[place]) != document:
            return np.empty(0, np.int64)
        sources = self._sources[self._starts[place] : self._starts[place + 1]]
        return sources.astype(np.int64)
