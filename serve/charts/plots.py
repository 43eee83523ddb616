"""
The plots: lines over time, bars, stacked bars, rows of bars, and a spark for a tile.

Sequences go in, a `Chart` comes out; nothing is read and nothing depends on the hour. Values that
are not finite are drawn as 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from serve import formatting
from serve.charts.chart import (
    HEIGHT,
    WIDTH,
    Chart,
    bar,
    empty,
    line,
    path,
    text,
)
from serve.charts.scale import Scale, ticks
from serve.formatting import Written

_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 10, 22  # around the plot
_NAMED = 4  # places of an axis along time that are named
_ROW, _NAME, _VALUE = 19, 104, 58  # of a plot of rows: their height, the names' width, the values'
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 28


@dataclass(frozen=True, slots=True)
class Axis:
    """What lies along the bottom: its name, and how a value is written there and in the table."""

    name: str
    written: Written
    whole: Written


DAYS = Axis("day", formatting.day_of_year, formatting.day)
MINUTES = Axis("minute", formatting.minute, formatting.minute)


def area(
    title: str,
    at: Sequence[float],
    values: Sequence[float],
    axis: Axis = DAYS,
    written: Written = formatting.count,
    said: str = "",
) -> Chart:
    """Draw how one number moved, from 0 up; `at` are ascending."""
    if not at:
        return empty(title)
    values = _finite(values)
    marks = ticks(max(values), whole=all(one == int(one) for one in values))
    across = Scale(at[0], at[-1], _LEFT, WIDTH - _RIGHT)
    up = Scale(0.0, marks[-1], HEIGHT - _BOTTOM, _TOP)
    points = [(across(x), up(y)) for x, y in zip(at, values, strict=True)]
    drawn = [_grid(marks, up, written), _along(at, across, axis)]
    if len(points) == 1:
        drawn.append(bar(points[0][0] - 2, points[0][1] - 2, 4, 4, "point f1"))
    else:
        floor = [(points[-1][0], up(0.0)), (points[0][0], up(0.0))]
        drawn += (path([*points, *floor], "area f1", closed=True), path(points, "line s1"))
    return Chart(
        title,
        said or f"{written(values[-1])} by {axis.whole(at[-1])}; {written(values[0])} at first.",
        "".join(drawn),
        (axis.name, title),
        [(axis.whole(x), written(y)) for x, y in zip(at, values, strict=True)],
    )


def bars(
    title: str,
    at: Sequence[float],
    series: Mapping[str, Sequence[float]],
    axis: Axis = DAYS,
    written: Written = formatting.count,
    said: str = "",
) -> Chart:
    """Draw numbers by step of an axis, one upon the other; each series is as long as `at`."""
    if not at or not any(map(any, series.values())):
        return empty(title)
    stacks = [_finite(values) for values in series.values()]
    sums = [math.fsum(column) for column in zip(*stacks, strict=True)]
    marks = ticks(max(sums), whole=all(one == int(one) for one in sums))
    up = Scale(0.0, marks[-1], HEIGHT - _BOTTOM, _TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / len(at)
    across = Scale(0, max(len(at) - 1, 1), _LEFT + slot / 2, WIDTH - _RIGHT - slot / 2)
    drawn = [_grid(marks, up, written), _places(at, across, axis)]
    for place, x in enumerate(at):
        drawn += _stack(
            across(place) - slot * 0.42, slot * 0.84, up, x, place, series, axis, written
        )
    total = math.fsum(sums)
    return Chart(
        title,
        said or f"{written(total)} in all, {written(max(sums))} at most in one {axis.name}.",
        "".join(drawn),
        (axis.name, *series),
        [
            (axis.whole(x), *(written(stack[place]) for stack in stacks))
            for place, x in enumerate(at)
        ],
        legend=tuple(series) if len(series) > 1 else (),
    )


def _stack(
    x: float,
    width: float,
    up: Scale,
    at: float,
    place: int,
    series: Mapping[str, Sequence[float]],
    axis: Axis,
    written: Written,
) -> list[str]:
    """Return the bars of one step, the first series lowest."""
    drawn: list[str] = []
    floor = 0.0
    for number, (name, values) in enumerate(series.items(), 1):
        value = _finite([values[place]])[0]
        if value > 0:
            top = up(floor + value)
            said = f"{axis.whole(at)}: {written(value)} {name}"
            drawn.append(bar(x, top, width, up(floor) - top, f"column f{number}", said))
            floor += value
    return drawn


def histogram(
    title: str,
    edges: Sequence[float],
    counts: Sequence[int],
    written: Written = formatting.short_number,
    marks: Mapping[str, float] | None = None,
    said: str = "",
) -> Chart:
    """Draw counts between edges, each step as wide as the others; one edge more than counts.

    An infinite last edge is written as "or more". `marks` are named values, drawn as lines.
    """
    if not any(counts):
        return empty(title)
    tall = ticks(max(counts), whole=True)
    up = Scale(0.0, tall[-1], HEIGHT - _BOTTOM, _TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / len(counts)
    drawn = [_grid(tall, up, formatting.count)]
    names = [_between(low, high, written) for low, high in pairwise(edges)]
    every = -(-len(counts) // 11)
    for place, count in enumerate(counts):
        x = _LEFT + place * slot
        if count:
            said_of = f"{names[place]}: {formatting.count(count)}"
            top = up(count)
            drawn.append(bar(x + 1, top, slot - 2, up(0) - top, "column f1", said_of))
        if place % every == 0:
            drawn.append(text(x, HEIGHT - 7, _bare(edges[place], written), "tick", "middle"))
    for row, (name, value) in enumerate((marks or {}).items()):
        x = _LEFT + slot * _place(edges, value)
        drawn.append(line(x, _TOP, x, HEIGHT - _BOTTOM, "rule"))
        # below one another, so that near ones do not lie upon each other
        drawn.append(text(x + 3, _TOP + 8 + 12 * row, f"{name} {written(value)}", "remark"))
    total = sum(counts)
    return Chart(
        title,
        said or f"{formatting.count(total)} values.",
        "".join(drawn),
        ("between", "count", "share"),
        [
            (name, formatting.count(count), formatting.percent(count / total))
            for name, count in zip(names, counts, strict=True)
        ],
    )


def rows(
    title: str,
    values: Mapping[str, float],
    written: Written = formatting.count,
    said: str = "",
    unit: str = "count",
) -> Chart:
    """Draw one bar a name, in the order given; a value below 0 goes to the left of the others."""
    if not values:
        return empty(title)
    of = dict(zip(values, _finite(list(values.values())), strict=True))
    low, high = min(0.0, *of.values()), max(0.0, *of.values())
    across = Scale(low, high or (1.0 if low == 0 else 0.0), _NAME, WIDTH - _VALUE)
    height = _ROW * len(of) + 8
    drawn: list[str] = []
    for place, (name, value) in enumerate(of.items()):
        y = 4 + place * _ROW
        start, end = sorted((across(0.0), across(value)))
        kind = "column f1" if value >= 0 else "column f2"
        drawn += (
            text(_NAME - 6, y + 13, _cut(name, 17), "name", "end"),
            bar(start, y + 3, end - start, _ROW - 6, kind, f"{name}: {written(value)}"),
            text(end + 5, y + 13, written(value), "value"),
        )
    return Chart(
        title,
        said or f"{len(of)} rows; {next(iter(of))} is {written(next(iter(of.values())))}.",
        "".join(drawn),
        ("name", unit),
        [(name, written(value)) for name, value in of.items()],
        height=height,
    )


def spark(title: str, values: Sequence[float], said: str = "") -> Chart:
    """Draw small bars without an axis, for a tile."""
    height = max(_finite(values), default=0.0)
    up = Scale(0.0, height or 1.0, _SPARK_HEIGHT, 1)
    slot = _SPARK_WIDTH / max(len(values), 1)
    drawn = [line(0, _SPARK_HEIGHT - 0.5, _SPARK_WIDTH, _SPARK_HEIGHT - 0.5, "axis")]
    for place, value in enumerate(_finite(values)):
        if value > 0:
            top = up(value)
            width = max(slot - 0.6, 0.4)
            drawn.append(bar(place * slot, top, width, _SPARK_HEIGHT - top, "column f1"))
    said = said or f"{formatting.count(math.fsum(_finite(values)))} in {len(values)} steps."
    marks = "".join(drawn)
    return Chart(title, said, marks, (), (), width=_SPARK_WIDTH, height=_SPARK_HEIGHT)


def _grid(marks: Sequence[float], up: Scale, written: Written) -> str:
    """Return the lines across and what they stand for."""
    short = formatting.short_number if written is formatting.count else written
    return "".join(
        line(_LEFT, up(value), WIDTH - _RIGHT, up(value), "grid" if value else "axis")
        + text(_LEFT - 5, up(value) + 3.5, short(value), "tick", "end")
        for value in marks
    )


def _along(at: Sequence[float], across: Scale, axis: Axis) -> str:
    """Return the names of some values along an axis of numerals."""
    return _ends([(across(x), axis.written(x)) for x in _some(at)])


def _places(at: Sequence[float], across: Scale, axis: Axis) -> str:
    """Return the names of some steps along an axis of steps."""
    chosen = _some(range(len(at)))
    return _ends([(across(place), axis.written(at[int(place)])) for place in chosen])


def _ends(named: Sequence[tuple[float, str]]) -> str:
    last = len(named) - 1
    anchors = [
        "middle" if not last else "start" if not place else "end" if place == last else "middle"
        for place in range(len(named))
    ]
    return "".join(
        text(x, HEIGHT - 7, name, "tick", anchor)
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
    """Return where a value lies among the steps between edges."""
    for place, (low, high) in enumerate(pairwise(edges)):
        if value < high:
            share = 0.5 if math.isinf(high) else (value - low) / (high - low)
            return place + min(max(share, 0.0), 1.0)
    return float(len(edges) - 1)


def _finite(values: Sequence[float]) -> list[float]:
    return [float(one) if math.isfinite(one) else 0.0 for one in values]


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
