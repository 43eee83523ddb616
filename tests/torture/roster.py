"""The attacks of `make torture`, in the order of its table: a module each, run by its `attack`."""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from torture.outcome import Outcome, Scale

# `attack(folder, scale)` works in an empty folder and yields outcomes; it asserts nothing
Attack = Callable[[Path, Scale], Iterable[Outcome]]

NAMES = (
    "crash_points",
    "errnos",
    "power_loss",
    "kills",
    "disks",
    "locks",
    "fairness",
    "poisoned_rows",
    "clocks",
    "archives",
    "imports",
    "settings",
    "hangs",
    "undelivered",
    "redaction",
    "poisoning",
    "leaks",
    "answers",
    "erasing",
    "rot",
    "forged",
    "queries",
    "rpc",
    "gate",
    "dagster_pages",
    "clones",
    "forms",
    "patterns",
    "state",
    "machines_apart",
)

# attacks with a time limit: beside another attack they would measure that one, too
ALONE = ("fairness", "archives", "imports", "settings", "hangs", "queries", "patterns")


def attack(name: str) -> Attack:
    """Return an attack by its name, and import its module."""
    attack: Attack = import_module(f"torture.{name}").attack
    return attack
