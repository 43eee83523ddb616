"""
The tenants a server keeps open, and their upkeep between requests.

A tenant is opened by its first request, or when a batch waits to be recorded in it. No more stay
open than the process has file descriptors for: the least recently used tenant is closed, its
receipts written, as soon as nothing works on it, and its next request opens it again. A background
thread opens newly published manifests, writes the receipts of past answers in one transaction, and
starts a due build as a process: when no requests arrive, or after a time limit if they never stop.
Jobs that are on are started too, after a longer pause, unless Dagster runs them.
"""

import logging
import os
import subprocess
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from serve.reader.reader import Known, Reader
from serve.reader.session_events import SessionEventCache
from serve.reader.snapshots import FindEmbedder
from serve.recall.deciding import code
from serve.recall.query_embedder import QueryEmbedders
from serve.recall.request import RecallRequest, answer
from serve.server import processes
from serve.server.deferred_events import DeferredEvents, RecallCounts
from serve.server.ingest_worker import FactReader, IngestWorker
from store.home import config
from store.home import tenant as tenants
from store.home.config import Choices, Settings
from store.home.errors import BuildBusy, ConfigError, LogError, MnemologError, NotFound, NotReady
from store.home.packages import is_installed
from store.home.registry import dagster_ui
from store.home.tenant import Tenant
from store.index.qdrant import QdrantSearch
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build_state
from store.maintenance.build_state import Backlog
from store.plans import job_catalog
from store.shared.tree import SharedTrees

log = logging.getLogger("mnemolog")

TICK_S = 1.0  # between writes of receipts and looks at HEAD: a transaction costs a sync
IDLE_S = 5.0  # without a request before a build may start: it needs the processor to itself
PATIENCE_S = 300.0  # a due build starts after this even under load
LEARN_IDLE_S = 600.0  # without a request before a job may start: it reads finished sessions
FINISH_S = 5.0  # for requests under way in a tenant that is to be deleted
MOST_OPEN = 256  # tenants, if the system allows more
HANDLES = 9  # of an open tenant: two connections to its log (5), its head (1), its queue (3)
_STEPS = 20  # of a growing tail, per look: half a second or so
_FIRST = "what did we decide about the deploy of main.py"  # words, a name and a file


@dataclass(frozen=True)
class OpenTenant:
    """One tenant's log and reader, and its pending notes, mainly receipts of recalls."""

    tenant: Tenant
    log: EventLog
    reader: Reader
    recalls: RecallCounts = field(default_factory=RecallCounts)
    notes: DeferredEvents = field(init=False)
    _in_past: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", DeferredEvents(self.log, self.recalls.count))

    @property
    def receipts(self) -> Sequence[Event]:
        """The receipts and other notes not yet written."""
        return self.notes.waiting

    @cached_property
    def journals(self) -> SessionEventCache:
        """The events of each agent session."""
        return SessionEventCache(self.log)

    @contextmanager
    def known_at(self, asked: str | int, choices: Choices, now: int) -> Iterator[Known]:
        """Yield the memory as it was known at a time, an event or an imported commit.

        `choices` and `now` are the caller's. Raise as `find_place`, and NotReady if another request
        is reading the past: it is built each time, and costs seconds in a large memory.
        """
        from serve.reader import past  # which builds: a server seldom does

        if not self._in_past.acquire(blocking=False):
            raise NotReady("another `known_at` is being answered: try again when it is done")
        try:
            self.notes.write_if_possible()  # the receipts of the latest answers
            place = past.find_place(self.log, asked, choices, now)
            with past.known_at(self.log, self.reader, place) as known:
                yield known
        finally:
            self._in_past.release()

    def close(self) -> None:
        self.notes.give_up()
        self.log.close()


Builder = Callable[[Tenant], "subprocess.Popen[bytes]"]


