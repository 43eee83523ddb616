"""troubles: the kinds of disk trouble, each with its beginning and its end."""

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import EROFS
from functools import partial
from pathlib import Path

from torture import probes
from torture.fault import Action, Fault
from torture.probes import Command
from torture.server import Server

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@dataclass(frozen=True)
class Trouble:
    """A kind of trouble: the disk's mount options, and its beginning and end under a server."""

    name: str
    mount: str
    begin: Callable[[Path, Server], None]
    end: Callable[[Path, Server], None]
    must_refuse: bool = True
    commands: tuple[Command, ...] = probes.USUAL
    more: tuple[Command, ...] = probes.MORE  # at full scale
    may_refuse: tuple[str, ...] = ()  # reads
    start: Callable[[Path], Server] = Server
    before: tuple[str, ...] = ()  # the prefix of a command line


def _fill(disk: Path, server: Server) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)) == 4096:
            pass


def _drain(disk: Path, server: Server) -> None:
    (disk / "filler").unlink()


def full(mib: int) -> Trouble:
    return Trouble(f"a full disk of {mib} MiB", f"size={mib}m", _fill, _drain)


def _fill_inodes(disk: Path, server: Server) -> None:
    folder = disk / "fillers"
    folder.mkdir()
    with suppress(OSError):
        for number in range(100_000):
            (folder / str(number)).touch()


def _drain_inodes(disk: Path, server: Server) -> None:
    shutil.rmtree(disk / "fillers")


INODES = Trouble(
    "a disk without inodes",
    "size=16m,nr_inodes=400",
    _fill_inodes,
    _drain_inodes,
    must_refuse=False,
)


def _limit(disk: Path, server: Server) -> None:
    largest = max(path.stat().st_size for path in disk.rglob("*") if path.is_file())
    _limited(server, resource.RLIMIT_FSIZE, max(largest, 128 << 10))


def _unlimit(disk: Path, server: Server) -> None:
    _limited(server, resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)


LIMITED = Trouble(
    "a limit of file sizes (ulimit -f)", "size=16m", _limit, _unlimit, commands=(), more=()
)


def _few_handles(disk: Path, server: Server) -> None:
    # one more for a connection, one for its answer
    _limited(server, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{server.process.pid}/fd")) + 2)


def _many_handles(disk: Path, server: Server) -> None:
    _limited(server, resource.RLIMIT_NOFILE, 1024)


HANDLES = Trouble(
    "no open files left",
    "size=16m",
    _few_handles,
    _many_handles,
    must_refuse=False,
    commands=(),
    more=(),
    # they open another file, or list a folder
    may_refuse=("/v1/jobs", "/metrics", "/v1/tenants/default/stats"),
)


def _limited(server: Server, limit: int, most: int) -> None:
    hard = resource.prlimit(server.process.pid, limit)[1]
    resource.prlimit(server.process.pid, limit, (most, hard))


def read_only(beside: Path) -> Trouble:
    """Return the trouble of a disk that becomes read-only under a server, as after file system
    damage.

    A mount with files open for writing cannot be made read-only from outside, so the shim refuses
    the server's writes to those; `beside` is the folder of its own files.
    """
    faults: list[Fault] = []

    def start(home: Path) -> Server:
        faults.append(Fault(home, beside))
        return Server(home, **faults[0].environment())

    def begin(disk: Path, server: Server) -> None:
        subprocess.run(["mount", "--bind", disk, disk], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)
        faults[0].arm(Action.FAIL_ON, at=1, error=EROFS)

    def end(disk: Path, server: Server) -> None:
        faults[0].arm(Action.WATCH)
        subprocess.run(["mount", "-o", "remount,bind,rw", disk], check=True)

    return Trouble(
        "a disk that becomes read-only under a server",
        "size=16m",
        begin,
        end,
        commands=(probes.RECALL, *probes.refused(probes.RECORD)),
        more=(
            probes.HOOK,
            probes.DOCTOR,
            probes.STATUS,
            *probes.refused(probes.BUILD, probes.INGEST),
        ),
        start=start,
    )


def _give(to: int, disk: Path, server: Server | None) -> None:
    for path in (disk / "home", *(disk / "home").rglob("*")):
        os.chown(path, to, to)


def _take(disk: Path, server: Server) -> None:
    _give(0, disk, server)
    time.sleep(1.2)  # a server checks each second that its home is there


def _start_as_nobody(home: Path) -> Server:
    _give(NOBODY, home.parent, None)
    return Server(home, before=AS_NOBODY)


ANOTHERS = Trouble(
    "a home that becomes somebody else's",
    "size=16m",
    _take,
    partial(_give, NOBODY),
    must_refuse=False,  # the server may go on writing to its open files
    may_refuse=("/v1/jobs", "/metrics", "/v1/tenants/default/stats"),  # and it cannot open others
    commands=probes.refused(probes.RECALL),
    more=probes.refused(probes.RECORD, probes.HOOK, *probes.MORE),
    start=_start_as_nobody,
    before=AS_NOBODY,
)
