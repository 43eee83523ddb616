"""
answer(): a host's raw event in, the host's own JSON out, once and within a deadline.

A hook fails open: a late, broken or unknown event is answered by silence, and logged.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from serve.hooks import prompt, session, tool_use
from serve.hooks.call import Call, delivered_event_id
from serve.hooks.intake import Intake
from serve.hosts.event import MAX_CONTEXT, SILENCE, HookEvent, Moment, Payload, Reply
from serve.hosts.host import Host
from serve.server.open_tenants import OpenTenants
from store.home import pauses
from store.home.errors import ConfigError, LogError, MnemologError, NotFound
from store.home.instants import MINUTE
from store.home.project_context import ProjectContext, ProjectContexts
from store.home.projects import PACKAGE, git_root
from store.home.spool import Delivery

log = logging.getLogger("mnemolog")

T = TypeVar("T")

DEADLINE_S = 0.2
START_S = 1.5  # for a session's start: it comes once, and no prompt waits behind it
_AHEAD_US = MINUTE  # a client whose clock is further ahead gets ours
_WRITE_S = 0.05  # for the disk, if the answer took all the time
_THREADS = 8
_ROOTS = 256

_ANSWERS: Mapping[Moment, Callable[[Call], Reply]] = {
    "session_start": session.answer_session_start,
    "compacted": session.record_compaction,
    "session_end": session.record_session_end,
    "prompt": prompt.answer_prompt,
    "before_tool": tool_use.answer_before_tool,
    "after_tool": tool_use.record_after_tool,
    "stop": session.record_stop,
}


class Hooks:
    """Answers hook events over open tenants. Threads may share it; `close` ends its own."""

    def __init__(
        self,
        tenants: OpenTenants,
        clock: Callable[[], int],
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """`clock` gives microseconds UTC."""
        self._tenants, self._clock, self._deadline_s = tenants, clock, deadline_s
        self._deliveries = Dedupe(time.monotonic)
        self._late = DeferredReplies()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mnemolog-hook")
        self._places = ProjectContexts(tenants.settings)
        self._intake = Intake(
            tenants,
            self._places,
            lambda call: _ANSWERS[call.event.moment](call),
            Dedupe(time.monotonic).is_first,
            clock,
        )

    def take_in_spool(self) -> int:
        """Record the events in the spool; return how many were recorded."""
        return self._intake.take_in()

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def answer(
        self,
        host: Host,
        payload: Payload,
        tenant: str | None = None,
        *,
        is_here: bool = True,
        is_off: bool = False,
    ) -> dict[str, Any] | None:
        """Return the first value of `deliver`: the host's answer, None for silence."""
        return self.deliver(host, payload, tenant, is_here=is_here, is_off=is_off)[0]

    def deliver(
        self,
        host: Host,
        payload: Payload,
        tenant: str | None = None,
        *,
        is_here: bool = True,
        is_off: bool = False,
        delivery: Delivery | None = None,
    ) -> tuple[dict[str, Any] | None, bool]:
        """Return the host's answer, None for silence; and whether the event is safe from loss. Only
        a `delivery` waits for that: if it is not safe, its client spools it.

        `is_here` says that the event's folders are on this machine: otherwise none is read.
        `is_off` says that this run of the agent is not recorded: its session is paused.
        Raise InvalidInput for a payload that is not the host's, NotFound for a host that runs no
        hooks, InvalidName or NotFound for the tenant.
        """
        if host.read is None or host.write is None:
            raise NotFound(f"{host.title} runs no hooks: its MCP server serves it")
        event = host.read(payload)
        if event is None:
            return None, True
        if not is_here:
            event = replace(event, cwd=None)
        name = tenant or self._tenants.settings.choices.tenant
        place, now = self._places.of(event.cwd), self._clock()
        if self._is_off(event, place, now, is_off):
            return None, True
        call = self._call(event, name, place, now, delivery)
        if not self._deliveries.is_first(name, event):
            return None, True
        reply, is_done = self._in_time(call, delivery)
        is_kept = is_done and (delivery is None or self._is_written(call))
        text = self._late.release(name, event, _short(reply))
        return host.write(event, replace(reply, context=text)) or None, is_kept

    def _is_off(self, event: HookEvent, place: ProjectContext, now: int, is_off: bool) -> bool:
        """Return True if an event is neither recorded nor answered.

        A run that is off pauses its session, for hooks without the variable and for an import of
        the host's transcript. The pause ends with the run, or when a run begins without it.
        """
        home = self._tenants.settings.home
        try:
            paused = self._places.pauses.of(event.session, "", None, now)
            if is_off and paused is None:
                pauses.pause(home, "session", event.session, now, is_of_a_run=True)
            elif (
                paused
                and paused.is_of_a_run
                and event.moment == ("session_end" if is_off else "session_start")
            ):
                pauses.resume(home, now, "session", event.session)
        except ConfigError as error:
            log.warning("%s", error)
        return is_off or bool(self._places.off(place, event.session, event.cwd, now))

    def _call(
        self,
        event: HookEvent,
        name: str,
        place: ProjectContext,
        now: int,
        delivery: Delivery | None,
    ) -> Call:
        tenant = self._tenants.get(name)
        patience_s = self._deadline_s
        if event.moment == "session_start":
            patience_s = max(patience_s, START_S)
            self._note_root(place.project, event.cwd)
        return Call(
            event,
            tenant,
            place.choices,
            place.project,
            delivery.at if delivery and delivery.at <= now + _AHEAD_US else now,
            time.monotonic() + patience_s,
            main_id=delivered_event_id(delivery) if delivery else None,
            trees=self._tenants.trees,
        )

    def _note_root(self, project: str, cwd: str | None) -> None:
        """Remember a repository's folder, for a page that writes into it."""
        with suppress(OSError, ValueError):  # no path, or not ours to look at
            root = git_root(Path(cwd)) if cwd and project and PACKAGE not in project else None
            if root is not None:
                roots = self._tenants.roots
                if len(roots) >= _ROOTS:
                    roots.clear()
                roots[project] = root

    def _in_time(self, call: Call, delivery: Delivery | None) -> tuple[Reply, bool]:
        """Return the reply and True if the event was handled; a late event may still be handled."""
        if delivery is not None:
            self._intake.under_way.add(delivery.id)
        waiting = self._submit(call, lambda: self._run(call, delivery))
        try:
            reply, is_done = waiting.result(max(0.0, call.answer_by - time.monotonic()))
        except TimeoutError:
            event = call.event
            log.warning("%s %s was not answered within its deadline", event.host, event.moment)
            return SILENCE, False
        try:  # this event was in time: let hook clients wait for answers again
            self._tenants.settings.server_breaker.unlink(missing_ok=True)
        except OSError as error:  # the home is not writable: clients go on without us
            log.warning("server.breaker could not be deleted: %s", error)
        return reply, is_done

    def _submit(self, call: Call, act: Callable[[], T]) -> "Future[T]":
        """Run `act` for a call in another thread, which may outlast the request: the call's tenant
        stays open until it ends.
        """
        name = call.tenant.tenant.name
        self._tenants.pin(name)
        future = self._threads.submit(act)
        future.add_done_callback(lambda _: self._tenants.unpin(name))
        return future

    def _run(self, call: Call, delivery: Delivery | None) -> tuple[Reply, bool]:
        try:
            # spooled events happened before: a turn begins before it ends
            self._intake.take_in(before=call.now, later=call.event)
            if _is_recorded(call):
                return SILENCE, True
            if call.event.moment == "session_start":
                self._tenants.bring_in(call.tenant.tenant)
            return _ANSWERS[call.event.moment](call), True
        except MnemologError as error:
            log.warning("%s %s: %s", call.event.host, call.event.moment, error)
        except Exception:  # the outermost edge of a hook: a defect of ours must not stop the agent
            log.exception("%s %s failed", call.event.host, call.event.moment)
        finally:
            if delivery is not None:
                self._intake.under_way.discard(delivery.id)
        return SILENCE, False

    def _is_written(self, call: Call) -> bool:
        """Return True if a call's event reaches the disk while its host waits."""
        writing = self._submit(call, call.tenant.notes.write_if_possible)
        try:
            writing.result(max(_WRITE_S, call.answer_by - time.monotonic()))
        except TimeoutError:
            return False
        return all(event.id != call.main_id for event in call.tenant.notes.waiting[:])


