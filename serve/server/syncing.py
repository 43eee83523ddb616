"""
Syncing: a thread that syncs this home's memories with the person's other machines, for the tenants
that have sync set up.

Events written here are sent within seconds; the others' events are requested as often as the cost
of looking allows. A place that does not answer is retried now and then, and no request waits for
it.
"""

import logging
import threading
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
ASK_S = 10.0  # between requests for the others' events
RETRY_S = 60.0
BRING_IN_S = 0.8  # at a session's start, of the 1.5 s that its hook has
_SHARE = 20  # a tenant's sync takes at most one part in so many of its time
_FAILED = "failed"  # in place of stamps


class Syncing:
    """The work of a server's sync thread. Threads may share it."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._opened: dict[str, TenantSync] = {}
        self._stamps: dict[str, object] = {}
        self._due: dict[str, float] = {}  # when each tenant is due again, monotonic
        self._working = threading.Lock()
        self._bringing: dict[str, threading.Thread] = {}

    def look(self) -> float:
        """Sync the due tenants; return the seconds to wait before the next call."""
        home = self._settings().home
        for tenant in list_tenants(home) if home.exists() else ():
            if (tenant.root / "sync").exists():  # few are synced
                with self._working:
                    self._look_at(tenant)
        return EVERY_S

    def bring_in(self, tenant: Tenant) -> None:
        """Receive what other machines wrote, for the session that begins here.

        A place that takes longer than BRING_IN_S is left to itself, and no other session waits for
        it meanwhile; one that failed is left to the next `look`.
        """
        if self._stamps.get(tenant.name) == _FAILED or not (tenant.root / "sync").exists():
            return
        under_way = self._bringing.get(tenant.name)
        if under_way is not None and under_way.is_alive():
            return
        thread = threading.Thread(target=self._look_now, args=(tenant,), daemon=True)
        self._bringing[tenant.name] = thread
        thread.start()
        thread.join(BRING_IN_S)

    def _look_now(self, tenant: Tenant) -> None:
        with self._working:
            self._due[tenant.name] = 0.0
            self._look_at(tenant)

    def _look_at(self, tenant: Tenant) -> None:
        """Sync a tenant if its log changed or it is due; only if it is due after a failed try."""
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
    """Return stamps that change with a tenant's log and with its sync place."""
    log_file, place = tenant.log, tenant.root / "sync" / "place.json"
    return tuple(
        file_stamp(path) for path in (log_file, log_file.with_name(f"{log_file.name}-wal"), place)
    )
