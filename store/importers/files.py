"""
Files: which of those in a folder are read, and how their names are written down.
"""

import os
from pathlib import Path


def is_ours(path: Path, top: Path) -> bool:
    """Return whether a path is a file, or a link to one, that lies below `top`.

    A pipe or a device would never end; a link that leads out may lead to what is no part of it.
    """
    try:
        return path.is_file() and path.resolve().is_relative_to(top.resolve())
    except (OSError, RuntimeError):  # the second: a ring of links, before Python 3.13
        return False


def plain(name: str) -> str:
    """Return a name with a mark for every byte that is no UTF-8, for texts cannot hold such."""
    return os.fsencode(name).decode(errors="replace")
