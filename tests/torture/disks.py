"""
disks: real disks in trouble: full, without inodes, below a limit of file sizes or of open files,
read-only, somebody else's.

A server, hooks, commands and builds work on a home that lies on a small tmpfs, in a namespace of
mounts of our own. Linux, and only for root.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torture import probes
from torture.outcome import Outcome, Scale
from torture.probes import Found
from torture.server import PLACES, Server, environment

from store import build, commands
from store.agent_events import Acted
from store.commands import Draft
from store.embedding import LexicalEmbedder
from store.events import Recorded
from store.log import EventLog
from store.tenant import tenant

MIB = 1 << 20
NOW = 1_790_000_000_000_000
NOBODY = 65534
DELIVERED_S = 20.0


def is_possible() -> bool:
    """Return whether a disk can be mounted here."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Run `main` where a mount is seen by nobody else."""
    process = subprocess.Popen(
        ["unshare", "-m", sys.executable, "-P", "-m", "torture.disks", str(folder), scale.value],
        env=environment(folder, PYTHONPATH=":".join(map(str, PLACES))),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        yield Outcome(**json.loads(line))
    if process.wait():
        yield Outcome("disks", 0, "requests", (f"the attack ended with {process.returncode}",))


@dataclass(frozen=True)
class Trouble:
    """A kind of trouble: how the disk is made, and how it begins and ends while a server runs."""

    name: str
    mount: str
    begin: Callable[[Path, Server], None]
    end: Callable[[Path, Server], None]
    must_refuse: bool = True
    has_commands: bool = True
    may_refuse: tuple[str, ...] = ()  # reads


def main(folder: Path, scale: Scale) -> None:
    troubles = [_full(4), _LIMITED]
    if scale is Scale.FULL:
        troubles += [_full(2), _full(3), _INODES, _HANDLES]
    for one in troubles:
        _say(_in(one, folder / one.name.replace(" ", "-"), is_whole=scale is Scale.FULL))


def _say(outcome: Outcome) -> None:
    print(json.dumps(asdict(outcome)), flush=True)


def _in(trouble: Trouble, disk: Path, *, is_whole: bool) -> Outcome:
    """Return what was found in a kind of trouble, from before it to after it."""
    found = Found()
    with _mounted(disk, trouble.mount), ExitStack() as stack:
        home = disk / "home"
        _remember(home)
        server = Server(home)
        stack.callback(_end, server)
        probes.reads(server, found)
        probes.hooks(server, found, "before", 1)
        trouble.begin(disk, server)
        try:
            probes.writes(server, found, "during")
            if trouble.must_refuse and not found.refused:
                found.wrong.append("nothing was refused: there was no trouble")
            probes.hooks(server, found, "during")
            probes.reads(server, found, trouble.may_refuse)
            if trouble.has_commands:
                _commands(home, found, is_whole=is_whole)
        finally:
            trouble.end(disk, server)
        probes.send_again(server, found)
        probes.hooks(server, found, "after", 1)
        probes.reads(server, found)
        probes.run(probes.Command(("build", "--quick"), (0,)), home, found)
        _delivered(home, found)
        _end(server)
        stack.pop_all()
        _whole(home, found)
    note = f"{found.reads} reads, {found.refused} of {found.writes} writes refused"
    return Outcome(trouble.name, found.points, "requests", found.wrong, note)


def _commands(home: Path, found: Found, *, is_whole: bool) -> None:
    some = [probes.RECALL, probes.HOOK, probes.RECORD]
    if is_whole:
        some += [probes.BUILD, probes.STATUS, probes.INGEST]
    for one in some:
        probes.run(one, home, found)


def _remember(home: Path) -> None:
    one = tenant(home)
    texts = ["Deploys go out from eu-west-1 only", "The cache is cleared at noon", "Ask Anna"]
    with EventLog(one.log, create=True) as log:
        drafts = [Draft(id=f"m{number}", content=text) for number, text in enumerate(texts)]
        commands.record_batch(log, drafts, NOW)
        build.rebuild(one, log, LexicalEmbedder(), NOW)


def _delivered(home: Path, found: Found) -> None:
    """Wait for what hooks were told: all of it is in the log, or was said to be lost."""
    deadline = time.monotonic() + DELIVERED_S
    missing = found.ran
    while missing and time.monotonic() < deadline:
        with EventLog(tenant(home).log) as log:
            there = {one.body.command for one in log.read() if isinstance(one.body, Acted)}
        missing = [ran for ran in found.ran if ran not in there]
        time.sleep(0.2)
    if missing:
        found.wrong.append(f"{len(missing)} notes of hooks never came, as {missing[0]!r}")


def _whole(home: Path, found: Found) -> None:
    with EventLog(tenant(home).log) as log:
        found.wrong += log.integrity()
        written = [one.id for one in log.read() if isinstance(one.body, Recorded)]
        if len(written) != len(set(written)):
            found.wrong.append("a memory is there twice")


def _end(server: Server) -> None:
    if server.process.poll() is None:
        server.kill(15)
    if server.process.returncode:
        raise RuntimeError(f"the server ended with {server.process.returncode}")


@contextmanager
def _mounted(disk: Path, options: str) -> Iterator[None]:
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def _fill(disk: Path, server: Server) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)) == 4096:
            pass


def _drain(disk: Path, server: Server) -> None:
    (disk / "filler").unlink()


def _full(mib: int) -> Trouble:
    return Trouble(f"a full disk of {mib} MiB", f"size={mib}m", _fill, _drain)


def _fill_inodes(disk: Path, server: Server) -> None:
    folder = disk / "fillers"
    folder.mkdir()
    with suppress(OSError):
        for number in range(100_000):
            (folder / str(number)).touch()


def _drain_inodes(disk: Path, server: Server) -> None:
    shutil.rmtree(disk / "fillers")


_INODES = Trouble(
    "a disk without inodes", "size=16m,nr_inodes=400", _fill_inodes, _drain_inodes, False
)


def _limit(disk: Path, server: Server) -> None:
    largest = max(path.stat().st_size for path in disk.rglob("*") if path.is_file())
    _limited(server, resource.RLIMIT_FSIZE, max(largest, 128 << 10))


def _unlimit(disk: Path, server: Server) -> None:
    _limited(server, resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)


_LIMITED = Trouble("a limit of file sizes (ulimit -f)", "size=16m", _limit, _unlimit, True, False)


def _few_handles(disk: Path, server: Server) -> None:
    # one more for a connection, one for what answers it
    _limited(server, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{server.process.pid}/fd")) + 2)


def _many_handles(disk: Path, server: Server) -> None:
    _limited(server, resource.RLIMIT_NOFILE, 1024)


_HANDLES = Trouble(
    "no open files left",
    "size=16m",
    _few_handles,
    _many_handles,
    must_refuse=False,
    has_commands=False,
    may_refuse=("/v1/jobs", "/metrics"),  # they open a file that was not open yet
)


def _limited(server: Server, what: int, most: int) -> None:
    hard = resource.prlimit(server.process.pid, what)[1]
    resource.prlimit(server.process.pid, what, (most, hard))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Scale(sys.argv[2]))
