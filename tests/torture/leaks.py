"""
leaks: secrets through every door of a server under load, which is killed; then every file is read.

Each secret is its own and issued by nobody. It is looked for as it is, as JSON escapes it, in
base64 at each of its three offsets and in UTF-16, in every file below the home, the folder for
temporary files and the logs, and in what the server still holds open and unlinked. The control is
a word that is no secret and goes in by the same doors: it must be found.
"""

import base64
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from hosts_told import RECORDED, in_session, laced
from torture.outcome import Outcome, Scale
from torture.secret_kinds import KINDS, Secret

from store.config import Settings
from store.registry import registered

ROOT = Path(__file__).resolve().parents[2]
MARKER = "thornbushes"  # no secret: it is kept wherever a text is
START = "from serve.process.daemon import main; main()"
THREADS = 4
# those that are known by themselves, wherever they stand
_KINDS = (
    "github token",
    "anthropic key",
    "slack token",
    "gitlab token",
    "npm token",
    "linear key",
    "url password",
    "our own token",
)
_PATIENCE_S = 120.0
_LARGE = 900_000  # bytes: what waitress would put into a file


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield what of the secrets is in which file, after the server was killed again and again."""
    here = _Here(folder / "home", folder / "tmp", folder)
    for one in (here.home, here.spool):
        one.mkdir(mode=0o700)
    _repository(here)
    kills = scale.of(1, 20)
    chance = random.Random(7)
    for number in range(kills):
        _under_load(here, chance.uniform(0.2, 1.5), is_first=number == 0)
    _at_the_desk(here, scale.of(3, len(COMMANDS)))
    texts = _files(here)
    sought = {
        data: f"{door}, {form}" for door, core in here.planted for form, data in forms(core).items()
    }
    found = [
        f"{what} in {name}" for name, content in texts.items() for what in _found(sought, content)
    ]
    size = sum(map(len, texts.values()))
    yield Outcome(
        f"secrets through {len(here.doors)} doors, {kills} kill -9",
        len(here.planted),
        f"secrets, {len(texts)} files of {size >> 10:,} KiB",
        [*found, *_unused(here)],
        f"{len(here.spooled)} of them unlinked while it ran",
        floor=1_000,
    )
    marked = [name for name, content in texts.items() if MARKER.encode() in content]
    yield Outcome("a word that is no secret, by the same doors", 1, "word", marked, is_control=True)


@dataclass(slots=True)
class _Here:
    """The places of an attack, and what was sent in by which door."""

    home: Path
    spool: Path
    folder: Path
    planted: list[tuple[str, str]] = field(default_factory=list)
    doors: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    spooled: dict[str, bytes] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def secret(self, door: str, *, is_name: bool = False) -> str:
        """Return a secret that goes in by a door, and look for it in the end; one without a slash
        where it is to be part of a name.
        """
        number = next(self.numbers)
        kinds = [kind for kind in _KINDS if kind != "url password"] if is_name else _KINDS
        kind = kinds[number % len(kinds)]
        made: Secret = KINDS[kind](random.Random(f"leak {number}"))
        self.planted.append((door, made.core))
        self.doors.add(door)
        return made.value

    def text(self, door: str) -> str:
        return f"the {MARKER} use {self.secret(door)} since monday"


def forms(core: str) -> Mapping[str, bytes]:
    """Return how a secret may lie in a file."""
    encoded = {
        f"base64 at {start}": base64.b64encode(b"x" * start + core.encode())[start + 2 : -4]
        for start in range(3)
    }
    return {
        "as it is": core.encode(),
        "in JSON": json.dumps(core)[1:-1].encode(),
        "in UTF-16": core.encode("utf-16-le"),
        **encoded,
    }


def _found(sought: Mapping[bytes, str], content: bytes) -> Iterator[str]:
    """Yield what is in a content, of many things sought; each is eight bytes long or longer."""
    first = np.array([np.frombuffer(one[:8], np.uint64)[0] for one in sought])
    by_first: dict[bytes, list[bytes]] = {}
    for one in sought:
        by_first.setdefault(one[:8], []).append(one)
    for start in range(8):
        count = (len(content) - start) // 8
        words = np.frombuffer(content, np.uint64, max(0, count), start) if count > 0 else first[:0]
        for place in (np.flatnonzero(np.isin(words, first)) * 8 + start).tolist():
            for one in by_first[content[place : place + 8]]:
                if content.startswith(one, place):
                    yield sought[one]


Send = Callable[..., int]
Door = Callable[[_Here, Send], None]


def _recorded(here: _Here, send: Send) -> None:
    def of(name: str) -> str:
        return here.text(f"memory, {name}")

    memory: dict[str, Any] = {name: of(name) for name in ("content", "context", "action", "result")}
    memory |= {name: of(name)[:190] for name in ("source", "created_by", "session", "agent")}
    memory |= {"tags": [of("tag")[:90]], "insight_type": of("insight")[:190]}
    memory |= {"key": f"db.{here.secret('memory, key', is_name=True)}", "value": of("value")}
    memory |= {"metadata": {here.secret("metadata, name"): {"deep": [of("metadata")]}}}
    key = f'"{here.secret("idempotency")[:60]}"'
    send("POST", "/v1/memories", memory, **{"Idempotency-Key": key})


def _changed(here: _Here, send: Send) -> None:
    id_ = f"leak-{next(here.numbers)}"
    send("POST", "/v1/memories", {"id": id_, "content": here.text("memory, content")})
    path = f"/v1/memories/{id_}"
    send("PATCH", path, {"content": here.text("revision"), "reason": here.text("reason")})
    send("POST", "/v1/rate", {"id": id_, "verdict": 1.0, "reason": here.text("rating")})
    send("DELETE", path, {"reason": here.text("forgetting")})


def _refused(here: _Here, send: Send) -> None:
    send("POST", "/v1/memories", {"id": here.secret("id")[:64], "content": "it has a wrong id"})
    send("POST", "/v1/memories", {"content": "x", "unknown": here.text("unknown field")})
    send("POST", "/v1/memories", b'{"content": "' + here.text("broken JSON").encode())
    send("GET", f"/v1/memories/{quote(here.secret('path'), '')}")
    send("GET", f"/v1/{quote(here.secret('unknown path'), '')}?token={quote(here.secret('query'))}")
    send("POST", "/v1/tenants", {"name": here.secret("tenant").lower()[:60]})
    send("POST", "/v1/memories", {"content": "a", "project": here.secret("project")[:190]})
    send("GET", "/v1/status", None, **{"X-Mnemolog-Tenant": here.secret("tenant in a header")})


def _ingested(here: _Here, send: Send) -> None:
    turn = {"role": "tool", "content": here.text("turn"), "speaker": here.text("speaker")[:190]}
    memory = {"content": here.text("batch"), "metadata": {"password": here.text("a named one")}}
    body = {"turns": [turn], "memories": [memory], "session": here.text("batch, session")[:190]}
    send("POST", "/v1/ingest", body, **{"Idempotency-Key": f'"{here.secret("job key")[:60]}"'})


def _large(here: _Here, send: Send) -> None:
    """More than waitress keeps in memory unless it is told to."""
    words = "a long memory of little use " * 100
    memories = [{"content": f"{words} {here.text('a large body')}"} for _ in range(_LARGE // 2_900)]
    send("POST", "/v1/ingest", {"memories": memories})


def _asked(here: _Here, send: Send) -> None:
    send("POST", "/v1/recall", {"query": here.text("query")})
    send("GET", f"/v1/memories?text={quote(here.text('search'))}")
    send("GET", f"/v1/memories?project={quote(here.secret('project asked for'))}")
    send("GET", f"/v1/overview?topic={quote(here.text('topic'))}")
    send("GET", f"/v1/receipts?session={quote(here.text('session asked for'))}")


def _by_mcp(here: _Here, send: Send) -> None:
    def call(name: str, **given: object) -> None:
        params = {"name": name, "arguments": given}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        send("POST", "/mcp", body, **{"MCP-Protocol-Version": "2025-06-18"})

    call("remember", content=here.text("MCP, content"), tags=[here.secret("MCP, tag")[:90]])
    call("recall", query=here.text("MCP, query"))
    call("goals", content=here.text("MCP, goal"), action="add")
    call("feedback", id=here.secret("MCP, id"), verdict="wrong", reason=here.text("MCP, reason"))
    call(here.secret("MCP, tool"), **{here.secret("MCP, argument"): here.text("MCP, value")})


def _by_hooks(here: _Here, send: Send) -> None:
    for host, payloads in RECORDED.items():
        session = here.secret(f"{host}, session")
        for payload in payloads:
            told = in_session(laced(payload, here.text(f"{host}, texts")), session)
            send("POST", f"/v1/hooks/{host}", _in(told, here, host))


def _in(payload: dict[str, Any], here: _Here, host: str) -> dict[str, Any]:
    """Return an event told in a repository whose remote has a password, of a file named so."""
    told = payload | {"cwd": str(here.repository)} if "cwd" in payload else payload
    if isinstance(told.get("tool_input"), dict):
        told["tool_input"] = told["tool_input"] | {
            name: f"{here.repository}/{here.secret(f'{host}, file', is_name=True)}"
            for name in ("file_path", "filePath")
            if name in told["tool_input"]
        }
    return told


def _named(here: _Here, send: Send) -> None:
    made = {"name": here.secret("token's name")[:100], "scopes": ["read"]}
    send("POST", "/v1/tenants/default/tokens", made)
    send("GET", "/v1/status", None, Authorization=f"Bearer {here.secret('wrong token')}")
    send("GET", "/v1/status", None, Host=here.secret("host").replace("/", ""))
    send("GET", "/v1/status", None, **{"User-Agent": here.secret("user agent")})
    send("GET", f"/?key={quote(here.secret('dashboard key'))}")
    form = f"csrf={quote(here.secret('form'))}&content={quote(here.text('form, content'))}"
    form_type = {"Content-Type": "application/x-www-form-urlencoded"}
    send("POST", "/memories/new", form.encode(), **form_type)


DOORS: Sequence[Door] = (
    _named,
    _recorded,
    _asked,
    _changed,
    _refused,
    _by_mcp,
    _ingested,
    _by_hooks,
    _large,
)


def _unused(here: _Here) -> list[str]:
    """Return the doors that never answered anything: what they were sent was not tried."""
    names = (door.__name__ for door in DOORS)
    return [f"{name} was never answered" for name in names if name not in here.answered]


def _repository(here: _Here) -> None:
    """Make a repository whose remote's URL holds a password."""
    subprocess.run(["git", "init", "-q", str(here.repository)], check=True)
    url = f"https://anna:{here.secret('remote').split('://')[-1]}@git.internal/acme/shop.git"
    words = ["git", "-C", str(here.repository), "remote", "add", "origin", url]
    subprocess.run(words, check=True)


