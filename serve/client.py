"""
The hook client: takes a host's event to the server of the home and prints the host's answer.

Run as `PYTHON -I -S /abs/serve/client.py HOST [--home H] [--tenant T]`, at every hook of every
session, or as `mnemolog-hook HOST` by a plugin that names no path. It is made to cost little more
than the interpreter's start: the standard library only, nothing of ours, and no module that a
delivered event does not need. It always ends with 0 and in time; whatever goes wrong, the host goes
on as if there were no memory.

If no server runs, `serve.unserved` takes over; it is a file of its own, because this one is
compiled anew at every hook.

A memory that let one hook wait in vain trips a breaker, the file `server.breaker` in its home: for
the next seconds hooks return nothing at once. After that a hook tries again, and waits for a moment
only. The server closes the breaker: when it starts, and whenever it answers a hook in time.

An event that the server does not confirm to be on its disk is spooled (`store.home.spooling`). Its
delivery has an id, by which the server records it once, however often it comes.
"""

import _thread
import os
import sys
import time

try:  # the half of `socket` that is written in C: the other half costs 12 ms
    from _socket import AF_INET, SOCK_STREAM, socket
except ImportError:  # an interpreter that does it otherwise
    from socket import AF_INET, SOCK_STREAM, socket  # type: ignore[assignment]

ANSWER_S = 1.0  # for the server, which itself is silent after 0.2 s
START_S = 2.0  # the same at a session's start: there the server takes 1.5 s
PROBE_S = 0.03  # for a server that let another hook wait in vain
BREAKER_S = 5.0  # from when the breaker tripped until a hook tries again
GIVE_UP_S = 4.5  # for any delay, such as a host that never ends its event; hosts give up at 5 s
MAX_BYTES = 4 << 20  # of an event: the server's limit
CRLF = "\r\n"


def main(arguments: "list[str]") -> None:
    """Answer one event."""
    host, home, tenant = _parse_arguments(arguments)
    event = _stdin()
    if not host or not event:
        return
    delivery = f"{time.time_ns() // 1000:020d}-{os.urandom(16).hex()}"
    is_tripped, may_try = _breaker(home)
    # the server must know that a run is off before the run goes on, so the event is sent anyway
    if is_tripped and not (may_try or is_off(os.environ)):
        _spool(home, host, tenant, event, delivery)
        return
    if is_tripped:
        trip(home)  # meanwhile no other hook tries
    start_s = START_S if b'"SessionStart"' in event else ANSWER_S  # in a text quotes are escaped
    patience_s = PROBE_S if is_tripped else start_s
    answer, is_kept = deliver(home, host, tenant, event, delivery, patience_s)
    if not is_kept:
        _spool(home, host, tenant, event, delivery)
    if answer is None:
        sys.path.append(_ours())  # without `site` only the standard library is known
        from serve import unserved

        answer = unserved.answer(
            home,
            host,
            tenant,
            event,
            deliver,
            delivery=delivery,
            is_off=is_off(os.environ),
            waits=not is_tripped,
        )
    if answer is None:
        trip(home)
    elif answer.lstrip().startswith(b"{"):
        _print(answer)


def _spool(home: str, host: str, tenant: str, event: bytes, delivery: str) -> None:
    """Spool an event that no server took, in a separate process, unless the run is off."""
    if is_off(os.environ):
        return
    sys.path.append(_ours())
    from store.home import spooling

    spooling.keep_detached(home, host, tenant, event, delivery)


def _ours() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def trip(home: str) -> None:
    """Let the hooks of the next seconds return at once; an empty file fits on a full disk too."""
    path = os.path.join(home, "server.breaker")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(path)
    except OSError:  # the home is not writable: each hook waits for itself
        return


def _breaker(home: str) -> "tuple[bool, bool]":
    """Return True if the breaker tripped, and True if a hook may try the server."""
    try:
        age_s = time.time() - os.stat(os.path.join(home, "server.breaker")).st_mtime
    except OSError:
        return False, True
    return True, not 0 <= age_s < BREAKER_S  # a clock that was put back does not keep it open


