"""
erasing: memories with a unique word in every field are erased while others use the home, the
command is killed and run again, and a scanner of our own looks for remaining words.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torture.erasing_home import ask, busy, compacted, id_of, plant, serving, speak
from torture.erasing_scan import Seen, marker, markers, of_fields, seen
from torture.fault import Action, Fault
from torture.outcome import Outcome, Scale
from torture.server import Server, environment

from store.home import tenant as tenants
from store.log.event_log import EventLog

NOW = 1_790_000_000_000_000
_LETS_GO_S = 10.0
PAST = "2026-09-22T00:00:00Z"  # after they were recorded, and before any was erased


@dataclass
class _Run:
    """The erased memories so far, the number of kills, and the faults."""

    home: Path
    fault: Fault
    erased: set[int] = field(default_factory=set)
    killed: int = 0
    points: int = 60  # calls that reach the disk in an erasure without kills; at least
    wrong: list[str] = field(default_factory=list)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Erase at random, killed at random points; yield the scanner's findings before and after."""
    many, rounds, each = scale.of(20, 200), scale.of(1, 6), scale.of(2, 25)
    spoken = range(many, many + scale.of(2, 12))
    run = _Run(folder / "home", Fault(folder / "home", folder))
    numbers = list(range(many))
    tenant = tenants.tenant(run.home)
    with EventLog(tenant.log, create=True) as log:
        plant(tenant, log, numbers, NOW)
        speak(log, spoken, NOW)
        put_away = compacted(log, NOW)
    if scale is Scale.FULL:
        _mnemolog(run, "build")  # by Dagster, whose records quote the newest memories
    before = seen(run.home)
    fields = len(set().union(*map(_fields, before.values())))
    chance = random.Random(8)
    order = [many - 1, *chance.sample(numbers[:-1], many - 1)]
    erasing, forgotten = order[: rounds * each], order[rounds * each :][:each]
    yield Outcome(
        "erase: every memory is seen before",
        sum(len(_fields(traces)) for traces in before.values()),
        "fields",
        [f"memory {number} is not seen" for number in numbers if number not in before],
        f"{fields} of each; {put_away} receipts in Parquet; of those that will go "
        f"{_by_dagster(before, erasing)} in Dagster's records",
    )
    with serving(run.home) as server:
        with busy(server, numbers, run.wrong):
            for number in forgotten:
                ask(server, "DELETE", f"/v1/memories/{id_of(number)}")
            for at in range(0, len(erasing), each):
                kills = scale.of(1, 2 if at else 0)  # the first one counts the calls
                _erased(run, erasing[at : at + each], chance, kills=kills)
            for number in spoken[1:]:
                words = ["erase", "--text", marker(number, "spk"), "--yes", "--json"]
                _erased(run, [number], chance, kills=scale.of(0, 1), words=words)
        mapped = _mapped_deleted_files(
            server, run.home
        )  # before the queries: it opens the new state within seconds
        queries, answered = _answers(server, run, sorted(run.erased)[: scale.of(3, 40)])
    after = seen(run.home)
    remaining = of_fields(run.erased, after)
    yield Outcome(
        "erase, killed and run again: nothing is left in any file",
        len(run.erased) * fields,
        "fields",
        [*run.wrong, *(f"memory {n} is left in {remaining[n]}" for n in sorted(remaining))],
        f"{run.killed} kills at {run.points} calls; {after.files} files looked through",
        floor=4_000,
    )
    yield Outcome(
        "erase --text: a word that only sessions say is left in no file",
        len(spoken) - 1,
        "words",
        [f"word {number} is left in {after[number]}" for number in spoken[1:] if number in after],
        floor=10,
    )
    yield Outcome(
        "erase --text of other words",
        1,
        "words",
        [f"word {number} is left" for number in spoken[:1] if number in after],
        is_control=True,
    )
    yield Outcome("erase: no answer brings it back", queries, "answers", answered, floor=200)
    yield Outcome("erase: a server lets go of what was deleted", 1, "servers", mapped)
    yield Outcome(
        "forget instead of erase",
        len(forgotten),
        "memories",
        [f"memory {number} is left" for number in forgotten if number in after],
        is_control=True,
    )


