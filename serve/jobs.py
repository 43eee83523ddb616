"""
How a job is started: always as a process, `python -P -m pipelines`, never by an import.

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
    home = settings.home.absolute()
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    ours = {
        "MNEMOLOG_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in places),
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pipelines", *words],
        cwd=home,
        env=os.environ | ours,
        stdout=stdout,
        stderr=stderr,
    )
