"""
Delivery: each event is answered once, and an answer waits until its host listens.

Cursor, Copilot CLI and VS Code also run the hooks in Claude Code's settings, and in one another's;
and a host may retry. An answer would stand twice before the model, an action twice in the log.

Cursor and VS Code drop what is said to a prompt, and Gemini what is said before a tool is used. It
is then given with the next event of the session that they hear, be it in a later turn: a memory is
said once in a session, so what is dropped here would never be said.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from serve.hosts.event import MAX_CONTEXT, HookEvent

WITHIN_S = 60.0
_KEPT = 1_024


@dataclass(frozen=True, slots=True)
class _Told:
    at: float
    host: str
    number: str | None


class Dedupe:
    """What was told of late. Threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._told: OrderedDict[bytes, _Told] = OrderedDict()

    def is_first(self, tenant: str, event: HookEvent) -> bool:
        """Return whether this is the first we hear of an event."""
        parts = (tenant, event.session, event.moment, *_mark(event))
        key = sha256("\x00".join(parts).encode()).digest()
        now = self._clock()
        with self._lock:
            told = self._told.get(key)
            if told is not None and now - told.at <= WITHIN_S and _is_same(told, event):
                return False
            self._told[key] = _Told(now, event.host, _number(event))
            self._told.move_to_end(key)
            while len(self._told) > _KEPT:
                self._told.popitem(last=False)
        return True


def _mark(event: HookEvent) -> tuple[str, ...]:
    """Return what the two tellings of one event have in common."""
    if event.moment == "prompt":
        return (event.prompt,)
    if event.tool is None:
        return (event.start,)
    return (event.tool.doing, event.tool.command or "", *event.tool.files)


def _number(event: HookEvent) -> str | None:
    """Return what tells an event from another with its mark, where the host numbers them."""
    return event.tool.id if event.tool is not None else event.turn


def _is_same(told: _Told, event: HookEvent) -> bool:
    """Return whether an event is the one that was told with the same mark.

    Told by two hosts, it is. Told by one host, the number decides: a prompt without one is a retry;
    a tool may be used twice, and a turn may end twice.
    """
    number = _number(event)
    if told.host != event.host:
        return True
    if event.moment == "prompt":
        return None in (told.number, number) or told.number == number
    return event.tool is not None and number is not None and told.number == number


_SESSIONS = 256
_TEXTS = 4  # of a session
_FORGETS = frozenset({"compacted", "session_end"})  # what was said before counts no longer


class DeferredReplies:
    """What waits, by session. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[str, str], list[str]] = OrderedDict()

    def release(self, tenant: str, event: HookEvent, context: str) -> str:
        """Return what is to be said at an event: beside the context what waited, as far as fits."""
        key = tenant, event.session
        with self._lock:
            waited = self._waiting.pop(key, [])
            if event.moment in _FORGETS:
                return ""
            said = ""
            if event.is_heard:
                said, waited = _join_context(context, waited)
            elif context:
                waited = [*waited, context]
            if waited:
                self._waiting[key] = waited[-_TEXTS:]
            while len(self._waiting) > _SESSIONS:
                self._waiting.popitem(last=False)
        return said


def _join_context(context: str, waited: list[str]) -> tuple[str, list[str]]:
    """Return the context after what waited and fits beside it, the oldest first; and the rest."""
    said = context
    rest: list[str] = []
    for text in reversed(waited):
        both = f"{text}\n{said}" if said else text
        if len(both.encode()) <= MAX_CONTEXT:
            said = both
        else:
            rest.insert(0, text)
    return said, rest
