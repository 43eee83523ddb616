"""Growth: how time grows with the number of memories, as a fitted exponent and a log-log plot."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import builds
import dense
import lexical
import numpy as np
import service
from figure import OURS, Figure

TIMES = ("ms", "s")
PANELS = {
    "BM25, ten words (CPU ms)": (lexical.QUESTION,),
    "BM25, four keywords (CPU ms)": (lexical.KEYWORDS,),
    "the nearest ten vectors (CPU ms)": (dense.NEAREST,),
    "over HTTP (server's CPU ms)": tuple(
        f"{work}, CPU" for work in (service.LEXICAL, service.AUTO, service.FRESH, service.WRITE)
    ),
    "builds (CPU s)": tuple(f"{work}, CPU" for work in (builds.FULL, builds.NEW, builds.QUICK)),
}


def exponent(series: Sequence[Figure]) -> float | None:
    """Return b of the fit value = a size^b over all sizes; None for one size or without times.

    1 is linear. A fixed cost flattens it at the small sizes.
    """
    if len(series) < 2 or any(figure.unit not in TIMES or figure.value <= 0 for figure in series):
        return None
    sizes, values = ([getattr(figure, name) for figure in series] for name in ("size", "value"))
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def series(figures: Iterable[Figure]) -> dict[tuple[str, str], list[Figure]]:
    """Return the figures by (what, who) in order of appearance, each list sorted by size."""
    by_line: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        by_line.setdefault((figure.what, figure.who), []).append(figure)
    return {key: sorted(those, key=lambda figure: figure.size) for key, those in by_line.items()}


def tenfold(figures: Sequence[Figure]) -> str:
    """Return a table of the cost of ten times the memories, for our figures in PANELS."""
    drawn = {title for whats in PANELS.values() for title in whats}
    drawn |= {f"{work}, p50" for work in (service.LEXICAL, service.AUTO, service.FRESH)}
    ours = {
        title: {figure.size: figure.value for figure in those}
        for (title, who), those in series(figures).items()
        if who == OURS and title in drawn
    }
    sizes = sorted({size for values in ours.values() for size in values})
    steps = [(size, 10 * size) for size in sizes if 10 * size in sizes]
    if not steps:
        return ""
    heads = ["ten times the memories", *(f"{small:,} to {large:,}" for small, large in steps)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for title, values in ours.items():
        cells = [
            f"{values[large] / values[small]:.1f}x" if {small, large} <= values.keys() else ""
            for small, large in steps
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(figures: Sequence[Figure], target: Path) -> None:
    """Draw every panel that has figures; each line carries its exponent."""
    from matplotlib.figure import Figure as Sheet  # without pyplot, which looks for a screen

    drawn = {
        title: {key: those for key, those in series(figures).items() if key[0] in whats}
        for title, whats in PANELS.items()
    }
    drawn = {title: lines for title, lines in drawn.items() if lines}
    if not drawn:
        return
    wide = min(len(drawn), 3)
    high = -(-len(drawn) // wide)
    sheet = Sheet(figsize=(5 * wide, 4.5 * high), layout="constrained")
    for place, (title, lines) in enumerate(drawn.items(), 1):
        panel = sheet.add_subplot(high, wide, place)
        for (what, who), those in lines.items():
            name = what.removesuffix(", CPU") if who == OURS and len(PANELS[title]) > 1 else who
            grows = exponent(those)
            label = name if grows is None else f"{name}: size^{grows:.2f}"
            sizes, values = [figure.size for figure in those], [figure.value for figure in those]
            panel.plot(sizes, values, "o-", label=label, linewidth=2.5 if who == OURS else 1.2)
        panel.set(xscale="log", yscale="log", title=title, xlabel="memories")
        panel.grid(alpha=0.3, which="both")
        panel.legend(fontsize=8)
    sheet.savefig(target, dpi=110)