def deliver(
    home: str, host: str, tenant: str, event: bytes, delivery: str, patience_s: float = 0.0
) -> "tuple[bytes | None, bool]":
    """Return the server's answer, empty if it has none, None if no server runs; and True if the
    event is on its disk.

    A server that gives none within `patience_s` (0: ANSWER_S) trips the breaker.
    """
    patience_s = patience_s or ANSWER_S
    deadline = time.monotonic() + patience_s
    connection = None
    try:
        connection = _connect(home, patience_s)
        if connection is None:
            return None, False
        with open(os.path.join(home, "token"), encoding="utf-8") as file:
            token = file.read().strip()
        query = f"?tenant={tenant}" if tenant else ""
        head = (
            f"POST /v1/hooks/{host}{query} HTTP/1.1\r\n"
            "Host: 127.0.0.1\r\n"
            f"Authorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\n"
            f"X-Mnemolog-Delivery: {delivery}\r\n"
            f"{'X-Mnemolog-Off: 1' + CRLF if is_off(os.environ) else ''}"
            f"Content-Length: {len(event)}\r\n"
            "Connection: close\r\n\r\n"
        )
        _set_timeout(connection, deadline)
        connection.sendall(head.encode() + event)
        answer = b""
        while len(answer) < MAX_BYTES:
            _set_timeout(connection, deadline)
            if not (part := connection.recv(1 << 16)):
                break
            answer += part
        return _read(answer)
    except TimeoutError:
        trip(home)
        return b"", False
    except OSError:  # it hung up, or there is no token: silence
        return b"", False
    finally:
        if connection is not None:
            connection.close()


def _connect(home: str, patience_s: float) -> "socket | None":
    """Return a connection to the server in the home's registry; None if none runs.

    Raise TimeoutError if a server listens but takes no connection.
    """
    try:
        with open(os.path.join(home, "server.json"), "rb") as file:
            registry = file.read(4_096)
        pid, port = _number(registry, b'"pid":'), _number(registry, b'"port":')
        if os.name == "posix":  # another program may have the port by now: no token for that
            os.kill(pid, 0)
        connection = socket(AF_INET, SOCK_STREAM)
    except (OSError, ValueError, OverflowError):
        return None
    try:
        connection.settimeout(patience_s)
        connection.connect(("127.0.0.1", port))
    except TimeoutError:
        connection.close()
        raise
    except (OSError, OverflowError):
        connection.close()
        return None
    return connection


def _number(registry: bytes, key: bytes) -> int:
    """Return a number of the registry file; the module json would cost 10 ms."""
    rest = registry.partition(key)[2].lstrip()
    digits = rest[: len(rest) - len(rest.lstrip(b"0123456789"))]
    return int(digits)


def _set_timeout(connection: socket, deadline: float) -> None:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    connection.settimeout(remaining_s)


def _read(answer: bytes) -> "tuple[bytes, bool]":
    """Return the whole body of a 2xx, else b""; and True if the event is on the server's disk."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    if not status.startswith(b"HTTP/1.") or status[9:10] != b"2":
        return b"", False
    is_whole = is_kept = False
    for field in fields:
        name, _, value = field.partition(b":")
        if name.lower() == b"content-length":
            is_whole = value.strip() == str(len(body)).encode()
        elif name.lower() == b"x-mnemolog-kept":
            is_kept = value.strip() == b"1"
    return body if is_whole else b"", is_kept


def _parse_arguments(arguments: "list[str]") -> "tuple[str, str, str]":
    """Return the host, the home and the tenant (empty: the settings')."""
    words = list(arguments)
    options = {"--home": "", "--tenant": ""}
    for name in options:
        if name in words[:-1]:
            place = words.index(name)
            options[name] = words[place + 1]
            del words[place : place + 2]
    home = options["--home"] or home_of(os.environ)
    return (words or [""])[0], os.path.abspath(os.path.expanduser(home)), options["--tenant"]


def home_of(environ: "os._Environ[str] | dict[str, str]") -> str:
    """Return the home as the settings do: the variable's, else platformdirs' folder."""
    if named := environ.get("MNEMOLOG_HOME"):
        return named
    if sys.platform == "win32":
        return os.path.join(environ.get("LOCALAPPDATA", ""), "mnemolog")
    data = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return os.path.join(data, "mnemolog")


def is_off(environ: "os._Environ[str] | dict[str, str]") -> bool:
    """Return True if this run of the agent is not recorded, as the settings decide."""
    text = environ.get("MNEMOLOG_OFF", "").strip().lower()
    return text not in ("", "0", "false", "no", "off")


def _stdin() -> bytes:
    """Return the event, empty if it is larger than the server's limit."""
    event = b""
    while len(event) <= MAX_BYTES and (part := os.read(0, 1 << 16)):
        event += part
    return event if len(event) <= MAX_BYTES else b""


def _print(answer: bytes) -> None:
    try:
        while answer:
            answer = answer[os.write(1, answer) :]
    except OSError:  # the host has gone
        return


def _give_up() -> None:
    time.sleep(GIVE_UP_S)
    os._exit(0)


def run() -> None:
    """Answer the event on standard input and end the process, with 0 and in time."""
    _thread.start_new_thread(_give_up, ())
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        pass
    except Exception:  # the outermost edge: a defect of ours must not stop the agent
        import traceback

        traceback.print_exc()
    os._exit(0)  # at once: there is nothing to clean up


if __name__ == "__main__":
    run()
