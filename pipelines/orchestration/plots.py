"""
Plots of counts and of values over time: an SVG inside Markdown, the form that Dagster's UI shows.

Every run keeps its own, so a plot is a few kilobytes: bars, lines, the largest figure, the first
day and the last. All other figures are metadata beside it.
"""

import datetime
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np
import numpy.typing as npt
from dagster import MarkdownMetadataValue

from store.home.instants import DAY

_WIDTH, _HEIGHT = 520, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 12, 508, 44, 176  # of the drawing, below the title
_NAMES = 130  # units that names beside bars and colours take
_COLOURS = ("#3b6ea5", "#d98c3f", "#5a9e6f", "#c2574d", "#8a6fb0", "#8c6d5a", "#c77fae")
_OTHER = "#9aa3ad"
_ROW = 18  # units from a name to the one below it
_RANKS = 500  # of a plot by rank that are drawn, evenly along its axis


def bar_plot(title: str, counts: Mapping[str, int]) -> MarkdownMetadataValue:
    """Plot counts by name, in the order given."""
    most = max(counts.values(), default=0) or 1
    room = _RIGHT - _LEFT - _NAMES - 60
    marks = []
    for row, (name, count) in enumerate(counts.items()):
        y, width = _TOP + row * _ROW, room * count / most
        marks += [
            _text(_LEFT + _NAMES - 8, y + 10, name, anchor="end"),
            _bar(_LEFT + _NAMES, y, width, 13, _COLOURS[0]),
            _text(_LEFT + _NAMES + width + 6, y + 10, f"{count:,}"),
        ]
    return _plot(title, marks, height=_TOP + max(2, len(counts)) * _ROW + 12)


def stacked_plot(
    title: str, days: Sequence[int], counts: Mapping[str, Sequence[int]]
) -> MarkdownMetadataValue:
    """Plot counts by day since 1970, one colour a name; every sequence is as long as `days`.

    The first names have a colour each; the others are summed in one.
    """
    arrays = [np.asarray(counts[name]) for name in counts]
    layers = list(zip(counts, arrays, _COLOURS, strict=False))
    if others := arrays[len(_COLOURS) :]:
        layers.append(("other", np.sum(others, axis=0), _OTHER))
    totals = np.sum([values for _, values, _ in layers], axis=0) if layers else np.zeros(0)
    right, most = _RIGHT - _NAMES, max(totals, default=0) or 1
    step = (right - _LEFT) / max(1, len(days))
    scale = (_BOTTOM - _TOP) / most
    marks, floor = [], np.zeros(len(days))
    for row, (name, values, colour) in enumerate(layers):
        bars = [
            f"M{_LEFT + at * step:.1f} {_BOTTOM - floor[at] * scale:.1f}"
            f"h{step * 0.9:.1f}v{-values[at] * scale:.1f}h{-step * 0.9:.1f}z"
            for at in np.flatnonzero(values).tolist()
        ]
        marks.append(f'<path fill="{colour}" d="{"".join(bars)}"/>')
        floor = floor + values
        y = _TOP + row * _ROW
        marks += [_bar(right + 10, y, 10, 10, colour), _text(right + 26, y + 9, name)]
    if len(days):
        marks += _frame(f"{most:,.0f} at most", _day(days[0]), _day(days[-1]), right)
    return _plot(title, marks)


def line_plot(title: str, at: Sequence[int], ys: Sequence[float]) -> MarkdownMetadataValue:
    """Plot a number over time; `at` is microseconds UTC."""
    marks: list[str] = []
    if len(at):
        xs = _scaled(np.asarray(at, float), _LEFT + 4, _RIGHT - 4)
        heights = np.asarray(ys, float) / (max(ys) or 1)
        tops = _BOTTOM - heights * (_BOTTOM - _TOP)
        marks.append(_line(zip(xs, tops, strict=True)))
        marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{_COLOURS[0]}"/>'
            for x, y in zip(xs, tops, strict=True)
        ]
        first, last = (_day(moment // DAY) for moment in (at[0], at[-1]))
        marks += _frame(f"{max(ys):,.6g} at most, {ys[-1]:,.6g} last", first, last, _RIGHT)
    return _plot(title, marks)


def rank_plot(title: str, values: npt.NDArray[np.int32]) -> MarkdownMetadataValue:
    """Plot values from the largest down on two log axes: natural text gives a falling line."""
    marks: list[str] = []
    if len(values):
        # ranks on one pixel are drawn once: there may be millions
        ranks = np.unique(np.geomspace(1, len(values), _RANKS).round().astype(int))
        drawn = np.maximum(np.sort(values)[::-1][ranks - 1], 1)
        xs = _scaled(np.log(ranks), _LEFT + 4, _RIGHT - 4)
        tops = _scaled(-np.log(drawn), _TOP, _BOTTOM - 4)
        marks.append(_line(zip(xs, tops, strict=True)))
        marks += _frame(f"{drawn[0]:,} to {drawn[-1]:,}", "1", f"{len(values):,}", _RIGHT)
    return _plot(title, marks)


def _scaled(values: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.float64]:
    """Return values scaled to two bounds; the middle where all are equal."""
    span = values.max() - values.min()
    if not span:
        return np.full(len(values), (low + high) / 2)
    scaled: npt.NDArray[np.float64] = low + (values - values.min()) / span * (high - low)
    return scaled


def _frame(top: str, first: str, last: str, right: float) -> list[str]:
    """Return the axis, with the highest value and the labels of its ends."""
    return [
        f'<path d="M{_LEFT} {_BOTTOM}H{right}" stroke="#777"/>',
        _text(_LEFT, _TOP - 8, top, colour="#777"),
        _text(_LEFT, _BOTTOM + 15, first),
        *([_text(right, _BOTTOM + 15, last, anchor="end")] if last != first else []),
    ]


def _line(points: Iterable[tuple[float, float]]) -> str:
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{drawn}" fill="none" stroke="{_COLOURS[0]}" stroke-width="1.5"/>'


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'


def _day(days: int) -> str:
    return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=int(days)))


def _plot(title: str, marks: Sequence[str], *, height: int = _HEIGHT) -> MarkdownMetadataValue:
    drawn = "".join(marks) or _text(_WIDTH / 2, height / 2, "nothing yet", anchor="middle")
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f"{_text(_LEFT, 16, title)}{drawn}</svg>"
    )
    coded = b64encode(svg.encode()).decode()
    return MarkdownMetadataValue(f"![{title}](data:image/svg+xml;base64,{coded})")
