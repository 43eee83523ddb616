"""
crash_points: works killed at every call that changes a file, and with every write torn in two.

Acknowledged events stay there, nothing is there twice or in part, recall answers, and the same work
done again completes, without manual repair and with nothing left over.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torture import work as works
from torture import work_controls
from torture.fault import Action, Fault, Kind
from torture.outcome import Outcome, Scale
from torture.work import Acknowledge
from torture.work_process import Forks, forks

FLOOR = 700  # points of all works together, as THREATS.md promises
AT_EACH_PUSH = ("append", "ingest", "publish")  # the works of the fast tier
EACH = {Scale.FAST: 8, Scale.FULL: 120}  # points of each work, at most
CONTROLS = 8  # points of each control
_STEPS = "torture.crash_points"

T = TypeVar("T")


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    place = Place(folder)
    with forks(place.fault) as processes:
        tried = 0
        for name in of_scale(scale):
            outcome = broken_off(place, processes, name, EACH[scale])
            tried += outcome.points
            yield outcome
        for control in work_controls.KILLED:
            yield broken_off(place, processes, control.name, CONTROLS)
    yield Outcome("killed or torn, all together", tried, "points", floor=FLOOR)


def of_scale(scale: Scale) -> Iterable[str]:
    """Return the works to break off."""
    return AT_EACH_PUSH if scale is Scale.FAST else works.BY_NAME


class Place:
    """The home of a memory under attack, and the prepared copy it is restored from."""

    def __init__(self, folder: Path) -> None:
        below = folder / "watched"
        below.mkdir(mode=0o700)
        self.home, self._prepared = below / "home", folder / "prepared"
        self.fault = Fault(below, folder)

    def prepare(self, processes: Forks, name: str) -> None:
        """Make the memory that a work starts from."""
        for path in (self.home, self._prepared):
            shutil.rmtree(path, ignore_errors=True)
        self.home.mkdir(mode=0o700)
        result = processes.run(f"{_STEPS}:prepare", name, str(self.home))
        assert not result.raised, result.raised
        shutil.copytree(self.home, self._prepared)

    def restore(self) -> None:
        """Restore the memory from before the work."""
        shutil.rmtree(self.home)
        shutil.copytree(self._prepared, self.home)


def broken_off(place: Place, processes: Forks, name: str, most: int) -> Outcome:
    """Break a work off at its points, at most `most`; return the outcome."""
    place.prepare(processes, name)
    kinds = listed(place, processes, name)
    points = [(Action.KILL, at) for at in range(1, len(kinds) + 1)]
    points += [(Action.TEAR, at) for at, kind in enumerate(kinds, 1) if kind is Kind.WRITE]
    wrong, killed = [], 0
    for action, at in evenly(points, most):
        place.restore()
        place.fault.arm(action, at)
        result = processes.run(f"{_STEPS}:do", name, str(place.home))
        place.fault.arm(Action.WATCH)
        if not result.killed:
            wrong.append(f"{action.name} {at}: it was not killed {result.raised}")
            continue
        killed += 1
        after = processes.run(f"{_STEPS}:again", name, str(place.home), [*result.acknowledged])
        problems = [after.raised] if after.raised else after.returned
        where = f"{action.name} {at} of {len(kinds)} ({kinds[at - 1].name})"
        wrong += [f"{where}: {fault}" for fault in problems]
    return Outcome(
        f"killed or torn: {name}",
        killed,
        "points",
        wrong,
        f"{len(kinds)} calls, {sum(kind is Kind.WRITE for kind in kinds)} of them writes",
        is_control=works.is_control(name),
    )


def listed(place: Place, processes: Forks, name: str) -> list[Kind]:
    """Return the kinds of a work's points."""
    place.fault.trace.write_bytes(b"")
    place.fault.arm(Action.LIST)
    result = processes.run(f"{_STEPS}:do", name, str(place.home))
    place.fault.arm(Action.WATCH)
    assert not result.raised, result.raised
    return place.fault.kinds()


def evenly(points: Sequence[T], most: int) -> Sequence[T]:
    """Return the points, or `most` of them evenly spread, with the first and the last."""
    if len(points) <= most:
        return points
    return [points[place * (len(points) - 1) // (most - 1)] for place in range(most)]


# the children's steps


def prepare(acknowledge: Acknowledge, name: str, home: str) -> None:
    works.named(name).prepare(Path(home))


def do(acknowledge: Acknowledge, name: str, home: str) -> None:
    works.named(name).do(Path(home), acknowledge)


def again(acknowledge: Acknowledge, name: str, home: str, acknowledged: list[str]) -> Any:
    return works.again(works.named(name), Path(home), acknowledged)
