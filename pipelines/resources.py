"""
TenantStore: the tenant a run is about, its log open and its build lock held for the whole run.

The lock is held by the resource and not by a step, because a build is one candidate folder that
all steps write to. Runs execute in one process, so a resource lives exactly as long as its run,
and the system gives the lock up even where the run is killed.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from pydantic import Field, PrivateAttr

from store import build
from store.embedding import Embedder, embedder
from store.errors import InvalidInput
from store.log import EventLog
from store.tenant import Tenant, existing

TENANTS = dg.DynamicPartitionsDefinition(name="tenants")
GROUP = "memory"  # the assets of a build
OWNERS = ["team:mnemolog"]
LOCK_WAIT_S = 60.0
PARTITION = "dagster/partition"  # the tag of a run that names its tenant


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
        """Hold the run's tenant; raise NotFound, BuildBusy, or a LogError as its log says."""
        run = context.run
        if run is None or PARTITION not in run.tags:
            raise InvalidInput("a build needs a tenant: choose a partition")
        tenant = existing(Path(self.home), run.tags[PARTITION])
        with build.lock(tenant, wait_s=self.lock_wait_s), EventLog(tenant.log) as log:
            self._tenant, self._log = tenant, log
            # one for the whole run: a step of its own would load the model again
            self._model = embedder(self.embedder, Path(self.home))
            yield self

    def start(self, *, full: bool) -> build.Build:
        """Begin a build at the log's head."""
        return build.start(
            self._tenant,
            self._log,
            self._model,
            full=full,
            keep_days=self.episodes_days,
            now=time.time_ns() // 1_000,
        )

    def resume(self) -> build.Build:
        """Return the build that an earlier step, or an earlier run, began."""
        return build.resume(self._tenant, self._log, self._model)
