"""
The scan: every file below a home is looked through for what was erased, as bytes and decoded.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from store.erase import contents
from store.text.fingerprints import Looker, Marks

_LOCKS = (".lock", "-shm")  # nothing is ever written to them, or numbers alone


class Found(msgspec.Struct, frozen=True):
    """A file, relative to the home, that still holds some of it, and whether it lay there plainly
    or had to be decoded.
    """

    path: str
    is_plain: bool


class Scanned(msgspec.Struct, frozen=True):
    """What was looked through for how many marks, and where some were found.

    `bytes` are those of all `files`; `decoded` is how many of these are more than their bytes.
    `unread` could not be, and may hold anything.
    """

    files: int = 0
    bytes: int = 0
    decoded: int = 0
    marks: int = 0
    found: tuple[Found, ...] = ()
    unread: tuple[str, ...] = ()


def files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder, in order; a link is not followed."""
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            if path.is_file() and not path.is_symlink():
                yield path


def scan(home: Path, tenant: Path, marks: Marks) -> Scanned:
    """Return what of some marks is found below a home.

    Single words are looked for in the tenant's folder alone: elsewhere they may be anybody's.
    """
    looker = Looker(marks)
    count = size = decoded = 0
    found: list[Found] = []
    unread: list[str] = []
    for path in files(home):
        name = path.relative_to(home).as_posix()
        try:
            length = path.stat().st_size
            how = _look(path, looker, words=path.is_relative_to(tenant))
        except FileNotFoundError:  # it went meanwhile
            continue
        except contents.Unreadable:
            unread.append(name)
            continue
        count, size = count + 1, size + length
        decoded += how.is_decoded
        if how.plainly or how.within:
            found.append(Found(name, how.plainly))
    return Scanned(count, size, decoded, len(marks), tuple(found), tuple(unread))


class _How(msgspec.Struct, frozen=True):
    plainly: bool = False
    within: bool = False
    is_decoded: bool = False


def _look(path: Path, looker: Looker, *, words: bool) -> _How:
    if path.name.endswith(_LOCKS):
        return _How()
    plainly = any(looker.holds(text, words=words) for text in contents.raw(path))
    texts = contents.decoded(path)
    if texts is None:
        return _How(plainly)
    within = any(looker.holds(text, words=words) for text in texts)
    return _How(plainly, within, is_decoded=True)
