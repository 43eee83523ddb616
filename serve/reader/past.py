"""
Past: a memory as it was known at a place in its log, the fold of the events up to there.

The log is read up to that place, and what lay in the snapshots then is built in a folder of its
own; nothing is written to the memory itself. What was erased since stays erased.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from serve.reader.reader import Reader
from store.embedders.embedder import Embedder
from store.home.tenant import Tenant
from store.log import log_queries
from store.log.event_log import EventLog
from store.maintenance.build import lend_vectors, rebuild_past


class Past:
    """A memory that grows from empty to any place in a log, and never shrinks; close it.

    Vectors that the log's own tenant serves are taken from there.
    """

    def __init__(self, log: EventLog, folder: Path, embedder: Embedder, *, built: int = 0) -> None:
        """Begin in an empty folder, or in one where snapshots of `built` events lie already."""
        self._embedder, self.tenant = embedder, Tenant("past", folder)
        if not built:
            lend_vectors(Tenant("owner", log.path.parent), self.tenant, embedder)
        self._to_build = EventLog(log.path, until=built)
        self.log = EventLog(log.path, until=built)
        self.reader = Reader(self.tenant, self.log, embedder)

    def fork(self, folder: Path) -> "Past":
        """Return another that has grown as far, in a folder that is made; each then grows alone.

        What is built never changes, so its files are shared where the disk can.
        """
        shutil.copytree(self.tenant.root, folder, copy_function=_link_or_copy)
        return Past(self.log, folder, self._embedder, built=self._to_build.until or 0)

    def close(self) -> None:
        self._to_build.close()
        self.log.close()

    def advance(self, built: int, watermark: int) -> Reader:
        """Return the memory with snapshots of `built` events and a tail up to `watermark`."""
        self.log.show_until(watermark)
        if built > (self._to_build.until or 0):
            self._to_build.show_until(built)
            at = log_queries.time_of(self._to_build, self._to_build.head()) or 0
            rebuild_past(self.tenant, self._to_build, self._embedder, at)
        self.reader.poll()
        return self.reader


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@contextmanager
def memory_at(
    log: EventLog, embedder: Embedder, watermark: int, built: int | None = None
) -> Iterator[Reader]:
    """Give the memory as it was known after the event `watermark` of a log.

    Its snapshots hold the first `built` events, all of them unless that is given.
    """
    with TemporaryDirectory(prefix="mnemolog-past-") as folder:
        past = Past(log, Path(folder), embedder)
        try:
            yield past.advance(watermark if built is None else built, watermark)
        finally:
            past.close()
