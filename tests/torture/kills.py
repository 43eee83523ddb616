"""
kills: kill -9 of the server, and of builds and jobs beside it, while several processes call.

Every acknowledged event is in the log, once; a server and a job start after every kill; no killed
process runs on.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from torture.callers import Callers, Told
from torture.outcome import Outcome, Scale
from torture.server import Server, environment

from store.home.tenant import Tenant, tenant
from store.ingest.job_queue import Queue
from store.log import integrity
from store.log.event_kinds import Acted, Recorded
from store.log.event_log import EventLog
from store.snapshots import manifest as manifests

PROCESSES = 2
EVERY = 4  # kills; then a job runs to its end, and a server is killed while it starts
# callers ingest hundreds of similar texts about different tickets, so which are recalled is chance:
# other attacks check past answers
BUILD = ("build", "--quick", "--accept")
JOBS = (BUILD, ("run", "archive", "--apply", "--no-model"), BUILD)
SLOWEST_S, PATIENCE_S = 20.0, 180.0


# a server that acknowledges a write before it is done: any kill loses some
CARELESS = """
import threading, time
from serve.app import create_app
from serve.server.process import run
from store.home.config import load
from store.log.event_log import Appended, EventLog

waiting, append = [], EventLog.append

def later(log, events, checks=()):
    waiting.append((log, events))
    return [Appended(event.with_seq(1), is_new=True) for event in events]

def write():
    while True:
        time.sleep(0.2)
        while waiting:
            append(*waiting.pop(0))

EventLog.append = later
threading.Thread(target=write, daemon=True).start()
run(load(), create_app, port=0)
"""


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    yield from _killed(folder, scale.of(4, 100), scale.of(150, 500))
    yield _careless(folder / "careless", scale.of(1, 5))


def _killed(folder: Path, kills: int, events: int) -> Iterator[Outcome]:
    home, chance = folder / "home", random.Random(7)
    run = _Run(home, chance, events)
    callers = Callers(home, folder / "over", PROCESSES)
    try:
        number = 0
        while run.kills < kills:
            run.cycle(number)
            number += 1
    finally:
        reported = callers.end()
    run.settle()
    yield Outcome(
        "kill -9 of the server under load",
        run.kills,
        "kills",
        (*run.wrong, *reported.wrong),
        f"{reported.counts.get('recalls answered', 0):,} recalls answered; slowest start "
        f"{max(run.starts):.1f} s",
        floor=100,
    )
    with EventLog(tenant(home).log) as log:
        yield _events(log, reported)
        yield _hooks(log, reported)
    yield Outcome(
        "kill -9 of builds and jobs beside it",
        run.killed_jobs,
        "kills",
        run.wrong_jobs,
        f"{run.done_jobs} let run to their end",
    )


def _careless(folder: Path, kills: int) -> Outcome:
    """Kill a server that acknowledges too soon: its losses must be seen."""
    home = folder / "home"
    home.mkdir(parents=True)
    callers = Callers(home, folder / "over", 1)
    for _ in range(kills):
        server = Server(home, CARELESS)
        time.sleep(0.7)
        server.kill()
    reports = callers.end()
    with EventLog(tenant(home).log) as log:
        outcome = _events(log, reports)
    return Outcome(
        "a server that acknowledges before it writes",
        outcome.points,
        outcome.of,
        outcome.wrong,
        is_control=True,
    )


class _Run:
    """The servers and jobs of one home, one after the other, and their faults."""

    def __init__(self, home: Path, chance: random.Random, events: int) -> None:
        """At least `events` events are written before each kill."""
        self.home, self.chance, self.events = home, chance, events
        self.kills = self.killed_jobs = self.done_jobs = 0
        self.starts: list[float] = []
        self.wrong: list[str] = []
        self.wrong_jobs: list[str] = []

    @property
    def tenant(self) -> Tenant:
        return tenant(self.home)

    def cycle(self, number: int) -> None:
        """Start a server and perhaps a job, wait until enough is written, and kill them."""
        is_whole = number % EVERY == EVERY - 1
        server = self.started()
        job = self.job(JOBS[number % len(JOBS)]) if is_whole or number % 2 == 0 else None
        self.wait_for(self.events + self.chance.randrange(self.events // 2))
        server.kill()
        self.kills += 1
        if job is not None and not is_whole:
            time.sleep(self.chance.uniform(0.0, 0.5))
            self.kill_job(job)
        elif job is not None:
            self.finish(job)
            self.kill_starting()

    def wait_for(self, events: int) -> None:
        """Wait until `events` more are written, at most `SLOWEST_S` seconds."""
        deadline = time.monotonic() + SLOWEST_S
        with EventLog(self.tenant.log) as log:
            before = log.head()
            while log.head() - before < events and time.monotonic() < deadline:
                time.sleep(0.01)

    def started(self) -> Server:
        began = time.monotonic()
        server = Server(self.home)
        self.starts.append(time.monotonic() - began)
        status, answer = server.ask("POST", "/v1/recall", {"query": "ticket"}, timeout_s=30)
        while status == 503:  # too many requests at once
            status, answer = server.ask("POST", "/v1/recall", {"query": "ticket"}, timeout_s=30)
        if status != 200:
            self.wrong.append(f"a recall after kill {self.kills}: {status} {answer}")
        return server

    def kill_starting(self) -> None:
        """Kill a server at a random moment of its start."""
        code = (
            "from serve.app import create_app; from serve.server.process import run; "
            "from store.home.config import load; run(load(), create_app)"
        )
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            env=environment(self.home, MNEMOLOG_PORT="0"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(self.chance.uniform(0.1, 1.0))
        process.kill()
        process.wait()
        self.kills += 1

    def job(self, words: Sequence[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "pipelines", *words, "--tenant", "default"],
            env=environment(self.home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def kill_job(self, job: "subprocess.Popen[bytes]") -> None:
        if job.poll() is None:
            job.kill()
            self.killed_jobs += 1
        job.communicate()

    def finish(self, job: "subprocess.Popen[bytes]") -> None:
        """Wait for a job's end; a job killed before it must not block it."""
        data = job.communicate(timeout=PATIENCE_S)[1]
        self.done_jobs += 1
        if job.returncode:
            words = data.decode(errors="replace").strip().splitlines() or ["nothing"]
            self.wrong_jobs.append(f"{job.args} ended with {job.returncode}: {words[-1]}")

    def settle(self) -> None:
        """Let the last server record the queued batches, and a build publish all of it."""
        last, queue = self.started(), Queue(self.tenant.ingest)
        deadline = time.monotonic() + PATIENCE_S
        while (counts := queue.counts())["queued"] + counts["running"]:
            if time.monotonic() > deadline:
                self.wrong.append(f"batches still wait: {counts}")
                break
            time.sleep(0.1)
        if counts["dead"]:
            self.wrong.append(f"{counts['dead']} batches are dead")
        queue.close()
        last.kill(signal.SIGTERM)
        # waits for a build that a server started
        self.finish(self.job((*BUILD, "--wait", str(PATIENCE_S))))
        with EventLog(self.tenant.log) as log:
            if manifests.current(self.tenant).watermark != log.head():
                self.wrong_jobs.append("the last build is not what is served")
        self.wrong_jobs += [f"still runs: {process}" for process in _running(self.home)]


