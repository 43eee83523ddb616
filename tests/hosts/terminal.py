"""A terminal for a program under test: its screen and its keys."""

import os
import re
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_STEERING = re.compile(
    rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b."
)
# queries to a terminal, and its answers: without these some programs do not start
_ASKED = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?1;2c",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}


class Terminal:
    """A program in its own terminal; it is killed at the end of the test."""

    def __init__(self, command: list[str], environ: Mapping[str, str], cwd: Path) -> None:
        import pty  # missing on Windows
        import termios

        self._shown = b""
        self._pid, self._pipe = pty.fork()
        if self._pid == 0:
            os.chdir(cwd)
            os.execve(command[0], command, {**environ, "TERM": "xterm-256color"})
        termios.tcsetwinsize(self._pipe, (40, 120))

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *failure: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._pipe)

    def until(self, words: str, timeout_s: float = 30) -> None:
        """Wait until the program has shown some words."""
        deadline = time.monotonic() + timeout_s
        while words not in self.shown:
            assert time.monotonic() < deadline, f"{words!r} never came: {self.shown[-2000:]}"
            self._look(0.1)

    @property
    def shown(self) -> str:
        return " ".join(_STEERING.sub(b" ", self._shown).decode(errors="replace").split())

    def press(self, key: str, until: Callable[[], bool], timeout_s: float = 30) -> None:
        """Press a key until a condition holds: a program that just started may ignore it."""
        deadline = time.monotonic() + timeout_s
        while not until():
            assert time.monotonic() < deadline, f"{key!r} changed nothing: {self.shown[-2000:]}"
            os.write(self._pipe, key.encode())
            self._look(0.5)

    def type(self, words: str) -> None:
        """Type some words, and wait until they are on the screen."""
        os.write(self._pipe, words.encode())
        self.until(words.split()[-1])

    def _look(self, for_s: float) -> None:
        """Read the program's output for some time, and answer its terminal queries."""
        end = time.monotonic() + for_s
        while select.select([self._pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                part = os.read(self._pipe, 1 << 16)
            except OSError:  # Linux raises this once the program has ended
                raise AssertionError(f"it ended: {self.shown[-2000:]}") from None
            for question, answer in _ASKED.items():
                if question in part:
                    os.write(self._pipe, answer)
            self._shown += part
