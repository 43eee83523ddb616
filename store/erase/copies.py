"""
Copies: which copies of a memory were made and lie elsewhere, so that a receipt can name them.

One line of JSON for each, below the tenant, without any text of the memory.
"""

import os
from pathlib import Path

import msgspec

from store.erase.scan import files
from store.home.files import replace_file
from store.home.tenant import Tenant
from store.log import salvage

_MOST = 1_000  # the newest are kept


class Copy(msgspec.Struct, frozen=True):
    """A copy that was made: what kind (`export`, `backup`), where it went, and when
    (microseconds UTC).
    """

    what: str
    to: str
    at: int


# made once, before there are threads: msgspec 0.22 crashes where two meet a type for the first time
_decoder = msgspec.json.Decoder(Copy)


def noted_copy(tenant: Tenant, what: str, to: str, at: int) -> Copy:
    """Keep that a copy was made, on the disk when this returns; return it."""
    made = Copy(what, to, at)
    line = msgspec.json.encode(made) + b"\n"
    path = _path(tenant)
    known = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if not known or len(known) >= _MOST:
        replace_file(path, b"".join([*known[1 - _MOST :], line]))
        return made
    with path.open("ab") as file:
        # the last line may be torn, and is not to take this one with it
        file.write(line if known[-1].endswith(b"\n") else b"\n" + line)
        file.flush()
        os.fsync(file.fileno())
    return made


def copies(tenant: Tenant) -> list[Copy]:
    """Return the copies that were noted, oldest first; a line that was torn is left out."""
    try:
        lines = _path(tenant).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(_decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found


def damaged(tenant: Tenant) -> list[Copy]:
    """Return the copies of damaged files that are kept within the tenant.

    They may hold what the log lost, and so nobody can look for.
    """
    return [
        Copy("damaged file", str(path), path.stat().st_mtime_ns // 1_000)
        for path in files(salvage.folder_of(tenant.log))
    ]


def _path(tenant: Tenant) -> Path:
    return tenant.root / "copies.jsonl"
