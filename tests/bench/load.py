"""
`make bench-load`: 32 clients at once, against a real server over 100,000 memories.

Each client asks without a pause over one kept connection: recalls (80 %), writes (15 %) and reads
(5 %). Checked at the end: no error but a 503 with a Retry-After header, 99 of 100 recalls within
100 ms, and a server that grew by less than 50 MiB. A recall's time is that of the answer; a client
that gets a 503 waits as long as its header says, and that wait is in no recall's time. Prints the
report, and exits with 1 if a check failed.
"""

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import builds
from client import Client
from corpus import WORDS, questions, texts
from process import Server, run, serve

SIZE, CLIENTS, SECONDS = 100_000, 32, 60.0
RECALL, WRITE, READ = "recall", "write", "read"
MIX = {RECALL: 0.80, WRITE: 0.15, READ: 0.05}
P99_MS, GROWTH_MIB = 100.0, 50.0
_WARM = 500  # recalls before the server's memory is measured: they page in the mapped files
_ASKED_FROM = 10_000  # memories the questions are taken from
_WORDS_WRITTEN = 12


@dataclass(frozen=True)
class Done:
    """One request: its kind, the time it was sent, its response time, and its status.

    `inside_ms` is the server's own time of a recall, without the wait for its turn.
    """

    kind: str
    began: float
    ms: float
    status: int
    inside_ms: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Held:
    """A process's memory, threads and open files, as Linux reports them."""

    resident_mib: float
    anonymous_mib: float
    threads: int
    handles: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=SIZE, help="memories; default: %(default)s")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="default: %(default)g")
    parser.add_argument("--home", type=Path, help="made where it is not there, and kept")
    args = parser.parse_args()
    with _home(args.home, args.size) as home, serve(home) as server:
        load(server, 1, args.size, lambda calls: len(calls) >= _WARM)
        before = held(server)
        began = time.monotonic()
        until = began + args.seconds
        calls = load(server, args.clients, args.size, lambda _: time.monotonic() >= until)
        seconds, after = time.monotonic() - began, held(server)
    print(report(calls, args.clients, began, seconds, before, after))
    if wrong := failures(calls, before, after):
        sys.exit("did not hold: " + "; ".join(wrong))


@contextmanager
def _home(given: Path | None, size: int) -> Iterator[Path]:
    """Yield a built home of `size` memories."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = given or Path(folder)
        if not (home / "tenants").exists():
            home.mkdir(parents=True, exist_ok=True)
            builds.added(home, texts(size), "m")
            run(home, "build", "--quick")
        yield home


class Load:
    """The clients' shared state: the questions, the finished requests, and the end signal."""

    def __init__(self, server: Server, size: int) -> None:
        self.port, self.token, self.size = server.client.port, server.client.token, size
        self.questions = questions(list(islice(texts(size), _ASKED_FROM)), 2_000)
        self.done: list[Done] = []
        self.is_over = threading.Event()

    def ask(self, number: int) -> None:
        """Run one client until the load is over."""
        chance, client = random.Random(number), Client(self.port, self.token)
        while not self.is_over.is_set():
            kind = chance.choices(list(MIX), list(MIX.values()))[0]
            call = _timed_call(client, kind, *self._request(kind, chance))
            self.done.append(call)
            if call.status == 503 and not call.problem:
                self.is_over.wait(float(client.answered["Retry-After"]))
        client.close()

    def _request(
        self, kind: str, chance: random.Random
    ) -> tuple[str, str, dict[str, object] | None]:
        if kind == RECALL:
            return "POST", "/v1/recall", {"query": chance.choice(self.questions)}
        if kind == READ:
            return "GET", f"/v1/memories/m{chance.randrange(self.size)}", None
        words = " ".join(chance.choices(WORDS, k=_WORDS_WRITTEN))
        return "POST", "/v1/memories", {"content": f"Ticket {chance.getrandbits(40)} on {words}"}


