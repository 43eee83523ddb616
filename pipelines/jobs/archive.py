"""
The job `archive`: archives memories that are cold or expired; `recall --cold` still finds them.

It is careful: memories that are pinned, rated helpful, keep a value or lasting guidance, or are
sources of living memories stay. At most MOST are archived in a run, the coldest first, each with
its reason. A dormant project keeps its memories: what counts is how much happened in it since a
memory was last used, not how long ago that was.

`write_archive` also maintains the files below `cold/`: the archived memories as Parquet, and the
segments that old receipts move to. These need no plan, since they change no answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from pipelines.jobs import Context, Proposal, Report
from pipelines.jobs.runner import open_memory
from serve.evaluation import bulk
from serve.recall.scoring import LASTING_KINDS, decay
from store.derived.feedback import Usage
from store.home.config import Settings
from store.home.instants import isoformat
from store.log import compaction
from store.log.compaction import Compacted
from store.log.event_kinds import Applied, Planned, Step
from store.maintenance import erase, memory_archive
from store.maintenance.memory_archive import ColdFile
from store.memories.memory import ACTIVE, SUPERSEDED, Memory
from store.plans import plans, steps
from store.text.excerpt import plural

COLD_AFTER_DAYS = 180  # since it arrived or was last recalled or changed, while others were
COLD_IMPORTANCE = 0.55  # or less, of what time has left of it
MOST = 200  # memories a run: as many as a person looks through
_DAY = 86_400 * 1_000_000  # microseconds

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Cold:
    """A row that may go; `idle` is in microseconds."""

    row: int
    idle: int
    importance: float
    recalled: int
    last: int


def propose(context: Context) -> Proposal:
    """Return a step for every memory that is to be put away: first what expired, then the cold.

    Where these are many of all, with what that does to past answers: the plan waits for a person if
    they lose too much.
    """
    found = chain(_expiry_steps(context), _idle_steps(context))
    chosen = tuple(islice(found, MOST))
    is_more = next(found, None) is not None
    planned = Planned(job="archive", watermark=context.manifest.watermark, steps=chosen)
    replay, checks = bulk.suppose(
        *(context.tenant, context.log, context.embedder, context.choices),
        plans.events_of(planned, context.now),
        context.now,
    )
    notes = tuple(_notes(context, is_more=is_more))
    silence = (
        f"{plural(len(context.live_rows), 'memory')} looked at: none has expired, and none is "
        f"unimportant and was unused for {COLD_AFTER_DAYS} days"
    )
    return Proposal(chosen, len(context.live_rows), notes, silence, replay, checks)


def _expiry_steps(context: Context) -> Iterator[Step]:
    for row in _expired_rows(context).tolist():
        yield _expiry_step(context.rows.take([row])[0], context.now)


def _idle_steps(context: Context) -> Iterator[Step]:
    kept = _sources(context)
    for cold in _coldest(context):
        memory = context.rows.take([cold.row])[0]
        if memory.key is None and memory.id not in kept:
            yield _idle_step(memory, cold)


def _expired_rows(context: Context) -> Rows:
    """Return the rows whose ttl is over, of the project or of none, the first to expire first."""
    rows = context.rows
    mask = rows.equal("state", (ACTIVE,)) & (rows.expires_at <= context.now)
    mask &= rows.codes("pinned") == 0
    if context.project is not None:
        mask &= rows.equal("project", (context.project,)) | rows.lacks("project")
    found = np.flatnonzero(mask)
    return found[np.argsort(rows.expires_at[found], kind="stable")]


def _coldest(context: Context) -> Iterator[_Cold]:
    """Yield the living rows that nobody needed for long, the least important and oldest first."""
    rows, living = context.rows, context.live_rows
    usage = Usage.open(context.tables("usage"))
    changed = rows.updated_at.copy()
    for row, at in _importance_changes(context):
        changed[row] = at
    recalled_at = usage.counts("last_recalled_at", np.arange(len(rows)))
    last = np.maximum(np.maximum(changed, context.arrived_at), recalled_at)
    idle = (_newest_beside(context, last) - last)[living]
    recalled = usage.counts("recalled", living)
    lasting = rows.equal("kind", LASTING_KINDS)[living]
    pinned = rows.codes("pinned")[living] > 0
    left = decay(rows.importance[living], idle, recalled, lasting, pinned)
    may_go = ~lasting & ~pinned & (usage.counts("verdicts", living) <= 0)
    may_go &= (idle >= COLD_AFTER_DAYS * _DAY) & (left <= COLD_IMPORTANCE)
    places = np.flatnonzero(may_go)
    for place in places[np.lexsort((living[places], -idle[places], left[places]))].tolist():
        row = int(living[place])
        yield _Cold(row, int(idle[place]), float(left[place]), int(recalled[place]), int(last[row]))


def _importance_changes(context: Context) -> Iterator[tuple[int, int]]:
    """Yield the rows that the job `importance` revised, and when somebody else last changed them:
    to be found unimportant is no use.
    """
    plans = {
        event.subject: event.body
        for event in context.log.job_events(("planned",))
        if isinstance(event.body, Planned) and event.body.job == "importance"
    }
    its: set[str] = set()
    ids: set[str] = set()
    for event in context.log.job_events(("applied",)):
        if isinstance(event.body, Applied) and (plan := plans.get(event.subject)):
            its.update(event.body.events)
            ids.update(step.subject for step in plan.steps)
    for id_ in sorted(ids):
        row = context.rows.row(id_)
        others = [other.at for other in context.log.events_for(id_) if other.id not in its]
        if row is not None and others:
            yield row, max(others)


def _newest_beside(context: Context, last: Rows) -> Rows:
    """Return, for each row, when anything of its project was last used; of all, where it has none.

    No later than now: a clock that was wrong once makes nothing old.
    """
    projects = context.rows.codes("project")
    last = np.minimum(last, context.now)
    newest = np.zeros(int(projects.max(initial=-1)) + 2, np.int64)
    np.maximum.at(newest, projects, last)  # -1, none, is the last
    newest[-1] = last.max(initial=0)
    beside: Rows = newest[projects]
    return beside


def _sources(context: Context) -> frozenset[str]:
    """Return the ids that living memories were made of."""
    made = np.intersect1d(context.rows.sources.documents, context.live_rows)
    return frozenset(id_ for memory in context.memories(made) for id_ in memory.source_ids)


def _expiry_step(memory: Memory, now: int) -> Step:
    assert memory.expires_at is not None
    over = (now - memory.expires_at) // _DAY
    why = f"its time ran out on {isoformat(memory.expires_at)[:10]}"
    return steps.archive(memory, why, days_over=over)


def _idle_step(memory: Memory, cold: _Cold) -> Step:
    since = f"since {isoformat(cold.last)[:10]}"
    what = "was not recalled" if cold.recalled else "nobody recalled it"
    others = "its project went on" if memory.project else "others were used"
    why = f"{what} {since}, while {others} for {cold.idle // _DAY} days"
    left = round(cold.importance, 2)
    return steps.archive(
        memory, why, days_idle=cold.idle // _DAY, importance_left=left, recalled=cold.recalled
    )


def _notes(context: Context, *, is_more: bool) -> Iterator[str]:
    if is_more:
        yield f"these are {MOST}, and there are more: the next run takes them"
    rows = context.rows
    old = rows.updated_at <= context.now - COLD_AFTER_DAYS * _DAY
    if gone := int(np.count_nonzero(rows.equal("state", (SUPERSEDED,)) & old)):
        yield f"{gone} were superseded more than {COLD_AFTER_DAYS} days ago: cold as they are"


# The files below `cold/`.


class Kept(msgspec.Struct, frozen=True):
    """What was written; None where it was not asked for."""

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
    """Write the cold file, or with `compact` put old receipts away; what is not built is built.

    With `only_newest`, what was served before goes at once, after an erasing. Raise as
    `open_memory` does, or LogBusy where another process rewrites the log.
    """
    with open_memory(settings, tenant_name, now, report=report, no_model=True) as context:
        if compact:
            done = compaction.compact(context.log, context.manifest.watermark, now, dry_run=dry_run)
            return Kept(compacted=done)
        if only_newest:
            erase.drop_derived_files(context.tenant)
        watermark = context.manifest.watermark
        file = memory_archive.write(context.tenant, context.log, context.rows, watermark, now)
        return Kept(cold=msgspec.structs.replace(file, path=str(Path(file.path).absolute())))
