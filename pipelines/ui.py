"""
`mnemolog ui`: Dagster's pages, its scheduler and its sensors, started together and ended together.

They are put into a session of their own, so that Ctrl-C reaches only us, who then end all of them,
by the group where asking did not help.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from pipelines import home
from store.access.owner_token import owner_token
from store.config import Settings
from store.errors import ConfigError
from store.registry import DagsterUi, dagster_ui

_ANSWER_S = 10.0
_GRACE_S = 20.0


def serve(settings: Settings, port: int, say: Callable[[str], None]) -> int:
    """Serve the pages on loopback until they end or we are interrupted; return their exit code.

    Where they are served already, `say` is told a link to them, and 0 is returned. Raise
    ConfigError where they give none.
    """
    if (served := dagster_ui(settings)) is not None:
        say(_link(settings, served))
        return 0
    with interruptible(), _pages(settings, port) as process:
        return process.wait()


def _link(settings: Settings, served: DagsterUi) -> str:
    """Return a link that lets a browser in once to pages that are served already."""
    request = urllib.request.Request(
        f"{served.url}/v1/logins",
        b"{}",
        {
            "Authorization": f"Bearer {owner_token(settings)}",
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as response:
            return served.url + str(json.load(response)["path"])
    except (OSError, ValueError, LookupError) as error:
        raise ConfigError(
            f"Dagster's pages on port {served.port} give no link ({error}): end process "
            f"{served.pid}, then try again"
        ) from error


@contextmanager
def _pages(settings: Settings, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the pages' process; end it and everything it started on the way out."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pipelines", "pages", "--port", str(port)],
        cwd=home.prepare(settings),
        env=home.environment(settings),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        _kill_all(process)


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group; nothing, where it ended as asked."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, also where the shell had us ignore Ctrl-C."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
