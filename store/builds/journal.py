"""
Journal: what a slow step made, batch by batch, so that a build that was ended goes on where it was.

A table a file, each written whole or not at all. It is read by the next build and dropped when what
it helped to build is published.
"""

import shutil
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

from store.home.files import replace_file


class Journal:
    """The tables of one name, for one tenant; `name` tells what made them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / blake2b(name.encode(), digest_size=8).hexdigest()

    def read(self) -> Iterator[pa.Table]:
        """Yield the tables in the order in which they were added, mapped."""
        for path in self._paths():
            yield pa.ipc.open_file(pa.memory_map(str(path))).read_all()

    def add(self, table: pa.Table) -> None:
        """Keep a table; it is on the disk when this returns."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        number = max((int(path.stem) for path in self._paths()), default=0) + 1
        replace_file(self._folder / f"{number:08d}.arrow", sink.getvalue())

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.arrow"))


def drop(folder: Path) -> None:
    """Remove every journal of a folder; on Windows those that are mapped go the next time."""
    shutil.rmtree(folder, ignore_errors=True)
