"""
Selftest: probes of this memory from end to end, and the floors that recall meets on the check set.

Each probe goes the way that users and agents go, and leaves no trace: it writes to a log of its own
that is deleted after.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from serve.evaluation import canaries, dataset
from serve.evaluation.canaries import Canary, Point
from serve.evaluation.harness import run_queries
from serve.evaluation.report import Report, Scores, Silence, score_report
from serve.hooks.call import Call
from serve.hooks.prompt import answer_prompt
from serve.hosts.event import HookEvent
from serve.reader.filters import Filter
from serve.reader.reader import Reader, open_view
from serve.recall.ranking import SURE
from serve.recall.recall import Question, recall
from serve.server.open_tenants import OpenTenant
from store.embedders.embedder import Embedder
from store.home import tenant as tenants
from store.home.config import DEFAULT_TENANT, Choices
from store.home.errors import EmbedderError, LogError
from store.home.files import temporary_folder
from store.home.tenant import Tenant
from store.log import commands, integrity
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.snapshots.manifest import Manifest
from store.text.excerpt import plural

EVENTS = 1_000  # the newest, whose hashes are checked; `mnemolog doctor` checks all
_PROBE = "The selftest of mnemolog keeps a lighthouse where seven umbrellas wait for the ferry"
_ASKED = "lighthouse umbrellas ferry selftest"
_OTHERS = (  # stored beside the probe to test a memory without a build
    "The post office opens at nine and closes at noon on Sundays",
    "Invoices are numbered by year and never used twice",
    "The compiler's cache lies on the fast disk of each runner",
)
_UNIT = 1e-3  # how far from 1 the length of a unit vector may be


class Probe(msgspec.Struct, frozen=True):
    """A probe and its outcome."""

    name: str
    ok: bool
    detail: str


class Selftest(msgspec.Struct, frozen=True):
    """`missed` are the canaries not found, `trend` the results of earlier builds."""

    probes: tuple[Probe, ...]
    missed: tuple[Canary, ...]
    trend: tuple[Point, ...]

    @property
    def ok(self) -> bool:
        return all(probe.ok for probe in self.probes)


def selftest(
    tenant: Tenant,
    log: EventLog,
    manifest: Manifest,
    embedder: Embedder,
    choices: Choices,
    now: int,
) -> Selftest:
    """Probe a tenant and its published manifest.

    Raise SnapshotDamaged if a part that recall needs is broken.
    """
    check = canaries.check_of(manifest)
    before = canaries.trend(check) if check else ()
    outcome = canaries.over(tenant, manifest, embedder, choices, now)
    came_back = f"{outcome.hits} of {outcome.asked} canaries came back"
    history = "no build has asked for canaries yet"
    back, asked = canaries.total(before)
    if asked:
        history = f"{back / asked:.1%} of {asked:,} came back over {len(before)} builds"
    probes = (
        _log(log),
        Probe("recall", not outcome.is_doubted, came_back),
        Probe("trend", not canaries.has_fallen(outcome, before), history),
        _vectors(manifest, embedder),
        _round_trip(tenant, manifest, embedder, choices, now),
        _silence(tenant, log, embedder, choices, now),
    )
    return Selftest(probes, outcome.missed, before)


def selftest_apart(embedder: Embedder, choices: Choices, now: int) -> Selftest:
    """Probe a small memory that is built for the test and deleted after it: for a home where
    nothing is built yet.
    """
    with temporary_folder("selftest") as folder:
        apart = tenants.tenant(folder, DEFAULT_TENANT)
        with EventLog(apart.log, create=True) as log:
            for text in _OTHERS:
                commands.record(log, Draft(content=text), now)
            manifest = build.rebuild(apart, log, embedder, now)
            return selftest(apart, log, manifest, embedder, choices, now)


def _log(log: EventLog) -> Probe:
    """Look at the newest events: their hashes, and their numbers but for the known gaps."""
    head = log.head()
    first = max(0, head - EVENTS)
    try:
        read = sum(1 for _ in log.read(first, head))
        lost = sum(max(0, last - max(first, start - 1)) for start, last in integrity.gaps(log))
    except LogError as error:
        return Probe("log", False, str(error))
    missing = head - first - read - lost
    if missing:
        return Probe("log", False, f"{missing} of the newest {head - first:,} events are missing")
    return Probe("log", True, f"the newest {read:,} of {head:,} events are intact")


def _vectors(manifest: Manifest, embedder: Embedder) -> Probe:
    """Ask the model for a vector, and whether the memory's are its."""
    if manifest.embedder != embedder.model:
        text = f"the vectors were made by {manifest.embedder}, the settings name {embedder.model}"
        return Probe("vectors", False, text)
    try:
        (vector,) = embedder.embed([_ASKED])
    except EmbedderError as error:
        return Probe("vectors", False, str(error))
    length = float(np.linalg.norm(vector.astype(np.float32)))
    if len(vector) != manifest.dimension or abs(length - 1.0) > _UNIT:
        text = f"{len(vector)} numbers of length {length:.3f}, not {manifest.dimension} of length 1"
        return Probe("vectors", False, text)
    if missing := manifest.missing_vectors:
        return Probe("vectors", False, f"{plural(missing, 'text')} without a vector yet")
    return Probe("vectors", True, f"{embedder.model} answers, and no text is waiting for a vector")


