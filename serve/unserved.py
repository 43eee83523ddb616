"""
The hook client without a running server: it starts one, and answers without it.

Standard library only, as the client. An event that a person or a model waits for is answered by a
process that reads the memory from the disk. While a server is being started, later events wait for
it instead, since several such processes at once would each be late: they wait for the rest of one
start's time, so that a session waits for a start once. An event that is only recorded (a tool was
used, the session ended) does not wait: the client has spooled it, and half a second after each use
of a tool would be felt. A server that comes up deletes `server.try`, so that the next one is
started as soon as it is missed.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

# for an answer without a server, and the longest wait for a server from its start: hosts give up at
# 5 s, our client at 4.5 s
COLD_S = 4.0
TRY_EVERY_S = 30.0  # a server that does not come up is not started again at every prompt
# the events with an awaited answer, in the words of all hosts
AWAITED = frozenset(
    {"sessionstart", "userpromptsubmit", "userpromptsubmitted", "beforesubmitprompt", "beforeagent"}
)
ENDS = frozenset({"sessionend"})


Deliver = Callable[[str, str, str, bytes, str], "tuple[bytes | None, bool]"]


def answer(
    home: str,
    host: str,
    tenant: str,
    event: bytes,
    deliver: Deliver,
    *,
    delivery: str,
    is_off: bool = False,
    waits: bool = True,
) -> "bytes | None":
    """Return the answer to an awaited event, else b"", and start a server if needed.

    None if there was no answer and no server came up meanwhile: the next hooks shall not wait for
    one, and pass `waits` as False. A home without a memory has no answer to wait for.

    A run of the agent that is off is reported once, so that it stays off, and starts no server.
    """
    try:
        payload = json.loads(event)
        name = payload.get("hook_event_name") or payload.get("hookEventName") or ""  # VS Code's
        name = str(name).replace("_", "").lower()
    except (ValueError, AttributeError, RecursionError):
        return b""
    if name in ENDS:
        return b""
    if is_off:
        if name == "sessionstart":
            _note(home, host, tenant, event)
        return b""
    if is_first := _is_our_turn(home):
        # one that came up a moment ago gave the turn back: it answers, and no second one is started
        if waits and (data := deliver(home, host, tenant, event, delivery)[0]) is not None:
            _give_back_turn(home)
            return data
        _start_server(home, tenant)
    if not waits or (name and name not in AWAITED) or not _has_memory(home):
        return b""
    left_s = COLD_S - _age_s(home)
    if not is_first and left_s > 0:
        data = _from_server(home, host, tenant, event, deliver, delivery, left_s)
    else:
        data = _from_disk(home, host, tenant, event, delivery)
    # a server that came up deleted `server.try`: it answers the next
    return data if data is not None or os.path.exists(_try_file(home)) else b""


def _from_server(
    home: str,
    host: str,
    tenant: str,
    event: bytes,
    deliver: Deliver,
    delivery: str,
    patience_s: float,
) -> "bytes | None":
    """Return the answer of a server that is being started; None if it takes too long, or another
    hook has waited in vain meanwhile.
    """
    deadline = time.monotonic() + patience_s
    breaker = os.path.join(home, "server.breaker")
    while (data := deliver(home, host, tenant, event, delivery)[0]) is None:
        if time.monotonic() > deadline or os.path.exists(breaker):
            return None
        time.sleep(0.02)
    return data


def _has_memory(home: str) -> bool:
    """Return True if the home has a tenant: a server that starts makes the first."""
    try:
        return bool(os.listdir(os.path.join(home, "tenants")))
    except OSError:
        return False


def _from_disk(home: str, host: str, tenant: str, event: bytes, delivery: str) -> "bytes | None":
    """Return the answer of a process that reads the memory itself; None if it fails."""
    words = ["--home", home, *(["--tenant", tenant] if tenant else []), "hook", host]
    words += ["--delivery", delivery]
    try:
        process = subprocess.run(
            [sys.executable, "-P", "-m", "serve.cli", *words],
            input=event,
            cwd=home,  # no folder of the user's lends it a module or a setting
            env=_environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COLD_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None


def _note(home: str, host: str, tenant: str, event: bytes) -> None:
    """Pass an event to a process without waiting for it."""
    words = ["--home", home, *(["--tenant", tenant] if tenant else []), "hook", host]
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "serve.cli", *words],
            cwd=home,
            env=_environment(home),
            stdin=subprocess.PIPE,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(event)
    except OSError:
        return


def _is_our_turn(home: str) -> bool:
    """Return True if no hook tried to start the server in the last seconds, and claim the turn."""
    path = _try_file(home)
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        if os.path.exists(path) and not 0 <= _age_s(home) < TRY_EVERY_S:
            os.unlink(path)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:  # another hook took the turn, or the home is not writable
        return False
    return True


def _give_back_turn(home: str) -> None:
    """Let the next hook that misses the server start one at once."""
    try:
        os.unlink(_try_file(home))
    except OSError:  # the server deleted it, or the home is not writable
        return


def _age_s(home: str) -> float:
    """Return the seconds since the start of a server began; infinity if none is starting."""
    try:
        return time.time() - os.stat(_try_file(home)).st_mtime
    except OSError:
        return float("inf")


def _try_file(home: str) -> str:
    return os.path.join(home, "server.try")


def _start_server(home: str, tenant: str) -> None:
    """Start a server that outlives us and inherits none of our pipes: a host waits for those."""
    detached = getattr(subprocess, "DETACHED_PROCESS", 0)
    detached |= getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    try:
        log = os.open(
            os.path.join(home, "server.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        subprocess.Popen(
            [sys.executable, "-P", "-m", "serve"],
            cwd=home,
            env=_environment(home) | ({"MNEMOLOG_TENANT": tenant} if tenant else {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            creationflags=detached,
        )
    except OSError:
        return


def _environment(home: str) -> "dict[str, str]":
    """Return the environment of a process of ours, which imports the code beside this file."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if os.path.basename(ours) not in ("site-packages", "dist-packages"):  # a checkout
        environment["PYTHONPATH"] = os.pathsep.join((ours, os.path.join(ours, "serve", "program")))
    return environment | {"MNEMOLOG_HOME": home}
