"""
Changes to hosts' files: planned as texts, shown as differences, made one file at a time.

A host may write its settings at any moment. So the bytes are compared just before they are
replaced; where they changed, the same edit is made on what is there now. A file keeps its mode and
stays behind its symbolic link; what was there before is kept in `<home>/backups/hosts`.
"""

import difflib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from serve.connect.document import Document
from serve.connect.edits.json_edit import blanks_of
from serve.connect.record import Before, Hold
from store.home.errors import ConfigError, LogReadOnly
from store.home.files import replace_file

KEPT = 20  # backups
MOST_READ = 16 << 20  # bytes; a host that keeps its history in its settings fills a few of them
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it is and as it is to be; None where there is none."""

    document: Document
    before: bytes | None
    after: bytes | None
    is_taken: bool
    hold: Hold | None  # what is to be known when it is taken out again

    @property
    def path(self) -> Path:
        return self.document.path

    @property
    def is_one(self) -> bool:
        return self.before != self.after

    def difference(self, context: int = 2) -> list[str]:
        """Return the lines of the unified difference, without line ends."""
        old, new = _lines(self.before), _lines(self.after)
        name = str(self.path)
        from_, to = (os.devnull if one is None else name for one in (self.before, self.after))
        found = difflib.unified_diff(old, new, from_, to, n=context, lineterm="")
        return [line.rstrip("\r\n") for line in found]


def planned(document: Document, hold: Hold | None, *, is_taken: bool) -> Change:
    """Return what connecting, or disconnecting, makes of a file; raise ConfigError naming it."""
    before = _read(document.path)
    try:
        return _taken(document, before, hold) if is_taken else _put(document, before, hold)
    except ConfigError as error:
        raise ConfigError(f"{document.path}: {error}") from error


def make(change: Change, folders: list[str]) -> Change:
    """Make a change; return it as it was made. Folders that had to be made are added to the list.

    Raise ConfigError where the file cannot be written, or changes each time it is looked at.
    """
    for _ in range(_TRIES):
        if not change.is_one:
            return change
        try:
            real = change.path.resolve()
            folders += [str(one) for one in _missing(real.parent)]
            if _read(change.path) == change.before:
                _write(real, change.after)
                return change
        except OSError as error:
            raise ConfigError(f"{change.path} cannot be written ({error.strerror})") from error
        change = planned(change.document, change.hold, is_taken=change.is_taken)
    raise ConfigError(f"{change.path} keeps being written by another program: close it first")


def back_up(home: Path, name: str, changes: list[Change]) -> Path | None:
    """Keep what the changed files hold in `<home>/backups/hosts`; return the folder, if any."""
    kept = [change for change in changes if change.is_one and change.before is not None]
    if not kept:
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    folder = home / "backups" / "hosts" / f"{stamp}-{name}"
    try:
        for change in kept:
            replace_file(folder / _flat(change.path), change.before or b"")
    except OSError as error:
        raise LogReadOnly(f"{folder} cannot be written ({error.strerror})") from error
    for old in sorted(folder.parent.iterdir())[:-KEPT]:
        shutil.rmtree(old)
    return folder


def drop_folders(folders: list[str]) -> list[str]:
    """Remove folders that we made and that hold nothing now; return those that are left."""
    left = []
    for folder in sorted(folders, key=len, reverse=True):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # something lies in it
            left.append(folder)
    return left


def _put(document: Document, before: bytes | None, hold: Hold | None) -> Change:
    text = _text(before)
    is_blank = _is_blank(text)
    start = document.start if is_blank else text
    if hold is None or is_blank or not document.entries(text):  # else it is known from before
        was = Before.FULL if not is_blank else Before.BLANK if before is not None else Before.NONE
        places = tuple(blanks_of(start, document.places).items()) if document.places else ()
        hold = Hold(was, text if is_blank else "", places)
    return Change(document, before, document.put(start).encode(), False, hold)


def _taken(document: Document, before: bytes | None, hold: Hold | None) -> Change:
    if before is None or _is_blank(_text(before)) or not document.entries(_text(before)):
        return Change(document, before, before, True, hold)
    hold = hold or Hold()
    text = document.take(_text(before), dict(hold.blanks))
    after: bytes | None = text.encode()
    if "".join(text.split()) == "".join(document.start.split()):
        if hold.was == Before.NONE:
            after = None
        elif hold.was == Before.BLANK:
            after = hold.text.encode()
    return Change(document, before, after, True, hold)


def entries(document: Document) -> list[Any]:
    """Return what is ours in a file; raise ConfigError, naming it, where it does not parse."""
    return _asked(document, document.entries) or []


def values(document: Document) -> Any:
    """Return what a file says, None where it says nothing; raise ConfigError as `entries` does."""
    return _asked(document, document.values)


def _asked(document: Document, ask: Callable[[str], Any]) -> Any:
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


def _write(path: Path, data: bytes | None) -> None:
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
    if mode is not None:
        path.chmod(mode)


def _missing(folder: Path) -> Iterator[Path]:
    while not folder.exists():
        yield folder
        folder = folder.parent


def _lines(data: bytes | None) -> list[str]:
    return _text(data).splitlines(keepends=True)


def _flat(path: Path) -> str:
    """Return a file's name in a backup, which tells where it lay."""
    return "_".join(path.absolute().parts[1:])
