"""
Resources of every run: its tenant and locks, and the failures that are retried or reported.

`TenantStore` holds the build lock for a whole run and not for a step, because all steps write to
one candidate folder. Runs execute in one process, so a resource lives exactly as long as its run,
and the system releases the lock even if the run is killed.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import filelock
from dagster._core.errors import DagsterAssetCheckFailedError
from pydantic import Field, PrivateAttr

from store.embedders.embedder import Embedder, make_embedder
from store.home import failures
from store.home.config import Settings
from store.home.errors import (
    BuildBusy,
    BuildRefused,
    EmbedderError,
    InvalidInput,
    LogBusy,
    LogFull,
    MnemologError,
)
from store.home.files import make_folder
from store.home.tenant import Tenant, find_tenant, tenant
from store.log.event_clock import wall_clock
from store.log.event_log import EventLog
from store.maintenance import build

TENANTS = dg.DynamicPartitionsDefinition(name="tenants")
GROUP = "memory"  # the assets of a build
OWNERS = ["team:mnemolog"]
LOCK_WAIT_S = 60.0
PARTITION = "dagster/partition"  # the tag of a run that names its tenant
# a run's events are for the UI; the terminal of `mnemolog ui` gets errors alone
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
UNDER_WAY = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
UNFINISHED = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, *UNDER_WAY]


def check_spec(
    name: str, asset: str | dg.AssetKey, description: str, *, blocking: bool = False
) -> dg.AssetCheckSpec:
    """Return a check partitioned by tenant, like its asset."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # of `partitions_def`, in 1.13
        return dg.AssetCheckSpec(
            name,
            asset=asset,
            description=description,
            blocking=blocking,
            partitions_def=TENANTS,
        )


def _tenant_of_run(context: dg.InitResourceContext, home: str, work: str) -> Tenant:
    """Return the tenant whose partition a run is for; raise InvalidInput or NotFound."""
    run = context.run
    if run is None or PARTITION not in run.tags:
        raise InvalidInput(f"{work} needs a tenant: choose a partition")
    return find_tenant(Path(home), run.tags[PARTITION])


class TenantStore(dg.ConfigurableResource["TenantStore"]):
    """Where the memories lie, and how their texts become vectors."""

    home: str = Field(description="The folder of all tenants.")
    embedder: str = Field(description="The embedder's name, as in config.toml.")
    episodes_days: int = Field(0, description="Older episodes are erased first; 0: none.")
    quotes: bool = Field(False, description="Whether metadata quotes memories.")
    lock_wait_s: float = Field(description="How long to wait for another build's end.")

    _tenant: Tenant = PrivateAttr()
    _log: EventLog = PrivateAttr()
    _model: Embedder = PrivateAttr()

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["TenantStore"]:
        """Hold the run's tenant; raise NotFound, BuildBusy, or a LogError from its log."""
        tenant = _tenant_of_run(context, self.home, "a build")
        with build.lock(tenant, wait_s=self.lock_wait_s), EventLog(tenant.log) as log:
            self._tenant, self._log = tenant, log
            # one for the whole run: a step of its own would load the model again
            self._model = make_embedder(self.embedder, Path(self.home))
            yield self

    def start(self, *, full: bool, accepts: bool = False) -> build.Build:
        """Begin a build at the log's head."""
        return build.start(
            self._tenant,
            self._log,
            self._model,
            full=full,
            accepts=accepts,
            keep_days=self.episodes_days,
            now=wall_clock(),
        )

    def resume(self) -> build.Build:
        """Return the build that an earlier step, or an earlier run, began."""
        return build.resume(self._tenant, self._log, self._model)


# One run of jobs for a tenant at a time. A job holds no build lock, so a slow model delays no
# build; this lock, which the system releases with its holder, shows that a run is alive.


@contextmanager
def hold_tenant_lock(tenant: Tenant, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a tenant's lock for runs; raise BuildBusy where another run holds it longer."""
    make_folder(tenant.root)
    try:
        with filelock.FileLock(tenant.root / "learning.lock", timeout=wait_s, mode=0o600):
            yield
    except filelock.Timeout:
        raise BuildBusy(f"{tenant.name} is learning already: try again later") from None


class TenantLock(dg.ConfigurableResource["TenantLock"]):
    """The tenant a run is about, whose turn it holds until the run is over."""

    home: str = Field(description="The folder of all tenants.")
    wait_s: float = Field(description="How long to wait for another run's end.")

    _tenant: Tenant = PrivateAttr()

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["TenantLock"]:
        """Raise NotFound or BuildBusy."""
        self._tenant = _tenant_of_run(context, self.home, "a job")
        with hold_tenant_lock(self._tenant, wait_s=self.wait_s):
            yield self

    @property
    def tenant(self) -> Tenant:
        return self._tenant


# Retries: only of temporary failures. No asset has this policy itself: Dagster retries such a
# step after Ctrl-C too (`op_execution_error_boundary`, 1.13), and a build could not be stopped.

RETRIES = dg.RetryPolicy(max_retries=2, delay=1.0, backoff=dg.Backoff.EXPONENTIAL)
_PASSING = (LogBusy, LogFull, EmbedderError, OSError)


@contextmanager
def retry_or_fail(retry_number: int) -> Iterator[None]:
    """Request a retry after a temporary failure, and fail at once with our own errors.

    `retry_number` is 0 in a step's first attempt.
    """
    try:
        yield
    except _PASSING as error:
        raise dg.RetryRequested(
            RETRIES.max_retries, RETRIES.calculate_delay(retry_number + 1)
        ) from error
    except BuildRefused as error:
        reasons = "\n".join(f"- {reason}" for reason in str(error).split("; "))
        raise dg.Failure(
            str(error), metadata={"why": dg.MetadataValue.md(reasons)}, allow_retries=False
        ) from error
    except MnemologError as error:
        raise dg.Failure(f"{type(error).__name__}: {error}", allow_retries=False) from error


# Failure hooks: `mnemolog doctor` shows background failures until the same step succeeds. A refused
# build is recorded beside the last good manifest instead.


@dg.failure_hook(required_resource_keys={"settings"})
def keep_failure(context: dg.HookContext) -> None:
    """Keep a step's failure, by the step's name."""
    error = context.op_exception
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BuildRefused | DagsterAssetCheckFailedError):
        return
    text = f"{type(error).__name__}: {error}" if error else "it did not say why"
    failures.keep(_root(context), _name(context), wall_clock(), text, context.run_id)


@dg.success_hook(required_resource_keys={"settings"})
def forget_failure(context: dg.HookContext) -> None:
    """Drop the kept failures of a step, and of its job if that was killed."""
    root = _root(context)
    failures.forget(root, _name(context))
    failures.forget(root, context.job_name)


HOOKS = frozenset({keep_failure, forget_failure})


def _name(context: dg.HookContext) -> str:
    return context.op.name.replace("__", ".")


def _root(context: dg.HookContext) -> Path:
    """Return the folder of the run's tenant, or the home's."""
    settings: Settings = context.resources.settings
    run = context.instance.get_run_by_id(context.run_id)
    name = run.tags.get(PARTITION) if run else None
    return tenant(settings.home, name).root if name else settings.home
