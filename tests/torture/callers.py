"""
callers: processes that write, send hook events and recall as fast as they are answered.

They ask the home's running server, and resend requests that were cut off. In the end each returns
the acknowledged texts, which must be durable, and those without an answer.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from torture.server import PLACES, CutOff, asked, environment

from store.home.config import Settings
from store.home.registry import read_registry

BATCH, INGESTED = 50, 130  # the second is more than a step of the queue
PROMPTLY_S = 0.1  # a hook answered this soon was recorded first: the deadline is 0.2 s
PAUSE_S = 0.02
ANSWER_S = 20.0
BEHIND = "not found by their words yet"  # recall's notice while it indexes new memories


class Told(msgspec.Struct):
    """The answers to callers; texts and commands contain a unique ticket."""

    acknowledged: list[str] = []
    unsure: list[str] = []  # sent, and the answer was cut off
    hooks: list[str] = []  # commands of hooks that were answered promptly
    counts: dict[str, int] = {}
    wrong: list[str] = []

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


@dataclass
class Caller:
    """One thread, with a unique name and a record of its answers."""

    name: str
    home: Path
    over: Path  # a file: the run is over once it exists
    heard: list[str]  # texts certainly in the log, from all callers of the process
    told: Told = field(default_factory=Told)
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def is_over(self) -> bool:
        return self.over.exists()

    def ticket(self) -> str:
        """Return a word unique to one text of this run."""
        return f"{self.name}{next(self.numbers):06d}"

    def ask(self, method: str, path: str, body: object, **headers: str) -> tuple[int, Any] | None:
        """Return an answer, once a server runs; None if it was cut off or the run is over."""
        while not self.is_over:
            server = read_registry(Settings(self.home))
            try:
                if server is not None:
                    token = (self.home / "token").read_text()
                    return asked(server.port, token, method, path, body, ANSWER_S, headers)
            except ConnectionRefusedError:  # nothing was sent
                pass
            except CutOff:
                self.told.count("cut off")
                return None
            time.sleep(PAUSE_S)
        return None

    def until_answered(self, path: str, body: object, **headers: str) -> bool:
        """Send until acknowledged; return True if that came before the end."""
        while not self.is_over:
            answer = self.ask("POST", path, body, **headers)
            if answer is None:
                continue
            if answer[0] in (200, 201, 202):
                return True
            self.refused(path, *answer)
            time.sleep(PAUSE_S)
        return False

    def refused(self, path: str, status: int, body: Any) -> None:
        code = body["code"] if isinstance(body, dict) and "code" in body else body
        self.told.count(f"refused: {status} {code}")
        if status != 503:
            self.told.wrong.append(f"{path}: {status} {body}")


def writes(caller: Caller) -> None:
    """Write one by one, under an id or an idempotency key."""
    for number in count():
        text = f"ticket {caller.ticket()} of a busy client"
        named = {"id": f"{caller.name}-{number}"} if number % 2 else {}
        key = {} if named else {"Idempotency-Key": f'"{caller.name}-{number}"'}
        caller.told.unsure = [text]
        if not caller.until_answered("/v1/memories", {"content": text} | named, **key):
            return
        _acknowledge(caller, [text])
        caller.heard.append(text)


def batches(caller: Caller) -> None:
    """Write fifty at once, all or none."""
    for number in count():
        texts = [f"ticket {caller.ticket()} of a batch" for _ in range(BATCH)]
        caller.told.unsure = texts
        body = {"memories": [{"content": text} for text in texts]}
        key = {"Idempotency-Key": f'"{caller.name}-{number}"'}
        if not caller.until_answered("/v1/memories/batch", body, **key):
            return
        _acknowledge(caller, texts)
        caller.heard.append(texts[-1])
        time.sleep(5 * PAUSE_S)


def ingests(caller: Caller) -> None:
    """Ingest more than a hundred at once; a batch that was cut off is not sent again."""
    while not caller.is_over:
        texts = [f"ticket {caller.ticket()} handed over" for _ in range(INGESTED)]
        body = {"memories": [{"content": text} for text in texts]}
        caller.told.unsure += texts
        answer = caller.ask("POST", "/v1/ingest", body)
        if answer is None:
            continue
        if answer[0] == 202:
            _acknowledge(caller, texts)
        else:
            caller.told.unsure = caller.told.unsure[: -len(texts)]
            caller.refused("/v1/ingest", *answer)
        time.sleep(20 * PAUSE_S)


def hooks(caller: Caller) -> None:
    """Act as a host: a prompt, then uses of a tool."""
    whose = {"session_id": f"session-{caller.name}", "cwd": str(caller.home)}
    while not caller.is_over:
        prompt = f"what do we know of ticket {caller.ticket()}?"
        _tell(caller, whose | {"hook_event_name": "UserPromptSubmit", "prompt": prompt})
        for _ in range(3):
            ran = f"make {caller.ticket()}"
            used = {"tool_name": "Bash", "tool_input": {"command": ran}, "tool_response": "done"}
            if _tell(caller, whose | {"hook_event_name": "PostToolUse"} | used):
                caller.told.hooks.append(ran)
            time.sleep(PAUSE_S)


def recalls(caller: Caller) -> None:
    """Ask for acknowledged texts, which must be found."""
    chance = random.Random(caller.name)
    while not caller.is_over:
        count = len(caller.heard)
        text = caller.heard[chance.randrange(count)] if count else ""
        answer = caller.ask("POST", "/v1/recall", {"query": text or "ticket"})
        if answer is not None and answer[0] == 200:
            caller.told.count("recalls answered")
            if any(BEHIND in notice for notice in answer[1].get("notices", ())):
                caller.told.count("recalls that said they are behind")
            elif text and text not in {hit["text"] for hit in answer[1]["hits"]}:
                caller.told.wrong.append(f"{text!r} was acknowledged and is not recalled")
        elif answer is not None:
            caller.refused("/v1/recall", *answer)
        time.sleep(PAUSE_S)


KINDS: tuple[Callable[[Caller], None], ...] = (writes, batches, ingests, hooks, recalls)


def _tell(caller: Caller, event: dict[str, object]) -> bool:
    """Send a hook event; return True if it was answered promptly."""
    began = time.monotonic()
    answer = caller.ask("POST", "/v1/hooks/claude-code", event)
    if answer is None:
        return False
    if answer[0] not in (200, 204):
        caller.refused("hooks", *answer)
        return False
    caller.told.count("hooks answered")
    return time.monotonic() - began < PROMPTLY_S


def _acknowledge(caller: Caller, texts: list[str]) -> None:
    caller.told.unsure = caller.told.unsure[: -len(texts)]  # the last that were sent
    caller.told.acknowledged += texts


class Callers:
    """Some processes of callers, a thread of each kind in each."""

    def __init__(self, home: Path, over: Path, processes: int) -> None:
        self._over = over
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-P", "-m", "torture.callers", str(home), f"p{number}", str(over)],
                env=environment(home, PYTHONPATH=":".join(map(str, PLACES))),
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(processes)
        ]

    def end(self) -> Told:
        """End the run; return the answers of all callers."""
        self._over.touch()
        outputs = [process.communicate()[0] for process in self._processes]
        return _together(msgspec.json.decode(line, type=Told) for line in outputs)


def _together(some: Iterable[Told]) -> Told:
    whole, counts = Told(), Counter[str]()
    for caller in some:
        counts.update(caller.counts)
        for name in ("acknowledged", "unsure", "hooks", "wrong"):
            getattr(whole, name).extend(getattr(caller, name))
    whole.counts = dict(counts)
    return whole


def main(home: str, name: str, over: str) -> None:
    """Call with a thread of each kind until it is over; print their answers as JSON."""
    texts: list[str] = []
    some = [Caller(f"{name}{kind.__name__}", Path(home), Path(over), texts) for kind in KINDS]
    threads = [
        threading.Thread(target=kind, args=(caller,))
        for kind, caller in zip(KINDS, some, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(msgspec.json.encode(_together(caller.told for caller in some)).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
