"""Only cold memories are archived, with a reason for people, and they return unchanged."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pipelines.jobs import archive as job
from pipelines.jobs import find_job
from pipelines.jobs.runner import run
from store.embedders.lexical import LexicalEmbedder
from store.home import config
from store.home.instants import new_id
from store.home.tenant import Tenant
from store.log import commands, log_queries
from store.log.commands import Draft
from store.log.event_kinds import Hit, Made, Planned, Recalled, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.rows import MemoryRows
from store.plans import plans, steps
from store.snapshots.snapshot import read

NOW = 1_790_000_000_000_000
DAY = 86_400_000_000
RECALLED = {"mode": "auto", "manifest": 1, "watermark": 1, "dropped": {}, "took_us": 900}


@pytest.fixture
def old(tenant: Tenant, log: EventLog) -> Callable[..., str]:
    """Record memories a year ago, in a project with an event from yesterday."""
    texts = iter(f"The {name} service reads its settings once at start" for name in NAMES)

    def record(days: int = 365, arrived: int | None = None, **fields: object) -> str:
        """`arrived`: how many days ago it reached the log; by default, when it was written."""
        values = {"content": next(texts), "project": "shop"} | fields
        event = commands.memory_event(Draft(**values), NOW - days * DAY)
        clock = NOW - (days if arrived is None else arrived) * DAY
        return log.append([replace(event, clock=clock)])[0].event.id

    record(1, id="fresh")
    return record


NAMES = """apple birch cedar daisy elder fern grape hazel iris juniper kelp lilac maple nettle oak
pine quince rose sage thyme""".split()


def proposed(tenant: Tenant, log: EventLog, **options: object) -> dict[str, str]:
    """Return the memories that the job would archive, with the reasons."""
    settings = config.load()
    plan = run(find_job("archive"), settings, tenant.name, NOW, apply=False, **options)
    return {step.subject: step.why for step in plan.body.steps} if plan else {}


def rows(tenant: Tenant, log: EventLog) -> MemoryRows:
    ref = build.rebuild(tenant, log, LexicalEmbedder(), NOW).projections["memories"]
    return MemoryRows.open(read(tenant.snapshots, ref, MEMORIES_PROJECTION))


def use(log: EventLog, id_: str, days: int) -> None:
    at = NOW - days * DAY
    receipt = new_id(at)
    body = Recalled(query="settings", hits=(Hit(id_, 1.0, 0.9),), **RECALLED)
    log.append([Event(receipt, at, body, receipt)])


def test_unused_memories_are_archived_with_a_reason(tenant, log, old):
    never, once = old(), old()
    use(log, once, 300)
    assert proposed(tenant, log) == {
        never: "nobody recalled it since 2025-09-21, while its project went on for 364 days",
        once: "was not recalled since 2025-11-25, while its project went on for 299 days",
    }


def test_used_pinned_and_important_memories_stay(tenant, log, old):
    for kind in ("goal", "decision", "lesson", "preference", "antipattern"):
        old(kind=kind)
    old(pinned=True)
    old(importance=1.0, days=190)
    old(key="deploy.region", value="eu")
    old(days=170)
    use(log, old(), 20)
    commands.rate(log, old(), 1.0, NOW - 300 * DAY)
    source = old()
    draft = Draft(id="insight", kind="insight", content="All read once", source_ids=(source,))
    step = steps.record(draft, Made(job="reflect"), NOW - DAY, "they agree")
    body = Planned(job="reflect", watermark=log.head(), steps=(step,))
    plans.apply(log, plans.propose(log, body, NOW - DAY).id, NOW - DAY)
    assert proposed(tenant, log) == {}


def test_what_a_job_made_no_longer_holds_its_source_back(tenant, log, old):
    source = old()
    draft = Draft(id="insight", kind="insight", content="All read once", source_ids=(source,))
    step = steps.record(draft, Made(job="reflect"), NOW - DAY, "they agree")
    body = Planned(job="reflect", watermark=log.head(), steps=(step,))
    plans.apply(log, plans.propose(log, body, NOW - DAY).id, NOW - DAY)
    assert proposed(tenant, log) == {}
    commands.forget(log, "insight", NOW)
    assert list(proposed(tenant, log)) == [source]


def test_idleness_counts_from_arrival_not_from_when_it_was_written(tenant, log, old):
    old(days=4_000, arrived=0)
    here_long = old(days=4_000, arrived=200)
    assert proposed(tenant, log) == {
        here_long: "nobody recalled it since 2026-03-05, while its project went on for 200 days"
    }


def test_an_event_without_a_clock_came_no_earlier_than_those_before_it(tenant, log, old, tamper):
    imported = old(days=4_000)
    tamper(log.path, "UPDATE events SET clock = NULL")  # as older versions wrote them
    assert log_queries.arrival_times(log, NOW) == {"fresh": NOW - DAY, imported: NOW - DAY}


def test_a_clock_that_was_ahead_makes_nothing_new(tenant, log, old):
    ahead = old(arrived=-900, id="ahead")
    assert log_queries.arrival_times(log, NOW)[ahead] == NOW - DAY  # like "fresh", just before it


def test_importance_fades_until_it_goes(tenant, log, old):
    long, short = old(days=720, importance=0.9), old(days=185, importance=0.9)
    assert list(proposed(tenant, log)) == [long]
    commands.revise(log, long, Revised(importance=1.0), NOW - DAY)  # a change counts as use
    assert proposed(tenant, log) == {} and short


def test_lowering_the_importance_does_not_count_as_use(tenant, log, old):
    id_ = old()
    memory = rows(tenant, log).find(id_)
    step = steps.revise(memory, Revised(importance=0.2), "nobody used it")
    body = Planned(job="importance", watermark=log.head(), steps=(step,))
    plans.apply(log, plans.propose(log, body, NOW - DAY).id, NOW - DAY)
    assert list(proposed(tenant, log)) == [id_]


def test_an_inactive_project_keeps_its_memories(tenant, log, old):
    sleeping = old(project="asleep", days=400)
    beside = old(project="asleep", days=500)
    assert proposed(tenant, log) == {}
    old(project="asleep", days=300)  # the project went on for 200 days after `beside`
    assert list(proposed(tenant, log)) == [beside] and sleeping


def test_expired_memories_are_archived_first(tenant, log, old):
    cold, kind = old(), old(kind="decision", ttl_s=3_600, days=2)
    pinned = old(pinned=True, ttl_s=3_600, days=2)
    reasons = proposed(tenant, log)
    assert list(reasons) == [kind, cold] and pinned not in reasons
    assert reasons[kind].startswith("its time ran out on 2026-09-19")


def test_only_the_named_project_is_archived(tenant, log, old):
    mine = old()
    old(project="other", days=400), old(project="other", days=1)
    assert list(proposed(tenant, log, project="shop")) == [mine]
    assert len(proposed(tenant, log)) == 2


def test_a_run_archives_a_bounded_number(tenant, log, old, monkeypatch):
    monkeypatch.setattr(job, "MOST", 3)
    ids = [old(days=300 + number) for number in range(5)]
    settings = config.load()
    first = run(find_job("archive"), settings, tenant.name, NOW, apply=True)
    assert [step.subject for step in first.body.steps] == ids[:1:-1]  # the coldest first
    assert "the next run takes them" in first.body.notes[0]
    second = run(find_job("archive"), settings, tenant.name, NOW + DAY, apply=True)
    assert [step.subject for step in second.body.steps] == ids[1::-1]
    assert run(find_job("archive"), settings, tenant.name, NOW + DAY, apply=True) is None


def test_undo_restores_the_same_digest(tenant, log, old):
    id_, embedder = old(), LexicalEmbedder()
    before = build.rebuild(tenant, log, embedder, NOW).digests
    plan = run(find_job("archive"), config.load(), tenant.name, NOW, apply=True)
    memory_rows = rows(tenant, log)
    assert memory_rows.find(id_).state == "archived" and memory_rows.find("fresh").state == "active"
    plans.undo(log, plan.id, NOW)
    assert build.rebuild(tenant, log, embedder, NOW).digests == before
    assert proposed(tenant, log) == {}  # a person declined
