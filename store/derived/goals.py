"""
The projection `goals`: goals, their progress, and the chains of milestones on the way.

Both are memories; here they are gathered so that open goals are listed without a search. Goals are
ordered open first, then by last change; milestones by chain and then in the order they were
reached.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.log.event_kinds import MEMORY_KINDS
from store.memories.memory import ACTIVE, STATES
from store.memories.parts import fields_of
from store.snapshots.projection import Inputs, Previous, Projection, Tables

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

_FIELDS = "id seq kind project content status chain progress created_at updated_at".split()


def build(inputs: Inputs, previous: Previous | None) -> Tables:
    """Gather the active goals and milestones; few enough that `previous` would save nothing."""
    memories = inputs.tables["memories"]
    documents = _documents(memories["columns"])
    if not len(documents):
        return {"goals": GOALS.empty_table(), "milestones": MILESTONES.empty_table()}
    import polars as pl  # jobs only

    rows = (
        pl.DataFrame(fields_of(memories, documents, _FIELDS))
        .lazy()
        .with_columns(
            pl.Series("document", documents, pl.Int32), pl.col("kind", "project").cast(pl.String)
        )
    )
    goals = rows.filter(pl.col("kind") == "goal").sort(
        pl.col("status") != "open", "updated_at", "seq", descending=[False, True, True]
    )
    milestones = (
        rows.filter((pl.col("kind") == "milestone") & pl.col("chain").is_not_null())
        .sort("project", "chain", "created_at", "seq", nulls_last=False)
        .with_columns(
            pl.int_range(pl.len(), dtype=pl.Int32).over("project", "chain").alias("position")
        )
    )
    return {
        "goals": goals.select(GOALS.names).collect().to_arrow().cast(GOALS),
        "milestones": milestones.select(MILESTONES.names).collect().to_arrow().cast(MILESTONES),
    }


def _documents(columns: pa.Table) -> npt.NDArray[np.int64]:
    """Return the active goals and milestones, ascending."""
    if not columns.num_rows:
        return np.empty(0, np.int64)
    kind, state = (columns.column(name).chunk(0).to_numpy() for name in ("kind", "state"))
    wanted = [MEMORY_KINDS.index(one) for one in ("goal", "milestone")]
    return np.flatnonzero((state == STATES.index(ACTIVE)) & np.isin(kind, wanted))


GOALS_PROJECTION = Projection(
    name="goals",
    version="1",
    inputs=("memories",),
    schemas={"goals": GOALS, "milestones": MILESTONES},
    build=build,
)
