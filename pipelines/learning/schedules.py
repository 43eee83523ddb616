"""
When jobs run by themselves: each has an hour of the night, and runs for those tenants that want it.

Dagster has every schedule on, for whether a job runs is a tenant's own choice and is kept beside
its log: `mnemolog jobs on NAME`.
"""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from pipelines import jobs
from pipelines.hooks import HOOKS
from pipelines.learning.assets import GROUP, key_of, registered
from pipelines.resources import TENANTS
from store.plans.roster import CRON, LEARN, switches
from store.tenant import tenants

# a run's events are for the UI; the terminal that `mnemolog ui` runs in gets what went wrong
_QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


def learning_jobs() -> list[UnresolvedAssetJobDefinition]:
    """Return one Dagster job for each of ours, and one that runs them all in order."""
    names = registered()
    together = {LEARN: (names, "All jobs of one tenant, one after the other.")} if names else {}
    ours = {name: ((name,), jobs.named(name).does) for name in names} | together
    return [_job(name, assets, does) for name, (assets, does) in ours.items()]


def learning_schedules(
    known: Sequence[UnresolvedAssetJobDefinition],
) -> list[dg.ScheduleDefinition]:
    """Return a schedule for each of `learning_jobs`."""
    return [
        _schedule(name, one) for one in known for name in CRON if one.name == dagster_name(name)
    ]


def dagster_name(name: str) -> str:
    """Return what Dagster calls a job of ours: a projection may have the name alone."""
    return name if name == LEARN else f"{LEARN}_{name}"


def _job(name: str, assets: Sequence[str], does: str) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        dagster_name(name),
        selection=dg.AssetSelection.assets(*map(key_of, assets)),
        hooks=HOOKS,
        config=_QUIET,
        tags={"mnemolog/group": GROUP},
        description=does,
    )


def _schedule(ours: str, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"{job.name}_by_night",
        job=job,
        cron_schedule=CRON[ours],
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Runs for tenants that have it on: `mnemolog jobs on {ours}`.",
    )
    def by_night(
        context: dg.ScheduleEvaluationContext, memory_home: dg.ResourceParam[Path]
    ) -> list[dg.RunRequest] | dg.SkipReason:
        there = list(tenants(memory_home))
        kept = {one.name: switches(one) for one in there}
        for one in kept.values():
            if one.problem:
                context.log.warning(one.problem)
        wanted = [name for name, one in kept.items() if ours in one.on]
        if not wanted:
            return dg.SkipReason(f"no tenant has it on: `mnemolog jobs on {ours}`")
        context.instance.add_dynamic_partitions(str(TENANTS.name), wanted)
        day = f"{context.scheduled_execution_time:%Y-%m-%d}"
        return [dg.RunRequest(f"{ours}:{name}:{day}", partition_key=name) for name in wanted]

    return by_night
