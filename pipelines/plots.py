"""
The plots beside an asset: numbers in, a PNG inside Markdown out, because that is what the UI shows.

Figures are drawn without pyplot: nothing is registered anywhere and no display is looked for.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from dagster import MarkdownMetadataValue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE_INCHES = (6.4, 2.4)
_RANKS = 1_000  # of a plot by rank that are drawn, evenly along its axis
_DPI = 80  # about 10 KB a plot: every run keeps its own


def bars(title: str, counts: Mapping[str, int]) -> MarkdownMetadataValue:
    """Plot counts by name, in the order given."""

    def draw(axes: "Axes") -> None:
        drawn = axes.barh(list(counts), list(counts.values()), color="#3b6ea5")
        axes.invert_yaxis()
        axes.bar_label(drawn, fmt="{:,.0f}", padding=3)
        axes.margins(x=0.12)

    return _plot(title, draw, has_data=bool(counts))


def stacked(
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


def line(title: str, at: Sequence[int], ys: Sequence[float]) -> MarkdownMetadataValue:
    """Plot how a number moved; `at` is microseconds UTC."""

    def draw(axes: "Axes") -> None:
        axes.plot(np.array(at, "datetime64[us]"), ys, marker="o", markersize=3, color="#3b6ea5")
        axes.set_ylim(0, 1.1 * max(ys) or 1)
        axes.figure.autofmt_xdate()

    return _plot(title, draw, has_data=bool(at))


def ranked(title: str, values: npt.NDArray[np.int32]) -> MarkdownMetadataValue:
    """Plot values from the largest down on two logarithmic axes: natural text gives a slope."""

    def draw(axes: "Axes") -> None:
        # ranks that lie on one pixel are drawn once: there may be millions
        ranks = np.unique(np.geomspace(1, len(values), _RANKS).round().astype(int))
        axes.loglog(ranks, np.sort(values)[::-1][ranks - 1], color="#3b6ea5")

    return _plot(title, draw, has_data=len(values) > 0)


def _plot(title: str, draw: "Callable[[Axes], None]", *, has_data: bool) -> MarkdownMetadataValue:
    from matplotlib.figure import Figure  # 0.3 s, and only a run needs it

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
