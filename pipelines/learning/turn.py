"""
Turn: who may learn. One run of a tenant at a time, from its first step to its last.

A job holds no build lock while it thinks, so that a slow model keeps no build waiting; that a run
is alive is told by this lock, which the system gives up with its holder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import filelock
from pydantic import Field, PrivateAttr

from pipelines.resources import PARTITION
from store.errors import BuildBusy, InvalidInput
from store.files import make_folder
from store.tenant import Tenant, existing


@contextmanager
def held(tenant: Tenant, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a tenant's turn; raise BuildBusy where another run holds it longer."""
    make_folder(tenant.root)
    try:
        with filelock.FileLock(tenant.root / "learning.lock", timeout=wait_s, mode=0o600):
            yield
    except filelock.Timeout:
        raise BuildBusy(f"{tenant.name} is learning already: try again later") from None


class Turn(dg.ConfigurableResource["Turn"]):
    """The tenant a run is about, whose turn it holds until the run is over."""

    home: str = Field(description="The folder of all tenants.")
    wait_s: float = Field(description="How long to wait for another run's end.")

    _tenant: Tenant = PrivateAttr()

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["Turn"]:
        """Raise NotFound or BuildBusy."""
        run = context.run
        if run is None or PARTITION not in run.tags:
            raise InvalidInput("a job needs a tenant: choose a partition")
        self._tenant = existing(Path(self.home), run.tags[PARTITION])
        with held(self._tenant, wait_s=self.wait_s):
            yield self

    @property
    def tenant(self) -> Tenant:
        return self._tenant
