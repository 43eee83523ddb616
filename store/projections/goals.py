"""
goals: what is wanted and how far it is, and the chains of milestones on the way.

Both are memories; here they are gathered so that open goals are listed without a search. Goals are
ordered open first, then by last change; milestones by chain and then in the order they were
reached.
"""

import pyarrow as pa

from store.projection import Inputs, Previous, Projection, Tables
from store.projections import memories

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


def build(inputs: Inputs, previous: Previous | None) -> Tables:
    """Gather the active goals and milestones; few enough that `previous` would save nothing."""
    import polars as pl  # jobs only

    rows = (
        pl.LazyFrame(inputs.tables["memories"]["memories"])
        .with_row_index("document")
        .with_columns(
            pl.col("document").cast(pl.Int32), pl.col("kind", "state", "project").cast(str)
        )
        .filter(pl.col("state") == memories.ACTIVE)
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


GOALS_PROJECTION = Projection(
    name="goals",
    version="1",
    inputs=("memories",),
    schemas={"goals": GOALS, "milestones": MILESTONES},
    build=build,
)
