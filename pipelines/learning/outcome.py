"""
Outcome: what a job's plan does to a memory, and what finding it cost; looked up, never guessed.

What the memory would be after a plan is folded as a build folds it, over what is published.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from store.log import EventLog
from store.memories.fold import Fold
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import ACTIVE, Memory
from store.memories.rows import MemoryRows
from store.plans import plans, spent
from store.plans.plans import Plan
from store.plans.spent import Spent
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.tenant import Tenant


@dataclass(frozen=True, slots=True)
class Outcome:
    """`before` and `after` are the active memories by kind, without the plan and with it.

    `gone` counts those that are active now and would not be; `unknown` are the sources that
    something it makes names and nobody knows, by what it makes. `run` is what this run cost, `day`
    what all of the home's did today.
    """

    plan: Plan | None
    before: Mapping[str, int]
    after: Mapping[str, int]
    gone: int
    unknown: Mapping[str, tuple[str, ...]]
    run: Spent
    day: Spent


def outcome(
    home: Path, tenant: Tenant, log: EventLog, plan: Plan | None, began: int, now: int
) -> Outcome:
    """Return what became of a job that began at a moment, in microseconds UTC."""
    rows = _rows(tenant)
    before = _by_kind(rows)
    after, gone = (before, 0) if plan is None else _after(rows, before, plan, now)
    return Outcome(
        plan=plan,
        before=before,
        after=after,
        gone=gone,
        unknown={} if plan is None else _unknown(log, plan),
        run=spent.by(log, began),
        day=spent.today(home, now),
    )


def _rows(tenant: Tenant) -> MemoryRows:
    ref = manifests.current(tenant).projections["memories"]
    tables = snapshot.read(tenant.snapshots, ref, MEMORIES_PROJECTION, check=False, validate=False)
    return MemoryRows.open(tables)


def _by_kind(rows: MemoryRows) -> Counter[str]:
    active = rows.equal("state", (ACTIVE,)).nonzero()[0]
    return Counter(str(kind) for kind in rows.named("kind", active))


def _after(
    rows: MemoryRows, before: Counter[str], plan: Plan, now: int
) -> tuple[Counter[str], int]:
    """Return the active memories by kind with a plan carried out, and how many it puts away."""
    if plan.state == "applied":
        return before, 0  # they are counted before it is applied
    fold = Fold(beneath=rows)
    changed = {id_ for event in plans.events_of(plan.body, now) for id_ in fold.apply(event)}
    after, gone = before.copy(), 0
    for id_ in changed:
        was, is_ = rows.find(id_), fold.find(id_)
        after.subtract(_counted(was))
        after.update(_counted(is_))
        gone += bool(_counted(was) and not _counted(is_))
    return +after, gone


def _counted(memory: Memory | None) -> dict[str, int]:
    return {memory.kind: 1} if memory is not None and memory.state == ACTIVE else {}


def _unknown(log: EventLog, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the sources nobody knows of what a plan makes; all of one that names none is empty."""
    made = {one.subject: one for one in plan.body.steps if one.event == "recorded"}
    sources = {id_: tuple(one.body.get("source_ids", ())) for id_, one in made.items()}
    asked = {source for some in sources.values() for source in some}
    known = log.known(sorted(asked)) | made.keys()
    return {
        id_: missing
        for id_, some in sources.items()
        if (missing := tuple(one for one in some if one not in known)) or not some
    }
