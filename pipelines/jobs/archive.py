"""
The job `archive`: archives memories that are cold or expired; `recall --cold` still finds them.

It is careful: memories that are pinned, rated helpful, keep a value or lasting guidance, or are
sources of living memories stay. At most MOST are archived in a run, the coldest first, each with
its reason. A dormant project keeps its memories: idleness is measured by the project's activity
since a memory was last used, not by the calendar.

`write_archive` also maintains the files below `cold/`: the archived memories as Parquet, and the
segments that old receipts move to. These need no plan, since they change no answer.
"""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import msgspec
import numpy as np

from pipelines.jobs import Context, Proposal, Report, Rows
from pipelines.jobs.runner import open_memory
from serve.evaluation import bulk
from serve.recall.scoring import LASTING_KINDS, decay
from store.derived.feedback import Usage
from store.home.config import Settings
from store.home.instants import DAY, isoformat
from store.log import compaction
from store.log.compaction import Compacted
from store.log.event_kinds import Applied, Planned, Step
from store.maintenance import erase, memory_archive
from store.maintenance.memory_archive import ColdFile
from store.memories.memory import SUPERSEDED
from store.plans import plans, steps
from store.text.excerpt import plural

COLD_AFTER_DAYS = 180  # since it arrived or was last recalled or changed, while others were
COLD_IMPORTANCE = 0.55  # at most, after decay
MOST = 200  # memories a run: as many as a person can review


def propose(context: Context) -> Proposal:
    """Return a step for each memory to archive: the expired first, then the cold.

    The plan is tested on past answers if it archives many: it waits for a person if those lose too
    much.
    """
    candidates = chain(_expiry_steps(context), _idle_steps(context))
    chosen = tuple(islice(candidates, MOST))
    is_more = next(candidates, None) is not None
    planned = Planned(job="archive", watermark=context.manifest.watermark, steps=chosen)
    replay, checks = bulk.suppose(
        *(context.tenant, context.log, context.embedder, context.choices),
        plans.events_of(planned, context.now),
        context.now,
    )
    notes = [f"these are {MOST}, and there are more: the next run takes them"] if is_more else []
    rows = context.rows
    is_old = rows.updated_at <= context.now - COLD_AFTER_DAYS * DAY
    if count := int(np.count_nonzero(rows.equal("state", (SUPERSEDED,)) & is_old)):
        notes.append(
            f"{count} were superseded more than {COLD_AFTER_DAYS} days ago: cold as they are"
        )
    silence = (
        f"{plural(len(context.live_rows), 'memory')} looked at: none has expired, and none is "
        f"unimportant and was unused for {COLD_AFTER_DAYS} days"
    )
    return Proposal(chosen, len(context.live_rows), tuple(notes), silence, replay, checks)


def _expiry_steps(context: Context) -> Iterator[Step]:
    """Yield a step for each expired memory, the first to expire first."""
    expired = context.expired_rows()
    order = np.argsort(context.rows.expires_at[expired], kind="stable")
    for row in expired[order].tolist():
        (memory,) = context.rows.take([row])
        assert memory.expires_at is not None
        why = f"its time ran out on {isoformat(memory.expires_at)[:10]}"
        days_over = (context.now - memory.expires_at) // DAY
        yield steps.archive(memory, why, days_over=days_over)


def _idle_steps(context: Context) -> Iterator[Step]:
    """Yield a step for each long unused memory, the least important and then the longest idle
    first.
    """
    rows, live = context.rows, context.live_rows
    derived = np.intersect1d(rows.sources.documents, live)
    source_ids = {id_ for memory in context.memories(derived) for id_ in memory.source_ids}
    usage = Usage.open(context.tables("usage"))
    changed = rows.updated_at.copy()
    for row, at in _importance_changes(context):
        changed[row] = at
    recalled_at = usage.counts("last_recalled_at", np.arange(len(rows)))
    last = np.maximum(np.maximum(changed, context.arrived_at), recalled_at)
    idle = (_newest_beside(context, last) - last)[live]
    recalled = usage.counts("recalled", live)
    lasting = rows.equal("kind", LASTING_KINDS)[live]
    pinned = rows.codes("pinned")[live] > 0
    importance = decay(rows.importance[live], idle, recalled, lasting, pinned)
    may_go = ~lasting & ~pinned & (usage.counts("verdicts", live) <= 0)
    may_go &= (idle >= COLD_AFTER_DAYS * DAY) & (importance <= COLD_IMPORTANCE)
    places = np.flatnonzero(may_go)
    order = np.lexsort((live[places], -idle[places], importance[places]))
    for place in places[order].tolist():
        (memory,) = rows.take([int(live[place])])
        if memory.key is not None or memory.id in source_ids:
            continue
        use = "was not recalled" if recalled[place] else "nobody recalled it"
        since = isoformat(int(last[live[place]]))[:10]
        others = "its project went on" if memory.project else "others were used"
        days = int(idle[place]) // DAY
        yield steps.archive(
            memory,
            f"{use} since {since}, while {others} for {days} days",
            days_idle=days,
            importance_left=round(float(importance[place]), 2),
            recalled=int(recalled[place]),
        )


def _importance_changes(context: Context) -> Iterator[tuple[int, int]]:
    """Yield the rows that the job `importance` revised, and the time of the last change by others:
    a lowered importance is no use of a memory.
    """
    plans = {
        event.subject: event.body
        for event in context.log.job_events(("planned",))
        if isinstance(event.body, Planned) and event.body.job == "importance"
    }
    own_events: set[str] = set()
    revised: set[str] = set()
    for event in context.log.job_events(("applied",)):
        if isinstance(event.body, Applied) and (plan := plans.get(event.subject)):
            own_events.update(event.body.events)
            revised.update(step.subject for step in plan.steps)
    for id_ in sorted(revised):
        row = context.rows.row(id_)
        others = [event.at for event in context.log.events_for(id_) if event.id not in own_events]
        if row is not None and others:
            yield row, max(others)


def _newest_beside(context: Context, last: Rows) -> Rows:
    """Return the last use of any memory in each row's project, or in all for a row without one.

    Never later than now: a clock that was once wrong must not age the other memories.
    """
    projects = context.rows.codes("project")
    last = np.minimum(last, context.now)
    newest = np.zeros(int(projects.max(initial=-1)) + 2, np.int64)
    np.maximum.at(newest, projects, last)  # -1, no project, is the last place
    newest[-1] = last.max(initial=0)
    newest_beside: Rows = newest[projects]
    return newest_beside


# The files below `cold/`.


class Kept(msgspec.Struct, frozen=True):
    """The written files; None for a file that was not requested."""

    cold: ColdFile | None = None
    compacted: Compacted | None = None


def write_archive(
    settings: Settings,
    tenant_name: str,
    now: int,
    report: Report,
    *,
    compact: bool = False,
    dry_run: bool = False,
    only_newest: bool = False,
) -> Kept:
    """Write the cold file, or with `compact` move old receipts to segments; build if needed.

    With `only_newest`, used after an erasure, older derived files are deleted at once. Raise as
    `open_memory` does, or LogBusy where another process rewrites the log.
    """
    with open_memory(settings, tenant_name, now, report=report, no_model=True) as context:
        watermark = context.manifest.watermark
        if compact:
            compacted = compaction.compact(context.log, watermark, now, dry_run=dry_run)
            return Kept(compacted=compacted)
        if only_newest:
            erase.drop_derived_files(context.tenant)
        file = memory_archive.write(context.tenant, context.log, context.rows, watermark, now)
        return Kept(cold=msgspec.structs.replace(file, path=str(Path(file.path).absolute())))