def _by_dagster(seen: Seen, numbers: Sequence[int]) -> int:
    return sum(any(place.startswith("dagster/") for place in seen[number]) for number in numbers)


def _mapped_deleted_files(server: Server, home: Path) -> list[str]:
    """Return the deleted files of a home that its server still maps after a while."""
    deadline = time.monotonic() + _LETS_GO_S
    while True:
        maps = Path(f"/proc/{server.process.pid}/maps").read_text().splitlines()
        mapped = [line for line in maps if str(home) in line and line.endswith("(deleted)")]
        if not mapped or time.monotonic() > deadline:
            return [line.partition("/")[2] for line in mapped]
        time.sleep(0.2)


def _fields(places: set[str]) -> set[str]:
    return {place.rpartition(", ")[2] for place in places}


def _erased(
    run: _Run,
    numbers: Sequence[int],
    chance: random.Random,
    *,
    kills: int,
    words: Sequence[str] = (),
) -> None:
    """Erase some memories, by default with the ids of `numbers`. The command is killed at calls
    that reach the disk, its own or its build's, `kills` times before it may end.
    """
    words = words or _words(numbers)
    for count in range(kills):
        at = chance.randint(1, run.points // (count + 1))  # less is left to do each time
        run.fault.arm(Action.KILL, at)
        _mnemolog(run, *words, **run.fault.environment())
        run.killed += run.fault.points >= at
    run.fault.arm(Action.WATCH)
    completed = _mnemolog(run, *words, **run.fault.environment())
    if not kills:
        run.points = run.fault.points
    if completed.returncode:
        run.wrong.append(f"erase ended with {completed.returncode}: {completed.stderr[-300:]!r}")
        if completed.stdout.startswith(b"{"):
            run.wrong.append(f"the receipt says: {json.loads(completed.stdout)['left']}")
    run.erased.update(numbers)


def _words(numbers: Sequence[int]) -> list[str]:
    ids = [id_of(number) for number in numbers]
    return ["erase", *ids, "--yes", "--with-derived", "--also-quotes", "--json"]


def _mnemolog(run: _Run, *words: str, **more: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-P", "-m", "serve.cli", *words]
    return subprocess.run(
        command, env=environment(run.home, **more), capture_output=True, timeout=300
    )


def _answers(server: Server, run: _Run, numbers: Sequence[int]) -> tuple[int, list[str]]:
    """Ask for the erased memories in every way; return the number of requests and the faults."""
    requests = [("GET", path, None) for path in _PATHS]
    for number in numbers:
        id_ = id_of(number)
        requests += [
            ("GET", f"/v1/memories/{id_}", None),
            ("GET", f"/v1/memories/{id_}/history", None),
            ("POST", f"/v1/memories/{id_}/restore", {}),
            ("POST", "/v1/recall", {"query": f"orders bucket {id_}", "as_of": PAST}),
            ("POST", "/v1/recall", {"query": "customers old bucket", "cold": True, "top_k": 200}),
            ("POST", "/v1/memories", {"id": id_, "content": "It is said again, otherwise"}),
        ]
    wrong = []
    for method, path, body in requests:
        status, data = ask(server, method, path, body)
        back = {number for number, _ in markers(data)} & run.erased
        if back or not 0 < status < 500:
            wrong.append(f"{method} {path}: {status}, memories {sorted(back)[:3]}")
    return len(requests), wrong


_PATHS = (
    "/v1/export?all_states=true",
    "/v1/memories?limit=200&state=forgotten",
    f"/v1/facts?as_of={PAST}",
    "/v1/facts?all=true",
    "/v1/digest",
    "/v1/overview?topic=bucket",
    "/v1/graph",
    "/v1/entities",
    "/v1/lessons",
    "/v1/proposals",
    "/v1/conflicts",
    "/v1/receipts",
    "/v1/jobs",
    "/v1/goals",
)
