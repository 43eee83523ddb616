"""
The registry file: the address of this home's recall server, and its process id.

While a server lives it holds the home's lock, so there is never a second. A killed server leaves
its file behind, and other programs may have been given its port and its process id since: it is
alive only if the lock is held.
"""

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from store.home import files
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.files import make_folder, replace_file

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

HOST = "127.0.0.1"
_A_LOOK_S = 0.05
_PATIENCE_S = 0.2  # a server on this machine answers at once or not at all


class Server(msgspec.Struct, frozen=True):
    """A recall server as registered in its file.

    `instance` is drawn at every start: it identifies that server, and no other program that was
    given its pid or port since. `idle_exit_s` 0: it does not end by itself. `answers_by` is that of
    its choices.
    """

    pid: int
    port: int
    started_at: int  # microseconds UTC
    instance: str
    idle_exit_s: int = 0
    answers_by: str = ""


class DagsterUi(msgspec.Struct, frozen=True):
    """Dagster's pages as served by `mnemolog ui`."""

    pid: int
    port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


# made once, before any threads start: msgspec 0.22 crashes if two use a new type at once
_decoder = msgspec.json.Decoder(Server)
_ui_decoder = msgspec.json.Decoder(DagsterUi)


def read_registry(settings: Settings) -> Server | None:
    """Return the server in the registry file, alive or not."""
    try:
        return _decoder.decode(settings.server_file.read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None


def live_server(settings: Settings) -> Server | None:
    """Return the server of this home, if it is alive and its port is open."""
    server = read_registry(settings)
    return server if server and is_held(settings) and listens(server.port) else None


def dagster_ui(settings: Settings) -> DagsterUi | None:
    """Return the address of Dagster's pages of this home, if they are served."""
    try:
        ui = _ui_decoder.decode(settings.dagster_file.read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
    # the owner's token is sent there: another program may have the port by now
    return ui if _is_locked(settings.dagster_lock) else None


@contextmanager
def register_ui(settings: Settings, port: int) -> Iterator[None]:
    """Register Dagster's pages for the duration of the block; raise ConfigError if they are served
    already.
    """
    make_folder(settings.dagster_home)
    with _open_descriptor(settings.dagster_lock, os.O_RDWR | os.O_CREAT) as descriptor:
        if not _take_lock(descriptor):
            raise ConfigError("Dagster's pages of this home are served already: `mnemolog ui`")
        replace_file(settings.dagster_file, msgspec.json.encode(DagsterUi(os.getpid(), port)))
        try:
            yield
        finally:
            settings.dagster_file.unlink(missing_ok=True)


@contextmanager
def sole(settings: Settings) -> Iterator[None]:
    """Be the one server of a home for the duration of the block; raise ConfigError if it has one,
    and LogError for disk errors.

    The lock is the system's: it goes with the process, however that ends.
    """
    with files.translate_disk_errors(settings.home):
        make_folder(settings.home)
    with _open_descriptor(settings.server_lock, os.O_RDWR | os.O_CREAT) as descriptor:
        if not _take_lock(descriptor):
            time.sleep(_A_LOOK_S)  # another process may only be checking the lock
            if not _take_lock(descriptor):
                raise ConfigError(_already(settings))
        settings.server_file.unlink(missing_ok=True)  # left by a killed server
        yield


def is_held(settings: Settings) -> bool:
    """Return True if a server of this home is alive, even if it does not answer."""
    return _is_locked(settings.server_lock)


def keep_current(settings: Settings, server: Server, answers_by: str) -> None:
    """Record the settings by which a server answers, if they have changed since it started."""
    before = read_registry(settings)
    if before is None or before.instance != server.instance or before.answers_by == answers_by:
        return
    server = msgspec.structs.replace(server, answers_by=answers_by)
    replace_file(settings.server_file, msgspec.json.encode(server))


@contextmanager
def register(settings: Settings, server: Server) -> Iterator[None]:
    """Register a server for the duration of the block; remove the hooks' marks of its absence."""
    replace_file(settings.server_file, msgspec.json.encode(server))
    settings.server_try.unlink(missing_ok=True)
    settings.server_breaker.unlink(missing_ok=True)
    try:
        yield
    finally:
        settings.server_file.unlink(missing_ok=True)


def lives(pid: int) -> bool:
    """Return True if a process exists; always on Windows, where checking would end it."""
    if os.name == "posix":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    return True


def listens(port: int) -> bool:
    """Return True if something listens on a port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_S)
        return probe.connect_ex((HOST, port)) == 0


def _already(settings: Settings) -> str:
    server = read_registry(settings)
    if server is None:
        return "a server of this home is just starting"
    return f"a server already runs on port {server.port} (process {server.pid}): stop it first"


@contextmanager
def _open_descriptor(path: Path, flags: int) -> Iterator[int]:
    with files.translate_disk_errors(path):
        descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_locked(path: Path) -> bool:
    """Return True if a living process holds a lock file."""
    if not path.exists():
        return False
    with _open_descriptor(path, os.O_RDONLY) as descriptor:
        return not _take_lock(descriptor)


def _take_lock(descriptor: int) -> bool:
    """Take the lock, held until the file is closed; return True if nobody else has it.

    The package filelock would do it too, but costs a tenth of the server's start.
    """
    with suppress(OSError):
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
