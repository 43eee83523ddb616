"""
Dagster's home: its folder below ours, its settings, and the environment its processes need.

Nothing is sent anywhere, nothing is written outside, and the folder somebody happens to stand in
lends no module: Dagster's processes start in its home and never look where they start.
"""

import os
from hashlib import sha256
from pathlib import Path

from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef

from store.config import Settings
from store.files import make_folder, replace_file

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
# what earlier versions wrote, by its sha256: nobody changed it, so it may be replaced
_OLDER = {"703130bca4337f24439040a21c2839592ef7398ecbfa87dc784bfd1d27502be4"}
# Output capture takes the terminal's descriptors away while a run lasts; steps here print nothing.
_NO_CAPTURE = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


def prepare(settings: Settings) -> Path:
    """Make Dagster's home where it is missing; return it. Settings that somebody changed stay."""
    home = settings.dagster_home.absolute()
    make_folder(home)
    settings_file = home / "dagster.yaml"
    if not settings_file.exists() or _digest(settings_file) in _OLDER:
        replace_file(settings_file, _YAML.encode())
    return home


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def environment(settings: Settings) -> dict[str, str]:
    """Return this process's environment with what Dagster's processes need."""
    home = settings.dagster_home.absolute()
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "MNEMOLOG_HOME": str(settings.home.absolute()),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        # Dagster takes the first place of sys.path for the working directory and removes it
        "PYTHONSAFEPATH": "",
        "PYTHONPATH": os.pathsep.join(
            str(Path(part).absolute())
            for part in os.environ.get("PYTHONPATH", "").split(os.pathsep)
            if part
        ),
    }


def instance(settings: Settings) -> DagsterInstance:
    """Return Dagster's records in the home, for runs inside this process."""
    os.environ.update(environment(settings))
    home = str(prepare(settings))
    return DagsterInstance.from_ref(InstanceRef.from_dir(home, overrides=_NO_CAPTURE))
