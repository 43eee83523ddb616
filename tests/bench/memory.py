"""
Memory of processes, as Linux reports it; elsewhere there are no figures.

Anonymous memory is a process's own: it cannot be reclaimed as pages of mapped files can. The
proportional share (PSS) counts those too, and divides a page among the processes that map it. The
kernel keeps no peak of either, so a family of processes is sampled every EVERY_S seconds.
"""

import re
import threading
from pathlib import Path
from types import TracebackType

EVERY_S = 0.25
SHARES_EVERY = 4  # samples: the kernel walks all pages for a proportional share


class Peak:
    """The peak memory of a process and its descendants together while this context is open.

    Both figures are in MiB, None without /proc.
    """

    def __init__(self, pid: int) -> None:
        self.anonymous_mib: float | None = None
        self.proportional_mib: float | None = None
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        number = 0
        while not self._ended.wait(EVERY_S):
            pids = family(self._pid)
            own = [mib for pid in pids if (mib := anonymous_mib(pid)) is not None]
            self.anonymous_mib = _most(self.anonymous_mib, own)
            if number % SHARES_EVERY == 0:
                shares = [mib for pid in pids if (mib := proportional_mib(pid)) is not None]
                self.proportional_mib = _most(self.proportional_mib, shares)
            number += 1


def family(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    started: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        if text := _read(stat):
            parent = int(text.rpartition(")")[2].split()[1])
            started.setdefault(parent, []).append(int(stat.parent.name))
    pids = [pid]
    for process in pids:  # it grows while it is walked
        pids += started.get(process, [])
    return pids


def anonymous_mib(pid: int) -> float | None:
    """Return a process's memory outside mapped files, None if unknown."""
    return _mib(_read(Path(f"/proc/{pid}/status")), "RssAnon")


def proportional_mib(pid: int) -> float | None:
    return _mib(_read(Path(f"/proc/{pid}/smaps_rollup")), "Pss")


def _most(before: float | None, now: list[float]) -> float | None:
    return max(before or 0.0, sum(now)) if now else before


def _mib(text: str | None, name: str) -> float | None:
    match = re.search(rf"^{name}:\s+(\d+) kB", text or "", re.MULTILINE)
    return int(match[1]) / 1024 if match else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:  # the process has ended, or this is not Linux
        return None
