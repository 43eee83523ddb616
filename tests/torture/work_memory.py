"""The memory for the attacks' work, and the interface of a work: see `Work`."""

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
    """Work that may be broken off at any call: `prepare` an empty home, then `do` it.

    It reports each completed id by `acknowledge(id)`; these must stay there. Done again, it
    completes. `check` only reads, and gets the acknowledged ids; `ends` are the ids acknowledged
    when all is done. If it works on the log alone, `built` is False and checks build nothing.
    """

    name: str
    prepare: Callable[[Path], None]
    do: Callable[[Path, Acknowledge], None]
    check: Check
    ends: tuple[str, ...]
    built: bool = True


def again(work: Work, home: Path, acknowledged: Collection[str]) -> list[str]:
    """Return the faults of a memory whose work was broken off.

    Check it, do the work again, and check it again: all must go without manual repair.
    """
    wrong = work.check(home, acknowledged)
    ids: list[str] = []
    work.do(home, ids.append)
    wrong += [f"again: {id_} was not acknowledged" for id_ in work.ends if id_ not in ids]
    faults = settled(work, home, {*acknowledged, *ids})
    return [*wrong, *(f"again: {fault}" for fault in faults)]


def settled(work: Work, home: Path, acknowledged: Collection[str]) -> list[str]:
    """Return the faults of a memory whose work is done, and the files left over.

    Unless the work concerns the log alone, the memory is built anew.
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
    """Return ids and different texts, each of some sixty bytes times `times`."""
    text = "{0} {1}.{2} is one of many notes we took of the module {0}_{1}"
    return [
        (f"{name}{number}", " ".join(text.format(name, number, part) for part in range(times)))
        for number in range(count)
    ]


def record_before(home: Path) -> None:
    """Make a log with the memories of BEFORE."""
    with log_of(home, create=True) as log:
        commands.record_batch(log, drafts(BEFORE), NOW)


def build_all(home: Path) -> None:
    with log_of(home) as log:
        build.rebuild(tenants.tenant(home), log, LexicalEmbedder(), NOW)
