"""
Origin: the id of a home, which tells its events from those of the same person's other machines.

It is made once and stored in the home, not in a tenant, so that no backup carries it to another
one.
"""

import re
from pathlib import Path

from store.home.files import file_lock, replace_file
from store.home.instants import new_id

_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def home_of(log: Path) -> Path | None:
    """Return the home of a tenant's log; None for a log outside any home."""
    tenants = log.parent.parent
    return tenants.parent if tenants.name == "tenants" else None


def read_or_make_origin(home: Path, now: int) -> str:
    """Return the id of a home, made at the first call; raise ConfigError or OSError if the home
    cannot be written.
    """
    path = home / "origin"
    if origin := _read(path):
        return origin
    with file_lock(path):
        if (origin := _read(path)) is None:  # else another process was first
            origin = new_id(now)
            replace_file(path, f"{origin}\n".encode())
    return origin


def _read(path: Path) -> str | None:
    try:
        text = path.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if _ID.fullmatch(text) else None
