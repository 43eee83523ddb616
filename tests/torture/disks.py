"""
disks: real disks in trouble: full, without inodes, with a limit on file sizes or open files,
read-only, owned by another user.

A server, hooks, commands and builds work on a home on a small tmpfs, in our own mount namespace.
Linux, and only for root.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from torture import probes, shim, troubles
from torture.outcome import Outcome, Scale
from torture.probes import Found
from torture.server import PLACES, Server, environment
from torture.troubles import Trouble

from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.log import commands, integrity
from store.log.commands import Draft
from store.log.event_kinds import Acted, Recorded
from store.log.event_log import EventLog
from store.maintenance import build

NOW = 1_790_000_000_000_000
DISK = Path("/mnt")  # that of our namespace: unprivileged processes can reach it too
HOME = DISK / "home"
DELIVERED_S = 20.0


def is_possible() -> bool:
    """Return True if a disk can be mounted here."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(DISK)]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Run `main` in a mount namespace of its own."""
    process = subprocess.Popen(
        ["unshare", "-m", sys.executable, "-P", "-m", "torture.disks", str(folder), scale.value],
        env=environment(folder, PYTHONPATH=":".join(map(str, PLACES))),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Outcome(**json.loads(line))
    if process.returncode:
        yield Outcome("disks", 0, "requests", (f"the attack ended with {process.returncode}",))


def main(folder: Path, scale: Scale) -> None:
    is_whole = scale is Scale.FULL
    some = [troubles.full(4)]
    if shim.is_possible():
        some.append(troubles.read_only(folder))
    if _lets_nobody_in():
        some.append(troubles.ANOTHERS)
    if is_whole:
        some += [troubles.full(3), troubles.LIMITED, troubles.INODES, troubles.HANDLES]
    for trouble in some:
        _say(_in(trouble, is_whole=is_whole))
    for is_killed in (True, False) if is_whole else (True,):
        _say(_never_writable(is_killed=is_killed, is_whole=is_whole))


def _lets_nobody_in() -> bool:
    """Return True if an unprivileged process can run the program: it may be in a private home."""
    words = [
        *troubles.AS_NOBODY,
        sys.executable,
        "-P",
        "-c",
        "import serve.cli, store.log.event_log",
    ]
    return subprocess.run(words, env=environment(DISK), stderr=subprocess.DEVNULL).returncode == 0


def _say(outcome: Outcome) -> None:
    print(json.dumps(asdict(outcome)), flush=True)


def _in(trouble: Trouble, *, is_whole: bool) -> Outcome:
    """Return the outcome of a kind of trouble: before, during and after it."""
    tally = Found()
    with _mounted(trouble.mount), ExitStack() as stack:
        _remember(HOME)
        server = trouble.start(HOME)
        stack.callback(_end, server)
        probes.reads(server, tally)
        probes.hooks(server, tally, "before", 1)
        trouble.begin(DISK, server)
        try:
            probes.writes(server, tally, "during")
            if trouble.must_refuse and not tally.refused:
                tally.wrong.append("nothing was refused: there was no trouble")
            probes.hooks(server, tally, "during")
            probes.reads(server, tally, trouble.may_refuse)
            for command in (*trouble.commands, *(trouble.more if is_whole else ())):
                probes.run(command, HOME, tally, before=trouble.before)
        finally:
            trouble.end(DISK, server)
        probes.send_again(server, tally)
        probes.hooks(server, tally, "after", 1)
        probes.reads(server, tally)
        if is_whole:
            probes.run(
                probes.Command(("build", "--quick"), (0,)), HOME, tally, before=trouble.before
            )
        _delivered(HOME, tally)
        _end(server)
        stack.pop_all()
        _whole(HOME, tally)
    note = f"{tally.reads} reads, {tally.refused} of {tally.writes} writes refused"
    return Outcome(trouble.name, tally.points, "requests", tally.wrong, note)


_BUILT = probes.Command(("build", "--quick"), (0,))
_OF_READ_ONLY = (
    probes.Command(("recall", "when does the pager ring"), (0,), "at seven"),
    probes.HOOK,
    *probes.refused(probes.RECORD, probes.INGEST, probes.BUILD, probes.SERVE),
    probes.RECALL,
    probes.DOCTOR,
    probes.STATUS,
)


def _never_writable(*, is_killed: bool, is_whole: bool) -> Outcome:
    """Return the outcome for a home on a read-only disk without a server: reads are answered, also
    from the write-ahead file of a killed server.
    """
    tally = Found()
    with _mounted("size=16m"):
        _remember(HOME)
        server = Server(HOME)
        if server.record({"content": "The pager rings at seven"}) != 201:
            tally.wrong.append("a write before it was refused")
        server.kill(9 if is_killed else 15)
        _remount("ro")
        for command in _OF_READ_ONLY if is_whole else _OF_READ_ONLY[:3]:
            probes.run(command, HOME, tally)
        _remount("rw")
        server = Server(HOME)
        probes.reads(server, tally)
        probes.writes(server, tally, "after")
        if tally.refused:
            tally.wrong.append("it does not write again")
        _end(server)
        _whole(HOME, tally)
    how = "killed" if is_killed else "ended"
    note = f"{tally.commands} commands"
    return Outcome(
        f"a read-only disk, its server {how}", tally.points, "requests", tally.wrong, note
    )


def _remount(how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", DISK], check=True)


def _remember(home: Path) -> None:
    tenant_ = tenant(home)
    texts = ["Deploys go out from eu-west-1 only", "The cache is cleared at noon", "Ask Anna"]
    with EventLog(tenant_.log, create=True) as log:
        drafts = [Draft(id=f"m{number}", content=text) for number, text in enumerate(texts)]
        commands.record_batch(log, drafts, NOW)
        build.rebuild(tenant_, log, LexicalEmbedder(), NOW)


def _delivered(home: Path, tally: Found) -> None:
    """Wait until all tool uses sent to hooks are in the log."""
    deadline = time.monotonic() + DELIVERED_S
    missing = tally.ran
    while missing and time.monotonic() < deadline:
        with EventLog(tenant(home).log) as log:
            there = {event.body.command for event in log.read() if isinstance(event.body, Acted)}
        missing = [ran for ran in tally.ran if ran not in there]
        time.sleep(0.2)
    if missing:
        tally.wrong.append(f"{len(missing)} notes of hooks never came, as {missing[0]!r}")


def _whole(home: Path, tally: Found) -> None:
    with EventLog(tenant(home).log) as log:
        tally.wrong += integrity.problems(log)
        written = [event.id for event in log.read() if isinstance(event.body, Recorded)]
        if len(written) != len(set(written)):
            tally.wrong.append("a memory is there twice")


def _end(server: Server) -> None:
    if server.process.poll() is None:
        server.kill(15)
    if server.process.returncode:
        raise RuntimeError(f"the server ended with {server.process.returncode}")


@contextmanager
def _mounted(options: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", DISK], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", DISK], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Scale(sys.argv[2]))
