"""
Recording: a leased job's memories go into the log, in small steps, each held before the next.
"""

import os
import secrets
from collections.abc import Callable, Sequence

from store.home.errors import InvalidInput
from store.home.registry import lives
from store.ingest.batch import Refused
from store.ingest.job import Lease
from store.ingest.job_queue import Queue
from store.log.event_log import EventLog
from store.log.events import Event

STEP = 100  # events a transaction: what recall has to lay over its snapshots in one go


def new_owner() -> str:
    """Return a name under which this process leases jobs."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """Return whether the process of a name that `new_owner` gave is no more."""
    return not lives(int(owner.partition("-")[0]))


def record(
    queue: Queue,
    log: EventLog,
    lease: Lease,
    clock: Callable[[], int],
    *,
    on_step: Callable[[], bool] = lambda: True,
) -> bool:
    """Record what is left of a job; return whether it was ours to the end.

    `on_step` is asked after each step but the last whether to go on; where not the job is given
    back. Raise LogError as the disk says: what was recorded until then stays, and a retry goes on
    from there.
    """
    left = lease.left
    for start in range(0, len(left), STEP):
        step = left[start : start + STEP]
        refused = _append(log, step)
        if start + STEP >= len(left):
            return queue.finish(lease, refused, clock())
        if not queue.advance(lease, step[-1][0] + 1, refused, clock()):
            return False
        if not on_step():
            queue.release(lease)
            return False
    return queue.finish(lease, (), clock())


def _append(log: EventLog, items: Sequence[tuple[int, Event]]) -> list[Refused]:
    """Append what the log takes; return what it does not, as an id that stands for another text."""
    try:
        log.append([event for _, event in items])
    except InvalidInput as error:
        if len(items) == 1:
            return [Refused(items[0][0], str(error))]
        half = len(items) // 2
        return [*_append(log, items[:half]), *_append(log, items[half:])]
    return []
