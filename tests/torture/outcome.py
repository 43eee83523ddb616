"""Outcome: the trials and findings of one attack, a line of the table of `make torture`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Scale(Enum):
    """How much is tried: a part at every push, all of it by `make torture`."""

    FAST = "fast"
    FULL = "full"

    def of(self, fast: int, full: int) -> int:
        return fast if self is Scale.FAST else full


@dataclass(frozen=True, slots=True)
class Outcome:
    """The trial in words, the number of points and their unit, and the faults in words.

    A control attacks a memory weakened on purpose: it must lose something, or the harness sees
    nothing. `floor` is the number of points that the full scale promises.
    """

    tried: str
    points: int
    of: str
    wrong: Sequence[str] = field(default=())
    note: str = ""
    is_control: bool = False
    floor: int = 0

    @property
    def held(self) -> bool:
        """Whether it went as expected."""
        return bool(self.wrong) if self.is_control else not self.wrong


def failures(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the failures in words; empty if every attack was withstood."""
    return [
        f"{outcome.tried}: {'; '.join(outcome.wrong[:5]) or 'the control lost nothing'}"
        for outcome in outcomes
        if not outcome.held
    ]
