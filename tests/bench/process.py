"""mnemolog as a process: a command run to its end, or the server, and what either used."""

import http.client
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

COMMAND = [sys.executable, "-P", "-m", "serve.cli"]
_IN_A_MIB = 1024**2 if sys.platform == "darwin" else 1024  # of ru_maxrss


@dataclass(frozen=True)
class Used:
    """What a process and the processes it waited for used."""

    wall_s: float
    cpu_s: float
    peak_mib: float  # of the largest of them


def run(home: Path, *words: str) -> Used:
    """Run a command to its end; end with what it said where it fails.

    The kernel counts our own memory as the child's until it is another program, so whoever asks
    for a peak must be small.
    """
    began = time.perf_counter()
    with open(home / "said.txt", "w+") as said:
        child = subprocess.Popen([*COMMAND, *words], env=_env(home), stdout=said, stderr=said)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            sys.exit(f"mnemolog {words[0]} failed: {said.read()[-2_000:]}")
    wall_s = time.perf_counter() - began
    return Used(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / _IN_A_MIB)


class Server:
    """`mnemolog serve` of a home, over one kept connection."""

    def __init__(self, home: Path) -> None:
        began = time.perf_counter()
        self._log = open(home / "server.log", "w+")
        self._process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0"],
            env=_env(home),
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        found = re.search(r"http://[^:]+:(\d+)", self._process.stdout.readline())
        self.ready_s = time.perf_counter() - began
        if found is None:
            self._process.wait()
            sys.exit(f"the server did not start: {(home / 'server.log').read_text()[-2_000:]}")
        self._connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
        self._headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {(home / 'token').read_text()}",
        }

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.communicate()
        self._log.close()

    def post(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        self._connection.request("POST", path, json.dumps(asked), self._headers)
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status >= 400:
            sys.exit(f"POST {path} gave {response.status}: {answer}")
        return answer

    def cpu_s(self) -> float | None:
        """Return the CPU seconds used so far, in steps of 10 ms; None where no /proc tells."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return None
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def anonymous_mib(self) -> float | None:
        """Return the memory that is no mapped file; None where no /proc tells."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return None
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else None


def _env(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MNEMOLOG_")}
    return kept | {"MNEMOLOG_HOME": str(home)}
