"""The table: a row for each measure and program, a column for each size, with ratios."""

from collections.abc import Sequence

from figure import OURS, Figure
from growth import exponent, series


def markdown(figures: Sequence[Figure]) -> str:
    """Return the table; "12x" is a multiple of ours, "size^1" the growth."""
    sizes = sorted({figure.size for figure in figures})
    ours = {(figure.what, figure.size): figure.value for figure in figures if figure.who == OURS}
    heads = ["what", "whose", *(f"{size:,}" for size in sizes), "grows as"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    by_series = series(figures)
    order = list(dict.fromkeys(title for title, _ in by_series))
    for (title, who), those in sorted(
        by_series.items(), key=lambda series_: order.index(series_[0][0])
    ):
        by_size = {figure.size: figure for figure in those}
        cells = [_cell(by_size.get(size), ours.get((title, size))) for size in sizes]
        grows = exponent(those)
        last = "" if grows is None else f"size^{grows:.2f}"
        lines.append(f"| {title} | {who} | {' | '.join(cells)} | {last} |")
    return "\n".join(lines)


def _cell(figure: Figure | None, ours: float | None) -> str:
    if figure is None:
        return ""
    parts = [shown(figure.value, figure.unit)]
    if figure.who != OURS and ours:
        parts.append(f"**{times(figure.value / ours)}**")
    if figure.recall is not None:
        parts.append(f"recall {figure.recall:.3f}")
    return ", ".join(parts)


def shown(value: float, unit: str) -> str:
    """Return a value with three significant digits and its unit, or as a count if it has none."""
    if not unit:
        return f"{value:,.0f}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.1f}x" if ratio >= 1 else f"{ratio:.2f}x"
