"""
The work that attacks break off: small, the same every time, with known invariants after it.

    work.prepare(home); work.do(home, acknowledge); again(work, home, acknowledged) == []
"""

from torture import work_build, work_controls, work_log, work_repair, work_replica, work_sync
from torture.work_memory import Acknowledge, Work, again, settled

__all__ = ["BY_NAME", "WORKS", "Acknowledge", "Work", "again", "named", "settled"]

WORKS: tuple[Work, ...] = (
    *work_log.WORKS,
    *work_build.WORKS,
    *work_replica.WORKS,
    *work_sync.WORKS,
)
BY_NAME = {work.name: work for work in WORKS}
_ON_DAMAGE = {work.name: work for work in work_repair.WORKS}  # recall may be incomplete meanwhile
_CONTROLS = {work.name: work for work in (*work_controls.KILLED, *work_controls.REFUSED)}


def named(name: str) -> Work:
    """Return a work, or a control, by its name."""
    return (BY_NAME | _CONTROLS | _ON_DAMAGE)[name]


def is_control(name: str) -> bool:
    return name in _CONTROLS