def _environment(here: _Here) -> dict[str, str]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "serve" / "program")))
    named = {"MNEMOLOG_HOME": str(here.home), "TMPDIR": str(here.spool), "PYTHONPATH": path}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return os.environ | named | {"HOME": str(here.folder), "MNEMOLOG_PORT": str(port)}


def _under_load(here: _Here, seconds: float, *, is_first: bool) -> None:
    """Start the server, send by every door for a while, and kill it.

    The first time is over once all doors were answered.
    """
    settings = Settings(here.home)
    with (here.folder / "said.log").open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-X", "faulthandler", "-c", START],
            env=_environment(here),
            cwd=here.folder,
            stdout=said,
            stderr=said,
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
        found = registered(settings)
        if found is not None and found.pid == process.pid:
            return found.port
        time.sleep(0.02)
    raise RuntimeError(f"the server did not come up: exit code {process.poll()}")


def _look_at_spooled(here: _Here, pid: int) -> None:
    """Keep what is in the files without a name that a server holds open for a moment."""
    try:
        for one in Path(f"/proc/{pid}/fd").iterdir():
            name = os.readlink(one)
            if name.startswith(str(here.spool)):
                data = one.read_bytes()
                here.spooled[f"{name} of {len(data)} bytes"] = data
    except OSError:  # no such folder on this system, or the file was closed meanwhile
        return


