"""
The UI, started for real: it lists the assets, builds what is new, stays at home and ends whole.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipelines
from store import commands
from store import manifest as manifests
from store.errors import NoManifest
from store.log import EventLog
from store.tenant import tenant

ROOT = Path(pipelines.__file__).resolve().parent.parent
ASSETS = {
    "event_log",
    "memories",
    "postings",
    "sessions",
    "vectors",
    "fields",
    "entities",
    "facts",
    "goals",
    "usage",
    "lessons",
    "routes",
    "canaries",
    "recall_quality",
    "published_manifest",
    "vector_table",
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="looks at POSIX process groups")


def test_ui_lists_assets_builds_what_is_new_and_ends_whole(tmp_path):
    home, user, stands_in = tmp_path / "home", tmp_path / "user", tmp_path / "clone"
    (user / "tmp").mkdir(parents=True)
    (stands_in / "store").mkdir(parents=True)
    (stands_in / "store" / "__init__.py").write_text("raise SystemExit('hostile')\n")
    default = tenant(home)
    with EventLog(default.log, create=True) as log:
        commands.record(log, commands.Draft(content="the UI builds this by itself"), 1)
    port = free_port()
    process = start(port, home, user, stands_in)
    try:
        wanted = "{assetNodes {assetKey {path}}}"
        until(lambda: assets_of(ask(port, wanted)) == ASSETS, 60)
        assert until(lambda: published(default), 60) == 1
        children = group_of(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
    assert f"http://127.0.0.1:{port}" in output
    assert len(children) >= 4
    assert until(lambda: not alive(children), 5)
    assert [path for path in user.rglob("*") if path.is_file()] == []
    assert [path.name for path in stands_in.iterdir()] == ["store"]


def test_taken_port_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(taken.getsockname()[1], tmp_path / "home", tmp_path, tmp_path)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "is taken: choose another with --port" in output
    assert output.count("\n") == 1


def start(port: int, home: Path, user: Path, stands_in: Path) -> subprocess.Popen[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "XDG"))
    }
    environment |= {
        "MNEMOLOG_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(user),
        "TMPDIR": str(user / "tmp"),
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pipelines", "ui", "--port", str(port)],
        cwd=stands_in,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(found: Callable[[], Any], within_s: float) -> Any:
    """Return what `found` returns once that is true; fail after `within_s`."""
    end = time.monotonic() + within_s
    while not (result := found()):
        assert time.monotonic() < end, f"not within {within_s} s"
        time.sleep(0.5)
    return result


def ask(port: int, query: str) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql",
        json.dumps({"query": query}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return dict(json.load(response)["data"])
    except (urllib.error.URLError, OSError):
        return {}


def assets_of(data: dict[str, Any]) -> set[str]:
    return {one["assetKey"]["path"][0] for one in data.get("assetNodes", ())}


def published(found: Any) -> int | None:
    try:
        return manifests.current(found).number
    except NoManifest:
        return None


def group_of(parent: int) -> list[int]:
    """Return every process that descends from `parent`."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = [parent]
    for one in found:
        found += [pid for pid, its_parent in pairs if its_parent == one]
    return found[1:]


def alive(pids: list[int]) -> list[int]:
    left = []
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        left.append(pid)
    return left
