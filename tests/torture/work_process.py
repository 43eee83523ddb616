"""
A process with the shim loaded that forks a child for each step.

The imports cost half a second and are made once; a child is a process like any other, with nothing
open and no thread but its own. It reports acknowledged ids through a pipe, so they are known
however it ends.
"""

import json
import os
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from torture.fault import Fault

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0  # for one child; the longest takes two

# imported late by a build or a job
_LATE = (
    "polars",
    "pyarrow.parquet",
    "store.derived.catalog",
    "pipelines.jobs.runner",
    "concurrent.futures",
)

Step = Callable[..., Any]  # (acknowledge, *arguments) -> a JSON value


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: `killed` by a signal, or with its return value or its traceback."""

    acknowledged: tuple[str, ...]
    killed: bool = False
    returned: Any = None
    raised: str = ""


class Forks:
    """A handle of the process; use it by `forks`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, step: str, *arguments: object) -> Ended:
        """Do a step, named "module:function", in a child of its own."""
        requests, answers = _pipes(self._process)
        print(json.dumps([step, arguments]), file=requests, flush=True)
        answer = json.loads(answers.readline())
        return Ended(tuple(answer.pop("acknowledged")), **answer)


@contextmanager
def forks(fault: Fault) -> Iterator[Forks]:
    """Start the process with the shim loaded; it ends with the block."""
    path = os.environ.get("PYTHONPATH", "")
    places = [ROOT, ROOT / "tests", ROOT / "serve" / "program"]
    environment = os.environ | fault.environment()
    environment |= {
        "PYTHONPATH": os.pathsep.join([*map(str, places), *filter(None, [path])]),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-P", "-m", "torture.work_process"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Forks(process)
        _pipes(process)[0].close()


def _pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def _serve() -> None:
    for name in _LATE:
        import_module(name)
    os.umask(0o022)  # the default of most shells: the program itself must keep others out
    for line in sys.stdin:
        name, arguments = json.loads(line)
        module, function = name.split(":")
        step: Step = getattr(import_module(module), function)
        print(json.dumps(_forked(step, arguments)), flush=True)


def _forked(step: Step, arguments: list[Any]) -> dict[str, Any]:
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        _be(step, arguments, writes)
    os.close(writes)
    text = _heard(reads, child)
    os.close(reads)
    _, status = os.waitpid(child, 0)
    payload: dict[str, Any] = {"acknowledged": [], "killed": os.WIFSIGNALED(status)}
    for line in text.splitlines():
        name, value = json.loads(line)
        if name == "acknowledged":
            payload[name].append(value)
        else:
            payload[name] = value
    return payload


def _heard(reads: int, child: int) -> str:
    """Return all output of a child until it ends; kill it if it hangs."""
    data, deadline = b"", time.monotonic() + PATIENCE_S
    while select.select([reads], [], [], max(0.0, deadline - time.monotonic()))[0]:
        some = os.read(reads, 1 << 16)
        if not some:
            return data.decode()
        data += some
    os.kill(child, 9)
    return data.decode() + json.dumps(["raised", f"it hung for {PATIENCE_S:.0f} s"])


def _be(step: Step, arguments: list[Any], writes: int) -> None:
    """Do a step as the child, report its result, and exit."""

    def tell(name: str, value: object) -> None:
        os.write(writes, f"{json.dumps([name, value])}\n".encode())

    try:
        tell("returned", step(lambda id_: tell("acknowledged", id_), *arguments))
    except BaseException:  # the edge: the parent gets any error
        tell("raised", traceback.format_exc())
    finally:
        os._exit(0)


if __name__ == "__main__":
    _serve()
