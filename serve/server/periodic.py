"""A thread of the server that repeats one task until the server ends."""

import threading
from collections.abc import Callable

_FIRST_S = 1.0  # the server answers before anything else
_END_S = 5.0  # for the last step, when the server ends


class Periodic:
    """A thread that runs `step`, which returns the seconds to the next run, and once at the end."""

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self._step = step
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mnemolog-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Take a last step, and end; wait at most `_END_S` for it."""
        self._closing.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        wait_s = _FIRST_S
        while not self._closing.wait(wait_s):
            wait_s = self._step()
        self._step()
