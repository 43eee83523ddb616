"""
`make bench`: what recall, a build and the server cost, beside rank_bm25 in the same run.

Machines are noisy: both sides of a ratio are timed in turn and in CPU time, medians are taken. The
server's figures are wall time over loopback. Prints one table and writes it to
bench-results/bench.md.
"""

import argparse
import http.client
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from corpus import queries, texts
from rank_bm25 import BM25Okapi
from rich.progress import track

from serve.ranking.topk import best
from store import tenant as tenants
from store import text
from store.commands import Draft, import_drafts
from store.log import EventLog
from store.projections import postings
from store.projections.postings import PostingsIndex

ROOT = Path(__file__).resolve().parents[2]
MNEMOLOG = Path(sys.executable).with_name("mnemolog")
REFERENCE_QUERIES = 5  # rank_bm25 takes up to a second for one
SERVER_QUERIES = 300


@dataclass(frozen=True)
class Row:
    size: int
    what: str
    measured: str
    against: str = ""
    ratio: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000", help="memories, separated by commas")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    rows = [row for size in sizes for row in (*bm25(size), *service(size))]
    report(rows)


def bm25(size: int) -> Iterator[Row]:
    """Time the lexical candidates against rank_bm25's scores of the same terms."""
    corpus = list(texts(size))
    documents = [text.terms(one) for one in track(corpus, f"bm25 {size:,}", transient=True)]
    index = PostingsIndex.open(postings.index(documents))
    reference = BM25Okapi(documents, k1=postings.K1, b=postings.B, epsilon=postings.EPSILON)
    everything = np.ones(size, np.bool_)
    ours, theirs, gap = [], [], 0.0
    for number, query in enumerate(queries(corpus, 200)):
        terms = text.terms(query)
        seconds, scores = timed(lambda terms=terms: candidates(index, terms, everything))
        ours.append(seconds)
        if number < REFERENCE_QUERIES:
            seconds, expected = timed(lambda terms=terms: reference.get_scores(terms))
            theirs.append(seconds)
            gap = max(gap, float(np.abs(scores - expected).max()))
    if gap > 1e-3:
        sys.exit(f"the scores differ from rank_bm25's by {gap}")
    ratio = statistics.median(theirs) / statistics.median(ours)
    yield Row(
        size,
        "BM25 candidates, 5 words",
        f"{statistics.median(ours) * 1e3:.2f} ms CPU",
        f"rank_bm25 get_scores {statistics.median(theirs) * 1e3:.0f} ms CPU",
        f"{ratio:,.0f}x",
    )
    yield Row(size, "largest difference from rank_bm25", f"{gap:.1e}")


def candidates(index: PostingsIndex, terms: list[str], mask: np.ndarray) -> np.ndarray:
    scores = index.scores(terms)
    best(scores, mask, 200)
    return scores


def timed(run: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    began = time.process_time()
    result = run()
    return time.process_time() - began, result


def service(size: int) -> Iterator[Row]:
    """Time writing, a full build, the server's start and recall over HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {**os.environ, "MNEMOLOG_HOME": folder, "OPENBLAS_NUM_THREADS": "1"}
        corpus = list(texts(size))
        began = time.perf_counter()
        with EventLog(tenants.tenant(home).log, create=True) as log:
            drafts = (Draft(id=f"m{n}", content=one) for n, one in enumerate(corpus))
            import_drafts(log, drafts, time.time_ns() // 1000)
        seconds = time.perf_counter() - began
        yield Row(size, "import", f"{seconds:.1f} s", "", f"{size / seconds:,.0f} memories/s")
        began = time.perf_counter()
        subprocess.run([MNEMOLOG, "build"], env=environment, check=True, stderr=subprocess.DEVNULL)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        unit = 1024 if sys.platform == "darwin" else 1
        yield Row(
            size,
            "full build through Dagster",
            f"{time.perf_counter() - began:.1f} s",
            f"peak {peak / unit:,.0f} MB",
        )
        yield from served(size, environment, home, queries(corpus, SERVER_QUERIES))


def served(size: int, environment: dict[str, str], home: Path, asked: list[str]) -> Iterator[Row]:
    began = time.perf_counter()
    with subprocess.Popen(
        [MNEMOLOG, "serve", "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://[^:]+:(\d+)", server.stdout.readline())
            assert found is not None
            port = int(found[1])
            yield Row(size, "server ready", f"{time.perf_counter() - began:.2f} s")
            for mode in ("lexical", "auto"):
                times = [one * 1e3 for one in recalls(port, home, asked, mode)]
                p95 = statistics.quantiles(times, n=20)[-1]
                yield Row(
                    size,
                    f"POST /v1/recall, mode {mode}",
                    f"p50 {statistics.median(times):.1f} ms",
                    f"p95 {p95:.1f} ms",
                )
        finally:
            server.terminate()


def recalls(port: int, home: Path, asked: list[str], mode: str) -> Iterator[float]:
    """Yield the seconds each recall took over one kept connection."""
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {(home / 'token').read_text()}",
    }
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for query in asked:
        body = json.dumps({"query": query, "mode": mode})
        began = time.perf_counter()
        connection.request("POST", "/v1/recall", body, headers)
        answer = json.loads(connection.getresponse().read())
        yield time.perf_counter() - began
        if not answer["hits"] or answer["degraded"]:
            sys.exit(f"no proper answer to {query!r}: {answer}")
    connection.close()


def report(rows: list[Row]) -> None:
    packages = ("rank-bm25", "numpy", "pyarrow", "lancedb", "dagster")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    lines = [
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {versions}",
        "",
        "| memories | what | measured | against | ratio |",
        "|---|---|---|---|---|",
        *(f"| {r.size:,} | {r.what} | {r.measured} | {r.against} | {r.ratio} |" for r in rows),
    ]
    target = ROOT / "bench-results" / "bench.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
