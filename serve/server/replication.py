"""
Replication: a thread that sends the new events of this home's logs to its replica, if it has one.

The replica's place may not answer for hours: it is retried now and then, no request waits for it,
and errors are kept for `status` and `doctor`. When the server ends, new events are sent once more.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from store.home.config import Settings
from store.home.errors import MnemologError

if TYPE_CHECKING:
    from store.replica.replica import HomeReplica

log = logging.getLogger("mnemolog")

EVERY_S = 1.0
RETRY_S = 30.0
_SHARE = 10  # it spends at most a tenth of its time looking at a home of many tenants


class Replication:
    """The work of a replication thread. `settings` are read each time: the place may change."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._replica: HomeReplica | None = None

    def send(self) -> float:
        """Send the new events; return the seconds to wait before the next call."""
        settings = self._settings()
        url = settings.choices.replica
        if not url:
            self._replica = None
            return EVERY_S
        began = time.monotonic()
        try:
            if self._replica is None or self._replica.remote.url != url:
                from store.replica.remote import open_remote  # few homes have one
                from store.replica.replica import HomeReplica

                self._replica = HomeReplica(settings.home, open_remote(url))
            outcomes = [outcome for _, outcome in self._replica.sync(time.time_ns() // 1_000)]
        except (MnemologError, OSError) as error:
            outcomes = [error]
        failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        for failure in failed:
            log.warning("the replica is behind: %s", failure)
        return RETRY_S if failed else max(EVERY_S, _SHARE * (time.monotonic() - began))
