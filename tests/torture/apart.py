"""
Apart: one function called many times in a process of its own, to measure each call.

Only that process is measured: neither the attack's own memory nor its own files count.
"""

import multiprocessing
import re
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from store.home.errors import MnemologError

PATIENCE_S = 60.0  # for one call; a longer one hangs
_KIB = 1024  # Linux counts memory in these


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call, or the error of ours that it raised; `crash` is any other failure.

    `took_s` is processor time: a busy machine makes nothing slow. `grown` is the peak of resident
    bytes until now, less that after the first call.
    """

    value: Any
    refused: str = ""
    crash: str = ""
    took_s: float = 0.0
    grown: int = 0


class Apart:
    """A function in a process of its own. Its first call, `warm_up`, is not measured."""

    def __init__(self, act: Callable[[Any], Any], warm_up: Any) -> None:
        """`act` is a module-level function; `warm_up` is the argument of its first call."""
        self._act, self._warm_up = act, warm_up
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._end()

    def ask(self, job: Any) -> Answer:
        """Call it once; a process that hangs or ends is started anew."""
        began = time.monotonic()
        self._line.send(job)
        if self._line.poll(PATIENCE_S):
            with suppress(EOFError, OSError):
                answer: Answer = self._line.recv()
                return answer
            crash = "the process ended"
        else:
            crash = f"no answer in {PATIENCE_S:.0f} s"
        self.restart()
        return Answer(None, crash=crash, took_s=time.monotonic() - began)

    def restart(self) -> None:
        """Go on in a new process, with its memory peak reset."""
        self._end()
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_answer, args=(theirs, self._act), daemon=True)
        self._process.start()
        theirs.close()
        self._line.send(self._warm_up)
        self._line.recv()

    def _end(self) -> None:
        self._line.close()
        self._process.kill()
        self._process.join()


def _answer(line: Connection, act: Callable[[Any], Any]) -> None:
    first = 0
    while True:
        try:
            request = line.recv()
        except EOFError:
            return
        began = time.process_time()
        value, refused, crash = None, "", ""
        try:
            value = act(request)
        except MnemologError as error:
            refused = f"{type(error).__name__}: {error}"
        except Exception as error:  # unexpected by any caller, but an outcome here
            crash = f"{type(error).__name__}: {error}"
        took = time.process_time() - began
        most = _most_resident()
        first = first or most
        line.send(Answer(value, refused, crash, took, most - first))


def _most_resident() -> int:
    """Return the most bytes that were resident in this process since it began.

    Linux's `ru_maxrss` begins with that of the parent, which hides growth below it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        assert line
        return int(line[1]) * _KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts bytes
