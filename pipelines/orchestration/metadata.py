"""
Metadata of an asset: counts, bytes, seconds, inputs, a sample, a plot, and values of past runs.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import dagster as dg
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from dagster import MarkdownMetadataValue

from store.log.event_kinds import MEMORY_KINDS
from store.maintenance import build, quarantine
from store.memories.memory import ACTIVE, STATES
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Tables
from store.snapshots.snapshot import SnapshotRef

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Metadata = dict[str, dg.MetadataValue]

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
        ROWS: dg.MetadataValue.int(kinds.total()),
        "kinds": dg.MetadataValue.json(dict(kinds.most_common())),
        "plot": _events_by_day(kinds, days),
    }


def projection_metadata(
    made: build.Build,
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
    shown: Metadata = {
        ROWS: dg.MetadataValue.int(next(iter(ref.rows.values()))),
        "rows": dg.MetadataValue.json(dict(ref.rows)),
        "bytes": dg.MetadataValue.int(ref.bytes),
        "seconds": dg.MetadataValue.float(round(seconds, 3)),
        "watermark": dg.MetadataValue.int(ref.watermark),
        "digest": dg.MetadataValue.text(ref.digest),
        "reused": dg.MetadataValue.bool(reused),
        "inputs": dg.MetadataValue.json(dict(ref.inputs)),
        "path": dg.MetadataValue.path(made.tenant.snapshots / ref.projection),
    }
    if ref.missing:
        shown["texts waiting for a vector"] = dg.MetadataValue.int(ref.missing)
    if ref.projection == "memories":
        shown["sample"] = dg.MetadataValue.md(_sample(tables["memories"], quotes=quotes))
        shown["plot"] = bar_plot("active memories by kind", _by_kind(tables["columns"]))
    if ref.projection == "postings":
        shown["plot"] = rank_plot(
            "memories that hold a term, by the term's rank",
            tables["terms"].column("documents").to_numpy(),
        )
    if ref.projection == "lessons":
        shown["plot"] = bar_plot("verdicts on lessons that were shown", _verdicts(tables))
    return shown


def manifest_metadata(
    made: build.Build, manifest: Manifest, before: Sequence[tuple[int, float]]
) -> Metadata:
    """Return the metadata of a published manifest; `before` has past ones' times and rows."""
    rows = manifest.projections["memories"].rows["memories"]
    history = [*before, (manifest.at, rows)]
    held = quarantine.entries(made.log)
    checks = "\n".join(f"- {one.projection}: {one.name}: {one.detail}" for one in manifest.checks)
    return {
        ROWS: dg.MetadataValue.int(rows),
        "manifest": dg.MetadataValue.int(manifest.number),
        "watermark": dg.MetadataValue.int(manifest.watermark),
        "bytes": dg.MetadataValue.int(manifest.bytes),
        "built seconds": dg.MetadataValue.float(
            round(sum(ref.seconds for ref in manifest.projections.values()), 3)
        ),
        "digests": dg.MetadataValue.json(manifest.digests),
        "checks": dg.MetadataValue.md(checks),
        QUARANTINED: dg.MetadataValue.md(
            "\n".join(f"- {one.id}: {one.check}: {one.reason}" for one in held) or "none"
        ),
        "file": dg.MetadataValue.path(made.tenant.manifests / f"{manifest.number:08d}.json"),
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
    """Return how many active memories there are of each kind that has some, the most first."""
    is_active = columns.column("state").to_numpy() == STATES.index(ACTIVE)
    counts = np.bincount(columns.column("kind").to_numpy()[is_active], minlength=len(MEMORY_KINDS))
    found = Counter(dict(zip(MEMORY_KINDS, counts.tolist(), strict=True)))
    return {kind: count for kind, count in found.most_common() if count}


def _verdicts(tables: Tables) -> dict[str, int]:
    """Return how often lessons were followed, ignored and not applicable."""
    columns = ("followed", "ignored", "not_applicable")
    counts = {name: int(tables["lessons"].column(name).to_numpy().sum()) for name in columns}
    return counts if any(counts.values()) else {}


def _sample(table: pa.Table, *, quotes: bool) -> str:
    """Return the newest rows as a Markdown table, with the beginnings of their texts if asked."""
    names = ["id", "kind", "state", *(["content"] if quotes else [])]
    newest = table.slice(max(0, len(table) - _SAMPLE)).select(names)
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in reversed(newest.to_pylist()):
        cells = (cell(row[name]) if name == "content" else row[name] for name in names)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return the beginning of a text as a cell of a table: no link or picture in it works.

    A picture would be fetched from wherever the text says.
    """
    shown = "".join(one for one in " ".join(text.split()) if one.isprintable())[:_CELL]
    plain = shown.replace("`", "'").replace("|", "¦")
    return f"`{plain}`" if plain else ""


# Plots: a PNG inside Markdown, the form that the UI shows. Figures are drawn without pyplot, so
# nothing is registered and no display is needed.

_SIZE_INCHES = (6.4, 2.4)
_RANKS = 1_000  # of a plot by rank that are drawn, evenly along its axis
_DPI = 80  # about 10 KB a plot: every run keeps its own


def bar_plot(title: str, counts: Mapping[str, int]) -> MarkdownMetadataValue:
    """Plot counts by name, in the order given."""

    def draw(axes: "Axes") -> None:
        drawn = axes.barh(list(counts), list(counts.values()), color="#3b6ea5")
        axes.invert_yaxis()
        axes.bar_label(drawn, fmt="{:,.0f}", padding=3)
        axes.margins(x=0.12)

    return _plot(title, draw, has_data=bool(counts))


def stacked_plot(
    title: str, days: Sequence[int], counts: Mapping[str, Sequence[int]]
) -> MarkdownMetadataValue:
    """Plot counts by day since 1970, one colour a name; every sequence is as long as `days`."""

    def draw(axes: "Axes") -> None:
        floor = [0] * len(days)
        for name, values in counts.items():
            axes.bar(np.array(days, "datetime64[D]"), values, bottom=floor, label=name, width=0.9)
            floor = [low + value for low, value in zip(floor, values, strict=True)]
        axes.legend(fontsize="small", frameon=False)
        axes.figure.autofmt_xdate()

    return _plot(title, draw, has_data=bool(days))


def line_plot(title: str, at: Sequence[int], ys: Sequence[float]) -> MarkdownMetadataValue:
    """Plot how a number moved; `at` is microseconds UTC."""

    def draw(axes: "Axes") -> None:
        axes.plot(np.array(at, "datetime64[us]"), ys, marker="o", markersize=3, color="#3b6ea5")
        axes.set_ylim(0, 1.1 * max(ys) or 1)
        axes.figure.autofmt_xdate()

    return _plot(title, draw, has_data=bool(at))


def rank_plot(title: str, values: npt.NDArray[np.int32]) -> MarkdownMetadataValue:
    """Plot values from the largest down on two logarithmic axes: natural text gives a slope."""

    def draw(axes: "Axes") -> None:
        # ranks that lie on one pixel are drawn once: there may be millions
        ranks = np.unique(np.geomspace(1, len(values), _RANKS).round().astype(int))
        axes.loglog(ranks, np.sort(values)[::-1][ranks - 1], color="#3b6ea5")

    return _plot(title, draw, has_data=len(values) > 0)


def _plot(title: str, draw: "Callable[[Axes], None]", *, has_data: bool) -> MarkdownMetadataValue:
    try:
        from matplotlib.figure import Figure  # 0.3 s, and only a run needs it
    except ImportError:
        cure = 'to draw this, install mnemolog with its plots: `uv tool install "mnemolog[plots]"`'
        return MarkdownMetadataValue(f"{title}: {cure}")

    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize="medium", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if has_data:
        draw(axes)
    else:
        axes.text(0.5, 0.5, "nothing yet", ha="center", transform=axes.transAxes)
    png = BytesIO()
    figure.savefig(png, format="png")
    return MarkdownMetadataValue(
        f"![{title}](data:image/png;base64,{b64encode(png.getvalue()).decode()})"
    )


# Values of past runs.

_HISTORY = 200  # materializations looked at


def past_values(context: dg.AssetExecutionContext, name: str) -> list[tuple[int, float]]:
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
