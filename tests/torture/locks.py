"""
locks: concurrent work on one home: a program that locks the log, readers that never end, builds,
jobs and servers that collide.

Recall goes on, every acknowledged event is there once, and failed work is reported and can be
repeated.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torture.outcome import Outcome, Scale
from torture.server import CutOff, Server, environment

from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import Tenant, tenant
from store.log import commands, integrity
from store.log.commands import Draft
from store.log.event_kinds import Acted, Recorded
from store.log.event_log import EventLog
from store.maintenance import build

SLOWEST_S = 2.5  # half of a writer's lock timeout: no recall may wait for a lock
PACE_S = 0.05  # between an agent's prompts: notes.MOST bounds the events waiting for a locked log
NOW = 1_790_000_000_000_000
BUSY = 75  # the exit code of a command that finds another at work

HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(10_000)
connection.execute(sys.argv[2])
connection.execute("SELECT count(*) FROM events").fetchall()
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    yield _exclusive(folder / "exclusive", scale.of(2, 30), is_held_for_ever=False)
    if scale is Scale.FULL:
        yield _exclusive(folder / "for-ever", 2, is_held_for_ever=True)
    yield _snapshot_held(folder / "reader", scale.of(6, 200))
    yield _together(folder / "together", scale.of(1, 6))
    yield _two_servers(folder / "servers", scale.of(1, 5))


def _exclusive(folder: Path, seconds: int, *, is_held_for_ever: bool) -> Outcome:
    """Hold the log's write lock for long: recalls and hooks are answered, writes refused.

    With `is_held_for_ever` it is held until the last writer was refused.
    """
    home = _remembered(folder)
    server, wrong, counts = Server(home), [], Counter[str]()
    sure: list[str] = []
    refused: list[dict[str, str]] = []

    def write(name: str) -> None:
        for number in range(1_000):
            if over.is_set():
                return
            body = {"id": f"{name}-{number}", "content": f"a note of {name}, number {number}"}
            status, answer = server.ask("POST", "/v1/memories", body, timeout_s=60)
            counts[f"writes answered {status}"] += 1
            if status == 503:
                refused.append(body)
            elif status == 201:
                sure.append(body["id"])
            else:
                wrong.append(f"a write: {status} {answer}")

    over = threading.Event()
    writers = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(8)]
    ran: list[str] = []
    took: list[float] = []
    with _locked_log(tenant(home), "BEGIN EXCLUSIVE"):
        for writer in writers:
            writer.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            took += _ask_in_time(server, wrong, counts)
            ran.append(_use_a_tool(server, wrong, counts, len(ran)))
            time.sleep(PACE_S)
        over.set()
        if is_held_for_ever:
            for writer in writers:
                writer.join()  # each gives up while it is held
            if counts["writes answered 201"]:
                wrong.append("a write went through: the log was not held")
    for writer in writers:
        writer.join()
    if statistics.median(took) > SLOWEST_S:  # a single request may be slow on a busy machine
        wrong.append(f"recalls and prompts took {statistics.median(took):.1f} s")
    for body in refused:
        if server.record(body) not in (200, 201):
            wrong.append(f"{body['id']} is refused after the lock was let go")
        sure.append(body["id"])
    time.sleep(2.5)  # hook events are written at the next poll
    server.kill(15)
    wrong += _compared(home, sure, ran)
    note = ", ".join(f"{many} {name}" for name, many in sorted(counts.items()))
    name = f"a program that holds the log for {'ever' if is_held_for_ever else f'{seconds} s'}"
    note += f"; {statistics.median(took):.2f} s a recall or prompt"
    return Outcome(name, sum(counts.values()), "requests", wrong, note)


def _ask_in_time(server: Server, wrong: list[str], counts: Counter[str]) -> list[float]:
    """Recall and prompt; return the seconds each took."""
    took: list[float] = []
    event = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": f"s{counts['prompts']}",
        "cwd": str(server.home),
        "prompt": "where do deploys go out from?",
    }
    request = {"query": "where do deploys go out from"}
    for name, path, body in (
        ("recalls", "/v1/recall", request),
        ("prompts", "/v1/hooks/claude-code", event),
    ):
        counts[name] += 1
        began = time.monotonic()
        try:
            status, answer = server.ask("POST", path, body, timeout_s=30)
        except CutOff as error:
            wrong.append(f"{name}: {error!r}")
            continue
        took.append(time.monotonic() - began)
        if status == 204 and name == "prompts":  # its time was up: the machine is busy
            counts["prompts without an answer in time"] += 1
        elif status != 200 or "eu-west-1" not in json.dumps(answer):
            wrong.append(f"{name}: {status} {answer}")
    return took


def _use_a_tool(server: Server, wrong: list[str], counts: Counter[str], number: int) -> str:
    ran = f"make part-{number}"
    event = {
        "hook_event_name": "PostToolUse",
        "session_id": "tools",
        "cwd": str(server.home),
        "tool_name": "Bash",
        "tool_input": {"command": ran},
        "tool_response": "done",
    }
    counts["tools"] += 1
    status, answer = server.ask("POST", "/v1/hooks/claude-code", event, timeout_s=30)
    if status not in (200, 204):
        wrong.append(f"a tool: {status} {answer}")
    return ran


def _snapshot_held(folder: Path, batches: int) -> Outcome:
    """Hold a snapshot of the log open: writes go on, and their WAL space is freed after it."""
    home = _remembered(folder)
    tenant_, wrong, largest = tenant(home), [], 0
    ahead = tenant_.log.with_name(f"{tenant_.log.name}-wal")
    server = Server(home)
    text = "words of a note " * 100
    with _locked_log(tenant_, "BEGIN"):
        for number in range(batches):
            many = [{"id": f"b{number}-{at}", "content": f"{text} {at}"} for at in range(20)]
            status, answer = server.ask("POST", "/v1/memories/batch", {"memories": many})
            if status != 201:
                wrong.append(f"a batch: {status} {answer}")
            largest = max(largest, ahead.stat().st_size)
    status, _ = server.ask("POST", "/v1/memories/batch", {"memories": [{"content": "one more"}]})
    if status != 201:
        wrong.append(f"a write after it: {status}")
    server.kill(15)
    size = ahead.stat().st_size if ahead.exists() else 0
    if size:
        wrong.append(f"{size:,} bytes of write-ahead log are left")
    wrong += _compared(home, [f"b{number}-19" for number in range(batches)], ())
    note = f"the write-ahead log grew to {largest / (1 << 20):.1f} MiB, and to nothing after it"
    return Outcome("a reader that holds a snapshot open", batches, "batches", wrong, note)


def _together(folder: Path, rounds: int) -> Outcome:
    """Run builds, an erasure, jobs, an import, a writer and a server at once."""
    home = _remembered(folder)
    lines = folder / "notes.jsonl"
    wrong: list[str] = []
    sure: list[str] = []
    ended: Counter[str] = Counter()
    server = Server(home)
    for number in range(rounds):
        rows = [{"id": f"i{number}-{at}", "content": f"imported {number} {at}"} for at in range(50)]
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        erased = f"e{number}"
        server.record({"id": erased, "content": f"to be erased, {number}"})
        processes = [
            _started(home, "serve.cli", "record", "--id", f"c{number}", f"of the shell {number}"),
            _started(home, "pipelines", "build", "--quick"),
            _started(home, "pipelines", "build", "--quick"),
            _started(home, "serve.cli", "erase", erased, "--yes"),
            _started(home, "serve.cli", "archive", "--no-model"),
            _started(home, "serve.cli", "import", "jsonl", str(lines)),
        ]
        while any(other.poll() is None for other in processes):
            id_ = f"s{len(sure)}"
            if server.record({"id": id_, "content": f"beside the jobs {id_}"}) == 201:
                sure.append(id_)
            _ask_in_time(server, wrong, ended)
            time.sleep(0.05)
        for process in processes:
            text = process.communicate()[1]
            words = " ".join(process.args[4:6])  # type: ignore[index]
            ended[f"{words.split()[0]} ended {process.returncode}"] += 1
            if process.returncode not in (0, BUSY) or "Traceback" in text:
                last = (text.strip().splitlines() or [""])[-1]
                wrong.append(f"{words} ended with {process.returncode}: {last}")
        sure += [f"c{number}"]
    server.kill(15)
    last = _started(home, "pipelines", "build", "--quick")
    text = last.communicate()[1]
    if last.returncode:
        wrong.append(f"the last build ended with {last.returncode}: {text}")
    wrong += _compared(home, sure, ())
    note = ", ".join(f"{many} {name}" for name, many in sorted(ended.items()))
    return Outcome("builds, jobs and writers at once", sum(ended.values()), "requests", wrong, note)


def _two_servers(folder: Path, pairs: int) -> Outcome:
    """Start two servers of one home at once: one serves, the other reports that and ends."""
    home = _remembered(folder)
    wrong: list[str] = []
    code = (
        "import sys\nfrom serve.app import create_app\nfrom serve.server.process import run\n"
        "from store.home.config import load\n"
        "from store.home.errors import ConfigError\n"
        "try:\n    run(load(), create_app, port=0)\n"
        "except ConfigError as error:\n    print('no:', error)"
    )
    for _ in range(pairs):
        two = [
            subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                env=environment(home),
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        lines = [other.stdout.readline() for other in two if other.stdout is not None]
        if sorted(line[:3] for line in lines) != ["mne", "no:"]:
            wrong.append(f"two servers said {lines}")
        for process in two:
            process.kill()
            process.communicate()
    return Outcome("two servers of one home", pairs, "pairs", wrong)


def _remembered(folder: Path) -> Path:
    home = folder / "home"
    tenant_ = tenant(home)
    with EventLog(tenant_.log, create=True) as log:
        drafts = [Draft(id="m0", content="Deploys go out from eu-west-1 only")]
        drafts += [Draft(id=f"m{number}", content=f"Note {number}") for number in range(1, 40)]
        commands.record_batch(log, drafts, NOW)
        build.rebuild(tenant_, log, LexicalEmbedder(), NOW)
    return home


@contextmanager
def _locked_log(of: Tenant, how: str) -> Iterator[None]:
    """Hold the log by a transaction of another process."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, str(of.log), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.communicate("\n")


def _started(home: Path, module: str, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *words],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd="/",
    )


def _compared(home: Path, sure: Sequence[str], ran: Sequence[str]) -> Iterator[str]:
    """Yield the differences between the log and the acknowledged writes."""
    with EventLog(tenant(home).log) as log:
        yield from integrity.problems(log)
        events = list(log.read())
    written = Counter(event.id for event in events if isinstance(event.body, Recorded))
    acted = Counter(event.body.command for event in events if isinstance(event.body, Acted))
    if lost := [id_ for id_ in sure if id_ not in written]:
        yield f"{len(lost)} memories are lost, as {lost[0]}"
    if missing := [command for command in ran if command not in acted]:
        yield f"{len(missing)} of {len(ran)} uses of tools are lost, as {missing[0]!r}"
    if doubled := [command for command, times in (written + acted).items() if times > 1]:
        yield f"{len(doubled)} are there twice, as {doubled[0]}"
