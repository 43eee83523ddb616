"""
The file `connections.json` of the home: what connecting found, to leave no trace when it is undone.

Which hosts are connected is read from the hosts' own files, never from here; without this file
disconnecting takes out the same, and may leave an empty object or folder behind.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

from store.home.errors import ConfigError
from store.home.files import replace_file


class Before(StrEnum):
    """What a file was before we first wrote to it."""

    NONE = "none"
    BLANK = "blank"
    FULL = "full"


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file before us: a blank one's text, and the white space inside its empty containers."""

    was: Before = Before.FULL
    text: str = ""
    blanks: tuple[tuple[tuple[str | int, ...], str], ...] = ()


class Connected(msgspec.Struct, frozen=True):
    """A host: when last connected, in microseconds UTC, and its files by their path."""

    at: int
    files: dict[str, Hold]


class Connections(msgspec.Struct, frozen=True):
    """Every host, and the folders that had to be made."""

    hosts: dict[str, Connected] = {}
    folders: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(Connections)


def read(home: Path) -> Connections:
    """Return what the home knows; raise ConfigError where the file cannot be read."""
    path = file(home)
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return Connections()
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): move it away") from error


def write(home: Path, connections: Connections) -> None:
    """Replace the file; delete it where nothing is connected."""
    if connections.hosts or connections.folders:
        replace_file(file(home), msgspec.json.format(msgspec.json.encode(connections)))
    else:
        file(home).unlink(missing_ok=True)


def file(home: Path) -> Path:
    return home / "connections.json"
