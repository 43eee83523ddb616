"""
Chart: one picture, and the same figures as a table for who cannot see it.

All text is escaped here and nowhere else. There is no `style` attribute and no colour: classes say
what a mark is, `charts.css` how it looks in light and dark, so a strict Content-Security-Policy
lets a chart through.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from html import escape

WIDTH, HEIGHT = 360, 180  # units of a drawing, as wide as a phone is in pixels


@dataclass(frozen=True, slots=True)
class Chart:
    """`marks` is what is drawn, as SVG; `rows` are the figures, under the `columns`."""

    title: str
    description: str
    marks: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    width: int = WIDTH
    height: int = HEIGHT
    legend: Sequence[str] = ()  # names of the series, in their order


def svg(chart: Chart) -> str:
    """Return the picture as an `svg` element."""
    id_ = f"chart-{blake2b(chart.title.encode(), digest_size=5).hexdigest()}"
    return (
        f'<svg class="chart" viewBox="0 0 {chart.width} {chart.height}" role="img" '
        f'aria-labelledby="{id_}-t {id_}-d" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{id_}-t">{escape(chart.title)}</title>'
        f'<desc id="{id_}-d">{escape(chart.description)}</desc>{chart.marks}</svg>'
    )


def figure(chart: Chart) -> str:
    """Return the picture with its title, its legend and its figures, as HTML."""
    legend = "".join(
        f'<li><span class="plot-key k{place}"></span>{escape(name)}</li>'
        for place, name in enumerate(chart.legend, 1)
    )
    return (
        f'<figure class="plot"><figcaption>{escape(chart.title)}</figcaption>{svg(chart)}'
        + (f'<ul class="plot-legend">{legend}</ul>' if legend else "")
        + f'<p class="plot-said">{escape(chart.description)}</p>{_table(chart)}</figure>'
    )


def _table(chart: Chart) -> str:
    if not chart.rows:
        return ""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in chart.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(one)}</td>" for one in others)
        + "</tr>"
        for first, *others in chart.rows
    )
    return (
        '<details class="plot-data"><summary>Figures</summary>'
        f'<div class="plot-scroll" role="region" tabindex="0" '
        f'aria-label="{escape(chart.title)}, figures">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def number(value: float) -> str:
    """Return a coordinate, with a digit after the point where there is one."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, said: str, kind: str, anchor: str = "start") -> str:
    """Return a text element; `kind` is its class."""
    return (
        f'<text class="{kind}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">'
        f"{escape(said)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    places = zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2), strict=True)
    drawn = " ".join(f'{name}="{number(value)}"' for name, value in places)
    return f'<line class="{kind}" {drawn}/>'


def bar(x: float, y: float, width: float, height: float, kind: str, said: str = "") -> str:
    """Return a rectangle; `said` is shown where the pointer rests on it."""
    places = zip(("x", "y", "width", "height"), (x, y, width, height), strict=True)
    drawn = " ".join(f'{name}="{number(max(value, 0.0))}"' for name, value in places)
    title = f"<title>{escape(said)}</title>" if said else ""
    return f'<rect class="{kind}" {drawn} rx="1">{title}</rect>'


def path(points: Iterable[tuple[float, float]], kind: str, *, closed: bool = False) -> str:
    """Return a line through some points; `closed` fills what lies inside."""
    steps = " L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path class="{kind}" d="M{steps}{" Z" if closed else ""}"/>'


def empty(title: str, said: str = "nothing yet", height: int = HEIGHT) -> Chart:
    """Return the picture of no data."""
    marks = text(WIDTH / 2, height / 2, said, "empty", "middle")
    return Chart(title, f"{said[:1].upper()}{said[1:]}.", marks, (), (), height=height)
