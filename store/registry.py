"""
The registry file: where this home's recall server listens, and under which process id.

A server that was killed leaves its file behind; it is known by its dead process, as another program
may have taken the port since.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from store.config import Settings
from store.files import replace_file

HOST = "127.0.0.1"
_PATIENCE_S = 0.2  # a server on this machine answers at once or not at all


class Server(msgspec.Struct, frozen=True):
    """A recall server as its registry file tells it."""

    pid: int
    port: int


def running(settings: Settings) -> Server | None:
    """Return the server of this home, if its process lives and its port is open."""
    try:
        found = msgspec.json.decode(settings.server_file.read_bytes(), type=Server)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
    return found if _lives(found.pid) and _listens(found.port) else None


@contextmanager
def register(settings: Settings, port: int) -> Iterator[None]:
    """Name this process and its port in the file, for as long as the block lasts."""
    replace_file(settings.server_file, msgspec.json.encode(Server(os.getpid(), port)))
    try:
        yield
    finally:
        settings.server_file.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    """Whether there is such a process; on Windows, where asking would end it, always true."""
    if os.name == "posix":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    return True


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_S)
        return probe.connect_ex((HOST, port)) == 0
