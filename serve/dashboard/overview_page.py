"""
Overview: alarms first, then how the memory was used, then figures; each links to the page that has
more of it.

A script fetches the live counters again every few seconds; without it they stay as they were when
the page was loaded.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
from flask import Blueprint, Response, render_template
from markupsafe import Markup

from serve import formatting
from serve.dashboard.page_context import Site, tenant_url
from serve.dashboard.recall_pages import receipt_rows
from serve.reports import charts
from serve.reports.charts import render_figure, render_svg
from serve.reports.holdings import EpisodeStorage, episode_storage
from serve.reports.statistics_plots import overview_charts
from serve.reports.tenant_statistics import (
    LIVE_RECALLS,
    LiveCounters,
    Statistics,
    live_counters,
    statistics,
)
from serve.reports.usefulness import Period, Usefulness
from store.home.errors import LogError
from store.home.project_context import current_pauses
from store.log import receipts
from store.log.event_kinds import EPISODE
from store.log.event_log import EventLog
from store.log.receipts import Wanted
from store.maintenance import quarantine
from store.maintenance.checkup import alarm_text
from store.text.excerpt import plural

NEWEST_RECALLS = 3  # that are shown
T = TypeVar("T", int, float)


class Tile(msgspec.Struct, frozen=True):
    """One figure. `name` is its name among the live counters, else empty."""

    label: str
    value: str
    note: str = ""
    tone: str = ""
    url: str = ""
    name: str = ""
    note_name: str = ""
    spark: Markup | None = None


def overview_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("overview", __name__)

    @pages.get("/t/<tenant>/overview")
    def index(tenant: str) -> str:
        opened, now = site.tenant(tenant), site.clock()
        home = site.settings.home
        stats, storage = opened.reader.answer(
            lambda view: (
                statistics(home, opened.tenant, opened.log, view, now),
                episode_storage(
                    opened.tenant, opened.log, view.snapshots.rows, view.snapshots.manifest
                ),
            )
        )
        pauses, unread = current_pauses(home, now)
        newest = receipts.page(opened.log, Wanted(), NEWEST_RECALLS).receipts
        moving = _moving_counters(stats)
        return render_template(
            "overview.html",
            found=stats,
            alarms=_alarms(stats, opened.log),
            use=_use_tiles(stats, moving),
            figures=_figure_tiles(stats, moving, storage),
            recalls=receipt_rows(opened, newest),
            told=_usefulness_rows(stats.usefulness),
            told_since=stats.usefulness.cut_at,
            kept_today=stats.usefulness.kept_today,
            pauses=pauses,
            unread=unread,
            is_off=not site.settings.choices.record,
            charts=[Markup(render_figure(chart)) for chart in overview_charts(stats)],
            dollars=formatting.dollars,
        )

    @pages.get("/t/<tenant>/overview/live")
    def counters(tenant: str) -> Response:
        opened = site.tenant(tenant)
        counters = opened.reader.answer(lambda view: live_counters(opened.log, view, site.clock()))
        return Response(msgspec.json.encode(_live_counters(counters)), mimetype="application/json")

    @pages.get("/t/<tenant>/trial")
    def trial(tenant: str) -> str:
        """Compare sessions without injected notes with the others."""
        from serve.evaluation import holdout  # needed by this page alone

        opened = site.tenant(tenant)

        def kind_of(id_: str) -> str | None:
            memory = opened.reader.answer(lambda view: view.tail.find(id_))
            return None if memory is None else memory.kind

        return render_template(
            "trial.html",
            found=holdout.compare(opened.log, site.clock(), kind_of),
            share=site.settings.choices.holdout,
            measures=holdout.MEASURES,
            fewest=holdout.FEWEST,
        )

    return pages


def _live_counters(counters: LiveCounters) -> dict[str, str]:
    """Return the live counters by name, formatted for the page; the spark as SVG."""
    return {
        "memories": formatting.count(counters.memories),
        "events": formatting.count(counters.events),
        "tail": formatting.count(counters.tail),
        "a_minute": f"{counters.a_minute:.1f}"
        if counters.a_minute < 10
        else formatting.count(round(counters.a_minute)),
        "asked": f"over ten minutes; {formatting.count(counters.last_hour)} in an hour, "
        f"{formatting.count(counters.last_day)} in 24 h",
        "silence": _or_dash(counters.silence, formatting.percent),
        "p50": _or_dash(counters.p50_ms, formatting.milliseconds),
        "p95": f"95 % within {formatting.milliseconds(counters.p95_ms)}"
        if counters.p95_ms is not None
        else "no recall yet",
        "minutes": render_svg(
            charts.sparkline("Recalls by minute of the last hour", counters.minutes)
        ),
    }


def _use_tiles(stats: Statistics, moving: dict[str, str]) -> list[Tile]:
    """Return the tiles of today's use: notes, ratings and the speed of recalls."""
    today, rate = stats.usefulness.periods["today"], stats.rate
    newest = stats.answered.newest(LIVE_RECALLS)  # as the live counters have it
    judged = today.followed + today.ignored
    month = stats.usefulness.periods["last_30_days"]
    return [
        Tile(
            "Notes injected today",
            formatting.count(today.notes),
            f"with {formatting.percent(today.told / today.prompts)} of "
            f"{formatting.count(today.prompts)} prompts"
            if today.prompts
            else f"no prompt yet; {formatting.count(month.notes)} in 30 days",
            url=tenant_url("recalls.index", silent="told"),
        ),
        Tile(
            "Followed today",
            formatting.count(today.followed) if judged else "–",
            f"{formatting.count(today.ignored)} ignored, "
            f"{formatting.count(today.contradicted)} contradicted by you",
            tone="warn" if today.contradicted else "",
            url=tenant_url("lessons.index"),
        ),
        Tile(
            "Rated helpful today",
            formatting.count(today.helped),
            f"{formatting.count(today.harmed)} harmful; {formatting.count(month.helped)} and "
            f"{formatting.count(month.harmed)} in 30 days",
            tone="bad" if today.harmed > today.helped else "",
        ),
        Tile(
            "Recalls a minute",
            moving["a_minute"],
            moving["asked"],
            url=tenant_url("recalls.index"),
            name="a_minute",
            note_name="asked",
            spark=Markup(moving["minutes"]) if rate.last_hour else None,
        ),
        Tile(
            "Time of a recall",
            moving["p50"],
            moving["p95"],
            url=tenant_url("recalls.index"),
            name="p50",
            note_name="p95",
        ),
        Tile(
            "Without an answer",
            moving["silence"],
            f"of the newest {formatting.count(newest.looked_at)} recalls",
            name="silence",
            url=tenant_url("recalls.index", silent="silent"),
        ),
    ]


