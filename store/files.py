"""
Folders that are their owner's alone, and files that are there whole or not at all, even after a
power cut: fsync the file, rename it, fsync the folder.
"""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def make_folder(folder: Path) -> None:
    """Make a folder and what is missing above it, each open to its owner alone."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees the old bytes or the new ones, never a part."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}-{uuid4().hex[:8]}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring a folder's entries to the disk."""
    # Windows cannot open a folder; there NTFS journals the rename itself
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
