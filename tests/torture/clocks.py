"""
clocks: the wall clock ten years off, jumping while the memory is used, in 1970, in other zones.

The order is that of the log; the results of recall do not depend on the clock; nothing waits for a
wrong time.
"""

import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torture.clock import Clock
from torture.outcome import Outcome, Scale
from torture.server import Server, asked, environment

from store.home.tenant import tenant
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog

YEAR_S = 365.25 * 86_400
FORTH, BACK, RIGHT, FIRST, LATE = "ten years forth", "ten years back", "right", "1970", "2099"
FOLD = 1_792_890_000.0  # 2026-10-25T01:00:00Z: clocks in Berlin go back by an hour
LEAP = 1_483_228_799.5  # half a second before the last leap second was over
ZONES = ("UTC", "Pacific/Kiritimati", "America/New_York", "Asia/Kathmandu")
TEXTS = (
    "Deploys go out from eu-west-1 only",
    "The cache is cleared by the worker at noon",
    "Use a retry budget of three for the upload queue",
    "The parser takes CRLF because of one client",
    "Secrets live in the vault and are rotated each quarter",
    "The schema of the manifest is versioned",
)
QUERIES = (
    "where do deploys go out from",
    "when is the cache cleared",
    "how often is an upload tried",
    "what line ends does the parser take",
    "where do secrets live",
    "is the manifest versioned",
)
RECORDED_S = 20.0  # for recording a batch, which takes a second


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    run = _Run(folder)
    jumps = (FORTH, RIGHT, BACK) if scale is Scale.FAST else (*_MOMENTS, *reversed(_MOMENTS))
    for jump in jumps:
        run.jump(jump)
    if scale is Scale.FULL:
        for jump in (FORTH, BACK, FIRST, RIGHT):
            run.restart(jump)
        for zone in ZONES:
            run.restart(RIGHT, TZ=zone)
            run.jump("a clock that goes back by an hour")
    run.end()
    note = f"{run.counts['recalls']} recalls, {run.counts['writes']} writes, {run.builds} builds"
    yield Outcome(
        "the wall clock jumps, and was wrong at the start", run.points, "requests", run.wrong, note
    )


_MOMENTS = (FORTH, BACK, FIRST, LATE, RIGHT, "a clock that goes back by an hour", "a leap second")


