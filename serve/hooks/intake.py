"""
Intake: the events of the spool, recorded as they would have been, each once, oldest first.

They get no answer: their hosts have gone on. A client spools its event before it waits for a server
that is being started, or for a process without one: an event that may still get its answer there
is left alone for so long. A delivery that is in the log already (its answer came too late for the
client, or another process took it in) is deleted and no more. A session's later events wait for
those of its spool, so that turns begin and end in order.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from serve.hooks.call import Call, delivered_event_id
from serve.hosts import HOSTS
from serve.hosts.event import HookEvent
from serve.server.open_tenants import OpenTenants
from store.home import spool
from store.home.errors import InvalidInput, InvalidName, LogError, MnemologError, NotFound
from store.home.files import file_stamp, remove_files, sweep
from store.home.instants import SECOND
from store.home.project_context import ProjectContexts
from store.home.spool import Delivery

log = logging.getLogger("mnemolog")

WAITING_US = 5 * SECOND  # a client waits no longer: hosts give up by then


class SpooledEvent(msgspec.Struct, frozen=True):
    """An event as the client kept it: the host's payload, redacted."""

    host: str
    tenant: str
    event: dict[str, Any]


# made once, before there are threads: msgspec 0.22 crashes if two meet a type for the first time
_decoder = msgspec.json.Decoder(SpooledEvent)


class Intake:
    """The intake of a home's spool. Threads and processes may share it: ids make it safe."""

    def __init__(
        self,
        tenants: OpenTenants,
        contexts: ProjectContexts,
        record: Callable[[Call], object],
        is_first: Callable[[str, HookEvent, float], bool],
        clock: Callable[[], int],
    ) -> None:
        """`record` records an event; `is_first` recognizes two reports of one event by the second
        it happened. `clock` gives microseconds UTC.
        """
        self._tenants, self._contexts, self._clock = tenants, contexts, clock
        self._record, self._is_first = record, is_first
        self._home = tenants.settings.home
        self._lock = threading.Lock()
        self._empty: object = None  # the folder's stamp when nothing was in it
        self._failed: set[str] = set()  # not tried again before the next start
        self._first: set[str] = set()  # deliveries of first reports, not recorded yet
        self._is_held_up = False
        self.under_way: set[str] = set()  # deliveries that a thread is answering

    def take_in(self, *, before: int = 2**62, later: HookEvent | None = None) -> int:
        """Record the spooled events from before a moment; return how many were recorded.

        `later` is an event that they come before. An event that no log takes now, or that may still
        be answered, stays for the next time.
        """
        stamp = file_stamp(spool.folder_of(self._home))
        if stamp is None or stamp == self._empty:
            return 0
        with self._lock:
            waiting = spool.entries(self._home)
            if not waiting:
                folder = spool.folder_of(self._home)
                sweep(folder)  # of clients that were killed
                # a file of the same tick of the clock does not show: only a folder at rest counts
                if time.time_ns() - folder.stat().st_mtime_ns > 1_000_000_000:
                    self._empty = stamp
            recorded = 0
            for path, delivery in waiting:
                if delivery.at >= before or path.name in self._failed:
                    continue
                try:
                    recorded += self._take(path, delivery, later)
                    self._is_held_up = False
                except (LogError, OSError) as error:
                    if not self._is_held_up:
                        log.warning("the spool waits: %s", error)
                    self._is_held_up = True
                    break
                except MnemologError as error:  # of one event: the others are not to wait for it
                    self._failed.add(path.name)
                    log.error("%s stays in the spool: %s", path.name, error)
                except Exception:  # as above: a defect of ours keeps the event
                    self._failed.add(path.name)
                    log.exception("%s stays in the spool", path.name)
        return recorded

    def _take(self, path: Path, delivery: Delivery, later: HookEvent | None) -> bool:
        """Record one event, unless it is known; return True if it was recorded now."""
        if delivery.id in self.under_way:
            return False
        try:
            spooled = _decoder.decode(path.read_bytes())
            host = HOSTS[spooled.host]
            event = host.read(spooled.event) if host.read is not None else None
        except FileNotFoundError:  # another process was first
            return False
        except (KeyError, msgspec.MsgspecError, InvalidInput) as error:
            log.error("an event of the spool cannot be read and is dropped: %s", error)
            event = None
        if event is not None and self._may_be_answered(event, delivery, later):
            return False
        is_new = event is not None and self._record_event(spooled.tenant, event, delivery)
        remove_files([path])
        return is_new

    def _may_be_answered(
        self, event: HookEvent, delivery: Delivery, later: HookEvent | None
    ) -> bool:
        """Return True if a client may still wait for the answer to an event.

        None does for what a session's later event follows; but a host may report a session's start
        and its first prompt at once.
        """
        if event.moment not in ("session_start", "prompt"):
            return False
        if later is not None and later.session == event.session:
            if event.moment == "prompt" or later.moment != "prompt":
                return False
        return 0 <= self._clock() - delivery.at < WAITING_US

    def _record_event(self, tenant_name: str, event: HookEvent, delivery: Delivery) -> bool:
        settings = self._tenants.settings
        place = self._contexts.of(event.cwd)
        if event.moment == "before_tool" or self._contexts.off(
            place, event.session, event.cwd, delivery.at
        ):
            return False
        name = tenant_name or settings.choices.tenant
        with ExitStack() as pins:
            try:
                tenant = pins.enter_context(self._tenants.pinned(name))
            except (NotFound, InvalidName) as error:
                raise NotFound(f"{error}; make the tenant, or delete the file") from error
            id_ = delivered_event_id(delivery)
            call = Call(
                event,
                tenant,
                place.choices,
                place.project,
                delivery.at,
                is_awaited=False,
                main_id=id_,
            )
            if any(other.id == id_ for other in tenant.notes.waiting):
                tenant.notes.write()
            if tenant.log.present_ids([id_]):
                return False
            if delivery.id not in self._first:
                if not self._is_first(name, event, delivery.at / 1e6):
                    return False
                self._first.add(delivery.id)
            self._record(call)
            tenant.notes.write()
            self._first.discard(delivery.id)
            return True
