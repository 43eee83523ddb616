"""Hooks as an agent's host calls them: over HTTP, and by the command client as a process."""

import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builds import figure
from figure import Figure
from process import Server, cpu_s, environment

from serve import client

PROMPT, ACTION = "prompt hook over HTTP", "after-tool hook over HTTP"
BARE, CLIENT = "bare `python -I -S`", "hook client, a prompt from end to end"
BEYOND = "hook client beyond a bare `python -I -S`"
RUNS = 60
CALLS = 200
WARM = 20

INTERPRETER = [sys.executable, "-I", "-S"]


def figures(size: int, home: Path, server: Server, queries: Sequence[str]) -> Iterator[Figure]:
    """Time hooks of a running server; every question comes once, as answers are not repeated."""
    yield from over_http(size, PROMPT, server, [prompt(query, "http") for query in queries[:CALLS]])
    yield from over_http(size, ACTION, server, [action(number) for number in range(CALLS)])
    yield from by_client(size, home, [prompt(query, "client") for query in queries[:RUNS]])


def prompt(text: str, session: str) -> dict[str, Any]:
    named = {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": "/"}
    return named | {"prompt": text}


def action(number: int) -> dict[str, Any]:
    named = {"hook_event_name": "PostToolUse", "session_id": "actions", "cwd": "/"}
    used = {"tool_use_id": f"tool-{number}", "tool_response": {"stdout": "3 passed"}}
    return named | used | {"tool_name": "Bash", "tool_input": {"command": f"pytest -k t{number}"}}


def over_http(
    size: int, title: str, server: Server, events: Sequence[Mapping[str, Any]]
) -> Iterator[Figure]:
    """Time all events but the first WARM over one kept connection, loopback included."""
    times = []
    for event in events:
        began = time.perf_counter()
        status, answer = server.client.asked("POST", "/v1/hooks/claude-code", dict(event))
        times.append((time.perf_counter() - began) * 1e3)
        if status not in (200, 204):
            sys.exit(f"the hook gave {status}: {answer[:400]!r}")
    cuts = statistics.quantiles(times[WARM:], n=100)
    for percent in (50, 95):
        yield figure(size, title, cuts[percent - 1], f"p{percent}", "ms")


def by_client(size: int, home: Path, events: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Time the client and a bare interpreter in turns, each a fresh process."""
    env = environment(home)
    commands = {
        BARE: [*INTERPRETER, "-c", "pass"],
        CLIENT: [*INTERPRETER, client.__file__, "claude-code", "--home", str(home)],
    }
    wall: dict[str, list[float]] = {name: [] for name in commands}
    spent: dict[str, list[float]] = {name: [] for name in commands}
    for event in events:
        for name, command in commands.items():
            began = time.perf_counter()
            spent[name].append(cpu_s(command, env, json.dumps(event)) * 1e3)
            wall[name].append((time.perf_counter() - began) * 1e3)
    for measure, times in (("p50", wall), ("CPU", spent)):
        median = {name: statistics.median(seconds) for name, seconds in times.items()}
        yield figure(size, BARE, median[BARE], measure, "ms")
        yield figure(size, CLIENT, median[CLIENT], measure, "ms")
        yield figure(size, BEYOND, median[CLIENT] - median[BARE], measure, "ms")