def _moving_counters(stats: Statistics) -> dict[str, str]:
    """Return the live counters from the statistics."""
    newest, rate = stats.answered.newest(LIVE_RECALLS), stats.rate
    return _live_counters(
        LiveCounters(
            at=stats.at,
            events=stats.events,
            memories=stats.memories.active,
            tail=stats.builds.tail,
            a_minute=rate.a_minute,
            last_hour=rate.last_hour,
            last_day=rate.last_day,
            minutes=rate.minutes,
            silence=newest.silence,
            p50_ms=newest.took(0.5),
            p95_ms=newest.took(0.95),
        )
    )


def _figure_tiles(stats: Statistics, moving: dict[str, str], storage: EpisodeStorage) -> list[Tile]:
    builds, spending, disk = stats.builds, stats.spending, stats.disk
    shares = [formatting.percent(of) for of in (storage.log_share, storage.snapshots_share)]
    return [
        Tile(
            "Active memories",
            moving["memories"],
            f"{formatting.count(stats.memories.total)} held",
            url=tenant_url("memories.index"),
            name="memories",
        ),
        Tile(
            "Events not built yet",
            moving["tail"],
            f"{formatting.count(builds.changes)} change a memory",
            url=tenant_url("jobs.index"),
            name="tail",
        ),
        Tile(
            "Spent today",
            formatting.dollars(spending.today.cost_usd),
            f"{formatting.dollars(spending.month.cost_usd)} in 30 days",
            url=tenant_url("jobs.index"),
        ),
        Tile(
            "On disk",
            formatting.size(disk.total),
            f"log {formatting.size(disk.log)}, snapshots {formatting.size(disk.snapshots)}",
        ),
        Tile(
            "Episodes",
            formatting.count(storage.count),
            f"about {shares[0]} of the log, {shares[1]} of the snapshots",
            url=tenant_url("memories.index", kind=EPISODE),
        ),
    ]


_NEAR = "of these, though something was nearly sure"
# the lines that count recalls, and the filter of the page with these
_RECALLS = {"with notes": "told", "without notes": "silent", _NEAR: "near"}


def _usefulness_rows(usefulness: Usefulness) -> list[tuple[str, str, list[str]]]:
    """Return the lines of the usefulness table: a label, the page with the counted items, and a
    figure for each period.
    """
    lines: tuple[tuple[str, Callable[[Period], int | None]], ...] = (
        ("Prompts", lambda period: period.prompts),
        ("with notes", lambda period: period.told),
        ("without notes", lambda period: period.silent),
        (_NEAR, lambda period: period.near),
        ("Notes given", lambda period: period.notes),
        ("of these before a tool", lambda period: period.warnings),
        ("Briefs at a session's start", lambda period: period.briefs),
        ("Tokens given, about", lambda period: period.tokens),
        ("Notes followed", lambda period: period.followed),
        ("ignored", lambda period: period.ignored),
        ("contradicted by you later", lambda period: period.contradicted),
        ("Rated helpful", lambda period: period.helped),
        ("harmful", lambda period: period.harmed),
        ("Statements kept", lambda period: period.kept),
        ("accepted as rules", lambda period: period.accepted),
        ("taken back", lambda period: period.taken_back),
        ("Episodes", lambda period: period.episodes),
    )
    periods = usefulness.periods.values()
    pages = {label: tenant_url("recalls.index", silent=which) for label, which in _RECALLS.items()}
    rows = []
    for label, count in lines:
        figures = [_or_dash(count(period), formatting.count) for period in periods]
        rows.append((label, pages.get(label, ""), figures))
    return rows


def _alarms(stats: Statistics, log: EventLog) -> list[str]:
    """Return the findings of the newest build that a person should know of."""
    alarms = [
        alarm
        for check in (stats.builds.served.checks if stats.builds.served else ())
        if (alarm := alarm_text(check))
    ]
    with suppress(LogError):  # a notice of recall reports it
        if out := len(quarantine.entries(log)):
            alarms.append(
                f"builds leave out {plural(out, 'memory')} that failed a check: see Errors"
            )
    return alarms


def _or_dash(value: T | None, write: Callable[[T], str]) -> str:
    return "–" if value is None else write(value)
