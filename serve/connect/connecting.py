"""
Connecting: the plan for one host, its file changes, and the record that lets it be undone.

A host may write its settings at any moment. So the bytes are compared just before they are
replaced; where they changed, the same edit is made on the new content. A file keeps its mode and
stays behind its symbolic link; its former content is kept in `<home>/backups/hosts`.
"""

import difflib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from serve.connect.document import Document, document
from serve.connect.json_edit import blanks_of
from serve.hosts.host import Host, Install, Machine
from store.home.errors import ConfigError, LogReadOnly
from store.home.files import replace_file

# The file `connections.json` of the home. Which hosts are connected is read from the hosts' own
# files, never from here; without it disconnecting may leave an empty object or folder behind.


class Before(StrEnum):
    """The state of a file before we first wrote to it."""

    NONE = "none"
    BLANK = "blank"
    FULL = "full"


class OriginalFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file before us: a blank one's text, and the white space inside its empty containers."""

    was: Before = Before.FULL
    text: str = ""
    blanks: tuple[tuple[tuple[str | int, ...], str], ...] = ()


class ConnectedHost(msgspec.Struct, frozen=True):
    """A host: when last connected, in microseconds UTC, and its files by their path."""

    at: int
    files: dict[str, OriginalFile]


class Connections(msgspec.Struct, frozen=True):
    """All connected hosts, and the folders that we made."""

    hosts: dict[str, ConnectedHost] = {}
    folders: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(Connections)


def read_connections(home: Path) -> Connections:
    """Return the recorded connections; raise ConfigError where the file cannot be read."""
    path = connections_file(home)
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return Connections()
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): move it away") from error


def write_connections(home: Path, connections: Connections) -> None:
    """Replace the file; delete it where nothing is connected."""
    if connections.hosts or connections.folders:
        replace_file(connections_file(home), msgspec.json.format(msgspec.json.encode(connections)))
    else:
        connections_file(home).unlink(missing_ok=True)


def connections_file(home: Path) -> Path:
    return home / "connections.json"


# Changes of one file

KEPT = 20  # backups
MOST_READ = 16 << 20  # bytes; a host that keeps its history in its settings fills a few of them
_TRIES = 5


class FileChange(msgspec.Struct, frozen=True):
    """One file's content before and after; None where there is no file."""

    document: Document
    before: bytes | None
    after: bytes | None
    is_taken: bool
    hold: OriginalFile | None  # needed to remove our entries again

    @property
    def path(self) -> Path:
        return self.document.path

    @property
    def is_one(self) -> bool:
        return self.before != self.after

    def difference(self) -> list[str]:
        """Return the lines of the unified difference, without line ends."""
        both = self.before, self.after
        old, new = (_text(data).splitlines(keepends=True) for data in both)
        from_, to = (os.devnull if data is None else str(self.path) for data in both)
        lines = difflib.unified_diff(old, new, from_, to, n=2, lineterm="")
        return [line.rstrip("\r\n") for line in lines]


def plan_change(document: Document, hold: OriginalFile | None, *, is_taken: bool) -> FileChange:
    """Return the change of a file by connecting or disconnecting; raise ConfigError naming it."""
    before = _read(document.path)
    try:
        return (
            _change_to_remove(document, before, hold)
            if is_taken
            else _change_to_add(document, before, hold)
        )
    except ConfigError as error:
        raise ConfigError(f"{document.path}: {error}") from error


def apply_change(change: FileChange, folders: list[str]) -> None:
    """Make a change; add newly made folders to the list.

    Raise ConfigError where the file cannot be written, or changes at each attempt.
    """
    for _ in range(_TRIES):
        if not change.is_one:
            return
        try:
            real = change.path.resolve()
            folder = real.parent
            while not folder.exists():
                folders.append(str(folder))
                folder = folder.parent
            if _read(change.path) == change.before:
                _write(real, change.after, is_program=change.document.is_program)
                return
        except OSError as error:
            raise ConfigError(f"{change.path} cannot be written ({error.strerror})") from error
        change = plan_change(change.document, change.hold, is_taken=change.is_taken)
    raise ConfigError(f"{change.path} keeps being written by another program: close it first")


