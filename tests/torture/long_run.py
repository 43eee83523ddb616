"""
make soak: an hour of everything at once against one server, and nothing that grows beyond bounds.

    python -P tests/torture/long_run.py [--minutes 60] [--memories 5000]

Agents recall, write, change, send hook events and read every list; builds, archive and erase run
beside them, and a reader holds old states open while their files are dropped. Every ten seconds the
server's memory, handles and threads and the home's files are measured. In the end a new server
takes its place for two minutes: the old server's excess over it was a leak, the rest is the price
of a memory that has grown. The limits are in `bounds`; the exit code is 1 if one was exceeded.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests"), str(ROOT)]

import builds  # noqa: E402
from corpus import texts  # noqa: E402
from process import COMMAND, Server, environment, serve  # noqa: E402
from torture import actors  # noqa: E402
from torture.actors import ACTORS, Run  # noqa: E402
from torture.held import MIB, NAMES, Held, held  # noqa: E402

from store.home import config, tenant  # noqa: E402
from store.snapshots.manifest import KEEP  # noqa: E402

EVERY_S = 10.0
BUILD_S = 75.0  # from one background job to the next
PART = 6  # the second and the last sixth of the run are compared
FRESH_S = 120.0  # for a new server to read as much as the old one had
LEAK_MIB = 48.0  # above the new server's: word caches that fill, and freed memory in the allocator
HANDLES, THREADS = 16, 2
WAL = 32 * MIB  # a reader of some seconds keeps it from being emptied
WHOLE = 1.1  # of the log, with each page's header: an erasure rewrites it through the WAL
TIMES_SERVED = KEEP + 1.5  # of the current manifest's bytes: those kept, and the one being written
OTHER_MIB = 64.0  # of files that are neither log, snapshots nor Dagster's
DAGSTER_MIB = 64.0


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="default: %(default)g")
    parser.add_argument("--memories", type=int, default=5_000, help="default: %(default)s")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        builds.added(home, texts(args.memories), "m")
        _job(home, "build")
        with serve(home) as server:
            run, samples, jobs = lived(home, server, args.minutes * 60)
        with serve(home) as server:
            again, fresh, _ = lived(home, server, FRESH_S, first=len(run.written))
        wrong = [*bounds(samples), *leaks(samples, fresh), *told(run, home), *told(again, home)]
    print(report(run, samples, jobs, fresh[-1]))
    for fault in wrong:
        print(f"did not hold: {fault}")
    print("nothing grew beyond its bounds" if not wrong else f"{len(wrong)} did not hold")
    return 1 if wrong else 0


def lived(
    home: Path, server: Server, seconds: float, *, first: int = 0
) -> tuple[Run, list[Held], list[str]]:
    """Run all actors for some seconds; return the run, the samples and the jobs' times."""
    settings = config.load(environ={"MNEMOLOG_HOME": str(home)})
    run = Run(server.client.port, server.client.token, settings, tenant.tenant(home), first)
    began, samples, jobs = time.monotonic(), list[Held](), list[str]()
    with ThreadPoolExecutor(len(ACTORS) + 1) as pool:
        taking_part = [pool.submit(actor, run) for actor in ACTORS]
        taking_part.append(pool.submit(_beside, run, home, jobs))
        while (now := time.monotonic() - began) < seconds:
            samples.append(held(server.pid, home, run.tenant, now))
            time.sleep(EVERY_S)
        run.is_over.set()
    run.close()
    for name, task in zip((*ACTORS, _beside), taking_part, strict=True):
        if (error := task.exception()) is not None:
            run.wrong[f"{name.__name__} broke off: {error!r}"] += 1
    samples.append(held(server.pid, home, run.tenant, time.monotonic() - began))
    return run, samples, jobs


