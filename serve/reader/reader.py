"""
Reader: one tenant's manifest held open, the log's tail laid over it, swapped when HEAD moves.

The files of a manifest are hashed behind the answers, those of a small memory before the first;
damaged files are set aside, at once if they break an answer.

If the log cannot be read, recall answers from the open manifest, or else from the newest, and says
so. It brings back no erased memory: an erasure drops every older manifest, and until it ends,
nothing is answered without the log.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

import msgspec
import pyarrow as pa

from serve.reader.snapshots import (
    FindEmbedder,
    OpenedFiles,
    Snapshots,
    no_embedder,
    open_manifest,
    open_snapshots,
)
from serve.reader.tail import LiveTail
from serve.reader.view import View
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import (
    InvalidInput,
    LogClosed,
    LogCorrupt,
    LogError,
    NotFound,
    SnapshotDamaged,
)
from store.home.instants import isoformat
from store.home.tenant import Tenant
from store.index.qdrant import QdrantSearch
from store.log import integrity, log_queries
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_head import Gap, OtherLog
from store.snapshots.manifest import Manifest

T = TypeVar("T")
_Gone = Gap | OtherLog | LogError | None  # of the log; the error if it could not be read


# the errors from reading a damaged file that is not hashed yet
_BROKEN = (
    SnapshotDamaged,
    LookupError,
    ValueError,
    OverflowError,
    pa.ArrowException,
    # of invalid values: a null in a required column, a text that is no JSON
    TypeError,
    AttributeError,
    msgspec.MsgspecError,
)
_A_POLL = 32 << 20  # bytes hashed per poll: a thirtieth of a processor while it lasts
_AT_OPEN = 4 << 20  # and before the first answer: a few milliseconds, and all of a small memory


class Reader:
    """The newest servable state of one tenant. Threads may share it."""

    _view: View

    def __init__(
        self,
        tenant: Tenant,
        log: EventLog,
        embedder: Embedder,
        *,
        polled: bool = False,
        qdrant: QdrantSearch | None = None,
        find_embedder: FindEmbedder = no_embedder,
    ) -> None:
        """If `polled`, new texts are indexed in steps by the polling thread; otherwise before each
        answer. `qdrant` searches a copy of the vectors. Vectors of another model than the
        `embedder` of the settings are searched with that model, if it is found.

        Raise LogError if the log cannot be read and no manifest was published.
        """
        self._polled, self._qdrant = polled, qdrant
        self._past_moment: int | None = None
        self._tenant, self._log = tenant, log
        self._chosen, self.find_embedder = embedder, find_embedder
        self._growing = threading.Lock()
        self._swapping = threading.Lock()
        self._files = OpenedFiles(tenant)
        self._head: object = None  # None: the open manifest must be replaced
        self._version: tuple[int, int] | None = None
        self._swap(ahead=False)
        while self._files.step(_AT_OPEN):
            self._swap(ahead=False)

    @contextmanager
    def view(self) -> Iterator[View]:
        """Yield the current state with every event in the log laid over it."""
        yield self.answer(lambda view: view)

    def answer(self, ask: Callable[[View], T], *, without_log: bool = False) -> T:
        """Return the answer from the current state.

        Raise LogError if the log cannot be read; `without_log` is for callers that accept the state
        read before or published, and show the view's notices.

        If the answer fails on a damaged file that was not hashed yet, the file is set aside and the
        answer given from the rest.
        """
        while True:
            snapshots = self._snapshots
            try:
                return ask(self._now(without_log=without_log))
            except _BROKEN:
                if not self._is_mended(snapshots):
                    raise

    @property
    def embedder(self) -> Embedder:
        """The model that answers."""
        return self._snapshots.embedder

    def time_of(self, seq: int) -> int:
        """Return the time of a seq's event in microseconds UTC; raise InvalidInput for none."""
        at = log_queries.time_of(self._log, seq)
        if at is None:
            raise InvalidInput(f"the log has no event {seq}: its newest is {self._log.head()}")
        return at

    def count_ages_to(self, moment: int | None) -> None:
        """Count ages to the moment of a recall's receipt, or to the view's own if None."""
        with self._growing:
            self._past_moment = moment
            self._view = replace(self._view, past_moment=moment)

    def read_past(self, log: EventLog) -> "Reader":
        """Return a reader of the same memory up to the end of a log of its past."""
        return Reader(self._tenant, log, self.embedder, find_embedder=self.find_embedder)

    def suppose(self, events: Iterable[Event]) -> None:
        """Answer as if these events were in the log, too; the reader must have no other callers.

        Events that were never written go to its end.
        """
        with self._growing:
            end = self._live.watermark
            self._live.extend(event if event.seq else event.with_seq(end) for event in events)
            while self._live.grow():
                pass
            self._view = replace(self._view, tail=self._live.now())

    def poll(self) -> bool:
        """Open a newly published manifest, or the old one without its damaged files.

        Return True if it did. Meanwhile, answers come from the previous state.
        """
        is_log_back = False
        if not self._log.is_open:
            with suppress(LogError, NotFound):
                self._log.try_again()
                is_log_back = True
        with self._swapping:
            if self._files.step(_A_POLL) or is_log_back:
                self._head = None
            if is_new := self._head != self._stamp():
                self._swap(grown=True)
        self.keep_up()
        return is_new

    def keep_up(self) -> None:
        """Take in the appended events, so that the next question does not wait for an import's."""
        self.answer(lambda view: view, without_log=True)
        self.grow()

    def grow(self) -> bool:
        """
        Index one step of the waiting new texts, and read their changes; return True if more texts
        may be indexed.
        """
        may_go_on = False
        if self._view.tail.waiting:  # else the view stays, with all its cached values
            with self._growing:
                may_go_on = self._live.grow()
                self._view = replace(self._view, tail=self._live.now())
        self._live.embed_ahead()
        self._view.read_changes()
        return may_go_on

    def _now(self, *, without_log: bool) -> View:
        try:
            if self._log.version() != self._version:
                self._catch_up()
        except LogError as error:
            # closed: its tenant was deleted, or the server ends
            if not without_log or isinstance(error, LogClosed):
                raise
            return self._without_log(error)
        return self._view

    def _without_log(self, error: LogError) -> View:
        """Return the view to answer from while the log cannot be read, with a notice of that; raise
        the error if there is none.
        """
        if self._head != self._stamp():  # the open manifest may be older than an erasure
            with self._swapping:
                self._swap()
        if self._tenant.erasure_file.exists():
            raise error
        with self._growing:
            manifest, end = self._snapshots.manifest, self._view.tail.watermark
            built = f", the last build is of {isoformat(manifest.at)[:16]}Z" if manifest else ""
            text = (
                f"the log cannot be read: answers know events up to {end}{built}, and nothing can "
                f"be recorded. {error}; `mnemolog doctor --repair` says what it can save"
            )
            if text not in self._view.damage:
                self._view = replace(self._view, damage=(*self._damage, text))
            self._version = None  # so that the notice goes once the log can be read
            return self._view

    def _is_mended(self, broken: Snapshots) -> bool:
        """Hash the remaining files; return True if there is now another state to answer from."""
        with self._swapping:
            if self._snapshots is broken and self._files.step():
                self._head = None
                self._swap()
            return self._snapshots is not broken

    def _swap(self, *, ahead: bool = True, grown: bool = False) -> None:
        """Open the newest usable state; `ahead` maps all of it, so that no answer waits for that.

        With `grown`, the tail indexes all its allowed texts first, so that the swap loses nothing.
        """
        head = _stamp(self._tenant)
        while True:
            self._files.begin()
            try:
                opened = self._open()
                if ahead:
                    self._files.map_all()
                while grown and opened[1].grow():
                    pass
                with self._growing:
                    self._snapshots, self._live, self._gone, self._damage = opened
                    self._extend()
            except _BROKEN:
                if not self._files.step():
                    raise
            else:
                break
        self._files.settle()
        self._head = head, self._live.width  # only now: a failed open is tried again

    def _stamp(self) -> tuple[object, int]:
        """Return a stamp that changes with HEAD, or when a model's dimension becomes known."""
        return _stamp(self._tenant), self.embedder.dimension

    def _open(self) -> tuple[Snapshots, LiveTail, _Gone, dict[str, None]]:
        """Return the usable snapshots and tail, the missing part of the log, and the damage."""
        try:
            self._log.version()  # raises if it is not open
            return self._open_with_log()
        except LogClosed:
            raise
        except LogError as error:
            snapshots = self._open_snapshots(None)
            if snapshots.manifest is None:
                raise
            return snapshots, _live_tail(snapshots, self._log), error, {}

    def _open_with_log(self) -> tuple[Snapshots, LiveTail, Gap | OtherLog | None, dict[str, None]]:
        gone, wrong = None, []
        try:
            if gone := integrity.head_gap(self._log):
                wrong.append(f"{gone}: run `mnemolog doctor`")
        except LogCorrupt as error:
            wrong.append(str(error))
        # a log that has lost events may well be behind the snapshots built from it
        check = None if wrong else self._check
        snapshots = self._open_snapshots(check)
        live = _live_tail(snapshots, self._log)
        if not isinstance(gone, OtherLog):  # which may be another tenant's
            events, damage = integrity.readable_events(self._log, live.watermark)
            wrong += damage + live.extend(events)
        return snapshots, live, gone, dict.fromkeys(wrong)

    def _open_snapshots(self, check: Callable[[Snapshots], None] | None) -> Snapshots:
        return open_snapshots(self._tenant, self._chosen, self._files, check, self.find_embedder)

    def _check(self, snapshots: Snapshots) -> None:
        """Raise SnapshotDamaged if the snapshots are not of this log, which lost nothing."""
        head = self._log.head()
        if snapshots.watermark > head:
            raise SnapshotDamaged(
                f"manifest {_number(snapshots)} was built up to event {snapshots.watermark}, "
                f"the log ends at {head}: run `mnemolog build`"
            )
        ends = [len(snapshots.rows) - 1, 0] if snapshots.rows else []
        try:
            ids = [snapshots.rows.memories.value(row, "id") for row in ends]
        except _BROKEN:
            return  # a damaged file: it is hashed soon, and named then
        # a log with gaps may lack the events of the snapshots
        if ids and not self._log.present_ids(ids) and not integrity.gaps(self._log):
            raise SnapshotDamaged(
                f"manifest {_number(snapshots)} is of another log: run `mnemolog build`"
            )

    def _catch_up(self) -> None:
        """Lay the newly appended events over the snapshots."""
        if isinstance(self._gone, LogError):  # the owner of the log was not checked either
            with self._swapping:
                if isinstance(self._gone, LogError):
                    self._swap()
            if isinstance(self._gone, LogError):
                raise self._gone
        with self._growing:
            version = self._log.version()
            if version != self._version:  # else another thread did it meanwhile
                self._extend()
                self._version = version

    def _extend(self) -> None:
        if not isinstance(self._gone, (OtherLog, LogError)):
            # read to the end first: a read that fails halfway is repeated, not skipped
            events, damage = integrity.readable_events(self._log, self._live.watermark)
            self._damage |= dict.fromkeys(damage + self._live.extend(events))
        while not self._polled and self._live.grow():
            pass
        self._view = View(
            self._snapshots,
            self._live.now(),
            tuple(self._damage),
            self._qdrant,
            self._past_moment,
        )


