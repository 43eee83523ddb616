"""A thread of the server that does one thing again and again until the server ends."""

import threading
from collections.abc import Callable

_FIRST_S = 1.0  # the server answers before anything else
_END_S = 5.0  # for what is done when the server ends


class Periodic:
    """Runs `step`, which returns for how many seconds to wait now, and once more at the end."""

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self._step = step
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mnemolog-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Take a last step, and end; one that does not end is not waited for."""
        self._closing.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        wait_s = _FIRST_S
        while not self._closing.wait(wait_s):
            wait_s = self._step()
        self._step()
