"""Child process: a program run to its end, or killed with all it started after a timeout."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """What is run: the words of its command line, its environment, and where it stands."""

    words: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path


@dataclass(frozen=True, slots=True)
class Exit:
    """How a program ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON objects among the lines of its output, in order."""
        found = []
        for line in self.out.splitlines():
            with suppress(ValueError, RecursionError):
                found.append(json.loads(line))
        return [one for one in found if isinstance(one, dict)]


def run(call: Call, given: str, timeout_s: float) -> Exit:
    """Run a program with `given` on its standard input; return how it ended.

    Raise TimeoutError where it takes longer, OSError where it cannot be started. Nothing of its
    process group is left in either case.
    """
    with subprocess.Popen(
        call.words,
        env=call.environ,
        cwd=call.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(given.encode(errors="replace"), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            _kill_group(process)
    return Exit(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
