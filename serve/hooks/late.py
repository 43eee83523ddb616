"""
Late: what was said where the host does not listen, kept until it does.

Cursor and VS Code drop what is said to a prompt, and Gemini what is said before a tool is used. It
is then given with the next event of the session that they hear, be it in a later turn: a memory is
said once in a session, so what is dropped here would never be said.
"""

import threading
from collections import OrderedDict

from serve.hooks.event import MAX_CONTEXT, HookEvent

_SESSIONS = 256
_TEXTS = 4  # of a session
_FORGETS = frozenset({"compacted", "session_end"})  # what was said before counts no longer


class Late:
    """What waits, by session. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[str, str], list[str]] = OrderedDict()

    def heard(self, tenant: str, event: HookEvent, context: str) -> str:
        """Return what is to be said at an event: beside the context what waited, as far as fits."""
        key = tenant, event.session
        with self._lock:
            waited = self._waiting.pop(key, [])
            if event.moment in _FORGETS:
                return ""
            said = ""
            if event.is_heard:
                said, waited = _fitting(context, waited)
            elif context:
                waited = [*waited, context]
            if waited:
                self._waiting[key] = waited[-_TEXTS:]
            while len(self._waiting) > _SESSIONS:
                self._waiting.popitem(last=False)
        return said


def _fitting(context: str, waited: list[str]) -> tuple[str, list[str]]:
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