def _short(reply: Reply) -> str:
    """Return the reply's context, empty if it is too long for a host to show in full."""
    size = len(reply.context.encode())
    if size > MAX_CONTEXT:
        log.warning("a context of %d bytes was left out: at most %d", size, MAX_CONTEXT)
        return ""
    return reply.context


def _is_recorded(call: Call) -> bool:
    """Return True if a call's delivery is in the log, False if the log cannot be read."""
    with suppress(LogError):
        return call.main_id is not None and bool(call.tenant.log.present_ids([call.main_id]))
    return False


# Each event is answered once. Cursor, Copilot CLI and VS Code also run the hooks in Claude Code's
# settings, and in one another's; and a host may retry. The model would get an answer twice, the log
# an action twice.

WITHIN_S = 60.0
_KEPT = 1_024


class _Told(msgspec.Struct, frozen=True):
    at: float
    host: str
    number: str | None


class Dedupe:
    """The recently reported events. Threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._told: OrderedDict[bytes, _Told] = OrderedDict()

    def is_first(self, tenant: str, event: HookEvent, at_s: float | None = None) -> bool:
        """Return True if this is the first report of an event; `at_s` is for a past event."""
        parts = (tenant, event.session, event.moment, *_mark(event))
        key = sha256("\x00".join(parts).encode()).digest()
        now = self._clock() if at_s is None else at_s
        with self._lock:
            receipt = self._told.get(key)
            if receipt is not None and now - receipt.at <= WITHIN_S and _is_same(receipt, event):
                return False
            self._told[key] = _Told(now, event.host, _number(event))
            self._told.move_to_end(key)
            while len(self._told) > _KEPT:
                self._told.popitem(last=False)
        return True


def _mark(event: HookEvent) -> tuple[str, ...]:
    """Return the fields that two reports of one event share."""
    if event.moment == "prompt":
        return (event.prompt,)
    if event.tool is None:
        return (event.start,)
    return (event.tool.doing, event.tool.command or "", *event.tool.files)


def _number(event: HookEvent) -> str | None:
    """Return the host's number for an event, which distinguishes it from others with its mark."""
    return event.tool.id if event.tool is not None else event.turn