def back_up(home: Path, name: str, changes: list[FileChange]) -> Path | None:
    """Copy the original files to `<home>/backups/hosts`; return the folder, if any."""
    old_files = [(change.path, change.before) for change in changes if change.before is not None]
    if not old_files:
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    folder = home / "backups" / "hosts" / f"{stamp}-{name}"
    try:
        for path, data in old_files:
            replace_file(folder / "_".join(path.absolute().parts[1:]), data)
    except OSError as error:
        raise LogReadOnly(f"{folder} cannot be written ({error.strerror})") from error
    for old in sorted(folder.parent.iterdir())[:-KEPT]:
        shutil.rmtree(old)
    return folder


def drop_folders(folders: list[str]) -> list[str]:
    """Remove folders that we made and that are empty now; return the others."""
    others = []
    for folder in sorted(folders, key=len, reverse=True):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # it is not empty
            others.append(folder)
    return others


def _change_to_add(
    document: Document, before: bytes | None, hold: OriginalFile | None
) -> FileChange:
    text = _text(before)
    is_blank = _is_blank(text)
    start = document.start if is_blank else text
    if hold is None or is_blank or not document.entries(text):  # else it was recorded before
        was = Before.FULL if not is_blank else Before.BLANK if before is not None else Before.NONE
        places = tuple(blanks_of(start, document.places).items()) if document.places else ()
        hold = OriginalFile(was, text if is_blank else "", places)
    return FileChange(document, before, document.put(start).encode(), False, hold)


def _change_to_remove(
    document: Document, before: bytes | None, hold: OriginalFile | None
) -> FileChange:
    if before is None or _is_blank(_text(before)) or not document.entries(_text(before)):
        return FileChange(document, before, before, True, hold)
    hold = hold or OriginalFile()
    text = document.take(_text(before), dict(hold.blanks))
    after: bytes | None = text.encode()
    if "".join(text.split()) == "".join(document.start.split()):
        if hold.was == Before.NONE:
            after = None
        elif hold.was == Before.BLANK:
            after = hold.text.encode()
    return FileChange(document, before, after, True, hold)


def our_entries(document: Document) -> list[Any]:
    """Return our entries in a file; raise ConfigError, naming it, where it does not parse."""
    return _ask_document(document, document.entries) or []


def settings_values(document: Document) -> Any:
    """Return a file's values, None where it is blank; raise ConfigError as `our_entries` does."""
    return _ask_document(document, document.values)


def _ask_document(document: Document, ask: Callable[[str], Any]) -> Any:
    text = _text(_read(document.path))
    try:
        return None if _is_blank(text) else ask(text)
    except ConfigError as error:
        raise ConfigError(f"{document.path}: {error}") from error


def _is_blank(text: str) -> bool:
    return not text.strip("\ufeff \t\r\n")


