"""
errnos: the disk answers EIO, or that it is full, at any call that changes a file: once, or from
there on.

The work ends in an error of ours, or was done all the same. What is open reads on meanwhile; the
same work done again, in the same process and with no hand's turn, leaves exactly one of each.
"""

import errno
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torture import fault, work_controls
from torture import work as works
from torture.crash_points import Place, listed
from torture.fault import Action
from torture.outcome import Outcome, Scale
from torture.work import Acknowledge
from torture.work_checks import NOW
from torture.work_memory import ANSWER, QUERY
from torture.work_process import Forks, forks

from serve.filters import Filter
from serve.query.analysis import usual
from serve.reader import Reader
from serve.recall import recall
from store import tenant as tenants
from store.config import Choices
from store.embedding import LexicalEmbedder
from store.errors import MnemologError
from store.log import EventLog

FLOOR = 186  # points of all works together, as THREATS.md promises
EACH = {Scale.FAST: 8, Scale.FULL: 80}  # points of each work
_STEPS = "torture.errnos"

Point = tuple[Action, int, int]  # once or from there on, which error, at which call


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    place = Place(folder)
    with forks(place.fault) as processes:
        tried = 0
        for name in works.BY_NAME:
            found = refused_at(place, processes, name, EACH[scale])
            tried += found.points
            yield found
        for control in work_controls.REFUSED:
            yield refused_at(place, processes, control.name, EACH[scale])
    yield Outcome("the disk refused, all together", tried, "points", floor=FLOOR)


def refused_at(place: Place, processes: Forks, name: str, most: int) -> Outcome:
    """Have the disk refuse a work at its points, at most so many; return what came of it."""
    place.prepare(processes, name)
    kinds = listed(place, processes, name)
    points = [
        (action, error, at)
        for action in (Action.FAIL, Action.FAIL_ON)
        for error in (errno.EIO, errno.ENOSPC)
        for at in range(1, len(kinds) + 1)
    ]
    wrong: list[str] = []
    ended: dict[str, int] = {}
    for action, error, at in chosen(points, most):
        place.restore()
        done = processes.run(f"{_STEPS}:refused", name, str(place.home), action, error, at)
        place.fault.arm(Action.WATCH)
        how, told = ("killed", [done.raised or "it was killed"])
        if done.returned:
            how, told = done.returned
            after = processes.run(f"{_STEPS}:settled", name, str(place.home), [*done.acknowledged])
            told += [after.raised] if after.raised else after.returned
        ended[how] = ended.get(how, 0) + 1
        when = "once" if action is Action.FAIL else "from there on"
        where = f"{errno.errorcode[error]} {when} at {at} of {len(kinds)} ({kinds[at - 1].name})"
        wrong += [f"{where}: {one}" for one in told]
    return Outcome(
        f"the disk refused: {name}",
        sum(ended.values()),
        "points",
        wrong,
        ", ".join(f"{count} {how}" for how, count in sorted(ended.items())),
        is_control=works.is_control(name),
    )


def chosen(points: Sequence[Point], most: int) -> Sequence[Point]:
    """Return the points, or so many of them, evenly."""
    if len(points) <= most:
        return points
    return [points[place * len(points) // most] for place in range(most)]


# what the children do


def refused(
    acknowledge: Acknowledge, name: str, home: str, action: int, error: int, at: int
) -> tuple[str, list[str]]:
    """Do a work while the disk refuses; return how that ended, and what was wrong about it.

    Another part of the process has the memory open, as a server has. Then the disk is well again.
    """
    work, place, told = works.named(name), Path(home), list[str]()
    with _server(place) as asked:
        fault.arm(Action(action), at, error)
        how, wrong = _attempted(work, place, told.append)
        wrong += asked()
        fault.arm(Action.WATCH)
        for id_ in told:
            acknowledge(id_)
        work.do(place, acknowledge)
        wrong += asked()
    return how, wrong


def settled(acknowledge: Acknowledge, name: str, home: str, acknowledged: list[str]) -> Any:
    return works.settled(works.named(name), Path(home), acknowledged)


def _attempted(work: works.Work, home: Path, acknowledge: Acknowledge) -> tuple[str, list[str]]:
    try:
        work.do(home, acknowledge)
    except MnemologError as error:
        return type(error).__name__, []
    except BaseException:  # the edge: an error that is none of ours is what is looked for
        return "no error of ours", [traceback.format_exc()]
    return "done", []


@contextmanager
def _server(home: Path) -> Iterator[Any]:
    """Give a function that asks a memory held open since before, and says what was wrong."""
    tenant, embedder = tenants.tenant(home), LexicalEmbedder()
    if not tenant.exists:
        yield list[str]
        return
    with EventLog(tenant.log) as log:
        reader = Reader(tenant, log, embedder)

        def asked() -> list[str]:
            try:
                with reader.view() as view:
                    answer = recall(view, usual(QUERY, Filter(now=NOW), Choices()), embedder)
                list(log.read())
            except MnemologError:
                return [f"no answer meanwhile: {traceback.format_exc()}"]
            ids = [hit.memory.id for hit in answer.hits]
            return [] if ANSWER in ids else [f"meanwhile recall brought {ids}, not {ANSWER}"]

        yield asked
