"""
disk: the possible contents of a disk after a power cut, from a program's calls.

A write is on the disk once its file was fsynced, a name once its folder was: POSIX promises no
more. ext4 writes a new file's name with the file; this model does not, as other file systems need
not, nor a new folder's name with its contents. Any part of the unsynced changes may be there: of a
write some 512-byte sectors, or a piece of one; of a file's length any, filled up with zeros or with
old data of the disk; of a folder's changes none, all, the first few or any. A rename is atomic,
also from one folder to another, and a folder's fsync includes the changes before it. So a file that
was renamed before it was fsynced may have its new name and be empty.

Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014: the model of ALICE.
https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from torture.fault import Call, Kind

SECTOR = 512
Image = Mapping[str, bytes | None]  # content by path; None: a folder


@dataclass(frozen=True, slots=True)
class Luck:
    """The share of unsynced data that survives the cut, from 0 to 1.

    `data` is of the sectors, `length` of the changes of a file's length, in their order, `names` of
    those of a folder, in theirs or, without `in_order`, any. A hole is zero, or `junk`.
    """

    data: float
    length: float
    names: float
    in_order: bool = True
    junk: bool = False


NOTHING = Luck(data=0, length=0, names=0)
EVERYTHING = Luck(data=1, length=1, names=1)
NAMES_ONLY = Luck(data=0, length=0, names=1)  # files that were renamed too early are empty
HOLES = Luck(data=0, length=1, names=1)  # and these are long, and zero
EXTREMES = (NOTHING, EVERYTHING, NAMES_ONLY, HOLES)


def luck_of(chance: Random) -> Luck:
    """Return random luck: often of one kind only, as a fault may need just that."""
    share = (0.0, 1.0, chance.random())
    return Luck(
        data=chance.choice(share),
        length=chance.choice(share),
        names=chance.choice(share),
        in_order=chance.random() < 0.5,
        junk=chance.random() < 0.25,
    )


@dataclass(eq=False, slots=True)
class _File:
    kept: bytearray = field(default_factory=bytearray)
    loose: list[Call] = field(default_factory=list)  # since the last fsync
    frozen: bytes | None = None  # the kept, for images

    def sync(self) -> None:
        for call in self.loose:
            _apply(self.kept, call)
        self.loose.clear()
        self.frozen = None

    def after(self, luck: Luck, chance: Random) -> bytes:
        """Return possible content of the file."""
        if self.frozen is None:
            self.frozen = bytes(self.kept)
        if not self.loose or (luck.data == luck.length == 0):
            return self.frozen
        data, size = bytearray(self.kept), len(self.kept)
        lasting = round(len(self.loose) * _drawn(luck.length, chance))
        for number, call in enumerate(self.loose):  # the length is that after one of the calls
            if call.kind is Kind.WRITE:
                _write_some(data, call, luck, chance)
            if number < lasting:
                size = _size_after(size, call)
                if call.kind is not Kind.WRITE:
                    _resize(data, size, luck, chance)
        if 0 < luck.length < 1 and size > len(self.kept):
            size = chance.randint(len(self.kept), size)
        _resize(data, size, luck, chance)
        return bytes(data)


@dataclass(eq=False, slots=True)
class _Folder:
    kept: dict[str, "_Node"] = field(default_factory=dict)
    now: dict[str, "_Node"] = field(default_factory=dict)  # as the program sees it


_Node = _File | _Folder
_Change = Sequence[tuple[_Folder, str, _Node | None]]  # names that change atomically


class Disk:
    """A disk that takes calls in order; empty at first."""

    def __init__(self) -> None:
        self._root = _Folder()
        self._loose: list[_Change] = []  # of folders, since each one's last fsync, in order

    def make(self, call: Call) -> None:
        """Apply a call of the program."""
        match call.kind:
            case Kind.WRITE | Kind.TRUNCATE | Kind.ALLOCATE:
                if isinstance(node := self._at(call.path), _File):  # else it has no name any more
                    node.loose.append(call)
            case Kind.SYNC:
                node = self._at(call.path)
                if isinstance(node, _File):
                    node.sync()
                elif node is not None:
                    self._sync(node)
            case Kind.CREATE:
                self._change((call.path, _File()))
            case Kind.MAKE:
                self._change((call.path, _Folder()))
            case Kind.REMOVE | Kind.DROP:
                self._change((call.path, None))
            case Kind.RENAME:
                self._change((call.path, None), (call.to, self._at(call.path)))
            case Kind.LINK:
                self._change((call.to, self._at(call.path)))
            case Kind.MARK:
                pass

    @property
    def is_settled(self) -> bool:
        """Whether a cut now leaves one image only."""
        return not self._loose and not _has_loose(self._root)

    def after(self, luck: Luck, chance: Random) -> Image:
        """Return an image that the disk may hold if the power is cut now."""
        names = self._names(luck, chance)
        image: dict[str, bytes | None] = {}
        waiting = [("", self._root)]
        while waiting:
            path, folder = waiting.pop()
            for name, node in sorted(names.get(folder, folder.kept).items()):
                below = f"{path}/{name}"
                if isinstance(node, _Folder):
                    image[below] = None
                    waiting.append((below, node))
                else:
                    image[below] = node.after(luck, chance)
        return image

    def _names(self, luck: Luck, chance: Random) -> dict[_Folder, dict[str, _Node]]:
        """Return the names in the folders with surviving changes."""
        names: dict[_Folder, dict[str, _Node]] = {}
        last: dict[_Folder, float] = {}  # a folder's changes survive up to here
        for number, change in enumerate(self._loose):
            for folder, _, _ in change:
                if folder not in last:
                    last[folder] = _drawn(luck.names, chance) * len(self._loose)
            is_there = (
                all(number < last[folder] for folder, _, _ in change)
                if luck.in_order
                else _happens(luck.names, chance)
            )
            if is_there:
                for folder, name, node in change:
                    _put(names.setdefault(folder, dict(folder.kept)), name, node)
        return names

    def _change(self, *named: tuple[str, _Node | None]) -> None:
        change = []
        for path, node in named:
            above, _, name = path.rpartition("/")
            folder = self._at(above)
            if not isinstance(folder, _Folder):
                raise LookupError(f"no folder for {path} in the trace")
            _put(folder.now, name, node)
            change.append((folder, name, node))
        self._loose.append(change)

    def _sync(self, folder: _Folder) -> None:
        """Keep a folder's changes, and earlier changes of other folders that they share."""
        touched, lasting = {folder}, []
        for change in reversed(self._loose):
            folders = {owner for owner, _, _ in change}
            if not touched.isdisjoint(folders):
                touched |= folders
                lasting.append(change)
        for change in reversed(lasting):
            for owner, name, node in change:
                _put(owner.kept, name, node)
        ids = set(map(id, lasting))
        self._loose = [change for change in self._loose if id(change) not in ids]

    def _at(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in path.split("/")[1:]:
            node = node.now.get(name) if isinstance(node, _Folder) else None
        return node


def lay(image: Image, folder: Path) -> None:
    """Replace a folder's contents by an image, open to its owner alone."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    for path, data in image.items():  # a folder comes before its contents
        where = f"{folder}{path}"
        if data is None:
            os.mkdir(where, 0o700)
        else:
            descriptor = os.open(where, os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                file.write(data)


def _put(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _has_loose(folder: _Folder) -> bool:
    return any(
        _has_loose(node) if isinstance(node, _Folder) else bool(node.loose)
        for node in folder.now.values()
    )


def _apply(data: bytearray, call: Call) -> None:
    if call.kind is Kind.WRITE:
        if call.place > len(data):
            data.extend(bytes(call.place - len(data)))
        data[call.place : call.place + len(call.data)] = call.data
    else:
        size = _size_after(len(data), call)
        del data[size:]
        data.extend(bytes(size - len(data)))


def _size_after(size: int, call: Call) -> int:
    if call.kind is Kind.TRUNCATE:
        return call.place
    return max(size, call.place + len(call.data))


def _write_some(data: bytearray, call: Call, luck: Luck, chance: Random) -> None:
    """Write those sectors of a write that made it; one in some twenty is torn."""
    at, end = call.place, call.place + len(call.data)
    while at < end:
        upto = min(end, (at // SECTOR + 1) * SECTOR)
        if _happens(luck.data, chance):
            stop = upto
            if luck.data < 1 and chance.random() < 0.05:
                stop = chance.randrange(at, upto)
            if at > len(data):
                _resize(data, at, luck, chance)
            data[at:stop] = call.data[at - call.place : stop - call.place]
        at = upto


def _resize(data: bytearray, size: int, luck: Luck, chance: Random) -> None:
    more = size - len(data)
    if more > 0:
        data.extend(chance.randbytes(more) if luck.junk else bytes(more))
    else:
        del data[size:]


def _drawn(share: float, chance: Random) -> float:
    return chance.random() if 0 < share < 1 else share


def _happens(share: float, chance: Random) -> bool:
    return share >= 1 or (share > 0 and chance.random() < share)