def _read(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device would be read for ever
            raise ConfigError(f"{path} cannot be read: it is not a file; move it away")
        with path.open("rb") as file:
            data = file.read(MOST_READ + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    if len(data) > MOST_READ:
        raise ConfigError(f"{path} is over {MOST_READ >> 20} MiB, too large for a settings file")
    return data


def _text(data: bytes | None) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8 at byte {error.start}") from error


def _write(path: Path, data: bytes | None, *, is_program: bool) -> None:
    if data is None:
        path.unlink()
        return
    try:
        mode = path.stat().st_mode & 0o7777
    except FileNotFoundError:
        mode = None
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(0, "it is read-only", str(path))
    replace_file(path, data)
    if is_program:
        mode = 0o755 if mode is None else mode | 0o100
    if mode is not None:
        path.chmod(mode)


class ConnectionPlan(msgspec.Struct, frozen=True):
    """The planned changes of a host's files, with those that stay as they are."""

    host: Host
    home: Path
    is_taken: bool
    all: tuple[FileChange, ...]

    @property
    def changes(self) -> list[FileChange]:
        return [change for change in self.all if change.is_one]


def plan_connection(
    host: Host, machine: Machine, install: Install, *, rules: bool = True
) -> ConnectionPlan:
    """Return the changes of connecting; without `rules` these are removed.

    Raise ConfigError for a file that cannot be read or does not parse.
    """
    changes = [
        *_plan_changes(install.home, host, documents(host, machine, install), is_taken=False),
        *_plan_changes(install.home, host, _rules_documents(host, machine), is_taken=not rules),
    ]
    return ConnectionPlan(host, install.home, False, tuple(changes))


def plan_disconnection(host: Host, machine: Machine, install: Install) -> ConnectionPlan:
    """Return the changes of disconnecting; raise ConfigError as `plan_connection` does."""
    files = all_documents(host, machine, install)
    changes = _plan_changes(install.home, host, files, is_taken=True)
    return ConnectionPlan(host, install.home, True, tuple(changes))


def apply_plan(plan: ConnectionPlan, now: int) -> Path | None:
    """Make the changes; return the folder of the backup, if one was made.

    The record of the original files is written first, so that a stop in the midst can be undone.
    """
    backup = back_up(plan.home, plan.host.name, plan.changes)
    connections = read_connections(plan.home)
    if not plan.is_taken:
        holds = {str(file.path): file.hold for file in plan.all if file.hold is not None}
        entry = ConnectedHost(now, holds)
        connections = Connections(connections.hosts | {plan.host.name: entry}, connections.folders)
        write_connections(plan.home, connections)
    folders = list(connections.folders)
    try:
        for change in plan.changes:
            apply_change(change, folders)
    finally:
        connections = Connections(connections.hosts, tuple(dict.fromkeys(folders)))
        write_connections(plan.home, connections)
    if plan.is_taken:
        others = {name: host for name, host in connections.hosts.items() if name != plan.host.name}
        folders = drop_folders(folders)
        write_connections(plan.home, Connections(others, tuple(folders) if others else ()))
    return backup


def documents(host: Host, machine: Machine, install: Install) -> tuple[Document, ...]:
    """Return the files that hooks and servers are read from, in the order the host declares."""
    return tuple(document(file) for file in host.files(machine, install))


def all_documents(host: Host, machine: Machine, install: Install) -> tuple[Document, ...]:
    """Return the files of hooks and servers, and those of rules."""
    return (*documents(host, machine, install), *_rules_documents(host, machine))


def _rules_documents(host: Host, machine: Machine) -> tuple[Document, ...]:
    return tuple(document(file) for file in host.rules(machine))


def entries_of_host(host: Host, machine: Machine, install: Install) -> list[Any]:
    """Return our entries in the files that hooks and servers are read from; none: not connected.

    Raise ConfigError for a file that does not parse.
    """
    return [entry for file in documents(host, machine, install) for entry in our_entries(file)]


def is_current(host: Host, machine: Machine, install: Install) -> bool:
    """Return True if connecting again would not change the files with hooks and servers."""
    files = documents(host, machine, install)
    changes = _plan_changes(install.home, host, files, is_taken=False)
    return not any(change.is_one for change in changes)


def _plan_changes(
    home: Path, host: Host, files: Iterable[Document], *, is_taken: bool
) -> Iterator[FileChange]:
    """Yield the changes of some files of a host, one after the other."""
    connected = read_connections(home).hosts.get(host.name)
    originals = connected.files if connected else {}
    for file in files:
        try:
            change = plan_change(file, originals.get(str(file.path)), is_taken=is_taken)
        except ConfigError as error:
            raise ConfigError(f"{error} (nothing was changed)") from error
        yield change
