"""
The learning assets, one for each job: run by the very function that the command line runs.

Each proposes a plan. A careful job's plan waits for a person, any other is carried out, unless it
would put away a large part of the memory: then it waits too. What was carried out is a change of
the log like any other, so the sensor on its head builds the memory anew.
"""

import time
from collections.abc import Sequence

import dagster as dg

from pipelines import jobs
from pipelines.failures import classified
from pipelines.history import past
from pipelines.jobs.job import Job, run
from pipelines.learning import checks, shown
from pipelines.learning.outcome import Outcome, outcome
from pipelines.learning.turn import Turn
from pipelines.resources import OWNERS, TENANTS
from store.config import Settings
from store.log import EventLog
from store.plans import plans
from store.plans.plans import Plan
from store.plans.roster import ORDER

GROUP = "learning"
POOL = "model"  # what may ask one: its limit is in Dagster's settings
_PRIORITY = "dagster/priority"


def registered() -> tuple[str, ...]:
    """Return the names of the jobs there are, in the order in which they are run together."""
    known = [name for name in ORDER if name in jobs.PLACES]
    return (*known, *sorted(jobs.PLACES.keys() - set(known)))


def key_of(name: str) -> dg.AssetKey:
    """Return the key of a job's asset: a projection may have the name alone."""
    return dg.AssetKey([GROUP, name])


def learning_assets() -> list[dg.AssetsDefinition]:
    """Return the asset of every job, in the order in which they are run together."""
    return [_asset(jobs.named(name), place) for place, name in enumerate(registered())]


def _asset(job: Job, place: int) -> dg.AssetsDefinition:
    does = job.does.rstrip(".")
    how = "waits for a person" if job.is_careful else "is carried out"

    @dg.asset(
        key=key_of(job.name),
        deps=["published_manifest"],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={"python"},
        owners=OWNERS,
        tags={"layer": "learning", "careful": "yes" if job.is_careful else "no"},
        # the order within a run; no dependency, for one that fails is no reason to leave out others
        op_tags={_PRIORITY: str(-place)},
        pool=POOL,
        check_specs=checks.specs(key_of(job.name)),
        description=f"{does[:1].upper()}{does[1:]}. Its plan {how}.",
    )
    def learned(
        context: dg.AssetExecutionContext, turn: Turn, settings: dg.ResourceParam[Settings]
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with it, Dagster wants a tuple
        with classified(context.retry_number), EventLog(turn.tenant.log) as log:
            began = _now()
            proposed = run(
                job, settings, turn.tenant.name, began, apply=False, report=context.log.info
            )
            found = outcome(settings.home, turn.tenant, log, proposed, began, _now())
            plan = _carried_out(context, job, log, found)
            history = [past(context, name) for name in (shown.STEPS, shown.COST)]
            results = checks.results(found, settings.choices.llm)
            for failed in (one for one in results if not one.passed):
                context.log.warning(f"{failed.check_name}: {failed.description}")
            return dg.MaterializeResult(
                metadata=shown.metadata(
                    found, plan, began, *history, quotes=settings.choices.dagster_texts
                ),
                check_results=results,
                data_version=dg.DataVersion(plan.id if plan else f"nothing at {began}"),
            )

    return learned


def _carried_out(
    context: dg.AssetExecutionContext, job: Job, log: EventLog, found: Outcome
) -> Plan | None:
    """Return the plan as it is then: applied, or waiting for a person."""
    plan = found.plan
    if plan is None or plan.state != "waiting":
        return plan
    is_bounded, said = checks.plan_within_bounds(found)
    if job.is_careful or not is_bounded:
        why = "its job is a careful one" if is_bounded else said
        context.log.info(f"plan {plan.id} waits for a person: {why}")
        return plan
    return plans.apply(log, plan.id, _now())


def ordered(names: Sequence[str]) -> list[str]:
    """Return some jobs' names in the order in which they are run together."""
    return [name for name in registered() if name in names]


def _now() -> int:
    return time.time_ns() // 1_000