def load(
    server: Server, clients: int, size: int, is_over: Callable[[Sequence[Done]], bool]
) -> list[Done]:
    """Run clients until `is_over` returns True, and return their requests."""
    shared = Load(server, size)
    threads = [threading.Thread(target=shared.ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    while not is_over(shared.done):
        time.sleep(0.05)
    shared.is_over.set()
    for thread in threads:
        thread.join()
    return shared.done


def _timed_call(
    client: Client, kind: str, method: str, path: str, body: dict[str, object] | None
) -> Done:
    began = time.monotonic()
    try:
        status, answer = client.asked(method, path, body)
    except OSError as error:
        return Done(kind, began, (time.monotonic() - began) * 1e3, 0, problem=repr(error))
    ms = (time.monotonic() - began) * 1e3
    if status == 503 and "Retry-After" in client.answered:
        return Done(kind, began, ms, status)
    if status >= 400:
        return Done(kind, began, ms, status, problem=f"{status} {answer[:200]!r}")
    inside = json.loads(answer)["took_ms"] if kind == RECALL else 0.0
    return Done(kind, began, ms, status, inside)


def held(server: Server) -> Held:
    folder = Path(f"/proc/{server.pid}")
    status_lines = dict(
        re.findall(r"^(\w+):\s+(\d+)", (folder / "status").read_text(), re.MULTILINE)
    )
    return Held(
        int(status_lines["VmRSS"]) / 1024,
        int(status_lines["RssAnon"]) / 1024,
        int(status_lines["Threads"]),
        len(list((folder / "fd").iterdir())),
    )


def failures(calls: Sequence[Done], before: Held, after: Held) -> list[str]:
    """Return the promises that did not hold."""
    numbers = [
        f"{many} x {problem}"
        for problem, many in Counter(call.problem for call in calls if call.problem).most_common(5)
    ]
    if (p99 := percentiles(times(calls, RECALL))[2]) >= P99_MS:
        numbers.append(f"p99 of recall is {p99:.0f} ms, not under {P99_MS:.0f}")
    if (grown := after.resident_mib - before.resident_mib) >= GROWTH_MIB:
        numbers.append(f"the server grew by {grown:.0f} MiB, not under {GROWTH_MIB:.0f}")
    return numbers


def times(calls: Sequence[Done], kind: str) -> list[float]:
    """Return the milliseconds of the successful requests of a kind."""
    return [call.ms for call in calls if call.kind == kind and 200 <= call.status < 300]


def percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(values, n=100) if len(values) > 1 else [0.0] * 99
    return cuts[49], cuts[94], cuts[98]


def report(
    calls: Sequence[Done], clients: int, began: float, seconds: float, before: Held, after: Held
) -> str:
    lines = [f"{clients} clients for {seconds:.0f} s: {len(calls) / seconds:.0f} requests a second"]
    statuses = Counter(call.status for call in calls)
    lines.append("statuses: " + ", ".join(f"{many:,} x {code}" for code, many in statuses.items()))
    for kind in MIX:
        durations = times(calls, kind)
        p50, p95, p99 = percentiles(durations)
        lines.append(
            f"{kind}: {len(durations) / seconds:.0f} a second, p50 {p50:.1f}, p95 {p95:.1f}, "
            f"p99 {p99:.1f} ms, slowest {max(durations, default=0):.0f}"
        )
    inside = [call.inside_ms for call in calls if call.inside_ms]
    lines.append(
        "a recall inside: p50 {:.1f}, p95 {:.1f}, p99 {:.1f} ms".format(*percentiles(inside))
    )
    for part in range(4):
        start, end = began + part * seconds / 4, began + (part + 1) * seconds / 4
        some = times([call for call in calls if start <= call.began < end], RECALL)
        p50, _, p99 = percentiles(some)
        lines.append(f"quarter {part + 1}: {len(some):,} recalls, p50 {p50:.1f}, p99 {p99:.1f} ms")
    lines.append(
        f"the server: resident {before.resident_mib:.0f} MiB then {after.resident_mib:.0f}, "
        f"anonymous {before.anonymous_mib:.0f} then {after.anonymous_mib:.0f}, "
        f"{before.threads} threads then {after.threads}, "
        f"{before.handles} handles then {after.handles}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
