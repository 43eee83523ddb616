"""
How long a prompt waits for the hook client: with a server, without one, with one that hangs, and
with an unreadable log. Prints a table in Markdown.

Prompts come "half a minute apart": the files in which hooks remember an unreachable memory are aged
before each, so that every prompt tries again. Beside each prompt a bare interpreter is timed; the
table shows the wall time beyond the median of those.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hooks import INTERPRETER, prompt
from process import COMMAND, environment

from serve import client
from store.home.config import Settings
from store.home.registry import is_held, read_registry

APART_S = 30.0
SETTLE_S = 2.0  # for a server to start, or to exit if it cannot: prompts are never that close


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=40, help="of each row")
    args = parser.parse_args(arguments)
    print(
        "| memory | first prompt | second and later: p50 | p95 | answered |\n|---|---|---|---|---|"
    )
    for name, prepare, settle_s in _STATES:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "home"
            print(_row(name, home, prepare, args.prompts, settle_s), flush=True)


def _row(
    name: str, home: Path, prepare: Callable[[Path], None], prompts: int, settle_s: float
) -> str:
    _mnemolog(
        home, "record", "We deploy to eu-west-1: the data must stay in the EU", "--no-project"
    )
    try:
        prepare(home)
        bare, waited, answered = [], [], 0
        for number in range(prompts):
            bare.append(_timed(home, [*INTERPRETER, "-c", "pass"])[0])
            seconds, output = _timed(
                home,
                [*INTERPRETER, client.__file__, "claude-code", "--home", str(home)],
                json.dumps(prompt("where do we deploy the data to in the EU?", f"s{number}")),
            )
            waited.append(seconds)
            answered += bool(output)
            time.sleep(settle_s)
            # as if time had passed since the last try
            for path in (Settings(home).server_try, Settings(home).server_breaker):
                if path.exists():
                    then = path.stat().st_mtime - APART_S
                    os.utime(path, (then, then))
    finally:
        _end(home)
    beyond = [(seconds - statistics.median(bare)) * 1e3 for seconds in waited]
    p50, p95 = (statistics.quantiles(beyond[1:], n=100)[percent - 1] for percent in (50, 95))
    times = f"{beyond[0]:.0f} ms | {p50:.0f} ms | {p95:.0f} ms"
    return f"| {name} | {times} | {answered} of {prompts} |"


def _warm(home: Path) -> None:
    _mnemolog(home, "start")


def _cold(home: Path) -> None:
    pass


def _hung(home: Path) -> None:
    _warm(home)
    server = read_registry(Settings(home))
    assert server is not None
    os.kill(server.pid, signal.SIGSTOP)


def _broken(home: Path) -> None:
    (home / "tenants/default/log.sqlite").write_bytes(os.urandom(20_000))


_STATES = (
    ("server runs", _warm, 0.0),
    ("no server: the first prompt starts it", _cold, SETTLE_S),
    ("server hangs (SIGSTOP)", _hung, 0.0),
    ("log cannot be read, nothing was built", _broken, SETTLE_S),
)


def _timed(home: Path, command: Sequence[str], stdin: str = "") -> tuple[float, bytes]:
    began = time.perf_counter()
    completed = subprocess.run(
        command, env=environment(home), input=stdin.encode(), stdout=subprocess.PIPE, check=True
    )
    return time.perf_counter() - began, completed.stdout


def _mnemolog(home: Path, *words: str) -> None:
    command = [*COMMAND, *words]
    subprocess.run(command, env=environment(home), stdout=subprocess.DEVNULL, check=True)


def _end(home: Path) -> None:
    settings = Settings(home)
    if (server := read_registry(settings)) is not None and is_held(settings):
        os.kill(server.pid, signal.SIGCONT)
        os.kill(server.pid, signal.SIGTERM)
    while is_held(settings):
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
