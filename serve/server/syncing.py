"""
Syncing: a thread that brings the memories of this home together with those of the person's other
machines, where they are synced.

What was written here is sent within seconds; what others wrote is asked for as often as looking
costs little. A place that does not answer is asked again now and then, and nobody waits for it.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from store.home import failures
from store.home.config import Settings
from store.home.errors import MnemologError
from store.home.files import FileStamp, file_stamp
from store.home.tenant import Tenant, list_tenants

if TYPE_CHECKING:
    from store.sync.sync import TenantSync

log = logging.getLogger("mnemolog")

EVERY_S = 2.0  # between looks at this home's logs
ASK_S = 10.0  # between questions what others wrote
RETRY_S = 60.0
_SHARE = 20  # of its time that a tenant's sync takes at most: one part in so many
_FAILED = "failed"  # in place of stamps


class Syncing:
    """What the thread of one server does."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._opened: dict[str, TenantSync] = {}
        self._stamps: dict[str, object] = {}
        self._due: dict[str, float] = {}  # when each tenant is asked for again, monotonic

    def look(self) -> float:
        """Sync the tenants that are to be; return for how many seconds to wait now."""
        home = self._settings().home
        for tenant in list_tenants(home) if home.exists() else ():
            if (tenant.root / "sync").exists():  # few are synced
                self._look_at(tenant)
        return EVERY_S

    def _look_at(self, tenant: Tenant) -> None:
        """Sync a tenant where its log changed or its time has come; only the latter where the last
        try failed.
        """
        began = time.monotonic()
        stamps = _stamps(tenant)
        is_due = began >= self._due.get(tenant.name, 0.0)
        if not is_due and self._stamps.get(tenant.name) in (stamps, _FAILED):
            return
        try:
            self._sync(tenant)
            self._stamps[tenant.name] = _stamps(tenant)
            wait_s = max(ASK_S, _SHARE * (time.monotonic() - began))
        except (MnemologError, OSError) as error:
            from store.sync.membership import KIND

            failures.keep(tenant.root, KIND, time.time_ns() // 1_000, str(error))
            log.warning("%s is not in step: %s", tenant.name, error)
            self._stamps[tenant.name] = _FAILED
            wait_s = RETRY_S
        self._due[tenant.name] = time.monotonic() + wait_s

    def _sync(self, tenant: Tenant) -> None:
        from store.sync import membership
        from store.sync.sync import open_sync

        now = time.time_ns() // 1_000
        opened = self._opened.get(tenant.name)
        if opened is None or opened.place != membership.read_place(tenant):
            if (opened := open_sync(tenant, now)) is None:
                return
            self._opened[tenant.name] = opened
        opened.sync(now)


def _stamps(tenant: Tenant) -> tuple[FileStamp | None, ...]:
    """Return what changes with a tenant's log, and with where it is synced."""
    log_file, place = tenant.log, tenant.root / "sync" / "place.json"
    return tuple(
        file_stamp(path) for path in (log_file, log_file.with_name(f"{log_file.name}-wal"), place)
    )
