"""
Memory of processes, as Linux tells it; elsewhere nothing is told.

Anonymous memory is a process's own: it cannot be given back as pages of mapped files can. The
proportional share (PSS) counts those too, a page that several map once among them. Neither is kept
as a peak by the kernel, so a family of processes is looked at every so often.
"""

import re
import threading
from pathlib import Path
from types import TracebackType

EVERY_S = 0.25
SHARES_EVERY = 4  # looks: the kernel walks all pages for a proportional share


class Peak:
    """The most that a process and its descendants held together while this context was open.

    Both are in MiB; None where no /proc tells.
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
    """Return a process and all it started, and they did."""
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
    """Return a process's memory that is no mapped file."""
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
    except OSError:  # it has ended, or this is no Linux
        return None