def tenant_limit() -> int:
    """Return the limit of open tenants: half of this process's file descriptors (see `ulimit -n`)
    are theirs, the others are for connections and for a build's reads.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return MOST_OPEN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_OPEN
    return max(1, min(MOST_OPEN, soft // 2 // HANDLES))


class OpenTenants:
    """Every tenant this process serves. Threads may share it; `close` writes the pending notes."""

    def __init__(
        self,
        settings: Settings,
        build: Builder | None = None,
        clock: Callable[[], float] = time.monotonic,
        read_facts: FactReader | None = None,
    ) -> None:
        """`clock` gives monotonic seconds."""
        self.settings, self._began_with = settings, settings
        self._settings_mark = _mark(settings)
        self._clock = clock
        self._embedders = QueryEmbedders(settings.home, self._embedder_setting, clock)
        self.embedder = self._embedders.chosen()
        self.find_embedder: FindEmbedder = self._embedders.find
        self._looked_for: dict[str, str] = {}  # the embedder that settings named, by tenant
        self._limit = tenant_limit()
        self._open: OrderedDict[str, OpenTenant] = OrderedDict()  # least recently used first
        self._pins: Counter[str] = Counter()  # of tenants with work beside the requests
        self._recalls: dict[str, RecallCounts] = {}  # by tenant, open or not
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}  # by tenant
        self.requests = RequestsInFlight()
        self.trees = SharedTrees(settings.home)
        self.roots: dict[str, Path] = {}  # of repositories that recent sessions were in
        self._changing = threading.Lock()  # held while a tenant is made or deleted
        self._deleting: set[str] = set()
        self._keeping_up = threading.Lock()
        self._asked_at = clock()
        self._build = build
        self._building: dict[str, subprocess.Popen[bytes]] = {}
        self._learning: dict[str, subprocess.Popen[bytes]] = {}
        self._due_since: dict[str, float] = {}
        self.ingest = IngestWorker(
            settings.home,
            self.pinned,
            lambda: self.idle_s() >= IDLE_S,
            read_facts,
            most_open=self._limit,
        )
        self._chores: list[Callable[[], object]] = []
        # called before the start of a session is answered
        self.bring_in: Callable[[Tenant], object] = lambda tenant: None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mnemolog-upkeep", daemon=True)

    def start(self) -> None:
        self.embedder.load()
        self._thread.start()
        self.ingest.start()

    def add_chore(self, act: Callable[[], object]) -> None:
        """Call `act` at the start and then between requests, every TICK_S."""
        self._chores.append(act)

    @property
    def is_alive(self) -> bool:
        """Return True if both background threads run."""
        return self._thread.is_alive() and self.ingest.is_alive

    @property
    def all_open(self) -> list[OpenTenant]:
        """The open tenants, by name; none is closed before this thread's request ends."""
        with self._lock:
            for name in self._open:
                self.requests.use(name)
            return [self._open[name] for name in sorted(self._open)]

    def get(self, name: str) -> OpenTenant:
        """Return a tenant, opened if need be; raise InvalidName or NotFound.

        It stays open until this thread's request has ended; a thread without a request uses
        `pinned`. Raise LogError if its log cannot be opened and no published snapshot could answer
        instead.
        """
        self._asked_at = self._clock()
        self.requests.use(name)
        return self._get_or_open(name)

    @contextmanager
    def pinned(self, name: str) -> Iterator[OpenTenant]:
        """Keep a tenant open during the block, opened if need be; raise as `get`."""
        self.pin(name)
        try:
            yield self._get_or_open(name)
        finally:
            self.unpin(name)

    def pin(self, name: str) -> None:
        """Keep a tenant open, if it is, until `unpin` has been called as often."""
        with self._lock:
            self._pins[name] += 1

    def unpin(self, name: str) -> None:
        with self._lock:
            self._pins[name] -= 1
            if not self._pins[name]:
                del self._pins[name]

    def _get_or_open(self, name: str) -> OpenTenant:
        with self._lock:
            if (opened := self._open.get(name)) is not None:
                self._open.move_to_end(name)
                return opened
        tenants.find_tenant(self.settings.home, name)  # no lock is made for a name without a tenant
        with self._alone(name):  # requests for other tenants do not wait
            if name in self._deleting:
                raise NotFound(f"no tenant {name!r}: it is being deleted")
            opened = self._open.get(name)
            if opened is None:
                opened = self._newly_opened(tenants.find_tenant(self.settings.home, name))
                with self._lock:
                    self._open[name] = opened
        self._close_least_used(kept=name)
        return opened

    def _close_least_used(self, kept: str) -> None:
        """Close the least recently used tenants beyond the limit, but not `kept`.

        The caller holds no tenant's lock, and this waits for none: a tenant in use stays open.
        """
        with self._lock:
            names = [name for name in self._open if name != kept]
        for name in names:
            if len(self._open) <= self._limit:
                return
            alone = self._alone(name)
            if alone.acquire(blocking=False):  # else it is being deleted, or closed by another
                try:
                    self._close_unused(name)
                finally:
                    alone.release()

    def _close_unused(self, name: str) -> None:
        """Close a tenant whose `_alone` is held, unless it is in use, or cannot be written just now
        and its receipts would be lost.
        """
        with self._lock:
            is_wanted = self._pins[name] or name == self.settings.choices.tenant
            if is_wanted or self.requests.are_using(name) or name not in self._open:
                return
            opened = self._open.pop(name)  # from here on, requests for it wait for `_alone`
        opened.notes.write_if_possible()
        if opened.receipts:
            with self._lock:
                self._open[name] = opened
            return
        try:
            opened.close()
        except LogError as error:
            log.error("tenant %s was not closed as it should be: %s", name, error)

    def _alone(self, name: str) -> threading.Lock:
        """Return the lock for opening, making or deleting a tenant of this name."""
        with self._lock:
            return self._opening.setdefault(name, threading.Lock())

    def _newly_opened(self, tenant: Tenant) -> OpenTenant:
        """Open a tenant; if its log cannot be opened, it answers from the published snapshot."""
        with ExitStack() as opened:
            events = opened.enter_context(EventLog(tenant.log, waits=True))
            chosen, search = self.settings.choices.qdrant, None
            if chosen.url and chosen.recall:
                search = QdrantSearch(chosen, tenant)
                search.connect()
            reader = Reader(
                tenant,
                events,
                self.embedder,
                polled=True,
                qdrant=search,
                find_embedder=self.find_embedder,
            )
            for damage in reader.answer(lambda view: view.damage, without_log=True):
                log.error("tenant %s: %s", tenant.name, damage)
            opened.pop_all()
        recalls = self._recalls.setdefault(tenant.name, RecallCounts())
        return OpenTenant(tenant, events, reader, recalls)

    def make(self, name: str) -> bool:
        """Make a tenant if the name is free; return True if it was made.

        Raise InvalidName.
        """
        tenant = tenants.tenant(self.settings.home, name)
        with self._changing, self._alone(name):  # nobody opens a half-made log
            is_new = not tenant.exists
            EventLog(tenant.log, create=True).close()
        return is_new

    def delete(self, name: str, now: int) -> tuple[Path, int]:
        """Delete a tenant once its running requests are done, as `delete_locked` does.

        Raise InvalidName or NotFound, Conflict for the default tenant, BuildBusy.
        """
        self.requests.end()  # this request itself: two deletions must not wait for each other
        with self._changing:
            tenant = tenants.find_tenant(self.settings.home, name)
            tenants.check_not_default(self.settings, tenant)
            if _is_running(self._building.get(name)):
                raise BuildBusy(f"{name} is being built: delete it when that is done")
            with tenants.lock_jobs(tenant), self._without(name):
                return tenants.delete_locked(self.settings.home, tenant, now)

    @contextmanager
    def _without(self, name: str) -> Iterator[None]:
        """Close a tenant, and keep it closed during the block."""
        with self._alone(name):
            self._deleting.add(name)
            with self._lock:
                opened = self._open.pop(name, None)
            self._recalls.pop(name, None)
        try:
            self.requests.wait(FINISH_S)
            with self.ingest.without(name):
                with self._keeping_up:
                    if opened is not None:
                        opened.close()
                yield
        finally:
            self._deleting.discard(name)

    def idle_s(self) -> float:
        """Return the seconds since the last request; 0 during a build, job or fact reading."""
        is_working = any(map(_is_running, (*self._building.values(), *self._learning.values())))
        if is_working or self.ingest.is_reading_facts:
            return 0.0
        return self._clock() - self._asked_at

    def close(self) -> None:
        self.ingest.close()
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        for tenant in self._open.values():
            tenant.close()

    def _run(self) -> None:
        code()  # before the first receipt needs it, and while the files are those that run
        self._do_chores()
        self._for_each(self._warm_up)
        while not self._closing.wait(TICK_S):
            self.refresh_settings()
            self._do_chores()
            self._for_each(self._keep_up)

    def _do_chores(self) -> None:
        for act in self._chores:
            try:
                act()
            except (MnemologError, OSError):  # as in `_keep_up`
                log.exception("upkeep failed")

    def refresh_settings(self) -> None:
        """Apply the recall settings of `config.toml` from now on, if they have changed."""
        mark = _mark(self._began_with)
        if mark != self._settings_mark:
            self._settings_mark = mark
            try:
                self.settings = config.refresh(self._began_with)
            except ConfigError as error:
                log.error("%s", error)  # the settings read before stay in force

    def _embedder_setting(self) -> str:
        self.refresh_settings()  # the last publication may have changed it
        return self.settings.choices.embedder

    def _for_each(self, act: Callable[[OpenTenant], None]) -> None:
        with self._lock:
            names = list(self._open)
        for name in names:
            self.pin(name)
            try:
                with self._keeping_up:
                    if (opened := self._open.get(name)) is not None:  # else it is closed by now
                        act(opened)
            finally:
                self.unpin(name)

    def _keep_up(self, tenant: OpenTenant) -> None:
        try:
            with suppress(LogError):  # it was logged; reads still work
                tenant.notes.write()
            self._serve_kept(tenant)
            tenant.reader.poll()
            for _ in range(_STEPS):  # while no request waits
                if self.requests.is_any or not tenant.reader.grow():
                    break
            if tenant.log.is_open:  # else it was logged, and each tick tries again
                self._build_if_due(tenant)
                self._learn_if_due(tenant)
        except (LogError, OSError):
            # upkeep must never end the server; the next tick tries again
            log.exception("upkeep of tenant %s failed", tenant.tenant.name)

    def _serve_kept(self, tenant: OpenTenant) -> None:
        """If the settings changed the embedder, serve its kept snapshot at once."""
        name, named = tenant.tenant.name, self.settings.choices.embedder
        if self._looked_for.setdefault(name, named) == named or not tenant.log.is_open:
            return
        from store.maintenance import embedder_switch  # few servers ever do: it costs their start

        try:
            wanted = self._embedders.chosen()
            embedder_switch.serve_again(tenant.tenant, tenant.log, wanted, time.time_ns() // 1000)
        except BuildBusy:
            return  # the next tick tries again
        except ConfigError as error:
            log.error("%s", error)  # the snapshot served before stays
        self._looked_for[name] = named

    def _warm_up(self, tenant: OpenTenant) -> None:
        """Run a first recall without a caller, to load the data that the next recalls need."""
        request = RecallRequest(query=_FIRST, touch=False)
        try:
            answer(tenant.reader, request, self.settings.choices, time.time_ns() // 1000)
        except MnemologError:
            log.exception("tenant %s could not be warmed up", tenant.tenant.name)

    def build_now(self, tenant: OpenTenant) -> bool:
        """Start a build of a tenant, unless one of ours runs; return True if it was started."""
        if self._build is None or _is_running(self._building.get(tenant.tenant.name)):
            return False
        self._building[tenant.tenant.name] = self._build(tenant.tenant)
        return True

    def learn_now(self, tenant: OpenTenant, job: str) -> bool:
        """Start a tenant's job, or `learn` for all, unless one runs; return True if started."""
        if _is_running(self._learning.get(tenant.tenant.name)):
            return False
        with open(tenant.tenant.root / "learn.log", "wb") as output:  # as by night
            words = ("learn", job, "--tenant", tenant.tenant.name)
            self._learning[tenant.tenant.name] = processes.start_job(
                self.settings, *words, stdout=output, stderr=output
            )
        return True

    def _build_if_due(self, tenant: OpenTenant) -> None:
        """Start a due build once requests stop; wait at most PATIENCE_S for that."""
        name, wanted = tenant.tenant.name, self.settings.choices.build_after
        if _is_running(self._building.get(name)):
            return
        if self._build is None or not wanted:
            return
        if self.ingest.is_reading_facts:  # this job builds first, if need be
            return
        waiting, now = _backlog(tenant), time.time_ns() // 1000
        days = self.settings.choices.episodes_days
        is_due = build_state.is_build_due(
            waiting, build_state.last_build_start(tenant.tenant), now, wanted
        )
        if not is_due and not (days and _has_expired_episodes(tenant, days, now)):
            self._due_since.pop(name, None)
            return
        due_s = self._clock() - self._due_since.setdefault(name, self._clock())
        if self._clock() - self._asked_at >= IDLE_S or due_s >= PATIENCE_S:
            del self._due_since[name]
            build_state.record_build_start(tenant.tenant, waiting, now)
            self.build_now(tenant)
            log.info("building tenant %s: %d changes wait", name, waiting.changes)

    def _learn_if_due(self, tenant: OpenTenant) -> None:
        """Start a due job once nobody has asked for long; one at a time, of all tenants."""
        if self._build is None or self.idle_s() < LEARN_IDLE_S:
            return
        now = time.time_ns() // 1000
        job = job_catalog.due_job(tenant.tenant, now)
        if job is None or not is_installed("dagster") or dagster_ui(self.settings) is not None:
            return
        job_catalog.record_begun(tenant.tenant, job, now)
        self.learn_now(tenant, job)
        log.info("tenant %s: started the job %s", tenant.tenant.name, job)


def _mark(settings: Settings) -> object:
    """Return a stamp that changes with the user's settings file; costs microseconds."""
    try:
        status = os.stat(settings.user_file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _has_expired_episodes(tenant: OpenTenant, days: int, now: int) -> bool:
    """Return True if there are expired episodes to erase."""
    from store.maintenance import (
        retention,  # few have episodes erased, and it costs a server's start
    )

    return retention.is_due(tenant.tenant, tenant.log, days, now)


def _backlog(tenant: OpenTenant) -> Backlog:
    with tenant.reader.view() as view:
        built, tail = view.snapshots.watermark, view.tail
    first = next(tenant.log.read(built, built + 1), None)
    return Backlog(built, tail.watermark, tail.changes, first.at if first else 0, tail.bytes)


def _is_running(process: "subprocess.Popen[bytes] | None") -> bool:
    return process is not None and process.poll() is None


def build_starter(settings: Settings) -> Builder:
    """Return a function that starts a quick build as a process, its output kept in a file."""

    def build(tenant: Tenant) -> "subprocess.Popen[bytes]":
        with open(tenant.root / "build.log", "wb") as output:
            return processes.start_job(
                settings, "build", "--quick", "--tenant", tenant.name, stdout=output, stderr=output
            )

    return build


# RequestsInFlight: the running requests, so that the files they read are not removed under them.


class RequestsInFlight:
    """The running request of each thread with the tenants it uses, and the number of finished
    requests by status. Threads may share it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._by_status: Counter[int] = Counter()
        self._running: dict[int, set[str]] = {}

    def begin(self) -> None:
        """Register the request of this thread."""
        with self._changed:
            self._running[threading.get_ident()] = set()

    def end(self, thread: int | None = None) -> None:
        """End this thread's request, or another's; a second call changes nothing."""
        with self._changed:
            self._running.pop(threading.get_ident() if thread is None else thread, None)
            self._changed.notify_all()

    def count(self, status: int) -> None:
        """Count a request answered with an HTTP status."""
        with self._changed:
            self._by_status[status] += 1

    def by_status(self) -> dict[int, int]:
        """Return the number of requests answered with each status, lowest first."""
        with self._changed:
            return dict(sorted(self._by_status.items()))

    def use(self, tenant: str) -> None:
        """Note that this thread's request, if it has one, uses a tenant."""
        if (used := self._running.get(threading.get_ident())) is not None:
            used.add(tenant)

    def are_using(self, tenant: str) -> bool:
        """Return True if a running request uses a tenant."""
        with self._changed:
            return any(tenant in used for used in self._running.values())

    @property
    def is_any(self) -> bool:
        """Return True if a request is running."""
        return bool(self._running)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all requests that run now have ended; return True if they have."""
        with self._changed:
            before = dict(self._running)

            def are_over() -> bool:
                return not any(self._running.get(thread) is used for thread, used in before.items())

            return self._changed.wait_for(are_over, timeout_s)
