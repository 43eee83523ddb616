"""
The projection `insights`: results of jobs and the memories they rest on, for lineage and recall.

One row for each memory that a job made, in whatever state, by document; its sources are those of
its `source_ids` that are memories, in their order. Recall reads of it which documents say
again what others say, and which those are, without opening a memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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

INSIGHTS = pa.schema(
    [
        ("document", pa.int32()),
        ("id", pa.string()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("job", pa.string()),
        ("insight_type", pa.string()),  # null for what is no insight
        ("state", pa.string()),
        ("project", pa.string()),
        ("sources", pa.list_(pa.int32())),
    ]
)
_FIELDS = ["id", "kind", "job", "insight_type", "state", "project", "source_ids"]

Documents = npt.NDArray[np.int64]


def build(inputs: Inputs, previous: Previous | None) -> Tables:
    """Gather what jobs made; few enough that `previous` would save nothing."""
    tables = inputs.tables["memories"]
    documents = _job_documents(tables)
    rows = fields_of(tables, documents, _FIELDS).to_pylist()
    memories = MemoryParts.open(tables)
    found = [
        {**row, "document": document, "sources": [*_rows_of(memories, row["source_ids"])]}
        for document, row in zip(documents.tolist(), rows, strict=True)
    ]
    columns = [pa.array([one[of.name] for one in found], of.type) for of in INSIGHTS]
    return {"insights": pa.table(columns, schema=INSIGHTS)}


def _job_documents(tables: Tables) -> Documents:
    """Return the documents that jobs made, ascending."""
    found, start = [np.empty(0, np.int64)], 0
    for part in parts_of(tables, "memories"):
        jobs = part.table.column("job").chunk(0)
        found.append(np.flatnonzero(indices(jobs) >= 0) + start)
        start += part.rows
    return np.concatenate(found)


def _rows_of(memories: MemoryParts, ids: tuple[str, ...]) -> Iterator[int]:
    for id_ in dict.fromkeys(ids):
        if (row := memories.row(id_)) is not None:
            yield row


INSIGHTS_PROJECTION = Projection(
    name="insights",
    version="1",
    inputs=("memories",),
    schemas={"insights": INSIGHTS},
    build=build,
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
        wanted = [*(one == "insight" for one in kinds.dictionary.to_pylist()), False]
        kept = np.flatnonzero(np.array(wanted)[indices(kinds)])
        lists = column_array(table, "sources")
        offsets, sources = lists.offsets.to_numpy(), lists.values.to_numpy()
        sizes = np.diff(offsets)[kept]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        places = np.repeat(offsets[kept] - starts[:-1], sizes) + np.arange(starts[-1])
        documents = column_view(table, "document")[kept].astype(np.int64)
        return cls(documents, starts, sources[places])

    def sources(self, document: int) -> Documents:
        """Return the rows of what an insight was made of; none for what is no insight."""
        place = int(self.documents.searchsorted(document))
        if place == len(self.documents) or int(self.documents[place]) != document:
            return np.empty(0, np.int64)
        found = self._sources[self._starts[place] : self._starts[place + 1]]
        return found.astype(np.int64)
