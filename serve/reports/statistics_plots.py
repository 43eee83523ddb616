"""Statistics as charts: those of the overview page, and files with all of them (SVG or HTML)."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from serve import formatting
from serve.lessons.lesson_stats import LessonStats
from serve.recall.context_block import clean_text
from serve.reports import charts
from serve.reports.charts import (
    HEIGHT,
    WIDTH,
    Chart,
    empty_chart,
    render_figure,
    render_svg,
    svg_number,
)
from serve.reports.holdings import SHOWN_STATES, MemoryCounts
from serve.reports.statistics_rendering import CONFIDENCE, TOOK_MS, counts, score_edges
from serve.reports.tenant_statistics import (
    Growth,
    RecallOutcomes,
    RecallRate,
    Spending,
    Statistics,
    Timeline,
)
from store.home.instants import DAY

_LESSONS = 12  # of a picture
_STEPS = {1: "day", 7: "week", 28: "four weeks", 364: "year"}


def overview_charts(statistics: Statistics) -> list[Chart]:
    """Return the charts of the overview."""
    return [
        memories_by_time(statistics.timeline),
        events_over_time(statistics.growth),
        latency_histogram(statistics.answered),
        confidence_histogram(statistics.answered),
        by_kind(statistics.memories),
        cost_by_day(statistics.spending),
    ]


def file_charts(statistics: Statistics, lessons: Sequence[LessonStats]) -> list[Chart]:
    """Return the charts of `mnemolog stats --plot`."""
    more = (
        memories_over_time(statistics.growth),
        recalls_by_day(statistics.rate),
        score_histogram(statistics.answered),
        by_state(statistics.memories),
    )
    return [*overview_charts(statistics), *more, lesson_impact(lessons)]


def memories_over_time(growth: Growth) -> Chart:
    total = growth.totals[-1]
    text = f"{formatting.count(total)} memories recorded since {formatting.day(growth.since)}."
    starts = growth.starts if total else ()
    return charts.area_chart("Memories recorded", starts, growth.totals, text)


def memories_by_time(timeline: Timeline) -> Chart:
    """Draw the memories by the time of their events, which may be long before their recording."""
    title = "Memories by when they happened"
    if not timeline.counts:
        return empty_chart(title)
    text = (
        f"{formatting.count(sum(timeline.counts))} active memories since "
        f"{formatting.day(timeline.since)}."
    )
    series = {"memories": timeline.counts}
    step = _STEPS[timeline.step // DAY]
    return charts.bar_chart(title, timeline.starts, series, step, said=text)


def events_over_time(growth: Growth) -> Chart:
    """Draw the events of each step of the log's life."""
    step = _STEPS[growth.step // DAY]
    series = {"memories": growth.memories, "recalls": growth.recalls, "others": growth.others}
    return charts.bar_chart(f"Events by {step}", growth.starts, series, step)


def recalls_by_day(rate: RecallRate) -> Chart:
    days = [rate.first_day + place * DAY for place in range(len(rate.days))]
    text = (
        f"{formatting.count(sum(rate.days))} in thirty days, "
        f"{formatting.count(rate.last_day)} in the last 24 hours."
    )
    return charts.bar_chart("Recalls by day", days, {"recalls": rate.days}, said=text)


def latency_histogram(outcomes: RecallOutcomes) -> Chart:
    p50, p95 = outcomes.took(0.5), outcomes.took(0.95)
    if p50 is None or p95 is None:
        return empty_chart("Time of a recall")
    edges = (*map(float, TOOK_MS), float("inf"))
    text = (
        f"Half within {formatting.milliseconds(p50)}, 95 % within {formatting.milliseconds(p95)}; "
        f"{_newest_note(outcomes)}."
    )
    return charts.histogram(
        "Time of a recall, ms",
        edges,
        counts(outcomes.took_ms, edges),
        text,
        formatting.milliseconds,
        {"p50": p50, "p95": p95},
    )


def confidence_histogram(outcomes: RecallOutcomes) -> Chart:
    text = f"Of {formatting.count(len(outcomes.confidence))} hits; {_newest_note(outcomes)}."
    return charts.histogram(
        "Confidence of what came back",
        CONFIDENCE,
        counts(outcomes.confidence, CONFIDENCE),
        text,
        lambda value: f"{value:.2f}".removesuffix("0"),
    )


def score_histogram(outcomes: RecallOutcomes) -> Chart:
    edges = score_edges(outcomes.score)
    text = f"Of {formatting.count(len(outcomes.score))} hits; {_newest_note(outcomes)}."
    return charts.histogram("Score of what came back", edges, counts(outcomes.score, edges), text)


def by_kind(memory_counts: MemoryCounts) -> Chart:
    """Draw the active memories of each kind."""
    of = {kind: states.get("active", 0) for kind, states in memory_counts.by_kind.items()}
    active = {kind.replace("_", " "): count for kind, count in of.items() if count}
    text = f"{formatting.count(memory_counts.active)} active memories of {len(active)} kinds."
    return charts.row_chart("Active memories by kind", active, said=text, unit="memories")


def by_state(memory_counts: MemoryCounts) -> Chart:
    of = {state: memory_counts.of_state(state) for state in SHOWN_STATES}
    present = {state: count for state, count in of.items() if count}
    return charts.row_chart("Memories by state", present, unit="memories")


def cost_by_day(spending: Spending) -> Chart:
    days = [spending.first_day + place * DAY for place in range(len(spending.days))]
    month = spending.month
    text = (
        f"{formatting.dollars(month.cost_usd)} in thirty days for "
        f"{formatting.count(month.calls)} calls and {formatting.count(month.tokens)} tokens."
    )
    return charts.bar_chart(
        "Spent on models by day",
        days,
        {"dollars": spending.days},
        written=formatting.dollars,
        said=text,
    )


def lesson_impact(lessons: Sequence[LessonStats]) -> Chart:
    """Draw the gain in turns with a good outcome where a lesson was followed, in points."""
    values = [
        (f"{place}. {clean_text(stats.memory.content)}", 100 * impact.value)
        for place, stats in enumerate(lessons, 1)
        if (impact := stats.impact) is not None
    ]
    return charts.row_chart(
        "What lessons are worth",
        dict(values[:_LESSONS]),
        lambda value: f"{value:+.0f} pts",
        said="How much oftener turns came out well where a lesson was followed than where it was "
        "not, in points, of lessons with three turns or more on each side.",
        unit="points",
    )


def _newest_note(outcomes: RecallOutcomes) -> str:
    return f"of the newest {formatting.count(outcomes.looked_at)} recalls"


# Charts as one self-contained file

_STATIC = Path(__file__).parents[1] / "dashboard" / "static"
_COLUMNS, _GAP, _HEAD, _KEY = 2, 36, 56, 68
# plain colours: a viewer of SVG files may know neither variables nor dark
_PLAIN = """
text{font:10.5px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#5c5c68}
.title{font-size:18px;font-weight:600;fill:#1b1b20}.caption{font-size:13px;font-weight:600;fill:#1b1b20}
.name,.value{fill:#1b1b20}.empty{font-size:13px}
.grid{stroke:#e2e2e8}.axis{stroke:#8b8b97}.rule{stroke:#5c5c68;stroke-dasharray:3 3}
.line{fill:none;stroke:#4a4fc4;stroke-width:1.75}.area{fill:#4a4fc4;fill-opacity:.14}
.f1{fill:#4a4fc4}.f2{fill:#c2571a}.f3{fill:#17784a}.f4{fill:#a63a8a}
""".strip()


def svg_document(title: str, charts: Sequence[Chart]) -> str:
    """Return the charts in rows of two, as one SVG file."""
    drawn: list[str] = []
    y = _HEAD
    for start in range(0, len(charts), _COLUMNS):
        row = charts[start : start + _COLUMNS]
        for place, chart in enumerate(row):
            x = _GAP + place * (WIDTH + _GAP)
            caption = f'<text class="caption" x="{x}" y="{y + 12}">{escape(chart.title)}</text>'
            size = f'width="{svg_number(chart.width)}" height="{svg_number(chart.height)}"'
            picture = render_svg(chart).replace(
                "<svg ", f'<svg x="{x}" y="{y + 20}" {size} overflow="visible" ', 1
            )
            drawn.append(caption + _legend(chart, x, y) + picture)
        y += max((chart.height for chart in row), default=HEIGHT) + 20 + _GAP
    width = _GAP + _COLUMNS * (WIDTH + _GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" '
        f'width="{width}" height="{y}"><style>{_PLAIN}</style>'
        f'<rect width="{width}" height="{y}" fill="#fff"/>'
        f'<text class="title" x="{_GAP}" y="34">{escape(title)}</text>{"".join(drawn)}</svg>\n'
    )


def html_document(title: str, charts: Sequence[Chart]) -> str:
    """Return the charts, and their figures, as one HTML file that loads nothing."""
    style = "".join((_STATIC / name).read_text("utf-8") for name in ("mnemolog.css", "charts.css"))
    figures = "".join(f'<section class="card">{render_figure(chart)}</section>' for chart in charts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<main><h1>{escape(title)}</h1><div class="halves">{figures}</div></main>'
        "</body></html>\n"
    )


def _legend(chart: Chart, x: int, y: int) -> str:
    """Return the names of the series, to the right of the caption."""
    marks = []
    left = x + WIDTH - _KEY * len(chart.legend)
    for number, name in enumerate(chart.legend, 1):
        marks.append(
            f'<rect class="f{number}" x="{left}" y="{y + 4}" width="8" height="8"/>'
            f'<text x="{left + 12}" y="{y + 12}">{escape(name)}</text>'
        )
        left += _KEY
    return "".join(marks)
