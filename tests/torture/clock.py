"""clock: the shim of `clock.c`, which sets the wall clock of a running program."""

import struct
import time
from pathlib import Path

from torture.shim import built

SOURCE = Path(__file__).with_name("clock.c")
_OFFSET = struct.Struct("=q")


class Clock:
    """The wall clock of the programs that run with its environment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.move(0)

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(built(SOURCE)), "CLOCK_OFFSET": str(self._path)}

    def move(self, seconds: float) -> None:
        """Set the clock's error from now on; running programs see it at once."""
        if not self._path.exists():
            self._path.write_bytes(_OFFSET.pack(0))
        with self._path.open("r+b") as file:
            file.write(_OFFSET.pack(round(seconds * 1e6)))

    def set(self, moment: float) -> None:
        """Set it to seconds since 1970."""
        self.move(moment - time.time())
