"""
Dagster's UI as the tests start it: a separate process, on a home of three tenants. The log of one
holds a memory that no build may serve; no build agrees with the log of another.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from background import free_port

import pipelines
from store.home.config import Settings
from store.home.tenant import Tenant, tenant
from store.log.commands import Draft, record
from store.log.event_kinds import Recorded, Surfaced, Undone
from store.log.event_log import EventLog
from store.log.events import Event
from store.text import frame

ROOT = Path(pipelines.__file__).resolve().parent.parent
_OURS = ("DAGSTER", "XDG", "MNEMOLOG")  # environment variables, none of which reaches the UI
HELD = f"{frame.OPENING} to be kept from everybody"


@dataclass(frozen=True)
class Page:
    """A running UI. `good`, `leaky` and `refused` are the tenants, `user` and `stands_in` are
    folders around it.
    """

    port: int
    process: "subprocess.Popen[str]"
    good: Tenant
    leaky: Tenant
    refused: Tenant
    user: Path
    stands_in: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_there(self) -> bool:
        return self.process.poll() is None

    def ask(self, query: str) -> dict[str, Any]:
        """Return the answer of Dagster's GraphQL; nothing while it does not respond."""
        try:
            request = urllib.request.Request(
                f"{self.url}/graphql",
                json.dumps({"query": query}).encode(),
                self.bearer | {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                return dict(json.load(response)["data"])
        except (urllib.error.URLError, OSError):
            return {}

    @property
    def settings(self) -> Settings:
        return Settings(self.good.root.parents[1])

    @property
    def bearer(self) -> dict[str, str]:
        """The header of a program of the owner; OSError while there is no token."""
        return {"Authorization": f"Bearer {self.settings.token_file.read_text().strip()}"}

    def link(self) -> str:
        """Return a one-time login link for a browser, as `mnemolog ui` prints it."""
        request = urllib.request.Request(
            f"{self.url}/v1/logins", b"{}", self.bearer | {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return self.url + str(json.load(response)["path"])

    def end(self) -> str:
        """End it as a service manager would; return its output."""
        if self.is_there:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)
        return self.output.read_text()

    @property
    def output(self) -> Path:
        return self.user.parent / "output"


def opened(folder: Path, plant: Callable[[EventLog, str, Recorded], None]) -> Page:
    """Start the UI on a home below `folder`, from a folder whose modules it must not import."""
    home, user, stands_in = folder / "home", folder / "user", folder / "clone"
    (user / "tmp").mkdir(parents=True)
    (stands_in / "store").mkdir(parents=True)
    (stands_in / "store" / "__init__.py").write_text("raise SystemExit('hostile')\n")
    good, leaky, refused = tenant(home), tenant(home, "leaky"), tenant(home, "refused")
    with EventLog(good.log, create=True) as log:
        record(log, Draft(content="the UI builds this by itself"), 1)
    with EventLog(leaky.log, create=True) as log:
        record(log, Draft(content="what is beside it waits"), 1)
        plant(log, "planted", Recorded(content=HELD))
    with EventLog(refused.log, create=True) as log:
        record(log, Draft(content="what was shown to nobody"), 1)
        shown = Event("shown", 2, Surfaced(place="prompt"), "nobody")
        log.append([shown, Event("undone", 2, Undone(events=("shown",)), "undone")])
    port = free_port()
    with (folder / "output").open("wb") as output:
        process = start(port, home, user, stands_in, output)
    return Page(port, process, good, leaky, refused, user, stands_in)


def start(
    port: int, home: Path, user: Path, stands_in: Path, output: int | IO[bytes] = subprocess.PIPE
) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
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
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until(found: Callable[[], Any], within_s: float) -> Any:
    """Return the result of `found` once it is true; fail after `within_s`."""
    end = time.monotonic() + within_s
    while not (result := found()):
        assert time.monotonic() < end, f"not within {within_s} s"
        time.sleep(0.5)
    return result


def group_of(parent: int) -> list[int]:
    """Return all descendant processes of `parent`."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = [parent]
    for one in found:
        found += [pid for pid, its_parent in pairs if its_parent == one]
    return found[1:]
