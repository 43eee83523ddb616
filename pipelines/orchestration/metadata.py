"""
Metadata of an asset: counts, bytes, seconds, inputs, a sample, a plot, and values of past runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import dagster as dg
import numpy as np
import pyarrow as pa
from dagster._core.definitions.metadata import RawMetadataValue

from pipelines.orchestration.plots import bar_plot, line_plot, rank_plot, stacked_plot
from store.log.event_kinds import MEMORY_KINDS
from store.maintenance import build, quarantine
from store.memories.memory import ACTIVE, STATES
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Tables
from store.snapshots.snapshot import SnapshotRef

Metadata = dict[str, RawMetadataValue]

QUARANTINED = "quarantined"  # ids of memories that a check failed on, by themselves
ROWS = "dagster/row_count"  # Dagster's own name: the UI shows and plots it by itself
_SAMPLE = 5
_CELL = 100  # characters of a text
_DAYS = 60  # bars of the plot of events; older days are summed in the first


def log_metadata(days: Mapping[tuple[str, int], int]) -> Metadata:
    """Return the metadata of the log: its events, counted by kind and day since 1970."""
    kinds: Counter[str] = Counter()
    for (kind, _), count in days.items():
        kinds[kind] += count
    return {
        ROWS: kinds.total(),
        "kinds": dict(kinds.most_common()),
        "plot": _events_by_day(kinds, days),
    }


def projection_metadata(
    candidate: build.Build,
    ref: SnapshotRef,
    tables: Tables,
    seconds: float,
    *,
    reused: bool,
    quotes: bool,
) -> Metadata:
    """Return the metadata of one projection of a candidate; its step took `seconds`.

    `quotes`: with the beginnings of some memories.
    """
    values = snapshot_metadata(ref) | {
        "seconds": round(seconds, 3),
        "reused": reused,
        "path": candidate.tenant.snapshots / ref.projection,
    }
    if ref.projection == "memories":
        values["sample"] = dg.MetadataValue.md(_sample(tables["memories"], quotes=quotes))
        values["plot"] = bar_plot("active memories by kind", _by_kind(tables["columns"]))
    if ref.projection == "postings":
        values["plot"] = rank_plot(
            "memories that hold a term, by the term's rank",
            tables["terms"].column("documents").to_numpy(),
        )
    if ref.projection == "lessons":
        verdicts = {
            name: int(tables["lessons"].column(name).to_numpy().sum())
            for name in ("followed", "ignored", "not_applicable")
        }
        values["plot"] = bar_plot(
            "verdicts on lessons that were shown", verdicts if any(verdicts.values()) else {}
        )
    return values


def snapshot_metadata(ref: SnapshotRef) -> Metadata:
    """Return the metadata of a snapshot that its manifest has, too."""
    values: Metadata = {
        ROWS: next(iter(ref.rows.values())),
        "rows": dict(ref.rows),
        "bytes": ref.bytes,
        "seconds": round(ref.seconds, 3),
        "watermark": ref.watermark,
        "digest": ref.digest,
        "inputs": dict(ref.inputs),
    }
    return values | ({"texts waiting for a vector": ref.missing} if ref.missing else {})


def manifest_metadata(
    candidate: build.Build, manifest: Manifest, before: Sequence[tuple[int, float]]
) -> Metadata:
    """Return the metadata of a published manifest; `before` has past ones' times and rows."""
    rows = manifest.projections["memories"].rows["memories"]
    history = [*before, (manifest.at, rows)]
    quarantined = quarantine.entries(candidate.log)
    checks = "\n".join(
        f"- {result.projection}: {result.name}: {result.detail}" for result in manifest.checks
    )
    return {
        ROWS: rows,
        "manifest": manifest.number,
        "watermark": manifest.watermark,
        "bytes": manifest.bytes,
        "built seconds": round(sum(ref.seconds for ref in manifest.projections.values()), 3),
        "digests": manifest.digests,
        "checks": dg.MetadataValue.md(checks),
        QUARANTINED: dg.MetadataValue.md(
            "\n".join(f"- {entry.id}: {entry.check}: {entry.reason}" for entry in quarantined)
            or "none"
        ),
        "file": candidate.tenant.manifests / f"{manifest.number:08d}.json",
        "plot": line_plot(
            "memories in each published manifest",
            [at for at, _ in history],
            [count for _, count in history],
        ),
    }


def _events_by_day(
    kinds: Counter[str], days: Mapping[tuple[str, int], int]
) -> dg.MarkdownMetadataValue:
    if not days:
        return stacked_plot("events by day", [], {})
    newest = max(day for _, day in days)
    oldest = max(min(day for _, day in days), newest - _DAYS + 1)
    counts = {kind: [0] * (newest - oldest + 1) for kind, _ in kinds.most_common()}
    for (kind, day), count in days.items():
        counts[kind][max(day, oldest) - oldest] += count
    return stacked_plot("events by day", range(oldest, newest + 1), counts)


def _by_kind(columns: pa.Table) -> dict[str, int]:
    """Return the number of active memories of each kind, the most first; no kind without any."""
    is_active = columns.column("state").to_numpy() == STATES.index(ACTIVE)
    counts = np.bincount(columns.column("kind").to_numpy()[is_active], minlength=len(MEMORY_KINDS))
    by_kind = Counter(dict(zip(MEMORY_KINDS, counts.tolist(), strict=True)))
    return {kind: count for kind, count in by_kind.most_common() if count}


def _sample(table: pa.Table, *, quotes: bool) -> str:
    """Return the newest rows as a Markdown table, with the start of their texts if `quotes`."""
    names = ["id", "kind", "state", *(["content"] if quotes else [])]
    newest = table.slice(max(0, len(table) - _SAMPLE)).select(names)
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in reversed(newest.to_pylist()):
        cells = (cell(row[name]) if name == "content" else row[name] for name in names)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return the beginning of a text as a cell of a table: no link or picture in it works.

    A picture would be fetched from an address in the text.
    """
    printable = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    plain = printable[:_CELL].replace("`", "'").replace("|", "¦")
    return f"`{plain}`" if plain else ""


# Values of past runs.

_HISTORY = 200  # materializations read


def past_values(context: dg.AssetExecutionContext, name: str) -> list[tuple[int, float]]:
    """Return the times (microseconds UTC) and values of a number in earlier runs, oldest first.

    Of a partitioned asset only the run's own partition counts; runs that were pruned are gone.
    """
    partitions = [context.partition_key] if context.has_partition_key else None
    materializations = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=context.asset_key, asset_partitions=partitions),
        limit=_HISTORY,
    )
    values = []
    for record in reversed(materializations.records):
        value = record.asset_materialization and record.asset_materialization.metadata.get(name)
        if value and isinstance(value.value, int | float):
            values.append((round(record.timestamp * 1_000_000), value.value))
    return values
