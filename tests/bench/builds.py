"""Builds: a home's first and those after new memories, with their time and memory."""

import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from corpus import texts
from figure import OURS, Figure
from process import COMMAND, run

from store.home import tenant as tenants
from store.log.commands import Draft, import_drafts
from store.log.event_log import EventLog

IMPORT, FULL = "import", "full build"
NEW, QUICK = "build of 1,000 new memories", "quick build of 1,000 new memories"
MANY = "build of 50,000 new memories"
FEW_ADDED, MANY_ADDED = 1_000, 50_000
# the memory figures: the kernel's own peak, and two sampled ones, see `memory`
HELD = ("resident, largest process", "anonymous, all processes", "with mapped files, all processes")
LEAST_MANY = 100_000  # memories: in a smaller home 50,000 new ones are no refresh
_AT_ONCE = 10_000  # drafts held: the parent of a build must be small, see `process.run`


def first(size: int, home: Path) -> Iterator[Figure]:
    """Record `size` memories and build; then build twice more, each time after a few new ones."""
    yield figure(size, IMPORT, added(home, texts(size), "m"), "CPU")
    yield from built(size, FULL, home)
    spent = added(home, texts(FEW_ADDED, seed=17), "n")
    yield figure(size, "import of 1,000 new memories", spent, "CPU")
    yield from built(size, NEW, home)
    if has_quick():
        added(home, texts(FEW_ADDED, seed=18), "q")
        yield from built(size, QUICK, home, "--quick")


def later(size: int, home: Path) -> Iterator[Figure]:
    """Build once more after many new memories, if the home has LEAST_MANY or more."""
    if size >= LEAST_MANY:
        added(home, texts(MANY_ADDED, seed=19), "o")
        yield from built(size, MANY, home, *(["--quick"] if has_quick() else []))


def added(home: Path, contents: Iterable[str], prefix: str) -> float:
    """Record memories; return the CPU seconds, without generating the texts."""
    drafts = (Draft(id=f"{prefix}{n}", content=content) for n, content in enumerate(contents))
    spent = 0.0
    with EventLog(tenants.tenant(home).log, create=True) as log:
        while some := list(islice(drafts, _AT_ONCE)):
            began = time.process_time()
            import_drafts(log, some, time.time_ns() // 1_000)
            spent += time.process_time() - began
    return spent


def built(
    size: int, title: str, home: Path, *words: str, settings: Mapping[str, str] | None = None
) -> Iterator[Figure]:
    used = run(home, "build", *words, settings=settings)
    yield figure(size, title, used.cpu_s, "CPU")
    yield figure(size, title, used.wall_s, "wall")
    memory = (used.resident_mib, used.peak.anonymous_mib, used.peak.proportional_mib)
    for name, mib in zip(HELD, memory, strict=True):
        if mib is not None:
            yield figure(size, title, mib, name, "MiB")


def has_quick() -> bool:
    """Return True if `mnemolog build` can run without the scheduler."""
    usage = subprocess.run(
        [*COMMAND, "build", "--help"], capture_output=True, text=True, check=True
    )
    return "--quick" in usage.stdout


def figure(size: int, title: str, value: float, measure: str, unit: str = "s") -> Figure:
    return Figure(size, f"{title}, {measure}", OURS, value, unit)
