"""
Runs in this process, without a server: the Dagster jobs of the UI, run for one tenant.

They are recorded like the UI's runs and shown there. Progress on the terminal is a Dagster logger.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Literal

import dagster as dg
import msgspec
from dagster import DagsterEvent, DagsterEventType
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.events import EngineEventData, JobFailureData
from dagster._core.execution.plan.objects import StepFailureData
from dagster_shared.error import SerializableErrorInfo
from rich.console import Console
from rich.status import Status

from pipelines.orchestration import dagster_home
from pipelines.orchestration.assets import BuildConfig
from pipelines.orchestration.definitions import KEEP_RUNS, dagster_name, make_definitions, prune
from pipelines.orchestration.job_assets import LEARNING_GROUP, NONE, job_order
from pipelines.orchestration.metadata import QUARANTINED, ROWS
from pipelines.orchestration.run_resources import LOCK_WAIT_S, TENANTS
from store.home.config import Settings
from store.home.errors import BuildBusy, BuildRefused, InvalidInput, MnemologError
from store.home.tenant import Tenant, find_tenant
from store.maintenance.build import MOST_ROUNDS
from store.plans.job_catalog import LEARN
from store.snapshots import manifest as manifests
from store.snapshots.manifest import Manifest

# Progress: the logger gets every event while the run goes on.

Report = Callable[[DagsterEvent | str], None]  # an event, or a step's progress message


class Progress:
    """A display of the running step, and a line for each finished one; use it in a `with`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("starting", console=console)
        self._rows: dict[str, int] = {}

    def __enter__(self) -> "Progress":
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def report(self, event: DagsterEvent | str) -> None:
        if isinstance(event, str):
            self._status.update(event)
            return
        if event.event_type is DagsterEventType.RESOURCE_INIT_STARTED:
            self._status.update("waiting for another run's end")
        if event.step_key is None:
            return
        name = event.step_key.rpartition("__")[2]  # without the group that an asset's key names
        if event.event_type is DagsterEventType.STEP_START:
            self._status.update(name)
        elif event.event_type is DagsterEventType.ASSET_MATERIALIZATION:
            rows = event.step_materialization_data.materialization.metadata.get(ROWS)
            if rows is not None and isinstance(rows.value, int):
                self._rows[name] = rows.value
        elif event.event_type is DagsterEventType.STEP_SUCCESS:
            seconds = event.step_success_data.duration_ms / 1_000
            rows_shown = f"{self._rows[name]:>12,} rows" if name in self._rows else ""
            self._console.print(f"{name:<20}{seconds:>7.2f} s{rows_shown}", highlight=False)
        elif event.event_type is DagsterEventType.STEP_UP_FOR_RETRY:
            self._console.print(f"{name:<20} failed, tried again", style="yellow")
        elif event.event_type is DagsterEventType.STEP_FAILURE:
            self._console.print(f"{name:<20} failed", style="red")


def logger(report: Report) -> dg.LoggerDefinition:
    """Return a logger that passes each event to `report` and writes nothing itself."""

    def progress(_: dg.InitLoggerContext) -> logging.Logger:
        progress_logger = logging.Logger("mnemolog.progress", logging.DEBUG)
        progress_logger.addHandler(_Handler(report))
        return progress_logger

    return dg.LoggerDefinition(progress, description="progress, in place of console output")


class _Handler(logging.Handler):
    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        meta = getattr(record, "dagster_meta", {})
        event = meta.get("dagster_event")
        if isinstance(event, DagsterEvent):
            self._report(event)
        elif record.levelno == logging.INFO and meta.get("step_key"):
            self._report(f"{meta['step_key']}: {meta['orig_message']}")


_INTERRUPTIONS = {KeyboardInterrupt.__name__, DagsterExecutionInterruptedError.__name__}


class BuildFailed(MnemologError):
    pass


def build(
    settings: Settings,
    tenant_name: str,
    report: Report,
    *,
    full: bool = False,
    accepts: bool = False,
    wait_s: float = LOCK_WAIT_S,
) -> Manifest:
    """Build, check and publish a tenant; return the manifest.

    Where memories alone failed a check, they are quarantined and it runs again without them.
    Raise NotFound, BuildBusy, BuildRefused naming every failed check, or BuildFailed naming the
    failure; KeyboardInterrupt if interrupted. After any error the last good build is still served.
    """
    tenant = find_tenant(settings.home, tenant_name)
    config = dg.RunConfig(
        ops={"event_log": BuildConfig(full=full, accepts=accepts)}, loggers={"console": {}}
    )
    for _ in range(MOST_ROUNDS):
        result = execute(settings, tenant, "build_memory", config, report, wait_s=wait_s)
        failed = _blocking_checks(result)
        # another run builds without the memories that are quarantined now
        is_retried = failed and all(QUARANTINED in check.metadata for check in failed)
        if result.success or not is_retried:
            break
    if not result.success:
        raise failure_reason(result)
    (materialization,) = result.asset_materializations_for_node("published_manifest")
    number = materialization.metadata["manifest"].value
    return next(
        manifest for manifest in manifests.list_manifests(tenant) if manifest.number == number
    )


