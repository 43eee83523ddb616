"""
The definitions: the Dagster jobs and their sensors and schedules.

A sensor compares every log's head with the published build and requests builds. It is
level-triggered: a missed change is caught at the next tick. It checks the build lock, which the
system releases with its holder, for a running build, and not a run's status, which outlives it.
Schedules build all tenants every night, run the jobs a tenant has switched on, and prune old runs.
"""

import shutil
import time
import warnings
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field

from pipelines.jobs import find_job
from pipelines.orchestration import run_resources, tenant_buckets
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
    QUIET,
    TENANTS,
    UNDER_WAY,
    TenantLock,
    TenantStore,
)
from pipelines.orchestration.tenant_buckets import OWN_RUN, build_tenants
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
            config=QUIET,
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

build_memory = dg.define_asset_job(
    "build_memory",
    selection=dg.AssetSelection.groups(GROUP),
    config=QUIET,
    hooks=HOOKS,
    description="Build every projection of one tenant, check them, publish the manifest.",
)


@dg.sensor(
    jobs=[build_memory, build_tenants],
    minimum_interval_seconds=LOOK_EVERY_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Requests a build when the log has events that no published manifest covers.",
)
def log_head(
    context: dg.SensorEvaluationContext, memory_home: dg.ResourceParam[Path]
) -> dg.SensorResult:
    """Request a build of each tenant whose log moved on; recalls alone move nothing."""
    instance, tenants = context.instance, list(list_tenants(memory_home))
    _fail_dead_buckets(instance, memory_home)
    under_way = _runs_by_tenant(instance)
    due = {}
    for tenant in tenants:
        try:
            with build.lock(tenant):
                _fail_dead_runs(instance, tenant, under_way.get(tenant.name, ()))
                mark = _head_to_build(tenant)
        except BuildBusy:
            context.log.info(f"{tenant.name}: being built now")
        except LogError as error:
            context.log.error(f"{tenant.name}: {error}")
        else:
            if mark is not None:
                due[tenant.name] = mark
    _free_pool_slots(instance)
    partitions = set(instance.get_dynamic_partitions(str(TENANTS.name)))
    new = [tenant.name for tenant in tenants if tenant.name not in partitions]
    requests = (
        tenant_buckets.requests(due, memory_home, instance)
        if len(due) > OWN_RUN
        else [
            dg.RunRequest(f"{name}:{mark}", job_name=build_memory.name, partition_key=name)
            for name, mark in due.items()
        ]
    )
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[TENANTS.build_add_request(new)] if new else [],
        skip_reason=None if requests else f"{len(tenants)} tenants, nothing new in any log",
    )


# A schedule has one job, so there is one for few tenants and one for many.

_NIGHTLY = "30 3 * * *"
_BY_NIGHT = "Builds every tenant each night, so that recalls count without a new memory"


@dg.schedule(
    job=build_memory,
    cron_schedule=_NIGHTLY,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=f"{_BY_NIGHT}; of more than {OWN_RUN} tenants, nightly_tenants does.",
)
def nightly(
    context: dg.ScheduleEvaluationContext, memory_home: dg.ResourceParam[Path]
) -> list[dg.RunRequest] | dg.SkipReason:
    names = [tenant.name for tenant in list_tenants(memory_home)]
    if len(names) > OWN_RUN:
        return dg.SkipReason(f"{len(names)} tenants: nightly_tenants builds them")
    context.instance.add_dynamic_partitions(str(TENANTS.name), names)
    day = f"{context.scheduled_execution_time:%Y-%m-%d}"
    return [dg.RunRequest(f"{name}:{day}", partition_key=name) for name in names]


@dg.schedule(
    job=build_tenants,
    cron_schedule=_NIGHTLY,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=f"{_BY_NIGHT}, a bucket of tenants in a run; of up to {OWN_RUN}, nightly does.",
)
def nightly_tenants(
    context: dg.ScheduleEvaluationContext, memory_home: dg.ResourceParam[Path]
) -> list[dg.RunRequest] | dg.SkipReason:
    names = [tenant.name for tenant in list_tenants(memory_home)]
    if len(names) <= OWN_RUN:
        return dg.SkipReason(f"{len(names)} tenants: nightly builds them")
    day = f"{context.scheduled_execution_time:%Y-%m-%d}"
    return [
        tenant_buckets.request(bucket, f"{bucket[0]}:{day}")
        for bucket in tenant_buckets.split(names)
    ]


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


def _runs_by_tenant(instance: dg.DagsterInstance) -> dict[str, list[dg.RunRecord]]:
    """Return the runs under way, by the tenants whose partitions they are for."""
    by_tenant: dict[str, list[dg.RunRecord]] = {}
    for record in instance.get_run_records(dg.RunsFilter(statuses=UNDER_WAY)):
        if name := record.dagster_run.tags.get(PARTITION):
            by_tenant.setdefault(name, []).append(record)
    return by_tenant


def _fail_dead_runs(
    instance: dg.DagsterInstance, tenant: Tenant, under_way: Sequence[dg.RunRecord]
) -> None:
    """Report killed runs of a tenant as failed: else they stay in the queue for ever.

    Call it while holding the tenant's build lock: a live build would hold it, as a live learning
    run would hold the tenant's lock for runs.
    """
    if not under_way:
        return
    with suppress(BuildBusy), run_resources.hold_tenant_lock(tenant):
        for record in under_way:
            if _is_overdue(record):
                run = record.dagster_run
                instance.report_run_failed(run, _SILENT)
                at = wall_clock()
                failures.keep(tenant.root, run.job_name, at, _SILENT, run.run_id)


def _fail_dead_buckets(instance: dg.DagsterInstance, home: Path) -> None:
    """Report killed runs of buckets as failed: else their tenants count as being built for ever."""
    filters = dg.RunsFilter(job_name=tenant_buckets.JOB, statuses=UNDER_WAY)
    for record in instance.get_run_records(filters):
        run = record.dagster_run
        if _is_overdue(record) and tenant_buckets.is_dead(home, run.run_id):
            instance.report_run_failed(run, _SILENT)


def _is_overdue(record: dg.RunRecord) -> bool:
    began = record.start_time or record.create_timestamp.timestamp()
    return time.time() - began > DEAD_AFTER_S


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
    definitions = dg.Definitions(
        assets=[
            *build_assets(
                catalog.all_projections(make_embedder(settings.choices.embedder, settings.home)),
                chosen_mirrors(settings.choices),
            ),
            *build_job_assets(),
            recall_quality,
            past_recalls,
        ],
        jobs=[build_memory, build_tenants, *learning, check_recall, replay_recalls, prune_runs],
        schedules=[
            nightly,
            nightly_tenants,
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
    with warnings.catch_warnings():
        # it copies a sensor whose job takes resources, and warns of a parameter of its own copy
        warnings.simplefilter("ignore", dg.BetaWarning)
        definitions.get_repository_def()  # kept for whoever asks for a job
    return definitions
