"""
Pauses: the projects, folders and sessions that are not recorded, and since when.

A small file in the home, so that a pause survives a restart, holds for every tenant, and is known
where no log can be read. Pauses that are over stay in it: transcripts from a pause are not imported
later. A file that cannot be read pauses everything.
"""

import os
import shlex
from pathlib import Path
from typing import Literal

import msgspec

from store.home.errors import ConfigError
from store.home.files import file_lock, read_rows, replace_file
from store.home.instants import isoformat
from store.home.projects import scope_chain
from store.redaction.redact import redact

Scope = Literal["project", "directory", "session"]


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scope that is not recorded from `since` until `until`; both in microseconds UTC.

    `is_of_a_run`: set by the environment of one run of the agent.
    """

    scope: Scope
    name: str
    since: int
    until: int | None = None
    is_of_a_run: bool = False

    def holds(self, at: int) -> bool:
        return self.since <= at and (self.until is None or at < self.until)

    @property
    def what(self) -> str:
        return f"{self.scope} {self.name}"

    @property
    def resume(self) -> str:
        """The command that ends it."""
        return f"mnemolog resume --{self.scope} {shlex.quote(self.name)}"


_decoder = msgspec.json.Decoder(tuple[Pause, ...])


def file_of(home: Path) -> Path:
    return home / "paused.json"


def read(home: Path) -> tuple[Pause, ...]:
    """Return all pauses, those that are over too, oldest first; raise ConfigError."""
    cure = "nothing is recorded; `mnemolog resume --all` writes it anew"
    return read_rows(file_of(home), _decoder, cure)


def pause(
    home: Path,
    scope: Scope,
    name: str,
    now: int,
    until: int | None = None,
    *,
    is_of_a_run: bool = False,
) -> Pause:
    """Pause something; return the pause. If it is already paused, it stays so with the new end. A
    secret in the name is redacted before it is written. Raise ConfigError.
    """
    name = _redact_name(scope, name)
    with file_lock(file_of(home)):
        pauses = read(home)
        there = [
            old
            for old in pauses
            if (old.scope, _redact_name(old.scope, old.name)) == (scope, name) and old.holds(now)
        ]
        new = Pause(scope, name, there[0].since if there else now, until, is_of_a_run)
        _write(home, (*(old for old in pauses if old not in there), new))
    return new


def resume(home: Path, now: int, scope: Scope | None = None, name: str = "") -> list[Pause]:
    """End the pauses of a name, or all without a scope; return the pauses that ended.

    Raise ConfigError; without a scope a file that cannot be read is written anew.
    """
    name = _redact_name(scope, name)
    with file_lock(file_of(home)):
        try:
            pauses = read(home)
        except ConfigError:
            if scope is not None:
                raise
            pauses = ()
            _write(home, pauses)
        ended = [
            old
            for old in pauses
            if old.holds(now)
            and (scope is None or (old.scope, _redact_name(old.scope, old.name)) == (scope, name))
        ]
        if ended:
            over = {old: msgspec.structs.replace(old, until=now) for old in ended}
            _write(home, tuple(over.get(old, old) for old in pauses))
    return ended


class Pauses:
    """The pauses of a home, read again whenever the file changed. Threads may share it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: tuple[object, tuple[Pause, ...]] | None = None

    def of(self, session: str, project: str, cwd: str | None, at: int) -> Pause | None:
        """Return the pause that holds for a session, project and directory; raise ConfigError."""
        for pause in self._read():
            if pause.holds(at) and covers(pause, session, project, cwd):
                return pause
        return None

    def _read(self) -> tuple[Pause, ...]:
        mark: object = None
        try:
            status = os.stat(file_of(self._home))
            mark = (status.st_mtime_ns, status.st_ino, status.st_size)
        except FileNotFoundError:
            pass
        except OSError:  # it has become unreadable: the old contents hold
            if self._known is not None:
                return self._known[1]
        if self._known is None or self._known[0] != mark:
            self._known = (mark, read(self._home))
        return self._known[1]


def folder_name(path: str | Path) -> str:
    """Return a folder as a pause names it: absolute, with links resolved."""
    return os.path.realpath(path)


def pause_fields(pause: Pause) -> dict[str, object]:
    """Return a pause as programs read it."""
    return {
        "scope": pause.scope,
        "name": pause.name,
        "since": isoformat(pause.since),
        "until": isoformat(pause.until) if pause.until is not None else None,
        "by": "MNEMOLOG_OFF" if pause.is_of_a_run else "mnemolog pause",
        "resume": pause.resume,
    }


def covers(pause: Pause, session: str, project: str, cwd: str | None) -> bool:
    """Return True if a pause is of a session, or of the project or folder it works in."""
    match pause.scope:
        case "session":
            return pause.name == session or redact(pause.name) == redact(session)
        case "project":
            chain = scope_chain(project)
            return pause.name in chain or redact(pause.name) in map(redact, chain)
        case "directory":
            return cwd is not None and _is_within(cwd, pause.name)


def _redact_name(scope: Scope | None, name: str) -> str:
    """Return a name as it is stored; a path part by part, so that paths below begin with it."""
    if scope == "directory":
        return os.sep.join(map(redact, name.split(os.sep)))
    return redact(name)


def _is_within(path: str, folder: str) -> bool:
    names = (folder_name(path), folder)
    here, there = (os.path.normcase(_redact_name("directory", name)) for name in names)
    return here == there or here.startswith(there.rstrip(os.sep) + os.sep)


def _write(home: Path, pauses: tuple[Pause, ...]) -> None:
    try:
        replace_file(file_of(home), msgspec.json.format(msgspec.json.encode(pauses)) + b"\n")
    except OSError as error:
        raise ConfigError(f"{file_of(home)} cannot be written ({error.strerror})") from error
