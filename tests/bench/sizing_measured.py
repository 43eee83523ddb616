"""
The size of a home on disk and in the server, for the constants of `sizing`.

    .venv/bin/python tests/bench/sizing_measured.py 1000 10000 100000

prints for each size the bytes of the log and of its builds, the server's own memory and, up to
10,000 memories, the cost of opening another tenant. Disk is the blocks of files, not their lengths.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from builds import added
from corpus import texts
from process import Server, run, serve
from service import some_questions

from store.home import tenant as tenants

FEW = 1_000  # memories that a second build adds
OTHERS = 20  # tenants, copies of the first, opened one after the other
FOLDERS = 10_000  # tenants that are never opened


def measured(size: int, home: Path) -> dict[str, float]:
    """Return the figures of a home with one tenant of `size` memories, by name."""
    figures = dict[str, float]()
    added(home, texts(size), "m")
    tenant = tenants.tenant(home)
    figures["log, bytes a memory"] = occupied(tenant.root) / size
    used = run(home, "build", "--quick")
    figures["quick full build, CPU s"] = used.cpu_s
    figures["quick full build, resident MiB"] = used.resident_mib
    first = occupied(tenant.root, but=tenant.log.name)
    figures["built, bytes a memory"] = first / size
    added(home, texts(FEW, seed=17), "n")
    used = run(home, "build", "--quick")
    figures["quick build of 1,000 new memories, CPU s"] = used.cpu_s
    grown = occupied(tenant.root, but=tenant.log.name)
    figures["built with the build before, bytes a memory"] = grown / (size + FEW)
    queries = some_questions(size, 220)
    with serve(home) as server:
        recall(server, queries[:20])
        figures["server, anonymous MiB"] = server.anonymous_mib() or 0.0
        before = server.cpu_s() or 0.0
        recall(server, queries[20:])
        figures["recall over HTTP, CPU ms"] = ((server.cpu_s() or 0.0) - before) / 200 * 1e3
    log_before = occupied(tenant.root)
    with serve(home) as server:
        recall(server, queries[:200])
    figures["log, bytes a recall"] = (occupied(tenant.root) - log_before) / 200
    if size <= 10_000:
        figures |= many(home, queries[:20])
    return figures


def many(home: Path, queries: list[str]) -> dict[str, float]:
    """Return the cost of opening copies of a home's tenant, each by its first recall."""
    first = tenants.tenant(home)
    for number in range(OTHERS):
        shutil.copytree(first.root, first.root.with_name(f"copy{number}"))
    with serve(home) as server:
        recall(server, queries)
        resident, spent = server.anonymous_mib() or 0.0, server.cpu_s() or 0.0
        took = []
        for number in range(OTHERS):
            began = time.perf_counter()
            server.post("/v1/recall", {"query": queries[0], "tenant": f"copy{number}"})
            took.append((time.perf_counter() - began) * 1e3)
        opened_mib = ((server.anonymous_mib() or 0.0) - resident) / OTHERS
        cpu_ms = ((server.cpu_s() or 0.0) - spent) / OTHERS * 1e3
    return {
        "another open tenant, anonymous MiB": opened_mib,
        "first recall of a tenant that was closed, CPU ms": cpu_ms,
        "first recall of a tenant that was closed, median ms": statistics.median(took),
    }


def recall(server: Server, queries: list[str]) -> None:
    for query in queries:
        server.post("/v1/recall", {"query": query})


def listing_ms(home: Path) -> float:
    """Return the CPU milliseconds of listing many tenants, as the server does every two seconds."""
    for number in range(FOLDERS):
        root = home / "tenants" / f"t{number}"
        root.mkdir(parents=True)
        (root / "log.sqlite").touch()
    began = time.process_time()
    assert sum(1 for _ in tenants.list_tenants(home)) == FOLDERS
    return (time.process_time() - began) * 1e3


def occupied(folder: Path, but: str | None = None) -> int:
    """Return the bytes on disk of the files below a folder, except names that begin with `but`."""
    files = (path for path in folder.rglob("*") if not (but and path.name.startswith(but)))
    return sum(path.lstat().st_blocks * 512 for path in files)


if __name__ == "__main__":
    for size in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for name, value in measured(size, Path(folder)).items():
                print(f"{size:>9,}  {name:<52} {value:,.3f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"{FOLDERS:>9,}  {'tenants listed, ms of CPU':<52} {listing_ms(Path(folder)):,.3f}")
