"""
The job assets: one for each job, run by `pipelines.jobs.runner` as the command line does.

Each proposes a plan. A careful job's plan waits for a person. Any other is applied, unless it would
archive a large part of the memory: then it waits too. The log's sensor sees an applied plan and
rebuilds the memory. Beside each asset are its checks, the change to the memory, and the cost.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from pipelines import jobs
from pipelines.jobs import Job, find_job
from pipelines.jobs.runner import run
from pipelines.orchestration.metadata import Metadata, cell, past_values
from pipelines.orchestration.plots import line_plot
from pipelines.orchestration.run_resources import (
    OWNERS,
    TENANTS,
    TenantLock,
    check_spec,
    retry_or_fail,
)
from store.home.config import Llm, Settings
from store.home.tenant import Tenant
from store.log.event_clock import wall_clock
from store.log.event_kinds import Step
from store.log.event_log import EventLog
from store.memories.fold import Fold
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import ACTIVE, Memory
from store.memories.rows import MemoryRows
from store.plans import job_catalog, plans
from store.plans.job_catalog import ORDER, ModelCost
from store.plans.plans import Plan
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.text.excerpt import plural

# The outcome: a plan's effect on the memory, folded over the published snapshots as in a build, and
# its cost.


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan's effect: `before` and `after` are the active memories by kind, without and with it.

    `gone` is the number of memories that it ends; `unknown` maps the id of a new memory to its
    sources missing from the log. `run` is the cost of this run, `day` that of all the home's runs
    today.
    """

    plan: Plan | None
    before: Mapping[str, int]
    after: Mapping[str, int]
    gone: int
    unknown: Mapping[str, tuple[str, ...]]
    run: ModelCost
    day: ModelCost


def measure_outcome(
    home: Path, tenant: Tenant, log: EventLog, plan: Plan | None, began: int, now: int
) -> Outcome:
    """Return the outcome of a job that began at `began`, in microseconds UTC."""
    ref = manifests.current(tenant).projections["memories"]
    tables = snapshot.read(tenant.snapshots, ref, MEMORIES_PROJECTION, check=False, validate=False)
    rows = MemoryRows.open(tables)
    active = rows.equal("state", (ACTIVE,)).nonzero()[0]
    before = Counter(str(kind) for kind in rows.column_values("kind", active))
    after, gone = (before, 0) if plan is None else _after(rows, before, plan, now)
    return Outcome(
        plan=plan,
        before=before,
        after=after,
        gone=gone,
        unknown={} if plan is None else _unknown(log, plan),
        run=job_catalog.cost_since(log, began),
        day=job_catalog.cost_today(home, now),
    )


def _after(
    rows: MemoryRows, before: Counter[str], plan: Plan, now: int
) -> tuple[Counter[str], int]:
    """Return the active memories by kind after a plan, and the number that it ends."""
    if plan.state == "applied":
        return before, 0  # they are counted before it is applied
    fold = Fold(beneath=rows)
    changed = {id_ for event in plans.events_of(plan.body, now) for id_ in fold.apply(event)}
    after, gone = before.copy(), 0
    for id_ in changed:
        was, is_ = rows.find(id_), fold.find(id_)
        after.subtract(_count_if_active(was))
        after.update(_count_if_active(is_))
        gone += bool(_count_if_active(was) and not _count_if_active(is_))
    return +after, gone


def _count_if_active(memory: Memory | None) -> dict[str, int]:
    return {memory.kind: 1} if memory is not None and memory.state == ACTIVE else {}


