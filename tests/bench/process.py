"""Other processes: a command run to its end, or a server, and the resources it used."""

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from client import Client
from memory import Peak, anonymous_mib

COMMAND = [sys.executable, "-P", "-m", "serve.cli"]
_IN_A_MIB = 1024**2 if sys.platform == "darwin" else 1024  # of ru_maxrss


@dataclass(frozen=True)
class Used:
    """The resources used by a process and the processes it waited for."""

    wall_s: float
    cpu_s: float
    resident_mib: float  # the peak of the largest of them, mapped files included
    peak: Peak  # of all of them together, as sampled


def run(home: Path, *words: str, settings: Mapping[str, str] | None = None) -> Used:
    """Run a command to its end; exit with its output if it fails.

    The kernel counts our own memory as the child's until the child is another program, so the
    resident figure is right only in a small process.
    """
    began = time.perf_counter()
    env = environment(home, settings)
    with open(home / "said.txt", "w+") as output:
        child = subprocess.Popen([*COMMAND, *words], env=env, stdout=output, stderr=output)
        with Peak(child.pid) as peak:
            _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            output.seek(0)
            sys.exit(f"mnemolog {words[0]} failed: {output.read()[-2_000:]}")
    wall_s = time.perf_counter() - began
    return Used(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / _IN_A_MIB, peak)


def cpu_s(command: Sequence[str], env: Mapping[str, str], stdin: str = "") -> float:
    """Return the CPU seconds of a command run to its end, with `stdin` on its standard input."""
    return finish(command, env, stdin)[0]


def finish(command: Sequence[str], env: Mapping[str, str], stdin: str = "") -> tuple[float, str]:
    """Return the CPU seconds of a command run to its end, and its standard output."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=output, stderr=errors, text=True
        )
        assert child.stdin is not None
        child.stdin.write(stdin)
        child.stdin.close()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if child.returncode:
            sys.exit(f"{' '.join(command)} failed: {errors.read()[-2_000:]}")
        return used.ru_utime + used.ru_stime, output.read()


class Server:
    """A process that answers over HTTP, and a client of it.

    It prints its address, and its token is in a file by then.
    """

    def __init__(
        self, command: Sequence[str], home: Path, env: Mapping[str, str], token: Path
    ) -> None:
        began = time.perf_counter()
        self._said = home / "server.txt"
        with open(self._said, "w") as output:
            self._process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        try:
            port = self._port()
            self.client = Client(port, token.read_text().strip())
        except BaseException:
            self._end()
            raise
        self.ready_s = time.perf_counter() - began

    def _port(self) -> int:
        while True:
            ended = self._process.poll() is not None
            text = self._said.read_text(errors="replace")
            if match := re.search(r"http://127\.0\.0\.1:(\d+)", text):
                return int(match[1])
            if ended:
                sys.exit(f"the server did not start: {text[-2_000:]}")
            time.sleep(0.002)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait()

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self.client.post(path, body)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float | None:
        """Return the CPU seconds that all threads used so far; None outside Linux."""
        if sys.platform != "linux":
            return None
        # the clock that clock_getcpuclockid(3) returns for another process: nanoseconds, while
        # /proc has steps of 10 ms
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def anonymous_mib(self) -> float | None:
        return anonymous_mib(self._process.pid)


def serve(home: Path, settings: Mapping[str, str] | None = None) -> Server:
    """Start `mnemolog serve` for a home, on a free port."""
    return Server(
        [*COMMAND, "serve", "--port", "0"], home, environment(home, settings), home / "token"
    )


def environment(home: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a command for a home: ours, without inherited settings."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("MNEMOLOG_")
    }
    # an idle server would build while something else is timed
    ours = {"MNEMOLOG_HOME": str(home), "MNEMOLOG_BUILD_AFTER": "0"}
    return environ | ours | dict(settings or {})


def processor() -> str:
    """Return the name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
