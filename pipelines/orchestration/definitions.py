"""
The definitions: the Dagster jobs and their sensors and schedules.

A sensor compares every log's head with the published build and requests builds. It is
level-triggered: a missed change is caught at the next tick. It checks the build lock, which the
system releases with its holder, for a running build, and not a run's status, which outlives it.
Schedules build all tenants every night, run the jobs a tenant has switched on, and prune old runs.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field

from pipelines.jobs import find_job
from pipelines.orchestration import run_resources
from pipelines.orchestration.assets import (
    build_assets,
    check_recall,
    nightly_quality,
    past_recalls,
    recall_quality,
    replay_recalls,
)
from pipelines.orchestration.dagster_home import JOB
from pipelines.orchestration.job_assets import LEARNING_GROUP, build_job_assets, job_order, key_of
from pipelines.orchestration.run_resources import (
    GROUP,
    HOOKS,
    LOCK_WAIT_S,
    PARTITION,
    TENANTS,
    TenantLock,
    TenantStore,
)
from store.derived import catalog
from store.embedders.embedder import make_embedder
from store.home import failures
from store.home.config import Settings
from store.home.errors import BuildBusy, LogError, SnapshotError
from store.home.tenant import Tenant, list_tenants
from store.log import log_queries
from store.log.event_clock import wall_clock
from store.log.event_log import EventLog
from store.maintenance import build
from store.maintenance.mirrors import chosen_mirrors
from store.plans.job_catalog import CRON, LEARN, jobs_on, load_switches
from store.snapshots import manifest as manifests

# Jobs by schedule: each has an hour of the night and runs for the tenants that switched it on.
#
# A tenant's choice is stored beside its log, by `mnemolog jobs on NAME`. In Dagster a schedule is
# on while some tenant has its job on; the pages keep it so while they run (`webserver`).

# a run's events are for the UI; the terminal of `mnemolog ui` gets errors alone
_QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


def job_definitions() -> list[UnresolvedAssetJobDefinition]:
    """Return a Dagster job for each of our jobs, and one that runs them all in order."""
    names = job_order()
    ours = [(name, (name,), find_job(name).does) for name in names]
    together = (LEARN, names, "All jobs of one tenant, one after the other.")
    return [
        dg.define_asset_job(
            dagster_name(name),
            selection=dg.AssetSelection.assets(*map(key_of, assets)),
            hooks=HOOKS,
            config=_QUIET,
            tags={"mnemolog/group": LEARNING_GROUP},
            description=does,
        )
        for name, assets, does in (*ours, together)
    ]


def job_schedules(
    jobs: Sequence[UnresolvedAssetJobDefinition], on: Set[str]
) -> list[dg.ScheduleDefinition]:
    """Return a schedule for each job; those with names in `on` are running."""
    return [
        _schedule(name, job, is_on=name in on)
        for job in jobs
        for name in CRON
        if job.name == dagster_name(name)
    ]


def dagster_name(name: str) -> str:
    """Return Dagster's name for our job: the bare name may be a projection's."""
    return name if name == LEARN else f"{LEARN}_{name}"


def _schedule(
    ours: str, job: UnresolvedAssetJobDefinition, *, is_on: bool
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"{job.name}_by_night",
        job=job,
        cron_schedule=CRON[ours],
        default_status=(
            dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED
        ),
        tags={JOB: ours},
        description=f"Runs for each tenant that has it on. `mnemolog jobs on {ours}` and "
        f"`mnemolog jobs off {ours}` switch it, for one tenant each.",
    )
    def by_night(
        context: dg.ScheduleEvaluationContext, memory_home: dg.ResourceParam[Path]
    ) -> list[dg.RunRequest] | dg.SkipReason:
        names = []
        for tenant in list_tenants(memory_home):
            switches = load_switches(tenant)
            if switches.problem:
                context.log.warning(switches.problem)
            if ours in switches.on:
                names.append(tenant.name)
        if not names:
            return dg.SkipReason(f"no tenant has it on: `mnemolog jobs on {ours}`")
        context.instance.add_dynamic_partitions(str(TENANTS.name), names)
        day = f"{context.scheduled_execution_time:%Y-%m-%d}"
        return [dg.RunRequest(f"{ours}:{name}:{day}", partition_key=name) for name in names]

    return by_night


# Pruning: Dagster keeps some 200 KB of each run and never deletes them.

KEEP_RUNS = 200
KEEP_DAYS = 7


class PruneConfig(dg.Config):
    days: int = Field(KEEP_DAYS, ge=0, description="Runs younger than this are kept.")
    keep: int = Field(KEEP_RUNS, ge=0, description="So many of the newest runs are always kept.")


@dg.op(description="Deletes the events and files of old finished runs.")
def drop_old_runs(context: dg.OpExecutionContext, config: PruneConfig) -> None:
    dropped = prune(context.instance, days=config.days, keep=config.keep)
    context.log.info(f"dropped {len(dropped)} runs")


@dg.job(description="Delete the records of runs that are old and not among the newest.")
def prune_runs() -> None:
    drop_old_runs()


def prune(
    instance: dg.DagsterInstance, *, days: int = KEEP_DAYS, keep: int = KEEP_RUNS
) -> list[str]:
    """Delete finished runs that are older than `days` and not among the `keep` newest.

    The newest run of every tenant that succeeded stays, so that its assets keep their story.
    Return the ids of the runs deleted.
    """
    if instance.get_runs_count() <= keep:
        return []
    before = datetime.now(UTC) - timedelta(days=days)
    last_good: set[str] = set()
    dropped = []
    for place, record in enumerate(instance.get_run_records()):  # newest first
        run = record.dagster_run
        tenant = run.tags.get(PARTITION, "")
        is_last_good = run.is_success and tenant not in last_good
        if is_last_good:
            last_good.add(tenant)
        is_old = record.create_timestamp.replace(tzinfo=UTC) < before
        if place >= keep and is_old and run.is_finished and not is_last_good:
            instance.delete_run(run.run_id)
            # it only empties the run's own database, and leaves its captured output
            home = Path(instance.root_directory)
            for path in (home / "history" / "runs").glob(f"{run.run_id}.db*"):
                path.unlink(missing_ok=True)
            shutil.rmtree(home / "storage" / run.run_id, ignore_errors=True)
            dropped.append(run.run_id)
    return dropped


LOOK_EVERY_S = 60
DEAD_AFTER_S = 300  # a run waits 60 s for the lock at most, so this long without it means killed
_SILENT = "its process ended without a word"
_UNDER_WAY = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

build_memory = dg.define_asset_job(
    "build_memory",
    selection=dg.AssetSelection.groups(GROUP),
    config=_QUIET,
    hooks=HOOKS,
    description="Build every projection of one tenant, check them, publish the manifest.",
)


@dg.sensor(
    job=build_memory,
    minimum_interval_seconds=LOOK_EVERY_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Requests a build when the log has events that no published manifest covers.",
)
def log_head(
    context: dg.SensorEvaluationContext, memory_home: dg.ResourceParam[Path]
) -> dg.SensorResult:
    """Request one run for each tenant whose log moved on; recalls alone move nothing."""
    tenants = list(list_tenants(memory_home))
    requests = []
    for tenant in tenants:
        try:
            with build.lock(tenant):
                _fail_dead_runs(context.instance, tenant)
                mark = _head_to_build(tenant)
        except BuildBusy:
            context.log.info(f"{tenant.name}: being built now")
        except LogError as error:
            context.log.error(f"{tenant.name}: {error}")
        else:
            if mark is not None:
                requests.append(dg.RunRequest(f"{tenant.name}:{mark}", partition_key=tenant.name))
    _free_pool_slots(context.instance)
    partitions = set(context.instance.get_dynamic_partitions(str(TENANTS.name)))
    new = [tenant.name for tenant in tenants if tenant.name not in partitions]
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[TENANTS.build_add_request(new)] if new else [],
        skip_reason=None if requests else f"{len(tenants)} tenants, nothing new in any log",
    )


@dg.schedule(
    job=build_memory,
    cron_schedule="30 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Builds every tenant each night, so that recalls count without a new memory.",
)
def nightly(
    context: dg.ScheduleEvaluationContext, memory_home: dg.ResourceParam[Path]
) -> Iterator[dg.RunRequest]:
    names = [tenant.name for tenant in list_tenants(memory_home)]
    context.instance.add_dynamic_partitions(str(TENANTS.name), names)
    for name in names:
        key = f"{name}:{context.scheduled_execution_time:%Y-%m-%d}"
        yield dg.RunRequest(key, partition_key=name)


weekly_prune = dg.ScheduleDefinition(
    name="weekly_prune",
    job=prune_runs,
    cron_schedule="0 4 * * 0",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Deletes the records of old runs; nothing else does.",
)


def _head_to_build(tenant: Tenant) -> int | None:
    """Return the seq of the last change, if it is after the published watermark."""
    with EventLog(tenant.log) as log:
        mark = log_queries.last_change(log)
    try:
        published = manifests.current(tenant).watermark
    except SnapshotError:
        published = -1
    return mark if mark > published else None


def _fail_dead_runs(instance: dg.DagsterInstance, tenant: Tenant) -> None:
    """Report killed runs of a tenant as failed: else they stay in the queue for ever.

    Call it while holding the tenant's build lock: a live build would hold it, as a live learning
    run would hold the tenant's lock for runs.
    """
    filters = dg.RunsFilter(statuses=_UNDER_WAY, tags={PARTITION: tenant.name})
    under_way = instance.get_run_records(filters)
    if not under_way:
        return
    with suppress(BuildBusy), run_resources.hold_tenant_lock(tenant):
        for record in under_way:
            run, began = record.dagster_run, record.start_time
            if time.time() - (began or record.create_timestamp.timestamp()) > DEAD_AFTER_S:
                instance.report_run_failed(run, _SILENT)
                at = wall_clock()
                failures.keep(tenant.root, run.job_name, at, _SILENT, run.run_id)


def _free_pool_slots(instance: dg.DagsterInstance) -> None:
    """Free the pool slots of finished runs: a killed run does not free its own.

    Where Dagster's settings count runs, as those we write do, no run keeps a slot.
    """
    storage = instance.event_log_storage
    for run_id in storage.get_concurrency_run_ids():
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)


# All definitions of one home.


def make_definitions(
    settings: Settings,
    *,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
    lock_wait_s: float = LOCK_WAIT_S,
) -> dg.Definitions:
    """Return everything for one home; `loggers` stand in for Dagster's console output."""
    learning = job_definitions()
    return dg.Definitions(
        assets=[
            *build_assets(
                catalog.all_projections(make_embedder(settings.choices.embedder, settings.home)),
                chosen_mirrors(settings.choices),
            ),
            *build_job_assets(),
            recall_quality,
            past_recalls,
        ],
        jobs=[build_memory, *learning, check_recall, replay_recalls, prune_runs],
        schedules=[
            nightly,
            *job_schedules(learning, jobs_on(settings.home)),
            nightly_quality,
            weekly_prune,
        ],
        sensors=[log_head],
        resources={
            "tenant_store": TenantStore(
                home=str(settings.home),
                embedder=settings.choices.embedder,
                episodes_days=settings.choices.episodes_days,
                quotes=settings.choices.dagster_texts,
                lock_wait_s=lock_wait_s,
            ),
            "turn": TenantLock(home=str(settings.home), wait_s=lock_wait_s),
            "settings": settings,
            "memory_home": settings.home,
            "choices": settings.choices,
        },
        # one process a tenant: a process for each step costs ten times the work itself
        executor=dg.in_process_executor,
        loggers=loggers,
    )
