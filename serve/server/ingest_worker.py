"""
The worker that records accepted batches in the logs, in a thread beside the server's requests.

It checks every tenant of the home, including those without a request since the start: another
process may have accepted a batch, or died while processing it. Failures are recorded in the job and
in the tenant's failures, and the worker goes on. The job `facts` reads facts from ingested turns,
in a process of its own, one at a time, when no request runs.
"""

import logging
import random
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from serve.server import processes
from store.home import failures
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import MnemologError
from store.home.tenant import Tenant
from store.ingest.job_queue import Queue, is_gone, new_owner, record_lease
from store.ingest.queue_file import Lease
from store.plans import job_catalog

if TYPE_CHECKING:
    from serve.server.open_tenants import OpenTenant


log = logging.getLogger("mnemolog")

LOOK_S = 1.0  # between looks at queues that this process did not write to
BUSY_S, FAILED_S = 60, 3_600  # before facts are read again if another job ran, or it failed
TIDY_S = 60
INGEST = "ingest"  # as failures name it
_BUSY = 75  # the exit code of a job that found another job running

FactReader = Callable[[Tenant], "subprocess.Popen[bytes]"]


class IngestWorker:
    """The queues of a home, and the thread that works them off."""

    def __init__(
        self,
        home: Path,
        pinned: "Callable[[str], AbstractContextManager[OpenTenant]]",
        is_idle: Callable[[], bool],
        read_facts: FactReader | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
        chance: Callable[[], float] = random.random,
        *,
        most_open: int,
    ) -> None:
        """`pinned` keeps a tenant open while a job is recorded; at most `most_open` queues stay
        open. `clock` gives microseconds UTC, `chance` numbers in [0, 1).
        """
        self._home, self._pinned, self._is_idle = home, pinned, is_idle
        self._most_open = most_open
        self._read_facts, self._clock, self._chance = read_facts, clock, chance
        self._owner = new_owner()
        self._queues: OrderedDict[str, Queue] = OrderedDict()  # least recently used first
        self._lock = threading.Lock()
        self._working = threading.Lock()  # held during one job, or any other access to the queues
        self._leaving: set[str] = set()  # tenants that are to be deleted
        self._reading: tuple[Tenant, int, subprocess.Popen[bytes]] | None = None
        self._wait_until: dict[str, int] = {}  # by tenant: facts are not read before
        self._tidied = 0
        self._woken, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="mnemolog-ingest", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_reading_facts(self) -> bool:
        reading = self._reading  # once: the worker's thread may end it between two looks
        return reading is not None and reading[2].poll() is None

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Wake the worker: there is a new batch."""
        self._woken.set()

    def close(self) -> None:
        """Give back unfinished jobs, and close the queues."""
        self._closing.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        with self._lock:
            for queue in self._queues.values():
                queue.close()

    def queue(self, tenant: Tenant) -> Queue:
        with self._lock:
            queue = self._queues.setdefault(tenant.name, Queue(tenant.ingest))
            self._queues.move_to_end(tenant.name)
            too_many = len(self._queues) > self._most_open
            unused = self._queues.popitem(last=False)[1] if too_many else None
        if unused is not None:
            unused.close()  # a thread that still uses it opens its file once more
        return queue

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Close the queue of a tenant that is to be deleted, and do no work on it during the block.
        A job under way there is given back.
        """
        self._leaving.add(name)
        try:
            with self._working:
                with self._lock:
                    if (queue := self._queues.pop(name, None)) is not None:
                        queue.close()
                yield
        finally:
            self._leaving.discard(name)

    def turn(self) -> bool:
        """Do one due job of each tenant; return True if any was done."""
        has_worked = False
        for tenant in self._with_queues():
            with self._working:
                if tenant.exists and self._do_job(tenant):  # else it was deleted meanwhile
                    has_worked = True
        return has_worked

    def _run(self) -> None:
        while not self._closing.is_set():
            has_worked = self.turn()
            self._look_after(is_free=not has_worked)
            if not has_worked:
                self._woken.wait(LOOK_S)
                self._woken.clear()

    def _with_queues(self) -> Iterator[Tenant]:
        try:
            yield from [
                tenant for tenant in tenants.list_tenants(self._home) if tenant.ingest.exists()
            ]
        except OSError:
            log.exception("the tenants of %s cannot be listed", self._home)

    def _do_job(self, tenant: Tenant) -> bool:
        """Do one due job of a tenant; return True if there was one."""
        queue, lease = self.queue(tenant), None
        try:
            queue.release_of(is_gone)
            lease = queue.lease(self._owner, self._clock())
            if lease is None:
                return False
            with self._pinned(tenant.name) as opened:
                follow = partial(self._follow_step, opened)
                record_lease(queue, opened.log, lease, self._clock, on_step=follow)
                follow()
            failures.forget(tenant.root, INGEST)
            return True
        except Exception as error:
            # the outermost edge of this thread: the next job, or the next attempt, may go right
            log.exception("ingest of tenant %s failed", tenant.name)
            self._record_failure(tenant, lease, f"{type(error).__name__}: {error}")
            return False

    def _follow_step(self, tenant: "OpenTenant") -> bool:
        """Update recall with the events of a step, so that no question waits for more than one."""
        # a reader's errors are reported when it is asked; they do not hold up a write
        with suppress(MnemologError, OSError):
            tenant.reader.keep_up()
        return not (self._closing.is_set() or tenant.tenant.name in self._leaving)

    def _record_failure(self, tenant: Tenant, lease: Lease | None, text: str) -> None:
        now = self._clock()
        # a failure here is repaired when the lease expires
        with suppress(MnemologError):
            if lease is not None:
                self.queue(tenant).fail(lease, text, now, self._chance())
        with suppress(OSError):
            failures.keep(tenant.root, INGEST, now, text)

    def _look_after(self, *, is_free: bool) -> None:
        """Tidy up now and then; if no job is due, have facts read."""
        try:
            with self._working:
                if is_free:
                    self._facts()
                now = self._clock()
                if abs(now - self._tidied) >= TIDY_S * 1_000_000:  # clocks go back, too
                    self._tidied = now
                    for tenant in self._with_queues():
                        self.queue(tenant).tidy(now)
        except (MnemologError, OSError):
            log.exception("upkeep of the queues failed")

    def _facts(self) -> None:
        """Read facts from ingested turns, when no request runs."""
        if self.is_reading_facts:
            return
        if self._reading is not None:
            self._end_reading(*self._reading)
            self._reading = None
        if self._read_facts is None or not self._is_idle():
            return
        for tenant in self._with_queues():
            number = self.queue(tenant).newest_unread()
            wait_us = self._wait_until.get(tenant.name, 0) - self._clock()
            if number and not 0 < wait_us <= FAILED_S * 1_000_000:
                self._reading = tenant, number, self._read_facts(tenant)
                return

    def _end_reading(self, tenant: Tenant, number: int, process: "subprocess.Popen[bytes]") -> None:
        if process.returncode == 0:
            self.queue(tenant).mark_read(number)
            return
        wait_s = BUSY_S if process.returncode == _BUSY else FAILED_S
        self._wait_until[tenant.name] = self._clock() + wait_s * 1_000_000
        log.warning("facts of tenant %s: exit code %d", tenant.name, process.returncode)


def fact_reader(settings: Settings) -> FactReader:
    """Return a function that starts the job `facts` as a process, its output kept in a file.

    A model is used only if the tenant lets the job run by itself: otherwise nobody agreed to pay.
    """

    def read(tenant: Tenant) -> "subprocess.Popen[bytes]":
        may_ask = job_catalog.load_switches(tenant).on & {"facts", job_catalog.LEARN}
        words = ["--apply", "--tenant", tenant.name, *([] if may_ask else ["--no-model"])]
        with open(tenant.root / "facts.log", "wb") as output:
            return processes.start_job(
                settings, "run", "facts", *words, stdout=output, stderr=output
            )

    return read
