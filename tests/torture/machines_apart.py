"""
machines_apart: a person's machines with clocks a day off sync through folders that lose, double and
reorder files, cut off at any call; all have the same memories in the end.
"""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from machines import schedule
from torture.outcome import Outcome, Scale

from store.log import merging
from store.replica import sender

_STEPS = 14  # of a life: about twelve events


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the faults in many lives, and in lives that fold by the order of arrival."""
    with patch.object(sender, "_MOST_SMALL", 4):
        count = scale.of(4, 1_000)
        wrong = _lives(folder / "lives", count)
        yield Outcome("machines brought together", count, "lives", wrong, floor=1_000)
        with patch.object(merging, "late_subjects", lambda log, after, until: []):
            control = _lives(folder / "control", scale.of(3, 40))
        yield Outcome(
            "machines that fold as it arrives", scale.of(3, 40), "lives", control, is_control=True
        )


def _lives(folder: Path, count: int) -> list[str]:
    wrong = []
    for seed in range(count):
        problems, _ = schedule(folder / f"{seed}", seed, _STEPS)
        wrong += [f"life {seed}: {fault}" for fault in problems]
    return wrong
