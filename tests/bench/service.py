"""The product as one uses it: importing, building, the server, recall and writing over HTTP."""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from corpus import questions, texts
from figure import OURS, Figure, Note
from process import Server, run, serve

from store import tenant as tenants
from store.commands import Draft, import_drafts
from store.log import EventLog

IMPORT, BUILD, REFRESH = "import", "full build", "build of 1,000 new memories"
COLD, READY = "recall from the command line, no server", "server ready"
LEXICAL, AUTO = "recall over HTTP, lexical", "recall over HTTP, auto"
WRITE, FRESH = "write over HTTP", "recall right after a write"
NEW = 1_000
RECALLS = 500
WRITES = 200
COLD_RUNS = 3
ASKED_FROM = 10_000  # memories the questions are taken from: few are held here, see `process.run`


def figures(size: int) -> Iterator[Figure | Note]:
    """Time what a user waits for, in a home of its own; the server is another process."""
    asked = questions(list(islice(texts(size), ASKED_FROM)), RECALLS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        new = (f"new note {number} {one}" for number, one in enumerate(texts(NEW, seed=17)))
        yield _figure(size, IMPORT, _imported(home, texts(size), "m"), "CPU")
        yield from _built(size, BUILD, home)
        yield _figure(size, "import of 1,000 new memories", _imported(home, new, "n"), "CPU")
        yield from _built(size, REFRESH, home)
        cold = [run(home, "recall", "--json", one).cpu_s for one in asked[:COLD_RUNS]]
        yield _figure(size, COLD, statistics.median(cold) * 1e3, "CPU", "ms")
        with serve(home) as server:
            yield _figure(size, READY, server.ready_s, "wall")
            yield from _recalled(size, LEXICAL, server, asked, "lexical")
            yield from _recalled(size, AUTO, server, asked, "auto")
            if (anonymous := server.anonymous_mib()) is not None:
                yield _figure(size, "server's anonymous memory", anonymous, "now", "MiB")
            yield from _written(size, server)


def _figure(size: int, what: str, value: float, measure: str, unit: str = "s") -> Figure:
    return Figure(size, f"{what}, {measure}", OURS, value, unit)


def _imported(home: Path, contents: Iterator[str], prefix: str) -> float:
    """Record memories; return the CPU seconds, without those of making the texts."""
    drafts = [Draft(id=f"{prefix}{n}", content=one) for n, one in enumerate(contents)]
    began = time.process_time()
    with EventLog(tenants.tenant(home).log, create=True) as log:
        import_drafts(log, drafts, time.time_ns() // 1_000)
    return time.process_time() - began


def _built(size: int, what: str, home: Path) -> Iterator[Figure]:
    used = run(home, "build")
    yield _figure(size, what, used.cpu_s, "CPU")
    yield _figure(size, what, used.wall_s, "wall")
    yield _figure(size, what, used.peak_mib, "peak memory", "MiB")


def _recalled(
    size: int, what: str, server: Server, asked: Sequence[str], mode: str
) -> Iterator[Figure]:
    for query in asked[:20]:
        server.post("/v1/recall", {"query": query, "mode": mode})
    times, before = [], server.cpu_s()
    for query in asked:
        began = time.perf_counter()
        answer = server.post("/v1/recall", {"query": query, "mode": mode})
        times.append((time.perf_counter() - began) * 1e3)
        if not answer["hits"] or answer["degraded"]:
            sys.exit(f"no proper answer to {query!r}: {json.dumps(answer)[:400]}")
    yield from _percentiles(size, what, times)
    yield from _cpu(size, what, server, before, len(asked))


def _written(size: int, server: Server) -> Iterator[Figure]:
    """Time writes, then recalls of what was written the moment before: it must be found."""
    times, before = [], server.cpu_s()
    for number in range(WRITES):
        draft = {"content": f"quick note {number} about the zebrafish tank {number * 7919}"}
        began = time.perf_counter()
        server.post("/v1/memories", draft)
        times.append((time.perf_counter() - began) * 1e3)
    yield from _percentiles(size, WRITE, times)
    yield from _cpu(size, WRITE, server, before, WRITES)
    times, spent = [], 0.0
    for number in range(WRITES):
        text = f"fresh remark {number} on hovercraft number {number * 104729 + 17}"
        written = server.post("/v1/memories", {"content": text})
        before = server.cpu_s()
        began = time.perf_counter()
        answer = server.post("/v1/recall", {"query": text})
        times.append((time.perf_counter() - began) * 1e3)
        spent += (server.cpu_s() or 0.0) - (before or 0.0)
        if written["id"] not in [hit["id"] for hit in answer["hits"]]:
            sys.exit(f"what was just written is not recalled: {text!r}")
    yield from _percentiles(size, FRESH, times)
    if before is not None:
        yield _figure(size, FRESH, spent / WRITES * 1e3, "CPU", "ms")


def _percentiles(size: int, what: str, times: Sequence[float]) -> Iterator[Figure]:
    """Yield three percentiles of milliseconds, client and loopback among them."""
    cuts = statistics.quantiles(times, n=100)
    for percent in (50, 95, 99):
        yield _figure(size, what, cuts[percent - 1], f"p{percent}", "ms")


def _cpu(
    size: int, what: str, server: Server, before: float | None, count: int
) -> Iterator[Figure]:
    if before is not None:
        spent = (server.cpu_s() or before) - before
        yield _figure(size, what, spent / count * 1e3, "CPU", "ms")
