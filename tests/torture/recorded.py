"""
recorded: a piece of work done under the shim, and every call it made on the disk.

    python -P tests/torture/recorded.py WORK HOME [WEAKNESS]

does a work (`power_loss.WORKS`) in a process of its own; the trace marks the work's beginning,
after its preparation, and its acknowledgements. A weakness makes it a control.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "serve" / "program"), str(ROOT)]

from torture.fault import Action, Call, Fault, mark  # noqa: E402

BEGIN = "begin"  # the mark between the preparation and the attacked work
GIVEN = ("*.jsonl", "*.zip")  # the user's files in the home: they were synced long ago
HOME = "/home"  # the memory's place on the disk


def calls(work: str, folder: Path, weakness: str = "") -> list[Call]:
    """Do a work on an empty disk below a new folder; return the calls, in their order."""
    disk, beside = folder / "disk", folder / "beside"
    disk.mkdir(mode=0o700, parents=True)
    beside.mkdir()
    fault = Fault(disk, beside)
    fault.arm(Action.RECORD)
    words = [sys.executable, "-P", __file__, work, f"{disk}{HOME}", weakness]
    subprocess.run(words, env={**os.environ, **fault.environment()}, cwd=ROOT, check=True)
    calls = list(fault.calls())
    fault.trace.unlink()
    return calls


def _synchronous(level: str) -> None:
    """Open the log's file with a weaker `synchronous` level, as many do for speed."""
    from store.log import log_file

    prepare = log_file.prepare

    def weaker(connection, path, *, create):  # type: ignore[no-untyped-def]
        prepare(connection, path, create=create)
        connection.execute(f"PRAGMA synchronous = {level}")

    log_file.prepare = weaker


def _fsync_only(of: Callable[[int], bool]) -> None:
    """Limit our own code's fsync to folders, or to files; SQLite's calls stay."""
    fsync = os.fsync

    def weaker(descriptor: int) -> None:
        if of(os.fstat(descriptor).st_mode):
            fsync(descriptor)

    os.fsync = weaker  # type: ignore[assignment]


WEAKNESSES: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "synchronous NORMAL": lambda: _synchronous("NORMAL"),
    "synchronous OFF": lambda: _synchronous("OFF"),
    "no fsync of files": lambda: _fsync_only(stat.S_ISDIR),
    "no fsync of folders": lambda: _fsync_only(stat.S_ISREG),
}


def main(words: Sequence[str]) -> None:
    name, home, weakness = words
    from torture.power_loss import WORKS

    from store.home.files import sync_file, sync_folder

    work = WORKS[name]
    os.umask(0o077)
    work.prepare(Path(home))
    for given in [path for name in GIVEN for path in Path(home).glob(name)]:
        sync_file(given)
        sync_folder(given.parent)
    WEAKNESSES[weakness]()
    mark(BEGIN)
    work.do(Path(home), mark)


if __name__ == "__main__":
    main(sys.argv[1:])