def _load(here: _Here, port: int, token: str, first: int, over: threading.Event) -> None:
    """Send by one door after the other until the server is gone; each thread begins elsewhere."""
    for door in itertools.islice(itertools.cycle(DOORS), first * len(DOORS) // THREADS, None):
        try:
            door(here, partial(_send, here, door.__name__, port, token))
        except (OSError, http.client.HTTPException):
            return
        if over.is_set():
            return


def _send(
    here: _Here,
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


COMMANDS: Sequence[Callable[[_Here], list[str]]] = (
    lambda here: ["record", here.text("command line"), "--tag", here.secret("tag")[:90]],
    lambda here: ["import", "markdown", str(_file(here, "notes.md", here.text("Markdown")))],
    lambda here: ["hook", "claude-code"],
    lambda here: ["import", "jsonl", str(_file(here, "one.jsonl", _line(here)))],
    lambda here: ["recall", here.text("command line, query")],
    lambda here: ["list", "--project", here.secret("command line, project")],
    lambda here: ["show", here.secret("command line, id")],
)


def _file(here: _Here, name: str, text: str) -> Path:
    """Write a file of a person's own beside the memory."""
    path = here.repository / name
    path.write_text(text + "\n")
    return path


def _line(here: _Here) -> str:
    return json.dumps({"content": here.text("import, JSON Lines")})


def _at_the_desk(here: _Here, most: int) -> None:
    """Send by the command line's doors, the server being dead."""
    for command in COMMANDS[:most]:
        said = {"session_id": here.secret("hook command"), "hook_event_name": "UserPromptSubmit"}
        prompt = json.dumps(said | {"prompt": here.text("hook command, prompt")})
        subprocess.run(
            [sys.executable, "-P", "-m", "serve.cli", *command(here)],
            env=_environment(here),
            cwd=here.repository,
            input=prompt.encode(),
            capture_output=True,
            check=False,
        )


def _files(here: _Here) -> dict[str, bytes]:
    """Return what is in every file that may hold what came in; a repository is its person's own."""
    ours = (here.home, here.spool)
    paths = [path for folder in ours for path in folder.rglob("*") if path.is_file()]
    paths += [path for path in here.folder.iterdir() if path.is_file()]
    named = {str(path.relative_to(here.folder)): path.read_bytes() for path in sorted(paths)}
    return named | here.spooled
