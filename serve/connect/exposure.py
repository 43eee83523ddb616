"""
Whether other users of this machine can read a file that a key of ours stands in.

With it they could not list or change the memory, but tell it a prompt and read what it recalls.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from serve.connect.changes import entries
from serve.connect.document import Document

_GROUP, _OTHERS = (0o040, 0o010), (0o004, 0o001)  # to read a file, and to go through a folder


def exposed(documents: Iterable[Document]) -> Iterator[Path]:
    """Yield the files that hold a key and that others can get at; raise ConfigError."""
    for document in documents:
        has_key = any(isinstance(one, dict) and "headers" in one for one in entries(document))
        if os.name == "posix" and has_key and _is_open(document.path.resolve()):
            yield document.path


def _is_open(file: Path) -> bool:
    modes = [folder.stat().st_mode for folder in file.parents]
    return any(
        file.stat().st_mode & read and all(mode & enter for mode in modes)
        for read, enter in (_GROUP, _OTHERS)
    )
