"""
One run for one tenant in this process: the same job that the UI runs, without a server.
"""

from collections.abc import Iterator

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.events import EngineEventData, JobFailureData
from dagster._core.execution.plan.objects import StepFailureData
from dagster_shared.error import SerializableErrorInfo

from pipelines import home, progress
from pipelines.assets import BuildConfig
from pipelines.definitions import definitions
from pipelines.metadata import QUARANTINED
from pipelines.prune import KEEP_RUNS, prune
from pipelines.resources import LOCK_WAIT_S, TENANTS
from store.build import MOST_ROUNDS
from store.config import Settings
from store.errors import BuildBusy, BuildRefused, MnemologError
from store.snapshots import manifest as manifests
from store.snapshots.manifest import Manifest
from store.tenant import Tenant, existing

_INTERRUPTIONS = {KeyboardInterrupt.__name__, DagsterExecutionInterruptedError.__name__}


class BuildFailed(MnemologError):
    pass


def build(
    settings: Settings,
    tenant_name: str,
    report: progress.Report,
    *,
    full: bool = False,
    wait_s: float = LOCK_WAIT_S,
) -> Manifest:
    """Build, check and publish a tenant; return the manifest.

    Where memories alone failed a check, they are quarantined and it runs again without them.
    Raise NotFound, BuildBusy, BuildRefused naming every check that failed, or BuildFailed saying
    what did; KeyboardInterrupt where it was stopped. Whatever is raised, what was served still is.
    """
    tenant = existing(settings.home, tenant_name)
    config = dg.RunConfig(ops={"event_log": BuildConfig(full=full)}, loggers={"console": {}})
    for _ in range(MOST_ROUNDS):
        result = execute(settings, tenant, "build_memory", config, report, wait_s=wait_s)
        if result.success or not _has_taken_out(result):
            break
    if not result.success:
        raise reason(result)
    (made,) = result.asset_materializations_for_node("published_manifest")
    number = made.metadata["manifest"].value
    return next(one for one in manifests.kept(tenant) if one.number == number)


def _has_taken_out(result: dg.ExecuteInProcessResult) -> bool:
    """Return whether checks failed only on memories that another run builds without."""
    failed = _failed(result)
    return bool(failed) and all(QUARANTINED in one.metadata for one in failed)


def execute(
    settings: Settings,
    tenant: Tenant,
    job: str,
    config: dg.RunConfig,
    report: progress.Report,
    *,
    wait_s: float,
) -> dg.ExecuteInProcessResult:
    """Run one of Dagster's jobs for a tenant; return how it went, also where it failed."""
    loggers = {"console": progress.logger(report)}
    with home.instance(settings) as instance:
        instance.add_dynamic_partitions(str(TENANTS.name), [tenant.name])
        defs = definitions(settings, loggers=loggers, lock_wait_s=wait_s)
        result = defs.resolve_job_def(job).execute_in_process(
            run_config=config,
            instance=instance,
            partition_key=tenant.name,
            tags={"mnemolog/by": "cli"},
            raise_on_error=False,
        )
        if instance.get_runs_count() > 2 * KEEP_RUNS:
            prune(instance)
    return result


def reason(result: dg.ExecuteInProcessResult) -> MnemologError:
    """Return what to tell the caller of a run that failed.

    Raise KeyboardInterrupt where it was stopped.
    """
    if failed := _failed(result):
        return BuildRefused("\n".join(f"{one.check_name}: {one.description}" for one in failed))
    for error in _errors(result):
        chain = list(_chain(error))
        for one in chain:
            if one.cls_name in _INTERRUPTIONS:
                raise KeyboardInterrupt
            if one.cls_name == BuildBusy.__name__:
                return BuildBusy(_message(one))
            if one.cls_name == BuildRefused.__name__:
                return BuildRefused(_message(one))
        return BuildFailed(innermost(error))
    return BuildFailed(f"run {result.run_id} failed without saying why: see `mnemolog ui`")


def _failed(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    """Return the checks that stopped a run, not those that only warn."""
    return [
        one
        for one in result.get_asset_check_evaluations()
        if not one.passed and one.severity is dg.AssetCheckSeverity.ERROR
    ]


def _errors(result: dg.ExecuteInProcessResult) -> Iterator[SerializableErrorInfo]:
    for event in result.all_events:
        data = event.event_specific_data
        if isinstance(data, StepFailureData | JobFailureData | EngineEventData) and data.error:
            yield data.error


def _chain(error: SerializableErrorInfo) -> Iterator[SerializableErrorInfo]:
    """Yield an error and its causes, the innermost last."""
    current: SerializableErrorInfo | None = error
    while current is not None:
        yield current
        current = current.cause


def innermost(error: SerializableErrorInfo) -> str:
    """Return the words of what an error came from."""
    return _message([*_chain(error)][-1])


def _message(error: SerializableErrorInfo) -> str:
    """Return an error's own words, without the name of its class."""
    first = error.message.strip()
    return first.split(": ", 1)[-1] if error.cls_name and error.cls_name in first[:80] else first