def _is_same(receipt: _Told, event: HookEvent) -> bool:
    """Return True if an event is the reported event with the same mark.

    It is if two hosts report it. If one host does, the number decides: a prompt without one is a
    retry; a tool may be used twice, and a turn may end twice.
    """
    number = _number(event)
    if receipt.host != event.host:
        return True
    if event.moment == "prompt":
        return None in (receipt.number, number) or receipt.number == number
    return event.tool is not None and number is not None and receipt.number == number


# An answer waits until its host listens. Cursor and VS Code drop an answer to a prompt, and Gemini
# an answer before a tool is used. It is then given with the next event of the session that they
# hear, even in a later turn: a memory is shown once in a session, so a dropped answer would be
# lost.

_SESSIONS = 256
_TEXTS = 4  # of a session
_FORGETS = frozenset({"compacted", "session_end"})  # earlier answers no longer count


class DeferredReplies:
    """The deferred contexts, by session. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[str, str], list[str]] = OrderedDict()

    def release(self, tenant: str, event: HookEvent, context: str) -> str:
        """Return the context for an event, after the deferred contexts that fit beside it."""
        key = tenant, event.session
        with self._lock:
            waited = self._waiting.pop(key, [])
            if event.moment in _FORGETS:
                return ""
            text = ""
            if event.is_heard:
                text, waited = _join_context(context, waited)
            elif context:
                waited = [*waited, context]
            if waited:
                self._waiting[key] = waited[-_TEXTS:]
            while len(self._waiting) > _SESSIONS:
                self._waiting.popitem(last=False)
        return text


def _join_context(context: str, waited: list[str]) -> tuple[str, list[str]]:
    """Return the context after the deferred texts that fit, oldest first; and the other texts."""
    rest: list[str] = []
    for text in reversed(waited):
        both = f"{text}\n{context}" if context else text
        if len(both.encode()) <= MAX_CONTEXT:
            context = both
        else:
            rest.insert(0, text)
    return context, rest