def _unknown(log: EventLog, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the missing sources of each new memory of a plan that names sources."""
    sources = {
        step.subject: tuple(step.body.get("source_ids", ()))
        for step in plan.body.steps
        if step.event == "recorded"
    }
    every = {source for ids in sources.values() for source in ids}
    present = log.present_ids(sorted(every)) | sources.keys()
    return {
        id_: missing
        for id_, ids in sources.items()
        if (missing := tuple(source for source in ids if source not in present)) or not ids
    }


LEARNING_GROUP = "learning"
POOL = "model"  # of steps that may ask a model; its limit is in Dagster's settings
_PRIORITY = "dagster/priority"


def job_order() -> tuple[str, ...]:
    """Return the names of all jobs, in their common running order."""
    return tuple(name for name in ORDER if name in jobs.JOBS)


def key_of(name: str) -> dg.AssetKey:
    """Return the key of a job's asset: a projection may have the name alone."""
    return dg.AssetKey([LEARNING_GROUP, name])


def build_job_assets() -> list[dg.AssetsDefinition]:
    """Return the asset of every job, in their common running order."""
    return [_job_asset(find_job(name), place) for place, name in enumerate(job_order())]


def _job_asset(job: Job, place: int) -> dg.AssetsDefinition:
    does = job.does.rstrip(".")
    how = "waits for a person" if job.is_careful else "is carried out"

    @dg.asset(
        key=key_of(job.name),
        deps=["published_manifest"],
        group_name=LEARNING_GROUP,
        partitions_def=TENANTS,
        kinds={"python"},
        owners=OWNERS,
        tags={"layer": "learning", "careful": "yes" if job.is_careful else "no"},
        # the order within a run; no dependency, since a failed job must not skip the others
        op_tags={_PRIORITY: str(-place)},
        pool=POOL,
        check_specs=[check_spec(name, key_of(job.name), text) for name, text in CHECKS.items()],
        description=f"{does[:1].upper()}{does[1:]}. Its plan {how}.",
    )
    def run_job(
        context: dg.AssetExecutionContext, turn: TenantLock, settings: dg.ResourceParam[Settings]
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with it, Dagster wants a tuple
        with retry_or_fail(context.retry_number), EventLog(turn.tenant.log) as log:
            began = wall_clock()
            proposed = run(
                job, settings, turn.tenant.name, began, apply=False, report=context.log.info
            )
            outcome = measure_outcome(
                settings.home, turn.tenant, log, proposed, began, wall_clock()
            )
            plan = _apply_if_allowed(context, job, log, outcome)
            history = [past_values(context, name) for name in (STEPS, COST)]
            results = check_results(outcome, settings.choices.llm)
            for failed in (result for result in results if not result.passed):
                context.log.warning(f"{failed.check_name}: {failed.description}")
            return dg.MaterializeResult(
                metadata=outcome_metadata(
                    outcome, plan, began, *history, quotes=settings.choices.dagster_texts
                ),
                check_results=results,
                data_version=dg.DataVersion(plan.id if plan else f"nothing at {began}"),
            )

    return run_job


def _apply_if_allowed(
    context: dg.AssetExecutionContext, job: Job, log: EventLog, outcome: Outcome
) -> Plan | None:
    """Apply a plan that need not wait for a person; return its new state."""
    plan = outcome.plan
    if plan is None or plan.state != "waiting":
        return plan
    is_bounded, text = plan_within_bounds(outcome)
    if job.is_careful or not is_bounded or plan.failed:
        why = "its job is a careful one" if is_bounded else text
        if plan.failed:
            why = f"{', '.join(check.name for check in plan.failed)} failed"
        context.log.info(f"plan {plan.id} waits for a person: {why}")
        return plan
    return plans.apply(log, plan.id, wall_clock())


# Checks of the outcome. None blocks a build: a plan over its bound waits for a person, spent money
# is spent, and a memory without known sources is visible and can be undone.

MOST_GONE = 0.25  # of the active memories that a plan may end without approval
FEW = 20  # memories that a plan may always end, also in a small memory
_SHOWN = 3  # ids named

CHECKS = {
    "plan_within_bounds": "A plan puts away no large part of the memory; else it waits.",
    "budget_kept": "Models cost no more than is allowed, in a run and in a day.",
    "lineage_complete": "Every memory that is made names its sources, and the log has them.",
}


def check_results(outcome: Outcome, limits: Llm) -> list[dg.AssetCheckResult]:
    """Return every check's result; a failing one warns."""
    results = {
        "plan_within_bounds": plan_within_bounds(outcome),
        "budget_kept": budget_kept(outcome, limits),
        "lineage_complete": lineage_complete(outcome),
    }
    return [
        dg.AssetCheckResult(
            check_name=name,
            passed=passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=text,
        )
        for name, (passed, text) in results.items()
    ]


def plan_within_bounds(outcome: Outcome) -> tuple[bool, str]:
    active = sum(outcome.before.values())
    bound = max(FEW, int(MOST_GONE * active))
    text = f"{outcome.gone:,} of {active:,} active memories would go; {bound:,} may unasked"
    return outcome.gone <= bound, text


def budget_kept(outcome: Outcome, limits: Llm) -> tuple[bool, str]:
    run, day = outcome.run, outcome.day
    over = [
        *_over("this run", run, limits.usd_a_run, limits.tokens_a_run, limits.calls_a_run),
        *_over("today", day, limits.usd_a_day, limits.tokens_a_day, limits.calls_a_day),
    ]
    text = f"{run.calls} calls, {run.tokens:,} tokens and ${run.cost_usd:.4f} in this run"
    text += f", {day.tokens:,} tokens and ${day.cost_usd:.4f} today"
    return not over, "; ".join(over) or text


def lineage_complete(outcome: Outcome) -> tuple[bool, str]:
    if not outcome.unknown:
        return True, "all that is made names sources that are in the log"
    named = [
        f"{id_} ({', '.join(missing[:_SHOWN]) or 'none'})"
        for id_, missing in list(outcome.unknown.items())[:_SHOWN]
    ]
    count = plural(len(outcome.unknown), "memory")
    return False, f"{count} without a known source: {', '.join(named)}"


def _over(when: str, spent: ModelCost, usd: float, tokens: int, calls: int) -> Iterator[str]:
    if 0 < usd < spent.cost_usd:
        yield f"{when} cost ${spent.cost_usd:.4f}, over ${usd:.2f}"
    if 0 < tokens < spent.tokens:
        yield f"{when} took {spent.tokens:,} tokens, over {tokens:,}"
    if 0 < calls < spent.calls:
        yield f"{when} took {spent.calls:,} calls, over {calls:,}"


# Metadata: the change and the reasons, before and after, the cost.

STEPS, COST = "steps", "cost in dollars"
NONE = "none"  # in place of a plan's id
_DIFF = 20  # steps shown; `mnemolog plans show` has them all
Past = Sequence[tuple[int, float]]


def outcome_metadata(
    outcome: Outcome, plan: Plan | None, now: int, counts: Past, costs: Past, *, quotes: bool
) -> Metadata:
    """Return the metadata of an outcome and its plan.

    `counts` and `costs` are the steps and dollars of earlier runs, by time. `quotes`: with the
    beginnings of the texts, and the reasons, which may quote them.
    """
    run = outcome.run
    body = plan.body if plan else None
    steps = body.steps if body else ()
    values: Metadata = {
        "state": plan.state if plan else "nothing to do",
        "plan": plan.id if plan else NONE,
        STEPS: len(steps),
        "steps by kind": dict(Counter(step.event for step in steps)),
        "memories looked at": body.looked_at if body else 0,
        "active memories": dg.MetadataValue.md("\n".join(_kinds(outcome))),
        "diff": dg.MetadataValue.md("\n".join(_diff(steps, quotes=quotes))),
        "model": ", ".join(run.models) or "none",
        "calls": run.calls,
        "calls failed": run.failed,
        "tokens": run.tokens,
        COST: run.cost_usd,
        "plot of steps": _history_plot("steps of each run", [*counts, (now, len(steps))]),
        "plot of cost": _history_plot("dollars of each run", [*costs, (now, run.cost_usd)]),
    }
    if body and body.notes:
        notes = "\n".join(f"- {cell(note)}" for note in body.notes)
        values["notes"] = dg.MetadataValue.md(notes)
    if body and body.left:
        values["steps left for the next plan"] = body.left
    return values


def _history_plot(title: str, history: Past) -> dg.MarkdownMetadataValue:
    return line_plot(title, [at for at, _ in history], [value for _, value in history])


def _kinds(outcome: Outcome) -> Iterator[str]:
    """Yield a table of the active memories by kind, before and after."""
    before, after = outcome.before, outcome.after
    yield "| kind | before | after |"
    yield "|---|---|---|"
    for kind in sorted({*before, *after}):
        yield f"| {kind} | {before.get(kind, 0):,} | {after.get(kind, 0):,} |"
    yield f"| all | {sum(before.values()):,} | {sum(after.values()):,} |"


def _diff(steps: Sequence[Step], *, quotes: bool) -> Iterator[str]:
    """Yield a table of the first steps."""
    if not steps:
        yield "nothing would change"
        return
    yield "| step | memory | what | why |" if quotes else "| step | memory |"
    yield "|---|---|---|---|" if quotes else "|---|---|"
    for step in steps[:_DIFF]:
        if not quotes:
            yield f"| {step.event} | {cell(step.subject)} |"
            continue
        text = step.body.get("content") or step.before.get("content") or ""
        yield f"| {step.event} | {cell(step.subject)} | {cell(str(text))} | {cell(step.why)} |"
    if len(steps) > _DIFF:
        yield f"\n{len(steps) - _DIFF:,} more: `mnemolog plans show` has them all"
