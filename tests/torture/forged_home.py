"""The memory with the forged snapshots: some of every derived table, in a home of two tenants."""

from pathlib import Path

import drafts
from torture.rot_memory import EMBEDDER, NOW

from store.home import tenant as tenants
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    Followed,
    Hit,
    Judged,
    Made,
    Outcome,
    Planned,
    Prompted,
    Recalled,
    Revised,
    Route,
    Surfaced,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.plans import plans, steps

_THINGS = "cache queue parser index socket ledger worker schema token router".split()
_PLACES = ("staging", "production", "the runner", "the gateway")
_MADE_AT = NOW - 50_000_000  # microseconds UTC, as all times here


def make(home: Path) -> None:
    """Make the home; the default tenant's newest events are in no snapshot."""
    for name in ("default", "other"):
        tenant = tenants.tenant(home, name)
        with EventLog(tenant.log, create=True) as log:
            commands.record_batch(log, _drafts(name, 0, 30), _MADE_AT)
            build.rebuild(tenant, log, EMBEDDER, NOW - 40_000_000)
            _populate(log, name)
            build.rebuild(tenant, log, EMBEDDER, NOW - 20_000_000)
            commands.record_batch(log, _drafts(name, 60, 4), NOW - 10_000_000)


def _populate(log: EventLog, name: str) -> None:
    """Add events for the projections beyond the memories and their words."""
    at = _MADE_AT + 1
    ids = [f"{name}-m{number:02}" for number in range(30)]
    commands.record_batch(log, _special(name), at)
    commands.forget(log, ids[3], at)
    commands.archive(log, ids[4], at)
    commands.supersede(log, ids[6], ids[7], at)
    commands.revise(log, ids[8], Revised(context="asked by the team of store/log.py"), at)
    commands.link(log, ids[9], ids[10], "support", at)
    commands.link(log, ids[10], ids[11], "conflict", at)
    draft = Draft(
        id=f"{name}-i1",
        kind="insight",
        content="The cache and the queue break in staging more than elsewhere",
        source_ids=(ids[1], ids[11]),
    )
    step = steps.record(draft, Made(job="reflect"), at, "often")
    body = Planned(job="reflect", watermark=log.head(), steps=(step,))
    plans.apply(log, plans.propose(log, body, at).id, at)
    hits = (Hit(ids[0], 1.0, 0.9), Hit(ids[1], 0.5, 0.6))
    for number in range(5):
        body = Recalled(
            query="what broke", mode="auto", manifest=1, watermark=9, hits=hits, dropped={},
            took_us=1_000, route=Route("known", {"bar": "usual"}, 0.9),
        )  # fmt: skip
        log.append([Event(f"{name}-r{number}", at + number, body, f"{name}-r{number}")])
    commands.rate(log, f"{name}-r1", 1.0, at + 9, "it was that")
    lesson = f"{name}-l1"
    followed = Followed(verdict="followed", place="prompt", stood={"test": True})
    log.append(
        [
            Event(f"{name}-j1", at, Judged(verdicts={ids[0]: 0.5}), f"{name}-r1"),
            Event(f"{name}-o1", at, Outcome(effort="test", passed=True), f"{name}-o1"),
            Event(f"{name}-t1", at, Prompted(prompt="next"), f"{name}-t1"),
            Event(f"{name}-u1", at, Surfaced(place="prompt"), lesson),
            Event(f"{name}-f1", at, followed, lesson),
            drafts.draft("Use pnpm", "lesson", at, because="no, use pnpm"),
        ]
    )  # fmt: skip


def _drafts(name: str, first: int, count: int) -> list[Draft]:
    return [
        Draft(
            id=f"{name}-m{number:02}",
            content=f"In {name} the {_THINGS[number % 10]} of {_PLACES[number % 4]} belongs to "
            f"team {number}; src/{_THINGS[number % 7]}.py broke {number * 7 % 23} times",
            context=f"seen in {_PLACES[number % 3]}" if number % 4 == 0 else None,
            key="deploy.region" if number % 13 == 0 else None,
            value=f"eu-{number}" if number % 13 == 0 else None,
            tags=("team",) if number % 3 else (),
            session=f"s{number // 5}",
            created_by=("ana", "bo")[number % 2],
            project="acme/web" if number % 6 == 0 else None,
        )
        for number in range(first, first + count)
    ]


def _special(name: str) -> list[Draft]:
    return [
        Draft(id=f"{name}-g1", kind="goal", content="Answer within 40 ms", progress=0.5),
        Draft(id=f"{name}-g2", kind="goal", content="Move the queue", status="done"),
        Draft(id=f"{name}-s1", kind="milestone", chain="queue", content="Redis is read no more"),
        Draft(id=f"{name}-s2", kind="milestone", chain="queue", content="Redis is gone"),
        Draft(id=f"{name}-d1", content="The port of the gateway is 7437"),
        Draft(id=f"{name}-d2", content="The port of the gateway is 7438"),
        Draft(id=f"{name}-d3", content="The port of the gateway is 7438"),
        Draft(id=f"{name}-l1", kind="lesson", content="Never run make deploy from a laptop"),
        Draft(id=f"{name}-p1", pinned=True, content="The web client talks JSON only"),
    ]
