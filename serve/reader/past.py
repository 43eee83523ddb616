"""
Past: a memory as it was known at a place in the log, in a folder of its own.

The log is copied up to that place, and what lay in the snapshots then is built there; nothing is
written to the memory itself. What was erased since stays erased.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from serve.reader.reader import Reader
from store.embedders.embedder import Embedder
from store.home.tenant import Tenant
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild

_BATCH = 2_000  # events copied at a time


class Past:
    """A memory that grows from empty to any place in a log, and never shrinks; close it."""

    def __init__(self, log: EventLog, folder: Path, embedder: Embedder) -> None:
        self._source, self._embedder = log, embedder
        self._built, self.tenant = Tenant("past", folder / "built"), Tenant("past", folder / "read")
        for one in (self._built, self.tenant):
            one.root.mkdir(parents=True)
        self._to_build = EventLog(self._built.log, create=True)
        self.log = EventLog(self.tenant.log, create=True)
        self.reader = Reader(self._built, self.log, embedder)

    def close(self) -> None:
        self._to_build.close()
        self.log.close()

    def advance(self, built: int, watermark: int) -> Reader:
        """Return the memory with snapshots of `built` events and a tail up to `watermark`."""
        self._copy(self.log, watermark)
        if built > self._to_build.head():
            self._copy(self._to_build, built)
            rebuild(self._built, self._to_build, self._embedder, self.reader.time_of(built))
        self.reader.poll()
        return self.reader

    def _copy(self, into: EventLog, until: int) -> None:
        some: list[Event] = []
        for event in self._source.read(into.head(), until):
            some.append(event)
            if len(some) == _BATCH:
                into.append(some)
                some = []
        into.append(some)


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
