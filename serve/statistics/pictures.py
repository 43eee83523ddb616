"""
Pictures: the figures of a tenant as charts, for its overview and for files.
"""

from collections.abc import Mapping, Sequence

from serve import formatting
from serve.charts import plots
from serve.charts.chart import Chart, empty
from serve.lessons.lesson_stats import LessonStats
from serve.recall.context_block import clean_text
from serve.statistics.figures import Statistics
from serve.statistics.growth import Growth
from serve.statistics.holdings import SHOWN_STATES, Memories
from serve.statistics.recalls import DAY, Answered, Rate
from serve.statistics.shown import CONFIDENCE, TOOK_MS, counts, score_edges
from serve.statistics.spending import Spending

_LESSONS = 12  # of a picture
_STEPS = {1: "day", 7: "week", 28: "four weeks", 364: "year"}


def of_overview(found: Statistics) -> list[Chart]:
    """Return the charts of the overview."""
    return [
        memories_over_time(found.growth),
        events_over_time(found.growth),
        latency(found.answered),
        confidence(found.answered),
        by_kind(found.memories),
        spent_by_day(found.spending),
    ]


def of_file(found: Statistics, lessons: Sequence[LessonStats]) -> list[Chart]:
    """Return the charts of `mnemolog stats --plot`."""
    more = (recalls_by_day(found.rate), scores(found.answered), by_state(found.memories))
    return [*of_overview(found), *more, impact(lessons)]


def memories_over_time(found: Growth) -> Chart:
    total = found.held[-1] if found.held else 0
    said = f"{formatting.count(total)} memories recorded since {formatting.day(found.since)}."
    return plots.area("Memories recorded", found.starts if total else (), found.held, said=said)


def events_over_time(found: Growth) -> Chart:
    """Draw what was written in each step of the log's life."""
    step = _STEPS[found.step // DAY]
    series = {"memories": found.memories, "recalls": found.recalls, "others": found.others}
    axis = plots.Axis(step, formatting.day_of_year, formatting.day)
    return plots.bars(f"Events by {step}", found.starts, series, axis)


def recalls_by_day(found: Rate) -> Chart:
    days = [found.first_day + place * DAY for place in range(len(found.days))]
    said = (
        f"{formatting.count(sum(found.days))} in thirty days, "
        f"{formatting.count(found.last_day)} in the last 24 hours."
    )
    return plots.bars("Recalls by day", days, {"recalls": found.days}, said=said)


def latency(found: Answered) -> Chart:
    p50, p95 = found.took(0.5), found.took(0.95)
    if p50 is None or p95 is None:
        return empty("Time of a recall")
    edges = (*map(float, TOOK_MS), float("inf"))
    said = (
        f"Half within {formatting.milliseconds(p50)}, 95 % within {formatting.milliseconds(p95)}; "
        f"{_newest(found)}."
    )
    return plots.histogram(
        "Time of a recall, ms",
        edges,
        counts(found.took_ms, edges),
        formatting.milliseconds,
        {"p50": p50, "p95": p95},
        said,
    )


def confidence(found: Answered) -> Chart:
    said = f"Of {formatting.count(len(found.confidence))} hits; {_newest(found)}."
    return plots.histogram(
        "Confidence of what came back",
        CONFIDENCE,
        counts(found.confidence, CONFIDENCE),
        lambda value: f"{value:.2f}".removesuffix("0"),
        said=said,
    )


def scores(found: Answered) -> Chart:
    edges = score_edges(found.score)
    said = f"Of {formatting.count(len(found.score))} hits; {_newest(found)}."
    return plots.histogram("Score of what came back", edges, counts(found.score, edges), said=said)


def by_kind(found: Memories) -> Chart:
    """Draw the active memories of each kind."""
    of = {kind: states.get("active", 0) for kind, states in found.by_kind.items()}
    active = {kind.replace("_", " "): count for kind, count in of.items() if count}
    said = f"{formatting.count(found.active)} active memories of {len(active)} kinds."
    return plots.rows("Active memories by kind", active, said=said, unit="memories")


def by_state(found: Memories) -> Chart:
    of = {state: found.of_state(state) for state in SHOWN_STATES}
    return plots.rows("Memories by state", _some(of), unit="memories")


def spent_by_day(found: Spending) -> Chart:
    days = [found.first_day + place * DAY for place in range(len(found.days))]
    month = found.month
    said = (
        f"{formatting.dollars(month.cost_usd)} in thirty days for "
        f"{formatting.count(month.calls)} calls and {formatting.count(month.tokens)} tokens."
    )
    return plots.bars(
        "Spent on models by day",
        days,
        {"dollars": found.days},
        written=formatting.dollars,
        said=said,
    )


def impact(lessons: Sequence[LessonStats]) -> Chart:
    """Draw how much oftener turns came out well where a lesson was followed, in points."""
    known = [(one, one.impact) for one in lessons]
    values = {
        f"{place}. {clean_text(one.memory.content)}": 100 * worth.value
        for place, (one, worth) in enumerate(known, 1)
        if worth is not None
    }
    first = dict(list(values.items())[:_LESSONS])
    return plots.rows(
        "What lessons are worth",
        first,
        lambda value: f"{value:+.0f} pts",
        said="How much oftener turns came out well where a lesson was followed than where it was "
        "not, in points, of lessons with three turns or more on each side.",
        unit="points",
    )


def _newest(found: Answered) -> str:
    return f"of the newest {formatting.count(found.looked_at)} recalls"


def _some(of: Mapping[str, int]) -> dict[str, float]:
    return {name: count for name, count in of.items() if count}