def execute(
    settings: Settings,
    tenant: Tenant,
    job: str,
    config: dg.RunConfig,
    report: Report,
    *,
    wait_s: float,
) -> dg.ExecuteInProcessResult:
    """Run one of Dagster's jobs for a tenant; return its result, failed or not."""
    loggers = {"console": logger(report)}
    with dagster_home.instance(settings) as instance:
        instance.add_dynamic_partitions(str(TENANTS.name), [tenant.name])
        defs = make_definitions(settings, loggers=loggers, lock_wait_s=wait_s)
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


def failure_reason(result: dg.ExecuteInProcessResult) -> MnemologError:
    """Return the error that explains a failed run.

    Raise KeyboardInterrupt where it was stopped.
    """
    if failed := _blocking_checks(result):
        reasons = (f"{check.check_name}: {check.description}" for check in failed)
        return BuildRefused("\n".join(reasons))
    for event in result.all_events:
        data = event.event_specific_data
        if not isinstance(data, StepFailureData | JobFailureData | EngineEventData):
            continue
        if data.error is None:
            continue
        for cause in _chain(data.error):
            if cause.cls_name in _INTERRUPTIONS:
                raise KeyboardInterrupt
            if cause.cls_name == BuildBusy.__name__:
                return BuildBusy(_message(cause))
            if cause.cls_name == BuildRefused.__name__:
                return BuildRefused(_message(cause))
        return BuildFailed(innermost(data.error))
    return BuildFailed(f"run {result.run_id} failed without saying why: see `mnemolog ui`")


def _blocking_checks(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    """Return the checks that stopped a run, not those that only warn."""
    return [
        evaluation
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.ERROR
    ]


def _chain(error: SerializableErrorInfo) -> Iterator[SerializableErrorInfo]:
    """Yield an error and its causes, the innermost last."""
    current: SerializableErrorInfo | None = error
    while current is not None:
        yield current
        current = current.cause


def innermost(error: SerializableErrorInfo) -> str:
    """Return the message of an error's first cause."""
    return _message([*_chain(error)][-1])


def _message(error: SerializableErrorInfo) -> str:
    """Return an error's own words, without the name of its class."""
    first = error.message.strip()
    return first.split(": ", 1)[-1] if error.cls_name and error.cls_name in first[:80] else first


# Jobs.


class JobResult(msgspec.Struct, frozen=True):
    """The result of one job. `plan` is None where it had nothing to do, `state` is its plan's.

    `warnings` are the failed checks, or the job's error.
    """

    job: str
    outcome: Literal["done", "failed"]
    plan: str | None = None
    state: str = ""
    steps: int = 0
    warnings: tuple[str, ...] = ()


def learn(
    settings: Settings,
    tenant_name: str,
    name: str,
    report: Report,
    *,
    wait_s: float = LOCK_WAIT_S,
) -> list[JobResult]:
    """Run a job, or all of them under the name "learn"; return their results, in order.

    A failed job does not stop the others. Raise NotFound, BuildBusy, or InvalidInput for an unknown
    job; KeyboardInterrupt if interrupted.
    """
    tenant = find_tenant(settings.home, tenant_name)
    names = job_order() if name == LEARN else (name,)
    if not set(names) <= set(job_order()):
        choices = ", ".join((*job_order(), LEARN))
        raise InvalidInput(f"unknown job {name!r}: choose from {choices}")
    config = dg.RunConfig(loggers={"console": {}})
    result = execute(settings, tenant, dagster_name(name), config, report, wait_s=wait_s)
    results = [own for job in names if (own := _job_result(result, job)) is not None]
    if not result.success and not any(job_result.outcome == "failed" for job_result in results):
        raise failure_reason(result)
    return results


def _job_result(result: dg.ExecuteInProcessResult, job: str) -> JobResult | None:
    """Return the result of a job's step; None where it never began."""
    step = f"{LEARNING_GROUP}__{job}"
    events = [other for other in result.all_events if other.step_key == step]
    for event in events:
        if event.is_step_failure and (error := event.step_failure_data.error) is not None:
            return JobResult(job, "failed", warnings=(innermost(error),))
    materializations = list(result.asset_materializations_for_node(step))
    if not materializations:
        return None
    metadata = materializations[0].metadata
    plan = str(metadata["plan"].value)
    return JobResult(
        job,
        "done",
        plan=None if plan == NONE else plan,
        state=str(metadata["state"].value),
        steps=int(str(metadata["steps"].value)),
        warnings=tuple(
            f"{evaluation.check_name}: {evaluation.description}"
            for evaluation in result.get_asset_check_evaluations()
            if evaluation.asset_key.path[-1] == job and not evaluation.passed
        ),
    )
