"""Statistics: every figure matches the events written, and its reads are bounded."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import NOW, Built
from plain_receipt import plain_receipt

from serve.cli import main
from serve.lessons.lesson_stats import LessonStats
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.reports.charts import render_figure
from serve.reports.holdings import memory_counts
from serve.reports.statistics_plots import file_charts, lesson_impact
from serve.reports.statistics_rendering import counts, statistics_payload
from serve.reports.tenant_statistics import (
    Statistics,
    growth,
    live_counters,
    rating_counts,
    recall_outcomes,
    recall_rate,
    spending,
    statistics,
    tenant_stats,
)
from store.derived.feedback import Counts
from store.home import failures
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Body, Called, Hit, Rated, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CheckResult, Refusal

DAY, HOUR, MINUTE = 86_400_000_000, 3_600_000_000, 60_000_000


def append_event(log: EventLog, at: int, body: Body, subject: str = "") -> None:
    id_ = f"e{log.head() + 1}"
    log.append([Event(id_, at, body, subject or id_)])


def recalled(took_ms: float, *confidences: float) -> Recalled:
    hits = tuple(Hit(f"m{place}", 1.0, sure) for place, sure in enumerate(confidences))
    return plain_receipt(hits=hits, took_us=round(took_ms * 1_000))


def called(cost: float, purpose: str = "judge", error: str | None = None) -> Called:
    return Called(
        purpose=purpose,
        model="m",
        tier="cheap",
        prompt_sha256="0" * 64,
        prompt_tokens=90,
        answer_tokens=10,
        cost_usd=cost,
        error=error,
    )


@pytest.fixture
def view(built: Built) -> Iterator[View]:
    with Reader(built.tenant, built.log, built.embedder).view() as view_:
        yield view_


def of(built: Built, now: int = NOW) -> Statistics:
    with Reader(built.tenant, built.log, built.embedder).view() as view_:
        return statistics(built.tenant.root.parents[1], built.tenant, built.log, view_, now)


def test_memories_are_counted_by_kind_and_state(view: View):
    counts = memory_counts(view, NOW)
    assert counts.of_state("forgotten") == 1
    assert counts.of_state("archived") == 1
    assert counts.of_state("superseded") == 2
    assert counts.by_kind["goal"] == {"active": 2}
    assert counts.active == 36
    assert counts.total == 39


def test_changes_since_the_build_count_once(built: Built):
    commands.record(built.log, Draft(id="new", content="Caches are warmed at start"), NOW)
    commands.forget(built.log, "m00", NOW)
    commands.record(built.log, Draft(id="brief", content="Gone in a minute", ttl_s=60), NOW)
    with Reader(built.tenant, built.log, built.embedder).view() as view:
        assert memory_counts(view, NOW).active == 37
        later = memory_counts(view, NOW + HOUR)
        assert (later.active, later.of_state("expired")) == (36, 1)
        assert later.of_state("forgotten") == 2


def test_counts_are_the_same_before_and_after_a_build(built: Built):
    commands.record(built.log, Draft(content="Caches are warmed at start"), NOW)
    before = of(built).memories
    built.rebuild()
    assert of(built).memories == before


def test_growth_takes_the_shortest_step_that_fits(log: EventLog):
    for days, step in ((0, 1), (119, 1), (120, 7), (1_000, 28), (4_000, 364)):
        append_event(log, NOW - 4_000 * DAY if not log.head() else NOW, called(0))
        weeks = growth(log, NOW - 4_000 * DAY + days * DAY)
        assert weeks.step == step * DAY
        assert len(weeks.starts) <= 120


def test_growth_counts_every_event_once(log: EventLog):
    commands.record(log, Draft(content="The first thing we knew"), NOW - 3 * DAY)
    append_event(log, NOW - DAY, recalled(1))
    append_event(log, NOW - DAY, called(0))
    commands.record(log, Draft(content="The last thing we learned"), NOW)
    weeks = growth(log, NOW)
    assert weeks.memories == (1, 0, 0, 1)
    assert weeks.totals == (1, 1, 1, 2)
    assert weeks.recalls == (0, 0, 1, 0)
    assert weeks.others == (0, 0, 1, 0)


def test_an_empty_log_has_figures_too(log: EventLog):
    assert growth(log, NOW).memories == (0,)
    assert recall_outcomes(log).silence is None
    assert recall_outcomes(log).took(0.5) is None
    assert recall_rate(log, NOW).a_minute == 0
    assert rating_counts(log).mean is None


def test_recalls_are_counted_by_minute_and_day(log: EventLog):
    start = NOW - NOW % MINUTE
    for at in (start, start - 1, start - 5 * MINUTE, start - 2 * HOUR, start - 40 * DAY):
        append_event(log, at, recalled(1))
    rate = recall_rate(log, NOW)
    assert (rate.minutes[-1], rate.minutes[-2], rate.minutes[-6]) == (1, 1, 1)
    assert rate.last_hour == 3
    assert rate.last_day == 4
    assert sum(rate.days) == 4
    assert rate.a_minute == pytest.approx(0.2)  # without the current minute


def test_silence_and_latency_are_those_of_the_newest_receipts(log: EventLog):
    for number in range(10):
        append_event(log, NOW - (20 - number) * MINUTE, recalled(1_000))
    for number in range(4):
        append_event(log, NOW - (4 - number) * MINUTE, recalled(number + 1, *[0.5] * (number % 2)))
    outcomes = recall_outcomes(log, 4)
    assert outcomes.looked_at == 4
    assert outcomes.silence == 0.5
    assert outcomes.took(1.0) == 4
    assert outcomes.took(0.5) == pytest.approx(2.5)
    assert outcomes.confidence.tolist() == [0.5, 0.5]
    assert outcomes.since == NOW - 4 * MINUTE


def test_helpful_and_harmful_ratings_are_counted_apart(log: EventLog):
    for verdict in (1.0, 0.5, -1.0, 0.0):
        append_event(log, NOW, Rated(verdict=verdict), "m1")
    counts = rating_counts(log)
    assert (counts.looked_at, counts.helped, counts.harmed) == (4, 2, 1)
    assert counts.mean == pytest.approx(0.125)


def test_spending_is_by_day_and_purpose(log: EventLog):
    append_event(log, NOW - 31 * DAY, called(9.0))
    append_event(log, NOW - DAY, called(0.5, "distill"))
    append_event(log, NOW, called(0.25, error="timeout"))
    costs = spending(log, NOW)
    assert costs.today.cost_usd == 0.25
    assert (costs.month.calls, costs.month.failed, costs.month.tokens) == (2, 1, 200)
    assert list(costs.by_purpose) == ["distill", "judge"]
    assert costs.days[-2:] == (0.5, 0.25)
    assert sum(costs.days) == 0.75


def test_builds_list_checks_refusals_and_failures(built: Built):
    refused = Refusal(NOW, 9, (CheckResult("secrets", False, "a key in m3"),))
    manifests.refuse(built.tenant, refused)
    failures.keep(built.tenant.root, "judge", NOW, "no answer")
    history = of(built).builds
    assert history.served is not None
    assert history.served.memories == 40
    assert history.served.checks and not history.served.failed
    assert history.refusal == refused
    assert [failure.what for failure in history.failures] == ["judge"]
    assert history.tail == 0


def test_live_figures_are_those_of_the_statistics(built: Built):
    append_event(built.log, NOW - 5 * MINUTE, recalled(3, 0.5))
    values = of(built)
    with Reader(built.tenant, built.log, built.embedder).view() as view:
        moving = live_counters(built.log, view, NOW)
    assert moving.memories == values.memories.active
    assert (moving.events, moving.tail) == (values.events, values.builds.tail)
    assert moving.minutes == values.rate.minutes
    assert moving.p50_ms == values.answered.took(0.5) == 3
    assert moving.silence == 0


def test_a_tenants_figures_in_the_api_are_those_of_the_statistics(built: Built):
    append_event(built.log, NOW - DAY // 2, recalled(3.0, 0.9))
    append_event(built.log, NOW, recalled(3.0))
    commands.record(built.log, Draft(content="We pay invoices on the first of a month."), NOW)
    with Reader(built.tenant, built.log, built.embedder).view() as view:
        all_ = statistics(built.tenant.root.parents[1], built.tenant, built.log, view, NOW)
        stats = tenant_stats(built.tenant, built.log, view, NOW)
    assert (stats.memories, stats.active) == (all_.memories.by_kind, all_.memories.active)
    assert (stats.events, stats.tail) == (all_.events, all_.builds.tail)
    assert (stats.log_bytes, stats.snapshot_bytes) == (all_.disk.log, all_.disk.snapshots)
    assert (stats.recalls_of_day, stats.silence_rate) == (all_.rate.last_day, 0.5)
    assert stats.silence_rate == all_.answered.silence
    assert all_.builds.served is not None and stats.manifest is not None
    assert stats.manifest.number == all_.builds.served.number


def test_the_figures_add_up(built: Built):
    for number in range(20):
        append_event(
            built.log, NOW - number * HOUR, recalled(number, *[number / 20] * (number % 3))
        )
    payload = statistics_payload(of(built))
    assert sum(payload["recalls"]["took_ms"]["counts"]) == payload["recalls"]["looked_at"] == 20
    assert sum(payload["recalls"]["confidence"]["counts"]) == 19
    assert sum(payload["growth"]["memories"]) == 40
    assert payload["disk"]["total"] == sum(
        payload["disk"][name] for name in ("log", "snapshots", "cold")
    )


def test_counts_lie_between_edges():
    assert counts(np.array([0.0, 0.9, 1.0, 5.0, 99.0]), (0, 1, 5, 10)) == [2, 1, 2]


def test_every_picture_has_a_description(built: Built):
    for chart in file_charts(of(built), ()):
        assert chart.description.endswith(".")


def test_disk_usage_is_the_size_of_the_files(built: Built):
    usage = of(built).disk
    root: Path = built.tenant.root
    assert usage.log == sum(path.stat().st_size for path in root.glob("log.sqlite*"))
    assert usage.snapshots > 0
    assert usage.cold == 0


def test_a_tenant_that_was_never_built_has_statistics(tenant: Tenant, log: EventLog, embedder):
    commands.record(log, Draft(content="Nothing was built yet"), NOW)
    with Reader(tenant, log, embedder).view() as view:
        values = statistics(tenant.root.parents[1], tenant, log, view, NOW)
    assert (values.memories.active, values.builds.tail, values.builds.served) == (1, 1, None)


def run(built: Built, *arguments: str, code: int = 0) -> str:
    home = str(built.tenant.root.parents[1])
    result = CliRunner().invoke(main, ["--home", home, "stats", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_the_command_prints_the_figures(built: Built):
    append_event(built.log, NOW, recalled(4, 0.5))
    printed = run(built)
    assert "memories  36 active of 39" in printed
    assert "half within 4.0 ms" in printed
    assert "build     1" in printed


def test_the_command_prints_json(built: Built):
    payload = msgspec.json.decode(run(built, "--json"))
    assert payload["memories"]["active"] == 36
    assert payload["lessons"] == []


@pytest.mark.parametrize(("name", "begins"), [("a.svg", "<svg "), ("a.HTML", "<!doctype html>")])
def test_pictures_are_drawn_into_a_file(built: Built, tmp_path: Path, name: str, begins: str):
    append_event(built.log, NOW, recalled(4, 0.5))
    file = tmp_path / name
    assert f"drew {file}" in run(built, "--plot", str(file))
    text = file.read_text(encoding="utf-8")
    assert text.startswith(begins)
    assert "Time of a recall" in text and "What lessons are worth" in text


@pytest.mark.parametrize("name", ["a.png", "a", "nowhere/a.svg"])
def test_a_file_that_cannot_be_drawn_is_refused_before_anything_is_read(
    built: Built, tmp_path: Path, name: str
):
    text = run(built, "--plot", str(tmp_path / name), code=2)
    assert ".svg" in text or "folder" in text
    assert not (tmp_path / "a.png").exists()


def test_the_text_of_a_lesson_is_escaped_in_a_picture(built: Built):
    lesson = Draft(
        id="bad", kind="lesson", content="<script>alert(1)</script> \u202e never do this"
    )
    commands.record(built.log, lesson, NOW)
    memory = Reader(built.tenant, built.log, built.embedder).answer(
        lambda view: view.tail.find("bad")
    )
    assert memory is not None
    sums = {"good_followed": 3, "bad_followed": 0, "good_ignored": 0, "bad_ignored": 3}
    chart = lesson_impact([LessonStats(memory, Counts(sums), {})])
    assert "\u202e" not in render_figure(chart)
    assert "<script" not in render_figure(chart)
    assert chart.rows[0][1] == "+100 pts"
