"""
What an asset's earlier materializations said: the past of a number that is plotted beside it.
"""

import dagster as dg

_HISTORY = 200  # materializations looked at


def past(context: dg.AssetExecutionContext, name: str) -> list[tuple[int, float]]:
    """Return when earlier runs said a number (microseconds UTC), and which, oldest first.

    Of a partitioned asset only the run's own partition counts; runs that were pruned are gone.
    """
    partitions = [context.partition_key] if context.has_partition_key else None
    found = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=context.asset_key, asset_partitions=partitions),
        limit=_HISTORY,
    )
    values = []
    for record in reversed(found.records):
        said = record.asset_materialization and record.asset_materialization.metadata.get(name)
        if said and isinstance(said.value, int | float):
            values.append((round(record.timestamp * 1_000_000), said.value))
    return values
