"""
The memory that the attacks' work is done on, and what an attack asks of a work: see `Work`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from torture import work_checks as checks
from torture.work_checks import NOW

from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

Acknowledge = Callable[[str], None]
Check = Callable[[Path, Collection[str]], list[str]]

QUERY, ANSWER = "which port does the recall server listen on", "b1"
BEFORE = (
    ("b1", "The recall server listens on port 7437 and refuses any other Host header."),
    ("b2", "Anna prefers small commits with a subject of at most fifty characters."),
    ("b3", "Use time.monotonic for timeouts: the wall clock jumped back once."),
)


@dataclass(frozen=True, slots=True)
class Work:
    """Work that may be broken off at any call: `prepare` an empty home for it, then `do` it.

    It says what it was told is done by `acknowledge(id)`; that must be there ever after. Done again
    it ends what was ended. `check` only reads, and is given what was acknowledged; `ends` are what
    is when all is done. Where it works on the log alone nothing is `built` to look at that.
    """

    name: str
    prepare: Callable[[Path], None]
    do: Callable[[Path, Acknowledge], None]
    check: Check
    ends: tuple[str, ...]
    built: bool = True


def again(work: Work, home: Path, acknowledged: Collection[str]) -> list[str]:
    """Return all that is wrong with a memory whose work was broken off.

    It is looked at, the work is done again, and it is looked at: all must go without a hand's turn.
    """
    wrong = work.check(home, acknowledged)
    ids: list[str] = []
    work.do(home, ids.append)
    wrong += [f"again: {id_} was not acknowledged" for id_ in work.ends if id_ not in ids]
    faults = settled(work, home, {*acknowledged, *ids})
    return [*wrong, *(f"again: {fault}" for fault in faults)]


def settled(work: Work, home: Path, acknowledged: Collection[str]) -> list[str]:
    """Return all that is wrong with a memory whose work was done, at last, and what is left over.

    Where more than the log is at stake it is built anew.
    """
    wrong = list(work.check(home, acknowledged))
    if work.built:
        wrong += checks.rebuilt(home)
    wrong += checks.recalled(home, QUERY, ANSWER)
    return [*wrong, *checks.left_over(home), *checks.modes(home)]


def log_of(home: Path, *, create: bool = False) -> EventLog:
    return EventLog(tenants.tenant(home).log, create=create)


def drafts(some: Sequence[tuple[str, str]]) -> list[Draft]:
    return [Draft(id=id_, content=text) for id_, text in some]


def texts(name: str, count: int, times: int = 1) -> list[tuple[str, str]]:
    """Return ids and texts, none like another, each some sixty bytes `times` over."""
    text = "{0} {1}.{2} is one of many notes we took of the module {0}_{1}"
    return [
        (f"{name}{number}", " ".join(text.format(name, number, part) for part in range(times)))
        for number in range(count)
    ]


def record_before(home: Path) -> None:
    """Make a log that holds BEFORE."""
    with log_of(home, create=True) as log:
        commands.record_batch(log, drafts(BEFORE), NOW)


def build_all(home: Path) -> None:
    with log_of(home) as log:
        build.rebuild(tenants.tenant(home), log, LexicalEmbedder(), NOW)
