"""
Spool: the hook events that no server accepted, oldest first, until one does.

An event carries the id of its delivery, by which the log knows it: accepting it twice adds nothing
twice. Its file is deleted once the event is in the log. `store.home.spooling` writes them.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from store.home.instants import LATEST
from store.home.spooling import DROPPED, FOLDER, SUFFIX

_HEX = frozenset("0123456789abcdef")


class Delivery(msgspec.Struct, frozen=True):
    """One event on its way: the client's id for it, and its time in microseconds UTC."""

    id: str
    at: int


class SpoolBacklog(msgspec.Struct, frozen=True):
    """The number of pending events, their bytes, the time of the oldest (0: none is pending), and
    the number of dropped events.
    """

    events: int
    bytes: int
    oldest: int
    dropped: int


def folder_of(home: Path) -> Path:
    return home / FOLDER


def dropped_file(home: Path) -> Path:
    """Return the file with a byte for each dropped event."""
    return folder_of(home) / DROPPED


def parse_delivery(text: str) -> Delivery | None:
    """Return the delivery in a header, an option or a file's name; None if it is invalid."""
    at, _, id_ = text.partition("-")
    is_time = len(at) == 20 and at.isascii() and at.isdecimal() and int(at) <= LATEST
    return Delivery(id_, int(at)) if is_time and len(id_) == 32 and _HEX.issuperset(id_) else None


def delivery_of(path: Path) -> Delivery | None:
    """Return the delivery of an event's file by its name; None for another file."""
    return parse_delivery(path.name.removesuffix(SUFFIX)) if path.suffix == SUFFIX else None


def entries(home: Path) -> list[tuple[Path, Delivery]]:
    """Return the files of the pending events, oldest first."""
    try:
        paths = [folder_of(home) / name for name in sorted(os.listdir(folder_of(home)))]
    except OSError:  # there is no spool yet
        return []
    return [(path, known) for path in paths if (known := delivery_of(path)) is not None]


def backlog(home: Path) -> SpoolBacklog:
    """Return the pending events in the spool of a home."""
    waiting = entries(home)
    oldest = waiting[0][1].at if waiting else 0
    dropped = sum(_sizes([dropped_file(home)]))
    return SpoolBacklog(len(waiting), sum(_sizes(path for path, _ in waiting)), oldest, dropped)


def _sizes(paths: Iterable[Path]) -> Iterator[int]:
    for path in paths:
        try:
            yield path.stat().st_size
        except OSError:  # it was accepted meanwhile
            continue