def _beside(run: Run, home: Path, jobs: list[str]) -> None:
    """Run the jobs that a home sees in weeks, one after the other."""
    number = 0
    while not run.is_over.wait(BUILD_S):
        number += 1
        words = ["build"]
        if number % 7 == 0:
            words = ["archive", "--no-model"]
        elif number % 5 == 0 and run.written:
            ticket = run.written[len(run.written) // 2]
            run.gone.add(ticket)
            words = ["erase", f"run-{ticket}", "--yes"]
        elif number % 4 == 0:
            words = ["consolidate", "--no-model"]
        began = time.monotonic()
        if text := _job(home, *words):
            run.wrong[f"mnemolog {words[0]}: {text}"] += 1
        run.done[f"mnemolog {words[0]}"] += 1
        jobs.append(f"{words[0]} {time.monotonic() - began:.0f} s")


def _job(home: Path, *words: str) -> str:
    """Run a command; return the end of its stderr if it failed, else ""."""
    completed = subprocess.run(
        [*COMMAND, *words], env=environment(home), capture_output=True, text=True, cwd=ROOT
    )
    return completed.stderr[-300:] if completed.returncode else ""


def bounds(samples: Sequence[Held]) -> Iterable[str]:
    """Yield each exceeded bound; fewer than `PART` samples are too short to compare."""
    size = len(samples) // PART
    if not size:
        yield f"too short: {len(samples)} looks are not enough to compare"
        return
    before, after = samples[size : 2 * size], samples[-size:]
    for name, most in (("handles", HANDLES), ("threads", THREADS)):
        grown = _middle(after, name) - _middle(before, name)
        if grown > most:
            yield f"{name} grew by {grown:.0f}, not by at most {most}"
    if largest := [sample.wal for sample in samples if sample.wal > max(WAL, WHOLE * sample.log)]:
        yield f"wal was {max(largest) / MIB:.0f} MiB, more than the log or {WAL / MIB:.0f}"
    elif (usual := _middle(after, "wal")) > WAL:
        yield f"wal stayed at {usual / MIB:.0f} MiB, not at most {WAL / MIB:.0f}"
    for name, limit in (("other", OTHER_MIB * MIB), ("dagster", DAGSTER_MIB * MIB)):
        if (largest := max(getattr(sample, name) for sample in samples)) > limit:
            yield f"{name} was {largest / MIB:.0f} MiB, not at most {limit / MIB:.0f}"
    most_manifests = max(sample.manifests for sample in samples)
    if most_manifests > KEEP + 1:
        yield f"{most_manifests} manifests were kept, not at most {KEEP + 1}"
    for name in ("snapshots", "deleted"):
        if worst := [
            sample for sample in samples if getattr(sample, name) > TIMES_SERVED * sample.served > 0
        ]:
            times = getattr(worst[-1], name) / worst[-1].served
            yield f"{name} were {times:.1f} times what is served, not at most {TIMES_SERVED}"


def leaks(samples: Sequence[Held], fresh: Sequence[Held]) -> Iterable[str]:
    """Yield the memory that a server leaked, compared with a new server of the same home."""
    held_on = samples[-1].anonymous - fresh[-1].anonymous
    if held_on > LEAK_MIB:
        yield f"{held_on:.0f} MiB leaked, not at most {LEAK_MIB:g}"


def _middle(some: Sequence[Held], name: str) -> float:
    return statistics.median(getattr(sample, name) for sample in some)


def told(run: Run, home: Path) -> Iterable[str]:
    """Yield the faults that the actors met, and the failures in the server's log."""
    yield from (f"{many} x {fault}" for fault, many in run.wrong.most_common(10))
    yield from (f"the server logged {line}" for line in actors.failures_of(home)[:5])


def report(run: Run, samples: Sequence[Held], jobs: Sequence[str], fresh: Held) -> str:
    seconds = samples[-1].second
    lines = [f"{seconds / 60:.1f} minutes, {sum(run.done.values()):,} requests and jobs:"]
    lines += [f"  {many:>9,} x {name}" for name, many in sorted(run.done.items())]
    lines.append(f"jobs, in order: {', '.join(jobs)}")
    lines.append("  ".join(f"{name:>9}" for name in NAMES))
    step = max(1, len(samples) // 12)
    lines += [_line(sample) for sample in (*samples[::step], samples[-1])]
    lines += ["and a server that has just started:", _line(fresh)]
    lines.append("(seconds; memory in MiB; files in KiB)")
    return "\n".join(lines)


def _line(sample: Held) -> str:
    in_kib = NAMES[NAMES.index("wal") :]
    lines = []
    for name in NAMES:
        value = getattr(sample, name)
        is_bytes = name == "deleted" or (name in in_kib and name != "manifests")
        lines.append(f"{value / 1024 if is_bytes else value:>9,.0f}")
    return "  ".join(lines)


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(ROOT)
    sys.exit(main(sys.argv[1:]))
