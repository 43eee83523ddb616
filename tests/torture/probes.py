"""
probes: requests to a home while its disk is in trouble, and the allowed answers.

All reads are answered. A write is done, or refused with a 503 or 507 and a message that names the
remedy; then it is sent again under its id once the trouble is over.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torture.server import CutOff, Server, environment

READS = (
    ("POST", "/v1/recall", {"query": "where do deploys go out from"}),
    ("POST", "/v1/memories/search", {"query": "deploys"}),
    *(
        ("GET", path, None)
        for path in (
            "/v1/memories",
            "/v1/memories/m1",
            "/v1/memories/m1/history",
            "/v1/overview?topic=deploys",
            "/v1/digest",
            "/v1/lessons",
            "/v1/goals",
            "/v1/facts",
            "/v1/entities",
            "/v1/receipts",
            "/v1/jobs",
            "/v1/proposals",
            "/v1/tenants/default/stats",
            "/v1/export",
            "/metrics",
            "/health",
        )
    ),
)
REFUSED = frozenset({503, 507})
CURES = (
    "free space",
    "check owner",
    "mounted for writing",
    "check the disk",
    "again",
    "MNEMOLOG_HOME",
    "ulimit",
)
LARGE = "words of a long note " * 200  # four kilobytes


@dataclass
class Found:
    """The counts of requests in one kind of trouble, and the faults of the answers."""

    reads: int = 0
    writes: int = 0
    refused: int = 0
    commands: int = 0
    wrong: list[str] = field(default_factory=list)
    again: list[tuple[str, str, Any]] = field(default_factory=list)  # refused, to be sent again
    ran: list[str] = field(default_factory=list)  # by the agent, told to hooks

    @property
    def points(self) -> int:
        return self.reads + self.writes + self.commands


def reads(server: Server, tally: Found, may_refuse: Sequence[str] = ()) -> None:
    """Send all reads: each must be answered, except the paths in `may_refuse`."""
    for method, path, body in READS:
        tally.reads += 1
        try:
            status, answer = server.ask(method, path, body, timeout_s=30)
        except CutOff as error:
            tally.wrong.append(f"{method} {path}: {error!r}")
            continue
        if status in REFUSED and path in may_refuse:
            tally.refused += 1
        elif status != 200:
            tally.wrong.append(f"{method} {path}: {status} {answer}")
        elif path == "/v1/recall" and not answer["hits"]:
            tally.wrong.append(f"{path}: nothing was recalled")


def writes(server: Server, tally: Found, name: str) -> None:
    """Write in every way; collect the refused writes, to be sent again."""
    for method, path, body in _writes(name):
        tally.writes += 1
        try:
            status, answer = server.ask(method, path, body, timeout_s=30)
        except CutOff as error:
            tally.wrong.append(f"{method} {path}: {error!r}")
            continue
        if status in REFUSED:
            tally.refused += 1
            tally.again.append((method, path, body))
            if not any(cure in answer["detail"] for cure in CURES):
                tally.wrong.append(f"{path}: {status} names no cure: {answer['detail']!r}")
        elif status not in (200, 201, 202, 204):
            tally.wrong.append(f"{method} {path}: {status} {answer}")
            tally.again.append((method, path, body))


def _writes(name: str) -> Iterator[tuple[str, str, Any]]:
    for number in range(4):
        draft = {"id": f"{name}-{number}", "content": f"{name} {number} {LARGE}"}
        yield "POST", "/v1/memories", draft
        many = [
            {"id": f"{name}-{number}-{at}", "content": f"{name} {number} {at} {LARGE}"}
            for at in range(20)
        ]
        yield "POST", "/v1/memories/batch", {"memories": many}
        drafts = [{"id": f"{name}-{number}-i{at}", "content": f"{name} {at}"} for at in range(20)]
        yield "POST", "/v1/ingest", {"memories": drafts}
    yield "PATCH", "/v1/memories/m1", {"importance": 0.7}
    yield "POST", "/v1/rate", {"id": "m1", "verdict": 1.0}
    yield "POST", "/v1/memories/m2/archive", {}


def hooks(server: Server, tally: Found, name: str, turns: int = 3) -> None:
    """Act as a host: prompts must be answered, and tool uses recorded, then or later."""
    whose = {"session_id": f"session-{name}", "cwd": str(server.home)}
    for turn in range(turns):
        ran = f"make {name}-{turn}"
        used = {"tool_name": "Bash", "tool_input": {"command": ran}, "tool_response": "done"}
        for event in (
            {"hook_event_name": "UserPromptSubmit", "prompt": f"where do deploys go {turn}?"},
            {"hook_event_name": "PostToolUse"} | used,
        ):
            tally.reads += 1
            try:
                status, answer = server.ask("POST", "/v1/hooks/claude-code", whose | event)
            except CutOff as error:
                tally.wrong.append(f"hook {event['hook_event_name']}: {error!r}")
                continue
            if status not in (200, 204):
                tally.wrong.append(f"hook {event['hook_event_name']}: {status} {answer}")
        tally.ran.append(ran)


def send_again(server: Server, tally: Found) -> None:
    """Send the refused writes again: now they must be done."""
    for method, path, body in tally.again:
        tally.writes += 1
        try:
            status, answer = server.ask(method, path, body, timeout_s=30)
        except CutOff as error:
            tally.wrong.append(f"again {method} {path}: {error!r}")
            continue
        if status not in (200, 201, 202, 204):
            tally.wrong.append(f"again {method} {path}: {status} {answer}")
    tally.again.clear()


@dataclass(frozen=True)
class Command:
    """A command line and its allowed exit codes in trouble; its output must contain `says`."""

    words: Sequence[str]
    codes: tuple[int, ...]
    says: str = ""
    event: str = ""


EVENT = (
    '{"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": "/", '
    '"prompt": "do deploys go out from eu-west-1 only?"}'
)
RECALL = Command(("recall", "where do deploys go out from"), (0,), "eu-west-1")
HOOK = Command(("hook", "claude-code"), (0,), "eu-west-1", EVENT)
RECORD = Command(("record", f"A note of the command line {LARGE}"), (0, 4))
BUILD = Command(("build", "--quick"), (0, 1, 4, 75))
STATUS = Command(("status",), (0, 1))
SERVE = Command(("serve", "--port", "0"), (0,))
DOCTOR = Command(("doctor",), (1,), "read-only")
INGEST = Command(("ingest", "-"), (0, 4), event='{"content": "a line that is handed over"}\n')


USUAL = (RECALL, HOOK, RECORD)
MORE = (BUILD, STATUS, INGEST)


def refused(*some: Command) -> tuple[Command, ...]:
    """Return the commands with the exit codes of a refusal."""
    return tuple(replace(command, codes=(1, 2, 4), says="") for command in some)


def run(
    command: Command, home: Path, tally: Found, *, before: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run a command in trouble: its exit code must be allowed, and its error name a remedy."""
    tally.commands += 1
    module = "pipelines" if command.words[0] == "build" else "serve.cli"
    completed = subprocess.run(
        [*before, sys.executable, "-P", "-m", module, *command.words],
        env=environment(home),
        input=command.event,
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
    )
    line = " ".join(command.words)[:40]
    last = (completed.stderr.strip().splitlines() or ["nothing"])[-1][:300]
    if completed.returncode not in command.codes:
        tally.wrong.append(f"mnemolog {line} ended with {completed.returncode}: {last}")
    elif command.says not in completed.stdout:
        tally.wrong.append(f"mnemolog {line} did not say {command.says!r}: {last}")
    if "Traceback" in completed.stderr:
        tally.wrong.append(f"mnemolog {line} broke off: {last}")
    elif completed.returncode and not any(
        cure in completed.stdout + completed.stderr for cure in CURES
    ):
        tally.wrong.append(f"mnemolog {line} names no cure: {last}")
    return completed