def _round_trip(
    tenant: Tenant, manifest: Manifest, embedder: Embedder, choices: Choices, now: int
) -> Probe:
    """Write a memory, recall it over the published snapshots, forget it, and recall it no more.

    It is written to a log of its own: the tail laid over the snapshots is read from that.
    """
    with temporary_folder("selftest") as folder:
        with EventLog(folder / "log.sqlite", create=True) as log:
            id_ = commands.record(log, Draft(content=_PROBE), now).event.subject
            written = list(log.read())
            commands.forget(log, id_, now)
            forgotten = list(log.read())

    def comes_back(events: Sequence[Event]) -> bool:
        view = open_view(tenant, manifest, embedder, events)
        question = Question(
            text=_ASKED, filter=Filter(now=now), top_k=choices.top_k, fusion=choices.fusion
        )
        return id_ in [hit.memory.id for hit in recall(view, question).hits]

    if not comes_back(written):
        return Probe("round trip", False, "a memory that was just written is not recalled")
    if comes_back(forgotten):
        return Probe("round trip", False, "a memory that was just forgotten is still recalled")
    return Probe("round trip", True, "written, recalled, forgotten, and no longer recalled")


def _silence(
    tenant: Tenant, log: EventLog, embedder: Embedder, choices: Choices, now: int
) -> Probe:
    """Send small talk to the prompt hook; nothing must be returned or written."""
    open_tenant = OpenTenant(tenant, log, Reader(tenant, log, embedder))
    choices = msgspec.structs.replace(choices, remember_words=False)
    lines = (dataset.CHECK_SET / "silence.jsonl").read_text(encoding="utf-8").splitlines()
    queries = (msgspec.json.decode(line, type=dict[str, str]) for line in lines)
    prompts = [query["query"] for query in queries if query["kind"] == "small talk"]
    broken = []
    for number, prompt in enumerate(prompts):
        event = HookEvent("selftest", "prompt", f"selftest-{now}-{number}", prompt=prompt)
        if answer_prompt(Call(event, open_tenant, choices, "", now)).context:
            broken.append(prompt)
    if broken:
        return Probe("silence", False, f"small talk returns memories: {broken[0]!r}")
    return Probe("silence", True, f"{len(prompts)} prompts of small talk return nothing")


# Quality on the check set. The floors are no targets: they are well below the lexical embedder's
# results, so a result below one means that something broke, not that a weight moved.

LEAST_RECALL_AT_5 = 0.85  # of the project's queries
LEAST_MRR = 0.7
LEAST_OF_A_LANGUAGE = 0.8  # recall@5 of questions in the language of their memory
MOST_INJECTED = 0.1  # of the prompts that deserve silence, at the bar that is set


class Quality(msgspec.Struct, frozen=True):
    """The measured quality; `harder` is that of the queries in `dataset.HARDER`, with no floor."""

    project: Scores
    categories: Mapping[str, Scores]  # of the project's queries
    silence: Silence | None  # at the bar in the settings; None: no query was answered
    languages: Mapping[str, Scores]
    harder: Mapping[str, Scores]
    notices: tuple[str, ...]

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """The measures beyond a floor, in words; nothing where recall works."""
        return tuple(_shortfalls(self))


def measure_quality(choices: Choices, home: Path, *, cache: Path | None = None) -> Quality:
    """Measure the check set under some settings; its tenants are left in `home`."""
    workspaces = dataset.read_workspaces(dataset.CHECK_SET)
    ran = run_queries(workspaces, home, choices, "auto", cache=cache)
    results = {result.query_id: result for result in ran.results}

    def report_of(prefix: str) -> Report:
        chosen = [workspace for workspace in workspaces if workspace.name.startswith(prefix)]
        return score_report(chosen, results, "memory", bar=choices.min_confidence or SURE)

    project, languages = report_of(dataset.PROJECT), report_of(dataset.LANGUAGES)
    return Quality(
        project=project.overall,
        categories=project.categories,
        silence=next(iter(project.silence), None),
        languages={
            name: scores
            for name, scores in languages.categories.items()
            if not name.startswith(dataset.HARDER)
        },
        harder={
            name: scores
            for name, scores in languages.categories.items()
            if name.startswith(dataset.HARDER)
        },
        notices=ran.notices,
    )


def _shortfalls(quality: Quality) -> Iterator[str]:
    for name, least in (("recall@5", LEAST_RECALL_AT_5), ("mrr@10", LEAST_MRR)):
        if (value := quality.project.measures[name]) < least:
            yield f"{name} of the project is {value:.2f}, below {least:.2f}"
    for language, scores in quality.languages.items():
        if (value := scores.measures["recall@5"]) < LEAST_OF_A_LANGUAGE:
            yield f"recall@5 in {language} is {value:.2f}, below {LEAST_OF_A_LANGUAGE:.2f}"
    injected = quality.silence.injected_all if quality.silence else 0.0
    if injected > MOST_INJECTED:
        yield f"{injected:.0%} of the prompts that should return nothing return something"
