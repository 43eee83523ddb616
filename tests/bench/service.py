"""The product in use: importing, building, the server, recall and writing over HTTP."""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import builds
import hooks
import soak
from builds import figure
from corpus import questions, texts
from figure import Figure, Note
from process import Server, run, serve

COLD, READY = "recall from the command line, no server", "server ready"
LEXICAL, AUTO = "recall over HTTP, lexical", "recall over HTTP, auto"
WRITE, FRESH = "write over HTTP", "recall right after a write"
ANONYMOUS = "server's anonymous memory"
RECALLS = 500
WRITES = 200
WARM = 20  # untimed questions first; different ones, as query vectors are cached
COLD_RUNS = 3
ASKED_FROM = 10_000  # memories the questions are taken from: few are held here, see `process.run`


def figures(size: int, *, soak_s: float) -> Iterator[Figure | Note]:
    """Time the operations a user waits for, in a new home; the server is another process."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        yield from builds.first(size, home)
        yield from answered(size, home)
        yield from soak.figures(size, home, soak_s)
        yield from builds.later(size, home)


def answered(size: int, home: Path) -> Iterator[Figure]:
    """Time recall without a server, then a server's operations and memory."""
    queries = some_questions(size, RECALLS + WARM)
    cold = [run(home, "recall", "--json", query).cpu_s for query in queries[:COLD_RUNS]]
    yield figure(size, COLD, statistics.median(cold) * 1e3, "CPU", "ms")
    with serve(home) as server:
        yield figure(size, READY, server.ready_s, "wall")
        yield from recalled(size, LEXICAL, server, queries, "lexical")
        yield from recalled(size, AUTO, server, queries, "auto")
        if (anonymous := server.anonymous_mib()) is not None:
            yield figure(size, ANONYMOUS, anonymous, "after recalls", "MiB")
        yield from hooks.figures(size, home, server, queries)
        yield from written(size, WRITE, server)
        yield from fresh(size, FRESH, server)


def some_questions(size: int, count: int) -> list[str]:
    return questions(list(islice(texts(size), ASKED_FROM)), count)


def recalled(
    size: int, title: str, server: Server, queries: Sequence[str], mode: str
) -> Iterator[Figure]:
    """Time recalls of all questions but the first WARM."""
    for query in queries[:WARM]:
        server.post("/v1/recall", {"query": query, "mode": mode})
    times, before = [], server.cpu_s()
    for query in queries[WARM:]:
        began = time.perf_counter()
        answer = server.post("/v1/recall", {"query": query, "mode": mode})
        times.append((time.perf_counter() - began) * 1e3)
        if not answer["hits"] or answer["degraded"]:
            sys.exit(f"no proper answer to {query!r}: {json.dumps(answer)[:400]}")
    yield from percentiles(size, title, times)
    yield from _cpu(size, title, server, before, len(times))


def written(size: int, title: str, server: Server, count: int = WRITES) -> Iterator[Figure]:
    times, before = [], server.cpu_s()
    for number in range(count):
        draft = {"content": note(number)}
        began = time.perf_counter()
        server.post("/v1/memories", draft)
        times.append((time.perf_counter() - began) * 1e3)
    yield from percentiles(size, title, times)
    yield from _cpu(size, title, server, before, count)


def fresh(size: int, title: str, server: Server, count: int = WRITES) -> Iterator[Figure]:
    """Time recalls of memories written the moment before; exit if one is not found."""
    times, spent, before = [], 0.0, None
    for number in range(count):
        text = remark(number)
        response = server.post("/v1/memories", {"content": text})
        before = server.cpu_s()
        began = time.perf_counter()
        answer = server.post("/v1/recall", {"query": text})
        times.append((time.perf_counter() - began) * 1e3)
        spent += (server.cpu_s() or 0.0) - (before or 0.0)
        if response["id"] not in [hit["id"] for hit in answer["hits"]]:
            sys.exit(f"what was just written is not recalled: {text!r}")
    yield from percentiles(size, title, times)
    if before is not None:
        yield figure(size, title, spent / count * 1e3, "CPU", "ms")


def note(number: int) -> str:
    return f"quick note {number} about the zebrafish tank {number * 7919}"


def remark(number: int) -> str:
    return f"fresh remark {number} on hovercraft number {number * 104729 + 17}"


def percentiles(size: int, title: str, times: Sequence[float]) -> Iterator[Figure]:
    """Yield three percentiles of milliseconds, client and loopback included."""
    cuts = statistics.quantiles(times, n=100)
    for percent in (50, 95, 99):
        yield figure(size, title, cuts[percent - 1], f"p{percent}", "ms")


def _cpu(
    size: int, title: str, server: Server, before: float | None, count: int
) -> Iterator[Figure]:
    if before is not None:
        spent = (server.cpu_s() or before) - before
        yield figure(size, title, spent / count * 1e3, "CPU", "ms")
