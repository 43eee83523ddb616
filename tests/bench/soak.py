"""
Soak: eight clients recall without a pause while memories are written, forgotten and built.

Every client, the writer and the forgetter is a process of its own, so none waits for another's
interpreter. Each notes the start and end of its actions by a shared clock, and all answers are
judged at the end: a memory acknowledged before a question must be in its answer, one forgotten
before must not, and no memory may come twice.
"""

import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from multiprocessing import get_context
from pathlib import Path

import soakers
from builds import figure, has_quick
from figure import Figure, Note
from process import Server, run, serve
from soakers import Asked, Done

from store.home import tenant as tenants
from store.snapshots import manifest

SOAK = "8 clients recall while 200 a second are written and builds publish"
PROBLEMS = f"{SOAK}, errors and wrong answers"
CLIENTS = 8
BUILDS = 3
LATE_S = 180.0
_AFTER_S = 2.0  # of answers from the last build
_SHOWN = 5  # problems listed in the note


@dataclass(frozen=True)
class Told:
    """The reports of the processes of a soak."""

    asked: Sequence[Asked]
    written: Sequence[Done]
    forgotten: Sequence[Done]
    lags_s: Sequence[float]  # of each build: from its end until recalls used it
    clients: int
    seconds: float


def figures(
    size: int,
    home: Path,
    seconds: float,
    *,
    builds: int = BUILDS,
    clients: int = CLIENTS,
    is_quick_first: bool = False,
) -> Iterator[Figure | Note]:
    """Soak a server over a home for `seconds`, longer if the builds need it.

    Every other build is a quick one, which takes less of the time.
    """
    quick = ["--quick"] if has_quick() else []
    ways = [quick, []] if is_quick_first else [[], quick]
    with serve(home) as server:
        outcome = _run_soak(
            size, home, server, seconds, [ways[n % 2] for n in range(builds)], clients
        )
        anonymous = server.anonymous_mib()
    wrong = problems(outcome)
    times = [(question.ended - question.began) * 1e3 for question in outcome.asked]
    cuts = statistics.quantiles(times, n=100)
    for percent in (50, 95, 99):
        yield figure(size, SOAK, cuts[percent - 1], f"p{percent}", "ms")
    yield figure(size, SOAK, len(times) / outcome.seconds, "recalls", "/s")
    yield figure(size, SOAK, len(outcome.written) / outcome.seconds, "writes", "/s")
    if anonymous is not None:
        yield figure(size, SOAK, anonymous, "server's anonymous memory then", "MiB")
    yield figure(size, PROBLEMS, len(wrong), "count", "")
    yield Note(_summary(size, outcome, wrong))


def _run_soak(
    size: int,
    home: Path,
    server: Server,
    seconds: float,
    builds: Sequence[Sequence[str]],
    clients: int,
) -> Told:
    context = get_context("spawn")
    shared = soakers.Shared(context.Value("q", 0), context.Value("b", 0))
    client = server.client
    with ProcessPoolExecutor(
        clients + 2, mp_context=context, initializer=soakers.share, initargs=(shared,)
    ) as pool:
        writer = pool.submit(soakers.write, client.port, client.token)
        forgetter = pool.submit(soakers.forget, home, size)
        recalling = [
            pool.submit(soakers.recall, number, client.port, client.token, size)
            for number in range(clients)
        ]
        lags_s: list[float] = []
        while not shared.acknowledged.value:
            time.sleep(0.01)
        began = time.monotonic()
        try:
            for words in builds:
                time.sleep(seconds / (len(builds) + 2))
                run(home, "build", *words)
                lags_s.append(_lag_s(home, server))
            time.sleep(max(_AFTER_S, seconds - (time.monotonic() - began)))
        finally:
            shared.is_over.value = 1
        took = time.monotonic() - began
        questions = [row for those in recalling for row in those.result()]
        return Told(questions, writer.result(), forgetter.result(), lags_s, clients, took)


def _lag_s(home: Path, server: Server) -> float:
    """Return the seconds until the server answers from the newest build, LATE_S at most."""
    number = manifest.current(tenants.tenant(home)).number
    began = time.monotonic()
    while (took := time.monotonic() - began) < LATE_S:
        status, answer = server.client.asked("POST", "/v1/recall", {"query": "what is served"})
        if status == HTTPStatus.OK and json.loads(answer)["manifest"] == number:
            break  # 503: too many requests at once, as is usual here
        time.sleep(0.02)
    return took


def problems(outcome: Told) -> list[str]:
    """Return a line for every error and wrong answer, the same line for the same kind."""
    written = {write.id: write for write in outcome.written}
    forgotten = {write.id: write for write in outcome.forgotten}
    writes = (*outcome.written, *outcome.forgotten)
    problems = [f"write: {write.problem}" for write in writes if write.problem]
    problems += ["a build was not answered from" for lag_s in outcome.lags_s if lag_s >= LATE_S]
    for question in outcome.asked:
        if question.problem:
            problems.append(f"recall: {question.problem}")
            continue
        if len(set(question.found)) < len(question.found):
            problems.append("a memory came twice")
        if any(_before(forgotten.get(id_), question.began) for id_ in question.found):
            problems.append("a memory came that had been forgotten")
        if question.is_behind or question.about in question.found:
            continue
        forgetting = forgotten.get(question.about)
        was_there = _before(written.get(question.about), question.began)
        if was_there and (forgetting is None or forgetting.began > question.ended):
            problems.append("a memory that had been acknowledged was missing")
    return problems


def _before(write: Done | None, moment: float) -> bool:
    return write is not None and not write.problem and write.ended < moment


def _summary(size: int, outcome: Told, wrong: Sequence[str]) -> str:
    writes = [(write.ended - write.began) * 1e3 for write in outcome.written]
    fresh = sum(question.about.startswith(soakers.WRITTEN) for question in outcome.asked)
    manifests = {question.manifest for question in outcome.asked if not question.problem}
    behind = sum(question.is_behind for question in outcome.asked)
    common = "; ".join(
        f"{many} x {problem}" for problem, many in Counter(wrong).most_common(_SHOWN)
    )
    return (
        f"soak, {size:,}: {outcome.seconds:.0f} s, {len(outcome.asked):,} recalls of "
        f"{outcome.clients} clients ({fresh:,} of them for what was written meanwhile; {behind:,} "
        f"answers said that new memories were not indexed yet), {len(outcome.written):,} "
        f"memories written (a write's p99 {statistics.quantiles(writes, n=100)[98]:.0f} ms), "
        f"{len(outcome.forgotten):,} forgotten, {len(outcome.lags_s)} builds, each answered from "
        f"{max(outcome.lags_s, default=0):.2f} s after its end at most, {len(manifests)} manifests "
        f"served; errors and wrong answers: {common or 'none'}"
    )
