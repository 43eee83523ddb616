"""
leaks: secrets through every door of a server under load, which is killed; then all files are read.

Each secret is unique and fake. It is searched for in plain text, JSON-escaped, in base64 at each of
its three offsets and in UTF-16, in every file below the home, the folder for temporary files and
the logs, and in the unlinked files that the server still holds open. The control is a word that is
no secret and goes in by the same doors: it must be found.
"""

import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torture.leak_doors import COMMANDS, DOORS, MARKER, Here
from torture.outcome import Outcome, Scale
from torture.traces import traces

from store.home.config import Settings
from store.home.registry import read_registry

ROOT = Path(__file__).resolve().parents[2]
START = "from serve.__main__ import main; main()"
THREADS = 4
_PATIENCE_S = 120.0


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the secrets found in files, after the server was killed again and again."""
    here = Here(folder / "home", folder / "tmp", folder)
    for path in (here.home, here.spool):
        path.mkdir(mode=0o700)
    subprocess.run(["git", "init", "-q", str(here.repository)], check=True)
    url = f"https://anna:{here.secret('remote').split('://')[-1]}@git.internal/acme/shop.git"
    words = ["git", "-C", str(here.repository), "remote", "add", "origin", url]
    subprocess.run(words, check=True)
    kills = scale.of(1, 20)
    chance = random.Random(7)
    for number in range(kills):
        _under_load(here, chance.uniform(0.2, 1.5), is_first=number == 0)
    _at_the_desk(here, scale.of(3, len(COMMANDS)))
    texts = _files(here)
    leaks = traces(here.planted, texts)
    size = sum(map(len, texts.values()))
    yield Outcome(
        f"secrets through {len(here.doors)} doors, {kills} kill -9",
        len(here.planted),
        f"secrets, {len(texts)} files of {size >> 10:,} KiB",
        [*leaks, *_unused(here)],
        f"{len(here.spooled)} of them unlinked while it ran",
        floor=1_000,
    )
    marked = [name for name, content in texts.items() if MARKER.encode() in content]
    yield Outcome("a word that is no secret, by the same doors", 1, "word", marked, is_control=True)


def _unused(here: Here) -> list[str]:
    """Return the doors that never answered: their secrets were not tried."""
    names = (door.__name__ for door in DOORS)
    return [f"{name} was never answered" for name in names if name not in here.answered]


def _environment(here: Here) -> dict[str, str]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "serve" / "program")))
    named = {"MNEMOLOG_HOME": str(here.home), "TMPDIR": str(here.spool), "PYTHONPATH": path}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return os.environ | named | {"HOME": str(here.folder), "MNEMOLOG_PORT": str(port)}


def _under_load(here: Here, seconds: float, *, is_first: bool) -> None:
    """Start the server, send by every door for a while, and kill it.

    The first run ends once all doors were answered.
    """
    settings = Settings(here.home)
    with (here.folder / "said.log").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-X", "faulthandler", "-c", START],
            env=_environment(here),
            cwd=here.folder,
            stdout=output,
            stderr=output,
        )
    try:
        port = _port(settings, process)
        token = (here.home / "token").read_text()
        over = threading.Event()
        threads = [
            threading.Thread(target=_load, args=(here, port, token, number, over))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + (_PATIENCE_S if is_first else seconds)
        while time.monotonic() < until and not (is_first and not _unused(here)):
            _look_at_spooled(here, process.pid)
            time.sleep(0.01)
        over.set()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for thread in threads:
        thread.join()


def _port(settings: Settings, process: subprocess.Popen[bytes]) -> int:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        registry = read_registry(settings)
        if registry is not None and registry.pid == process.pid:
            return registry.port
        time.sleep(0.02)
    raise RuntimeError(f"the server did not come up: exit code {process.poll()}")


def _look_at_spooled(here: Here, pid: int) -> None:
    """Keep the content of the spool's files that a server holds open for a moment."""
    try:
        for path in Path(f"/proc/{pid}/fd").iterdir():
            name = os.readlink(path)
            if name.startswith(str(here.spool)):
                data = path.read_bytes()
                here.spooled[f"{name} of {len(data)} bytes"] = data
    except OSError:  # no such folder on this system, or the file was closed meanwhile
        return


def _load(here: Here, port: int, token: str, first: int, over: threading.Event) -> None:
    """
    Send by one door after the other until the server is gone; each thread starts at another door.
    """
    for door in itertools.islice(itertools.cycle(DOORS), first * len(DOORS) // THREADS, None):
        try:
            door(here, partial(_send, here, door.__name__, port, token))
        except (OSError, http.client.HTTPException):
            return
        if over.is_set():
            return


def _send(
    here: Here,
    door: str,
    port: int,
    token: str,
    method: str,
    path: str,
    body: object = None,
    **headers: str,
) -> int:
    """Send one request and return its status; raise OSError or HTTPException if it was cut off."""
    named = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, data, named | headers)
        answer = connection.getresponse()
        answer.read()
    finally:
        connection.close()
    if answer.status < 500:
        here.answered.add(door)
    return answer.status


def _at_the_desk(here: Here, most: int) -> None:
    """Send by the command line's doors, with the server dead."""
    for command in COMMANDS[:most]:
        payload = {"session_id": here.secret("hook command"), "hook_event_name": "UserPromptSubmit"}
        prompt = json.dumps(payload | {"prompt": here.text("hook command, prompt")})
        subprocess.run(
            [sys.executable, "-P", "-m", "serve.cli", *command(here)],
            env=_environment(here),
            cwd=here.repository,
            input=prompt.encode(),
            capture_output=True,
            check=False,
        )


def _files(here: Here) -> dict[str, bytes]:
    """Return the bytes of every file that may hold input; a repository is its owner's."""
    ours = (here.home, here.spool)
    paths = [path for folder in ours for path in folder.rglob("*") if path.is_file()]
    paths += [path for path in here.folder.iterdir() if path.is_file()]
    named = {str(path.relative_to(here.folder)): path.read_bytes() for path in sorted(paths)}
    return named | here.spooled
