"""
Charts: lines, bars, rows of bars and sparklines as SVG, each with its figures as a table.

All text is escaped here and nowhere else. There is no `style` attribute and no colour: classes name
the marks and `charts.css` styles them in light and dark, so a strict Content-Security-Policy allows
a chart.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from html import escape
from itertools import pairwise

import msgspec

from serve import formatting
from serve.formatting import Written

WIDTH, HEIGHT = 360, 180  # units of a drawing, as wide as a phone is in pixels


class Chart(msgspec.Struct, frozen=True):
    """A chart: `marks` is its SVG; `rows` are the figures, under the `columns`."""

    title: str
    description: str
    marks: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    width: int = WIDTH
    height: int = HEIGHT
    legend: Sequence[str] = ()  # names of the series, in their order


def render_svg(chart: Chart) -> str:
    """Return the picture as an `svg` element."""
    id_ = f"chart-{blake2b(chart.title.encode(), digest_size=5).hexdigest()}"
    return (
        f'<svg class="chart" viewBox="0 0 {chart.width} {chart.height}" role="img" '
        f'aria-labelledby="{id_}-t {id_}-d" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{id_}-t">{escape(chart.title)}</title>'
        f'<desc id="{id_}-d">{escape(chart.description)}</desc>{chart.marks}</svg>'
    )


def render_figure(chart: Chart) -> str:
    """Return the picture with its title, its legend and its figures, as HTML."""
    legend = "".join(
        f'<li><span class="plot-key k{place}"></span>{escape(name)}</li>'
        for place, name in enumerate(chart.legend, 1)
    )
    return (
        f'<figure class="plot"><figcaption>{escape(chart.title)}</figcaption>{render_svg(chart)}'
        + (f'<ul class="plot-legend">{legend}</ul>' if legend else "")
        + f'<p class="plot-said">{escape(chart.description)}</p>{_table(chart)}</figure>'
    )


def _table(chart: Chart) -> str:
    if not chart.rows:
        return ""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in chart.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in chart.rows
    )
    return (
        '<details class="plot-data"><summary>Figures</summary>'
        f'<div class="plot-scroll" role="region" tabindex="0" '
        f'aria-label="{escape(chart.title)}, figures">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def svg_number(value: float) -> str:
    """Return a coordinate, with one decimal if it is not whole."""
    return f"{value:.1f}".removesuffix(".0")


def svg_text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    """Return a text element; `kind` is its class."""
    return (
        f'<text class="{kind}" x="{svg_number(x)}" y="{svg_number(y)}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    places = zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2), strict=True)
    drawn = " ".join(f'{name}="{svg_number(value)}"' for name, value in places)
    return f'<line class="{kind}" {drawn}/>'


def svg_bar(x: float, y: float, width: float, height: float, kind: str, text: str = "") -> str:
    """Return a rectangle; `text` is shown where the pointer rests on it."""
    places = zip(("x", "y", "width", "height"), (x, y, width, height), strict=True)
    drawn = " ".join(f'{name}="{svg_number(max(value, 0.0))}"' for name, value in places)
    title = f"<title>{escape(text)}</title>" if text else ""
    return f'<rect class="{kind}" {drawn} rx="1">{title}</rect>'


def svg_path(points: Iterable[tuple[float, float]], kind: str, *, closed: bool = False) -> str:
    """Return a line through some points; `closed` fills its inside."""
    steps = " L".join(f"{svg_number(x)} {svg_number(y)}" for x, y in points)
    return f'<path class="{kind}" d="M{steps}{" Z" if closed else ""}"/>'


def empty_chart(title: str) -> Chart:
    """Return the picture of no data."""
    marks = svg_text(WIDTH / 2, HEIGHT / 2, "nothing yet", "empty", "middle")
    return Chart(title, "Nothing yet.", marks, (), ())


# Scales: from values to places, and the round values that an axis names

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_STEPS = 4


class Scale(msgspec.Struct, frozen=True):
    """A linear scale from the values `low` to `high` to the places `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return a value's place; the middle where all values are equal."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(high: float, *, whole: bool = False) -> list[float]:
    """Return even, round values from 0 up to `high` or above, _STEPS steps at most.

    The last is the end of the axis; `whole` gives only whole numbers.
    """
    if not math.isfinite(high) or high <= 0:
        return [0.0, 1.0]
    rough = high / _STEPS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _ROUND if factor * power >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, math.ceil(step))
    return [place * step for place in range(math.ceil(high / step - 1e-9) + 1)]


# The plots

_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 10, 22  # around the plot
_NAMED = 4  # places of an axis along time that are named
_ROW, _NAME, _VALUE = 19, 104, 58  # of a plot of rows: their height, the names' width, the values'
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 28


def area_chart(title: str, at: Sequence[float], values: Sequence[float], said: str) -> Chart:
    """Draw a count over time, from 0 up; `at` are ascending, microseconds UTC."""
    if not at:
        return empty_chart(title)
    values = _finite(values)
    marks = ticks(max(values), whole=all(value == int(value) for value in values))
    across = Scale(at[0], at[-1], _LEFT, WIDTH - _RIGHT)
    up = Scale(0.0, marks[-1], HEIGHT - _BOTTOM, _TOP)
    points = [(across(x), up(y)) for x, y in zip(at, values, strict=True)]
    named = [(across(x), formatting.day_of_year(x)) for x in _some(at)]
    drawn = [_grid(marks, up, formatting.count), _name_places(named)]
    if len(points) == 1:
        drawn.append(svg_bar(points[0][0] - 2, points[0][1] - 2, 4, 4, "point f1"))
    else:
        floor = [(points[-1][0], up(0.0)), (points[0][0], up(0.0))]
        drawn += (svg_path([*points, *floor], "area f1", closed=True), svg_path(points, "line s1"))
    return Chart(
        title,
        said,
        "".join(drawn),
        ("day", title),
        [(formatting.day(x), formatting.count(y)) for x, y in zip(at, values, strict=True)],
    )


def bar_chart(
    title: str,
    at: Sequence[float],
    series: Mapping[str, Sequence[float]],
    step: str = "day",
    written: Written = formatting.count,
    said: str = "",
) -> Chart:
    """Draw stacked numbers by step; `at`, microseconds UTC, is as long as each series."""
    if not at or not any(map(any, series.values())):
        return empty_chart(title)
    stacks = [_finite(values) for values in series.values()]
    sums = [math.fsum(column) for column in zip(*stacks, strict=True)]
    marks = ticks(max(sums), whole=all(total == int(total) for total in sums))
    up = Scale(0.0, marks[-1], HEIGHT - _BOTTOM, _TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / len(at)
    across = Scale(0, max(len(at) - 1, 1), _LEFT + slot / 2, WIDTH - _RIGHT - slot / 2)
    named = [
        (across(place), formatting.day_of_year(at[int(place)])) for place in _some(range(len(at)))
    ]
    drawn = [_grid(marks, up, written), _name_places(named)]
    for place, moment in enumerate(at):
        floor = 0.0  # the first series is the lowest bar
        for number, (name, values) in enumerate(zip(series, stacks, strict=True), 1):
            if values[place] > 0:
                top = up(floor + values[place])
                text = f"{formatting.day(moment)}: {written(values[place])} {name}"
                x, height = across(place) - slot * 0.42, up(floor) - top
                drawn.append(svg_bar(x, top, slot * 0.84, height, f"column f{number}", text))
                floor += values[place]
    total = math.fsum(sums)
    return Chart(
        title,
        said or f"{written(total)} in all, {written(max(sums))} at most in one {step}.",
        "".join(drawn),
        (step, *series),
        [
            (formatting.day(x), *(written(stack[place]) for stack in stacks))
            for place, x in enumerate(at)
        ],
        legend=tuple(series) if len(series) > 1 else (),
    )


def histogram(
    title: str,
    edges: Sequence[float],
    counts: Sequence[int],
    said: str,
    written: Written = formatting.short_number,
    marks: Mapping[str, float] | None = None,
) -> Chart:
    """Draw counts between edges, each step as wide as the others; one edge more than counts.

    An infinite last edge is written as "or more". `marks` are named values, drawn as lines.
    """
    if not any(counts):
        return empty_chart(title)
    tall = ticks(max(counts), whole=True)
    up = Scale(0.0, tall[-1], HEIGHT - _BOTTOM, _TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / len(counts)
    drawn = [_grid(tall, up, formatting.count)]
    names = [_between(low, high, written) for low, high in pairwise(edges)]
    every = -(-len(counts) // 11)
    for place, count in enumerate(counts):
        x = _LEFT + place * slot
        if count:
            text = f"{names[place]}: {formatting.count(count)}"
            top = up(count)
            drawn.append(svg_bar(x + 1, top, slot - 2, up(0) - top, "column f1", text))
        if place % every == 0:
            drawn.append(svg_text(x, HEIGHT - 7, _bare(edges[place], written), "tick", "middle"))
    for row, (name, value) in enumerate((marks or {}).items()):
        x = _LEFT + slot * _place(edges, value)
        drawn.append(svg_line(x, _TOP, x, HEIGHT - _BOTTOM, "rule"))
        # below one another, so that near ones do not overlap
        drawn.append(svg_text(x + 3, _TOP + 8 + 12 * row, f"{name} {written(value)}", "remark"))
    total = sum(counts)
    return Chart(
        title,
        said,
        "".join(drawn),
        ("between", "count", "share"),
        [
            (name, formatting.count(count), formatting.percent(count / total))
            for name, count in zip(names, counts, strict=True)
        ],
    )


def row_chart(
    title: str,
    values: Mapping[str, float],
    written: Written = formatting.count,
    said: str = "",
    unit: str = "count",
) -> Chart:
    """Draw one bar a name, in the order given; a value below 0 goes to the left of the others."""
    if not values:
        return empty_chart(title)
    of = dict(zip(values, _finite(list(values.values())), strict=True))
    low, high = min(0.0, *of.values()), max(0.0, *of.values())
    across = Scale(low, high or (1.0 if low == 0 else 0.0), _NAME, WIDTH - _VALUE)
    height = _ROW * len(of) + 8
    drawn: list[str] = []
    for place, (name, value) in enumerate(of.items()):
        y = 4 + place * _ROW
        short_name = name if len(name) <= 17 else f"{name[:16]}…"
        start, end = sorted((across(0.0), across(value)))
        kind = "column f1" if value >= 0 else "column f2"
        drawn += (
            svg_text(_NAME - 6, y + 13, short_name, "name", "end"),
            svg_bar(start, y + 3, end - start, _ROW - 6, kind, f"{name}: {written(value)}"),
            svg_text(end + 5, y + 13, written(value), "value"),
        )
    return Chart(
        title,
        said or f"{len(of)} rows; {next(iter(of))} is {written(next(iter(of.values())))}.",
        "".join(drawn),
        ("name", unit),
        [(name, written(value)) for name, value in of.items()],
        height=height,
    )


def sparkline(title: str, values: Sequence[float]) -> Chart:
    """Draw small bars without an axis, for a tile."""
    height = max(_finite(values), default=0.0)
    up = Scale(0.0, height or 1.0, _SPARK_HEIGHT, 1)
    slot = _SPARK_WIDTH / max(len(values), 1)
    drawn = [svg_line(0, _SPARK_HEIGHT - 0.5, _SPARK_WIDTH, _SPARK_HEIGHT - 0.5, "axis")]
    for place, value in enumerate(_finite(values)):
        if value > 0:
            top = up(value)
            width = max(slot - 0.6, 0.4)
            drawn.append(svg_bar(place * slot, top, width, _SPARK_HEIGHT - top, "column f1"))
    text = f"{formatting.count(math.fsum(_finite(values)))} in {len(values)} steps."
    marks = "".join(drawn)
    return Chart(title, text, marks, (), (), width=_SPARK_WIDTH, height=_SPARK_HEIGHT)


def _grid(marks: Sequence[float], up: Scale, written: Written) -> str:
    """Return the horizontal grid lines and their labels."""
    short = formatting.short_number if written is formatting.count else written
    return "".join(
        svg_line(_LEFT, up(value), WIDTH - _RIGHT, up(value), "grid" if value else "axis")
        + svg_text(_LEFT - 5, up(value) + 3.5, short(value), "tick", "end")
        for value in marks
    )


def _name_places(named: Sequence[tuple[float, str]]) -> str:
    """Return the names of some places along the bottom."""
    last = len(named) - 1
    anchors = [
        "middle" if not last else "start" if not place else "end" if place == last else "middle"
        for place in range(len(named))
    ]
    return "".join(
        svg_text(x, HEIGHT - 7, name, "tick", anchor)
        for (x, name), anchor in zip(named, anchors, strict=True)
    )


def _some(values: Sequence[float]) -> list[float]:
    """Return up to _NAMED of some values, evenly, the first and the last among them."""
    last = len(values) - 1
    if last < _NAMED:
        return list(values)
    return [values[round(place * last / (_NAMED - 1))] for place in range(_NAMED)]


def _between(low: float, high: float, written: Written) -> str:
    if math.isinf(high):
        return f"{written(low)} or more"
    return f"{written(low)} to {written(high)}"


def _bare(value: float, written: Written) -> str:
    """Return a value for an axis, its unit left out."""
    return formatting.short_number(value) if written is formatting.milliseconds else written(value)


def _place(edges: Sequence[float], value: float) -> float:
    """Return the place of a value among the steps between edges."""
    for place, (low, high) in enumerate(pairwise(edges)):
        if value < high:
            share = 0.5 if math.isinf(high) else (value - low) / (high - low)
            return place + min(max(share, 0.0), 1.0)
    return float(len(edges) - 1)


def _finite(values: Sequence[float]) -> list[float]:
    return [float(value) if math.isfinite(value) else 0.0 for value in values]
