"""
Late: what was said where the host does not listen, kept until it does.

Cursor and VS Code drop what is said to a prompt, and Gemini what is said before a tool is used. It
is then given with the next event of the session that they hear; when the turn is over, it is gone.
"""

import threading
from collections import OrderedDict

from serve.hooks.event import MAX_CONTEXT, HookEvent

_KEPT = 256  # sessions
_ENDS = frozenset({"stop", "session_end"})


class Late:
    """What waits, by session. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[str, str], str] = OrderedDict()

    def heard(self, tenant: str, event: HookEvent, context: str) -> str:
        """Return what is to be said at an event: of what waited as much as fits beside it."""
        key = tenant, event.session
        with self._lock:
            waited = self._waiting.pop(key, "")
            if event.is_heard:
                return _both(waited, context)
            if event.moment == "prompt":  # another question: what the last one found is stale
                waited = ""
            if event.moment not in _ENDS and (kept := _both(waited, context)):
                self._waiting[key] = kept
            while len(self._waiting) > _KEPT:
                self._waiting.popitem(last=False)
        return ""


def _both(waited: str, context: str) -> str:
    both = "\n".join(filter(None, (waited, context)))
    return both if len(both.encode()) <= MAX_CONTEXT else context
