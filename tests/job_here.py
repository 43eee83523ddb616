"""A job in the test's process: a separate process would spend two seconds on imports alone."""

import io
import os
import subprocess
import sys
from contextlib import nullcontext, redirect_stdout

import pytest

from pipelines.__main__ import main
from store.home.config import Settings


class JobHere:
    """The started job as a command sees it; it runs once the command waits for it."""

    returncode: int | None = None

    def __init__(
        self, settings: Settings, *words: str, stdin: object = None, stdout: object = None
    ) -> None:
        self._settings, self._words = settings, words
        self._is_read = stdout == subprocess.PIPE

    def communicate(self, given: bytes = b"") -> tuple[bytes, None]:
        """Run the job; return its output if the command is to read it."""
        said, before = io.TextIOWrapper(io.BytesIO(), "utf-8"), os.umask(0o077)
        printing = redirect_stdout(said) if self._is_read else nullcontext()
        with pytest.MonkeyPatch.context() as patch, printing:
            patch.setattr(sys, "argv", ["pipelines", *self._words])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
            patch.chdir(self._settings.home)
            try:
                main()
                self.returncode = 0
            except SystemExit as end:
                self.returncode = int(end.code or 0)
            finally:
                os.umask(before)
        said.flush()
        return said.buffer.getvalue(), None

    def wait(self) -> int:
        self.communicate()
        assert self.returncode is not None
        return self.returncode
