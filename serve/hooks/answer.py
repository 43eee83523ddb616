"""
answer(): a host's raw event in, the host's own JSON out, within a deadline.

A hook fails open: what is late, broken or not understood is answered by silence, and logged.
"""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from serve.hooks import after_tool, before_tool, prompt, session, stop
from serve.hooks.call import Call
from serve.hooks.deliveries import Deliveries
from serve.hooks.event import MAX_CONTEXT, SILENCE, HookEvent, Moment, Reply
from serve.hooks.hosts.host import Host, Payload
from serve.tenants import OpenTenants
from store import config
from store.config import Choices
from store.errors import ConfigError, MnemologError
from store.tenant import project_of

log = logging.getLogger("mnemolog")

DEADLINE_S = 0.2
_THREADS = 8
_PLACE_S = 10  # a project's settings and remote are looked up this often

_ANSWERS: Mapping[Moment, Callable[[Call], Reply]] = {
    "session_start": session.answered,
    "compacted": session.compacted,
    "session_end": session.ended,
    "prompt": prompt.answered,
    "before_tool": before_tool.answered,
    "after_tool": after_tool.answered,
    "stop": stop.answered,
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
        self._deliveries = Deliveries(time.monotonic)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mnemolog-hook")
        self._place = lru_cache(maxsize=64)(self._looked_up)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def answer(
        self, host: Host, payload: Payload, tenant: str | None = None
    ) -> dict[str, Any] | None:
        """Return what the host is to be told; None is silence.

        Raise InvalidInput for a payload that is not the host's, InvalidName or NotFound for the
        tenant.
        """
        event = host.read(payload)
        if event is None:
            return None
        name = tenant or self._tenants.settings.choices.tenant
        call = self._call(event, name)
        if not self._deliveries.is_first(name, event):
            return None
        reply = self._in_time(call)
        return host.write(event, reply) if _fits(reply) else None

    def _call(self, event: HookEvent, tenant: str) -> Call:
        project, choices = self._place(event.cwd, int(time.monotonic() / _PLACE_S))
        opened = self._tenants.get(tenant)
        return Call(event, opened, self._tenants.embedder, choices, project, self._clock())

    def _looked_up(self, cwd: str | None, period: int) -> tuple[str, Choices]:
        """Return the project of a working directory and the settings as seen from there."""
        settings = self._tenants.settings
        if cwd is None:
            return "", settings.choices
        try:
            return self._seen_from(Path(cwd))
        except (
            OSError,
            ValueError,
        ) as error:  # no path, or not ours to read
            log.warning("%s", error)
            return "", settings.choices

    def _seen_from(self, folder: Path) -> tuple[str, Choices]:
        choices = self._tenants.settings.choices
        try:
            choices = config.seen_from(self._tenants.settings, folder)
        except ConfigError as error:
            log.warning("%s", error)
        return choices.project or project_of(folder) or "", choices

    def _in_time(self, call: Call) -> Reply:
        waiting = self._threads.submit(_answered, call)
        try:
            return waiting.result(self._deadline_s)
        except TimeoutError:
            what = f"{call.event.host} {call.event.moment}"
            log.warning("%s was not answered within %.1f s", what, self._deadline_s)
            return SILENCE


def _fits(reply: Reply) -> bool:
    """Return whether there is something to say, and a host shows all of it."""
    size = len(reply.context.encode())
    if size > MAX_CONTEXT:
        log.warning("a context of %d bytes was left out: at most %d", size, MAX_CONTEXT)
    return 0 < size <= MAX_CONTEXT


def _answered(call: Call) -> Reply:
    try:
        return _ANSWERS[call.event.moment](call)
    except MnemologError as error:
        log.warning("%s %s: %s", call.event.host, call.event.moment, error)
    except Exception:  # the outermost edge of a hook: a defect of ours must not stop the agent
        log.exception("%s %s failed", call.event.host, call.event.moment)
    return SILENCE
