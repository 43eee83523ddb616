"""
Work on a damaged log: `doctor --repair`, broken off anywhere, must not make it worse.
"""

from collections.abc import Collection
from pathlib import Path

from torture.work_checks import NOW
from torture.work_memory import Acknowledge, Work, drafts, log_of, record_before, texts

from store.home import tenant as tenants
from store.home.config import Choices, Settings
from store.home.errors import LogError
from store.log import commands, integrity, salvage
from store.maintenance.repair import repair

_MANY = texts("r", 60, 3)
_PAGE = 4096
_DONE = "repaired"


def _damage(home: Path) -> None:
    """Make a log of some pages, with a zeroed one in the middle."""
    record_before(home)
    with log_of(home) as log:
        commands.record_batch(log, drafts(_MANY), NOW)
    path = tenants.tenant(home).log
    data = bytearray(path.read_bytes())
    page = data.index(b"module r_40") // _PAGE * _PAGE
    data[page : page + _PAGE] = bytes(_PAGE)
    path.write_bytes(data)


def _repair(home: Path, acknowledge: Acknowledge) -> None:
    for step in repair(Settings(home, Choices()), NOW, may_touch_log=True):
        if step.state == "failed":
            raise LogError(step.how)  # as the command ends with 1
    with log_of(home) as log:  # opening it raises the cause if no repair was tried
        if not integrity.problems(log):
            acknowledge(_DONE)


def _check(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Return the faults: every readable event must be in one of the files, or be back."""
    log = tenants.tenant(home).log
    there = {row[1] for row in salvage.salvage(log).rows}
    wrong = [f"{id_} can be read no more" for id_ in ("b1", "r0", "r59") if id_ not in there]
    if len(there) < 40:
        wrong.append(f"{len(there)} events are left")
    if _DONE in acknowledged:
        with log_of(home) as opened:
            wrong += integrity.problems(opened)
            if not integrity.gaps(opened):
                wrong.append("nothing says what was lost")
    return wrong


WORKS = (Work("repair of a damaged log", _damage, _repair, _check, (_DONE,)),)
