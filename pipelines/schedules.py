"""
When to build: a sensor that looks at every log's head, and a schedule that builds all by night.

The sensor is level-triggered: it compares what is published with what is in the log, so whatever
was missed while nobody looked is caught at the next look. Whether a build is running it asks the
build lock, which the system gives up with its holder, and not a run's status, which outlives it.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import dagster as dg

from pipelines.hooks import HOOKS
from pipelines.learning import turn
from pipelines.prune import prune_runs
from pipelines.resources import GROUP, PARTITION, TENANTS
from store import build, failures
from store.errors import BuildBusy, LogError, SnapshotError
from store.log import EventLog
from store.snapshots import manifest as manifests
from store.tenant import Tenant, tenants

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
    # a run's events are for the UI; the terminal that `mnemolog ui` runs in gets what went wrong
    config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
    hooks=HOOKS,
    description="Build every projection of one tenant, check them, publish the manifest.",
)


@dg.sensor(
    job=build_memory,
    minimum_interval_seconds=LOOK_EVERY_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Asks for a build where the log holds more than what is served.",
)
def log_head(
    context: dg.SensorEvaluationContext, memory_home: dg.ResourceParam[Path]
) -> dg.SensorResult:
    """Request one run for each tenant whose log moved on; recalls alone move nothing."""
    there = list(tenants(memory_home))
    requests = []
    for one in there:
        try:
            with build.lock(one):
                _bury(context.instance, one)
                mark = _unpublished(one)
        except BuildBusy:
            context.log.info(f"{one.name}: being built now")
        except LogError as error:
            context.log.error(f"{one.name}: {error}")
        else:
            if mark is not None:
                requests.append(dg.RunRequest(f"{one.name}:{mark}", partition_key=one.name))
    _free_pools(context.instance)
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=_new_partitions(context.instance, there),
        skip_reason=None if requests else f"{len(there)} tenants, nothing new in any log",
    )


@dg.schedule(
    job=build_memory,
    cron_schedule="30 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Builds every tenant by night, so that recalls are counted without any change.",
)
def nightly(
    context: dg.ScheduleEvaluationContext, memory_home: dg.ResourceParam[Path]
) -> Iterator[dg.RunRequest]:
    there = list(tenants(memory_home))
    context.instance.add_dynamic_partitions(str(TENANTS.name), [one.name for one in there])
    for one in there:
        key = f"{one.name}:{context.scheduled_execution_time:%Y-%m-%d}"
        yield dg.RunRequest(key, partition_key=one.name)


weekly_prune = dg.ScheduleDefinition(
    name="weekly_prune",
    job=prune_runs,
    cron_schedule="0 4 * * 0",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Drops what Dagster kept of old runs; nothing else ever does.",
)


def _unpublished(tenant: Tenant) -> int | None:
    """Return the seq of the last change, where it is beyond what is published."""
    with EventLog(tenant.log) as log:
        mark = log.last_change()
    try:
        published = manifests.current(tenant).watermark
    except SnapshotError:
        published = -1
    return mark if mark > published else None


def _new_partitions(
    instance: dg.DagsterInstance, there: list[Tenant]
) -> list[dg.AddDynamicPartitionsRequest]:
    known = set(instance.get_dynamic_partitions(str(TENANTS.name)))
    new = [one.name for one in there if one.name not in known]
    return [TENANTS.build_add_request(new)] if new else []


def _bury(instance: dg.DagsterInstance, tenant: Tenant) -> None:
    """Report killed runs of a tenant as failed, or they hold their place in the queue for ever.

    Call it while holding the tenant's build lock: a build that is alive would hold it, as a run
    that learns would hold its turn.
    """
    filters = dg.RunsFilter(statuses=_UNDER_WAY, tags={PARTITION: tenant.name})
    under_way = instance.get_run_records(filters)
    if not under_way:
        return
    with suppress(BuildBusy), turn.held(tenant):
        for record in under_way:
            run, began = record.dagster_run, record.start_time
            if time.time() - (began or record.create_timestamp.timestamp()) > DEAD_AFTER_S:
                instance.report_run_failed(run, _SILENT)
                at = time.time_ns() // 1_000
                failures.keep(tenant.root, run.job_name, at, _SILENT, run.run_id)


def _free_pools(instance: dg.DagsterInstance) -> None:
    """Give back the places in a pool that runs kept which are over: a killed one gives none back.

    Where Dagster's settings count runs, as those we write do, there are none to give back.
    """
    storage = instance.event_log_storage
    for run_id in storage.get_concurrency_run_ids():
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)