@dataclass
class _Run:
    folder: Path
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)  # ids, as they were acknowledged
    builds: int = 0

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        self.clock = Clock(self.folder / "offset")
        self.server = Server(self.home, **self.clock.environment())
        for number, text in enumerate(TEXTS):
            self.write(f"m{number}", text)
        wanted = {"name": "one that lasts", "scopes": ["read"]}
        token = self.ask("writes", "POST", "/v1/tenants/default/tokens", wanted)
        self.token = token["token"]

    @property
    def points(self) -> int:
        return sum(self.counts.values())

    def turn(self, jump: str) -> None:
        match jump:
            case "ten years forth":
                self.clock.move(10 * YEAR_S)
            case "ten years back":
                self.clock.move(-10 * YEAR_S)
            case "1970":
                self.clock.set(3_600.0)
            case "2099":
                self.clock.set(4_070_908_800.0)
            case "a clock that goes back by an hour":
                self.clock.set(FOLD)
            case "a leap second":
                self.clock.set(LEAP)
            case _:
                self.clock.move(0)

    def jump(self, jump: str) -> None:
        """Set the clock while the server runs, and use the memory."""
        self.turn(jump)
        self.use(jump)

    def restart(self, jump: str, **more: str) -> None:
        """Build and start a server with a wrong clock."""
        self.server.kill(15)
        self.turn(jump)
        self.build(**more)
        self.server = Server(self.home, **self.clock.environment(), **more)
        self.use(jump, f"{jump}, after a start {more.get('TZ', '')}")

    def compare(self, jump: str, when: str) -> None:
        """Recall with the clock as it is and with the right one: the results must be equal."""
        now = self.recalled()
        self.clock.move(0)
        right = self.recalled()
        self.turn(jump)
        if now != right or not any(now.values()):
            self.wrong.append(f"{when}: recalled were {now}, by the right clock {right}")

    def use(self, jump: str, when: str = "") -> None:
        when = when or jump
        number = len(self.order)
        self.write(f"n{number}", f"Ticket q{number}x was closed, {when}")
        if f"n{number}" not in self.hits(f"Ticket q{number}x"):
            self.wrong.append(f"{when}: what was just written is not recalled")
        self.compare(jump, when)
        self.hand_over(when)
        self.knock(when)
        self.tell(when)
        self.past(when)
        self.look(when)

    def write(self, id_: str, text: str) -> None:
        answer = self.ask("writes", "POST", "/v1/memories", {"id": id_, "content": text})
        if answer is not None:
            self.order.append(id_)

    def hits(self, query: str, **more: Any) -> list[str]:
        body = {"query": query, "touch": False, "top_k": 100} | more
        answer = self.ask("recalls", "POST", "/v1/recall", body) or {"hits": []}
        for hit in answer["hits"]:
            if not (math.isfinite(hit["score"]) and 0 <= hit["confidence"] <= 1):
                self.wrong.append(f"{query!r}: a hit scores {hit}")
        return [hit["id"] for hit in answer["hits"]]

    def recalled(self) -> dict[str, set[str]]:
        """Return the hits of each query; all together must not be empty."""
        return {query: set(self.hits(query)) for query in QUERIES}

    def hand_over(self, when: str) -> None:
        """Ingest a batch: it is recorded soon, at any clock time."""
        text = f"handed over, number {len(self.order)}"
        job = self.ask("writes", "POST", "/v1/ingest", {"memories": [{"content": text}]})
        deadline = time.monotonic() + RECORDED_S
        while job is not None and time.monotonic() < deadline:
            job_ = self.ask("reads", "GET", f"/v1/jobs/{job['id']}")
            if job_ is None or job_["state"] == "done":
                return
            time.sleep(0.1)
        self.wrong.append(f"{when}: a batch was not recorded within {RECORDED_S:.0f} s")

    def knock(self, when: str) -> None:
        """Ask with a token that was made when the clock was right."""
        status, answer = asked(self.server.port, self.token, "GET", "/v1/memories")
        self.counts["reads"] += 1
        if status != 200:
            self.wrong.append(f"{when}: a token: {status} {answer}")

    def tell(self, when: str) -> None:
        whose = {"session_id": f"s{len(self.order)}", "cwd": str(self.home)}
        prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "is the build green today?"}
        used = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": "done"}
        stop = {"hook_event_name": "Stop"}
        for event in (prompt, {"hook_event_name": "PostToolUse"} | used, stop):
            self.ask("hooks", "POST", "/v1/hooks/claude-code", whose | event)

    def past(self, when: str) -> None:
        """Ask for the past and the future."""
        for as_of in (1, "1990-01-01T00:00:00Z", "2300-01-01T00:00:00Z"):
            self.hits(QUERIES[0], as_of=as_of)
        if self.hits(QUERIES[0], as_of="1960-01-01T00:00:00Z"):
            self.wrong.append(f"{when}: something was recalled of 1960")

    def look(self, when: str) -> None:
        for path in ("digest", "overview?topic=deploys", "memories", "receipts", "jobs", "lessons"):
            self.ask("reads", "GET", f"/v1/{path}")
        self.ask("reads", "GET", "/v1/tenants/default/stats")

    def ask(self, title: str, method: str, path: str, body: object = None) -> Any:
        self.counts[title] += 1
        status, answer = self.server.ask(method, path, body, timeout_s=30)
        if status >= 300:
            self.wrong.append(f"{method} {path}: {status} {answer}")
            return None
        return answer

    def build(self, **more: str) -> None:
        completed = subprocess.run(
            [sys.executable, "-P", "-m", "pipelines", "build", "--quick"],
            env=environment(self.home, **self.clock.environment(), **more),
            capture_output=True,
            text=True,
        )
        self.builds += 1
        if completed.returncode:
            self.wrong.append(
                f"a build ended with {completed.returncode}: {completed.stderr[-300:]}"
            )

    def end(self) -> None:
        self.server.kill(15)
        with EventLog(tenant(self.home).log) as log:
            self.wrong += integrity.problems(log)
            events = list(log.read())
        written = [event.id for event in events if isinstance(event.body, Recorded)]
        ours = [id_ for id_ in written if id_ in set(self.order)]
        if ours != self.order:
            self.wrong.append(f"the log's order is {ours}, not {self.order}")
        if [id_ for id_, times in Counter(event.id for event in events).items() if times > 1]:
            self.wrong.append("an id stands for two events")
