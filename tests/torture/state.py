"""
state: a memory matches a dictionary after any sequence of operations, also after a crash, a build,
and a clock jump.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from torture.lived import Life
from torture.outcome import Outcome, Scale

_OF_LIFE = (
    "add, add again, revise, supersede, forget, archive, restore, pin, link, erase, plan, apply, "
    "undo, build, full build, crash, clock jump, recall"
).split(", ")


class Forgetful(Life):
    """A memory that does not forget."""

    lived: ClassVar[Counter[str]] = Counter()

    def _forgotten(self, id_: str) -> None:
        pass


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcome of the lives, and of the control: a memory that forgets nothing."""
    Life.lived = Counter()
    wrong = _wrong(Life, scale.of(8, 300), scale.of(15, 40))
    if scale is Scale.FULL and (never := [name for name in _OF_LIFE if not Life.lived[name]]):
        wrong.append(f"never tried: {', '.join(never)}")
    counts = ", ".join(f"{number:,} {name}" for name, number in Life.lived.most_common())
    yield Outcome(
        "lives of a memory beside a dictionary",
        Life.lived.total(),
        "steps",
        wrong,
        counts,
        floor=300 * 40 // 2,  # hypothesis ends some lives early
    )
    Forgetful.lived = Counter()
    wrong = _wrong(Forgetful, 50, 20)
    lived = Forgetful.lived.total()
    yield Outcome("a memory that does not forget", lived, "steps", wrong, is_control=True)


def _wrong(machine: type[Life], lives: int, steps: int) -> list[str]:
    """Return the differences between a machine's model and the memory, in words."""
    how = settings(
        max_examples=lives,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=how)
    except AssertionError as error:
        return ["; ".join([f"{error!s:.300}", *getattr(error, "__notes__", ())])[:3_000]]
    return []
