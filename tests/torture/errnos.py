"""
errnos: the disk answers EIO or ENOSPC at any call that changes a file: once, or from there on.

The work ends in an error of ours, or is done all the same. Open readers go on meanwhile; the same
work done again, in the same process or after it died, without manual repair, leaves exactly one of
each: a COMMIT that ended in an error may still be durable.
"""

import errno
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torture import fault, work_controls, work_repair
from torture import work as works
from torture.crash_points import Place, evenly, of_scale
from torture.fault import Action, Kind
from torture.outcome import Outcome, Scale
from torture.work import Acknowledge
from torture.work_checks import NOW
from torture.work_memory import ANSWER, QUERY
from torture.work_process import Forks, forks

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.analysis import default_question
from serve.recall.recall import recall
from store.embedders.lexical import LexicalEmbedder
from store.home import files
from store.home import tenant as tenants
from store.home.config import Choices
from store.home.errors import MnemologError
from store.log.event_log import EventLog

FLOOR = 186  # points of all works together, as THREATS.md promises
EACH = {Scale.FAST: 8, Scale.FULL: 48}  # points of each work, at most
CONTROLS = 8  # points of the control
_STEPS = "torture.errnos"
_MISSED = "no such call"


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    place = Place(folder)
    with forks(place.fault) as processes:
        tried = 0
        repairs = () if scale is Scale.FAST else [work.name for work in work_repair.WORKS]
        for name in (*of_scale(scale), *repairs):
            outcome = refused_at(place, processes, name, EACH[scale])
            tried += outcome.points
            yield outcome
        for control in work_controls.REFUSED:
            yield refused_at(place, processes, control.name, CONTROLS)
    yield Outcome("the disk refused, all together", tried, "points", floor=FLOOR)


def refused_at(place: Place, processes: Forks, name: str, most: int) -> Outcome:
    """Have the disk refuse a work at its points, at most `most`; return the outcome."""
    place.prepare(processes, name)
    kinds = _listed(place, processes, name)
    points = [
        (action, error, at, dies)
        for action in (Action.FAIL, Action.FAIL_ON)
        for error in (errno.EIO, errno.ENOSPC)
        for dies in (False, True)
        for at in range(1, len(kinds) + 1)
    ]
    wrong: list[str] = []
    ended: dict[str, int] = {}
    for action, error, at, dies in evenly(points, most):
        place.restore()
        result = processes.run(f"{_STEPS}:refused", name, str(place.home), action, error, at, dies)
        place.fault.arm(Action.WATCH)
        how, problems = "killed", [result.raised or "it was killed"]
        if result.returned:
            how, problems = result.returned
        if how == _MISSED:
            continue
        if result.returned:
            next_step = "torture.crash_points:again" if dies else f"{_STEPS}:settled"
            after = processes.run(next_step, name, str(place.home), [*result.acknowledged])
            problems += [after.raised] if after.raised else after.returned
        ended[how] = ended.get(how, 0) + 1
        when = "once" if action is Action.FAIL else "from there on"
        then = ", then killed" if dies else ""
        where = f"{errno.errorcode[error]} {when} at {at} of {len(kinds)}{then}"
        wrong += [f"{where}: {fault}" for fault in problems]
    return Outcome(
        f"the disk refused: {name}",
        sum(ended.values()),
        "points",
        wrong,
        ", ".join(f"{count} {how}" for how, count in sorted(ended.items())),
        is_control=works.is_control(name),
    )


def _listed(place: Place, processes: Forks, name: str) -> list[Kind]:
    """Return the kinds of a work's points beside a server."""
    place.fault.trace.write_bytes(b"")
    result = processes.run(f"{_STEPS}:refused", name, str(place.home), Action.LIST, 0, 0, False)
    assert not result.raised, result.raised
    return place.fault.kinds()


# the children's steps


def refused(
    acknowledge: Acknowledge, name: str, home: str, action: int, error: int, at: int, dies: bool
) -> tuple[str, list[str]]:
    """Do a work while the disk refuses; return its ending and the faults.

    Another part of the process has the memory open, as a server has. Unless it `dies` then, with
    all that open, the work is done again when the disk is well.
    """
    work, place, acknowledged = works.named(name), Path(home), list[str]()
    server = _Server.of(place) if name in works.BY_NAME else _NO_SERVER
    fault.arm(Action(action), at, error)
    how, wrong = _attempted(work, place, acknowledged.append)
    wrong += server.asked()
    how = how if fault.points() >= at else _MISSED
    fault.arm(Action.WATCH)
    wrong += work.check(place, acknowledged)  # before the work is done again, which would repair it
    for id_ in acknowledged:
        acknowledge(id_)
    if dies:
        _LEFT_OPEN.append(server)
        return how, wrong
    work.do(place, acknowledge)
    wrong += server.asked()
    server.close()
    return how, wrong


def settled(acknowledge: Acknowledge, name: str, home: str, acknowledged: list[str]) -> Any:
    return works.settled(works.named(name), Path(home), acknowledged)


def _attempted(work: works.Work, home: Path, acknowledge: Acknowledge) -> tuple[str, list[str]]:
    try:
        work.do(home, acknowledge)
    except MnemologError as error:
        return type(error).__name__, []
    except OSError as error:
        translated = files.disk_error(
            error
        )  # as each of the edges does: the CLI, the jobs, the server
        if translated is not None:
            return type(translated).__name__, []
        return "no error of ours", [traceback.format_exc()]
    except BaseException:  # the edge: foreign errors are the faults to find
        return "no error of ours", [traceback.format_exc()]
    return "done", []


class _Server:
    """An open memory; empty before the memory was made."""

    def __init__(self, log: EventLog | None, reader: Reader | None) -> None:
        self._log, self._reader = log, reader

    @classmethod
    def of(cls, home: Path) -> "_Server":
        tenant = tenants.tenant(home)
        if not tenant.exists:
            return cls(None, None)
        log = EventLog(tenant.log)
        return cls(log, Reader(tenant, log, LexicalEmbedder()))

    def asked(self) -> list[str]:
        """Ask it; return the faults of the answer."""
        if self._log is None or self._reader is None:
            return []
        try:
            with self._reader.view() as view:
                question = default_question(QUERY, Filter(now=NOW), Choices())
                answer = recall(view, question)
            list(self._log.read())
        except MnemologError:
            return [f"no answer meanwhile: {traceback.format_exc()}"]
        ids = [hit.memory.id for hit in answer.hits]
        return [] if ANSWER in ids else [f"meanwhile recall brought {ids}, not {ANSWER}"]

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


_NO_SERVER = _Server(None, None)  # a damaged log answers no recall, and none may run at its repair
_LEFT_OPEN: list[_Server] = []  # never closed: the process ends as if it was killed
