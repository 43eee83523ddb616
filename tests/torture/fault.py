"""
fault: the shim of `fault.c`, and the calls recorded through it.

A watched program is a fork of a process that started with the shim loaded: an interpreter and its
imports cost half a second, a fork a few milliseconds.
"""

import ctypes
import errno as errors
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from torture.shim import built

SOURCE = Path(__file__).with_name("fault.c")
_STATE = struct.Struct("=iiqq")  # action, error, at, points: as in fault.c
_RECORD = struct.Struct("=IIIqQ")  # kind, sizes of both paths, place, size


class Action(IntEnum):
    """The action at the armed point; as in fault.c."""

    WATCH, KILL, TEAR, FAIL, FAIL_ON, RECORD, LIST = range(7)


class Kind(IntEnum):
    """The kind of a recorded call; as in fault.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    RENAME = 5
    REMOVE = 6
    LINK = 7
    MAKE = 8
    DROP = 9
    MARK = 10
    ALLOCATE = 11


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call: paths relative to the root and with a leading slash ("" is the root)."""

    kind: Kind
    path: str
    to: str = ""
    place: int = 0
    data: bytes = b""


class Fault:
    """The test's side of the shim: arms a point, counts, reads the recorded calls."""

    def __init__(self, root: Path, beside: Path) -> None:
        """Watch the folder `root`; `beside` is a folder elsewhere for the shim's own files."""
        self.root = root
        self.trace = beside / "trace"
        self._state = beside / "state"
        self._state.write_bytes(_STATE.pack(0, 0, 0, 0))

    def environment(self) -> dict[str, str]:
        """Return the environment variables that make the shim watch a process."""
        return {
            "LD_PRELOAD": str(built(SOURCE)),
            "FAULT_ROOT": str(self.root),
            "FAULT_STATE": str(self._state),
            "FAULT_TRACE": str(self.trace),
        }

    def arm(self, action: Action, at: int = 0, error: int = errors.EIO) -> None:
        """Set the action and its point, counted from now on; 0 is none."""
        _arm(self._state, action, at, error)

    @property
    def points(self) -> int:
        """The number of points since it was armed."""
        return _points(self._state)

    def kinds(self) -> list[Kind]:
        """Return the kinds of the listed points in order, and start a new list."""
        listed = [Kind(byte) for byte in self.trace.read_bytes()]
        self.trace.write_bytes(b"")
        return listed

    def calls(self) -> Iterator[Call]:
        """Yield the recorded calls, in order."""
        recorded = self.trace.read_bytes()
        at = 0
        while at < len(recorded):
            kind, size, to_size, place, length = _RECORD.unpack_from(recorded, at)
            at += _RECORD.size
            path = os.fsdecode(recorded[at : at + size])
            to = os.fsdecode(recorded[at + size : at + size + to_size])
            at += size + to_size
            has_data = kind in (Kind.WRITE, Kind.MARK)
            data = recorded[at : at + length] if has_data else b""
            at += len(data)
            yield Call(Kind(kind), path, to, place, data)


def _arm(state: Path, action: Action, at: int, error: int) -> None:
    with state.open("r+b") as file:
        file.write(_STATE.pack(action, error, at, 0))


def _points(state: Path) -> int:
    return int(_STATE.unpack(state.read_bytes())[3])


def arm(action: Action, at: int = 0, error: int = errors.EIO) -> None:
    """Arm a point like `Fault.arm`, from within a watched process."""
    _arm(Path(os.environ["FAULT_STATE"]), action, at, error)


def points() -> int:
    """Return the number of points like `Fault.points`, from within a watched process."""
    return _points(Path(os.environ["FAULT_STATE"]))


def mark(text: str) -> None:
    """Record an acknowledgement in the trace, from within a watched process."""
    ctypes.CDLL(None).fault_mark(text.encode())