def _running(home: Path) -> list[str]:
    """Return the command lines of processes that work on a home, except those that soon end."""
    named = f"MNEMOLOG_HOME={home}".encode()
    lines: list[str] = []
    for _ in range(600):
        lines = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if process.name != str(os.getpid()) and named in (process / "environ").read_bytes():
                    line = (process / "cmdline").read_bytes().replace(b"\x00", b" ")
                    lines.append(line.decode(errors="replace"))
        if not lines:
            return []
        time.sleep(0.1)
    return lines


def _events(log: EventLog, reported: Told) -> Outcome:
    """Compare the log with the acknowledged texts."""
    bodies = [event.body for event in log.read() if isinstance(event.body, Recorded)]
    written = Counter(body.content for body in bodies)
    acknowledged = set(reported.acknowledged)
    lost = acknowledged - written.keys()
    invented = written.keys() - acknowledged - set(reported.unsure)
    doubled = [text for text, times in written.items() if times > 1]
    wrong = [*integrity.problems(log)]
    for fate, texts in (("lost", lost), ("doubled", doubled), ("never sent", invented)):
        if texts:
            wrong.append(f"{len(texts):,} {fate}, as {next(iter(texts))!r}")
    return Outcome(
        "acknowledged events, after all kills",
        len(acknowledged),
        "events",
        wrong,
        f"{len(reported.unsure):,} in doubt, {reported.counts.get('cut off', 0):,} times cut off",
        floor=50_000,
    )


def _hooks(log: EventLog, reported: Told) -> Outcome:
    """Compare the log with the tool uses that were answered before a hook's deadline."""
    written = Counter(event.body.command for event in log.read() if isinstance(event.body, Acted))
    lost = [ran for ran in reported.hooks if ran not in written]
    doubled = [ran for ran, times in written.items() if times > 1]
    wrong = [f"{len(lost)} lost, as {lost[0]!r}"] if lost else []
    wrong += [f"{len(doubled)} doubled, as {doubled[0]!r}"] if doubled else []
    return Outcome(
        "uses of tools that hooks told, after all kills", len(reported.hooks), "hooks", wrong
    )
