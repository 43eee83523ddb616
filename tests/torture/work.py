"""
The work that attacks break off: small, the same every time, and known is what must hold after it.

    work.prepare(home); work.do(home, acknowledge); again(work, home, acknowledged) == []
"""

from torture import work_build, work_log
from torture.work_memory import Acknowledge, Work, again

__all__ = ["BY_NAME", "WORKS", "Acknowledge", "Work", "again"]

WORKS: tuple[Work, ...] = (*work_log.WORKS, *work_build.WORKS)
BY_NAME = {work.name: work for work in WORKS}
