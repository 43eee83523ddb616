"""
How a process of ours is started: a job, `python -P -m pipelines`, or a server in the background,
`python -P -m serve.process.daemon`; always as a process, never by an import.

It runs in the home, so that no folder the user stands in lends it a module or a setting.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from store.config import Settings

Output = int | IO[bytes] | None


def start(
    settings: Settings, *words: str, stdout: Output = None, stderr: Output = None
) -> "subprocess.Popen[bytes]":
    """Start a job with these words on its command line; None is our own terminal."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pipelines", *words],
        cwd=settings.home.absolute(),
        env=_environment(settings),
        stdout=stdout,
        stderr=stderr,
    )


def start_server(settings: Settings, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a server of this home that outlives us and our terminal."""
    chosen = {"MNEMOLOG_TENANT": settings.choices.tenant}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "serve.process.daemon"],
        cwd=settings.home.absolute(),
        env=_environment(settings) | chosen,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        creationflags=_DETACHED,
    )


# Windows has no sessions: a process without our console, that our Ctrl-C does not reach
_DETACHED: int = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(
    subprocess, "CREATE_NEW_PROCESS_GROUP", 0
)


def _environment(settings: Settings) -> dict[str, str]:
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return os.environ | {
        "MNEMOLOG_HOME": str(settings.home.absolute()),
        "PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in places),
    }