class Known(msgspec.Struct, frozen=True):
    """A memory as known now or in the past: its log ends there, `now` is the moment of asking.

    `notes` explain in words which parts of the past are missing. `tenant` has its snapshots.
    """

    tenant: Tenant
    log: EventLog
    reader: Reader
    choices: Choices
    now: int  # microseconds UTC
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> dict[str, int | None]:
        """The origin that an answer from the past names: a seq, and no kept manifest."""
        seq = self.log.until
        return {} if seq is None else {"manifest": None, "known_at": seq}


def open_view(
    tenant: Tenant, manifest: Manifest, embedder: Embedder, events: Iterable[Event] = ()
) -> View:
    """Return a view of one manifest that this process built or checked.

    `events` are laid over it, in place of the log's tail; they may be in no log of the tenant's.
    Raise SnapshotDamaged if a part that recall needs is broken.
    """
    snapshots = open_manifest(tenant, manifest, embedder, [], OpenedFiles(tenant, are_trusted=True))
    live = _live_tail(snapshots)
    live.extend(events)
    while live.grow():
        pass
    return View(snapshots, live.now())


def _live_tail(snapshots: Snapshots, log: EventLog | None = None) -> LiveTail:
    rows, postings, vectors = snapshots.rows, snapshots.postings, snapshots.vectors
    return LiveTail(rows, postings, snapshots.embedder, vectors, snapshots.watermark, log)


def _number(snapshots: Snapshots) -> int:
    return snapshots.manifest.number if snapshots.manifest else 0


def _stamp(tenant: Tenant) -> tuple[int, int] | None:
    """Return a stamp that changes when HEAD is replaced; costs microseconds."""
    try:
        status = os.stat(tenant.head)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
