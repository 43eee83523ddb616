"""
Dagster's home: its folder, its settings, its processes' environment, and `mnemolog ui`.

Nothing is sent anywhere and nothing is written elsewhere. Dagster's processes start in its home and
import nothing from the caller's current folder.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pipelines.llm.program import kill_group
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.files import make_folder, replace_file
from store.home.http_access import owner_token
from store.home.registry import DagsterUi, dagster_ui

if TYPE_CHECKING:
    from dagster import DagsterInstance

JOB = "mnemolog/job"  # the tag of a schedule that names the job it runs

_YAML = """\
# Written by mnemolog. Change what you like: a file that you changed is not written again.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  pools: # "model": what may ask a language model; so many runs at once
    default_limit: 1
    granularity: run
  runs:
    max_concurrent_runs: 2
    tag_concurrency_limits:
      - key: dagster/partition
        limit: 1
        value:
          applyLimitPerUniqueValue: true
retention:
  schedule:
    purge_after_days: 30
  sensor:
    purge_after_days:
      skipped: 1
      success: 7
      failure: 30
      started: 30
"""
# sha256 of the unchanged file of earlier versions, which may be replaced
_OLDER = {"703130bca4337f24439040a21c2839592ef7398ecbfa87dc784bfd1d27502be4"}
# Output capture takes the terminal's descriptors away while a run lasts; steps here print nothing.
_NO_CAPTURE = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


def prepare_home(settings: Settings) -> Path:
    """Make Dagster's home where it is missing; return it. Edited settings are kept."""
    home = settings.dagster_home.absolute()
    make_folder(home)
    settings_file = home / "dagster.yaml"
    if not settings_file.exists() or sha256(settings_file.read_bytes()).hexdigest() in _OLDER:
        replace_file(settings_file, _YAML.encode())
    return home


def environment(settings: Settings) -> dict[str, str]:
    """Return this process's environment with the variables of Dagster's processes."""
    home = settings.dagster_home.absolute()
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "MNEMOLOG_HOME": str(settings.home.absolute()),
        # Dagster takes the first place of sys.path for the working directory and removes it
        "PYTHONSAFEPATH": "",
        "PYTHONPATH": os.pathsep.join(
            str(Path(part).absolute())
            for part in os.environ.get("PYTHONPATH", "").split(os.pathsep)
            if part
        ),
    }


def instance(settings: Settings) -> "DagsterInstance":
    """Return Dagster's records in the home, for runs inside this process."""
    from dagster import DagsterInstance  # half a second, and `run_ui` needs neither
    from dagster._core.instance.ref import InstanceRef

    from pipelines.orchestration.run_records import with_open_files

    os.environ.update(environment(settings))
    home = str(prepare_home(settings))
    ref = InstanceRef.from_dir(home, overrides=_NO_CAPTURE)
    return DagsterInstance.from_ref(with_open_files(ref))


# `mnemolog ui` starts Dagster's pages, scheduler and sensors in a session of their own: Ctrl-C
# reaches only us, and we end all of them, by their process group if asking does not help.

_ANSWER_S = 10.0
_GRACE_S = 20.0


def run_ui(settings: Settings, port: int, say: Callable[[str], None]) -> int:
    """Serve the pages on loopback until they end or we are interrupted; return their exit code.

    Where they are served already, `say` gets a link to them, and 0 is returned. Raise
    ConfigError where they give no link.
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
        cwd=prepare_home(settings),
        env=environment(settings),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        kill_group(process)
        process.wait()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, also where the shell had us ignore Ctrl-C."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
