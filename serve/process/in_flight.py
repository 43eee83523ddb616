"""
InFlight: the requests that are being answered, so that what they read is not taken from under them.
"""

import threading


class InFlight:
    """One request for each thread that answers one. Threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[int, object] = {}

    def begin(self) -> None:
        """Count the request that this thread answers from now on."""
        with self._changed:
            self._running[threading.get_ident()] = object()

    def end(self, thread: int | None = None) -> None:
        """Count this thread's request no more, or another's; a second time changes nothing."""
        with self._changed:
            self._running.pop(threading.get_ident() if thread is None else thread, None)
            self._changed.notify_all()

    @property
    def is_any(self) -> bool:
        """Whether a request is being answered now."""
        return bool(self._running)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all requests that run now have ended; return whether they have."""
        with self._changed:
            before = dict(self._running)

            def are_over() -> bool:
                return not any(self._running.get(one) is mark for one, mark in before.items())

            return self._changed.wait_for(are_over, timeout_s)
