"""
Work on the log: its file made or brought up to date, events appended one by one, in batches and by
an import, and batches accepted into the queue and recorded.
"""

import itertools
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

import apsw
from older_logs import make_older
from torture import work_checks as checks
from torture.work_checks import NOW
from torture.work_memory import (
    ANSWER,
    BEFORE,
    QUERY,
    Acknowledge,
    Work,
    drafts,
    log_of,
    record_before,
    texts,
)

from store.home import tenant as tenants
from store.importers import jsonl
from store.ingest import job_queue
from store.ingest.batch import make_batch
from store.ingest.job_queue import Queue
from store.log import commands

# --- append, batch, import: events into the log

ONE_BY_ONE = [*texts("a", 3), *texts("long", 2, 200)]
_BATCHES = [texts("n", 30), texts("o", 12, 40)]
_IMPORTED = texts("i", 50)
_BATCH = 20  # of an import, so that a few memories need several transactions


def _append(home: Path, acknowledge: Acknowledge) -> None:
    with log_of(home) as log:
        for draft in drafts(ONE_BY_ONE):
            acknowledge(commands.record(log, draft, NOW).event.id)


def _batch(home: Path, acknowledge: Acknowledge) -> None:
    with log_of(home) as log:
        for batch in _BATCHES:
            for appended in commands.record_batch(log, drafts(batch), NOW):
                acknowledge(appended.event.id)


def _prepare_import(home: Path) -> None:
    record_before(home)
    lines = (f'{{"id":"{id_}","content":"{text}"}}\n' for id_, text in _IMPORTED)
    (home / "import.jsonl").write_text("".join(lines))
    (home / "import.jsonl").chmod(0o600)


def _batched(some: Sequence[tuple[str, str]]) -> list[Sequence[tuple[str, str]]]:
    return [some[at : at + _BATCH] for at in range(0, len(some), _BATCH)]


def _import(home: Path, acknowledge: Acknowledge) -> None:
    ids, told = [id_ for id_, _ in _IMPORTED], 0

    def tell(count: int) -> None:
        nonlocal told
        for id_ in ids[told:count]:
            acknowledge(id_)
        told = count

    source = jsonl.drafts(home / "import.jsonl", project=None)
    with mock.patch.object(commands, "BATCH", _BATCH), log_of(home) as log:
        commands.import_drafts(log, source, NOW, on_progress=tell)


def _check_log(
    home: Path, acknowledged: Collection[str], *, writing: Sequence[Collection[str]]
) -> list[str]:
    before = [id_ for id_, _ in BEFORE]
    return [
        *checks.of_the_log(home, acknowledged, before, writing),
        *checks.recalled(home, QUERY, ANSWER),
    ]


def _of_log(
    name: str,
    do: Callable[[Path, Acknowledge], None],
    batches: Sequence[Sequence[tuple[str, str]]],
    prepare: Callable[[Path], None] = record_before,
) -> Work:
    writing = [[id_ for id_, _ in batch] for batch in batches]
    ends = tuple(itertools.chain.from_iterable(writing))
    return Work(name, prepare, do, partial(_check_log, writing=writing), ends, built=False)


# --- make and migrate: the log's file


def _make(home: Path, acknowledge: Acknowledge) -> None:
    with log_of(home, create=True) as log:
        acknowledge("made")
        for draft in drafts(BEFORE):
            acknowledge(commands.record(log, draft, NOW).event.id)


def _check_made(home: Path, acknowledged: Collection[str]) -> list[str]:
    ids_told = [id_ for id_ in acknowledged if id_ != "made"]
    if "made" not in acknowledged and tenants.tenant(home).log.exists():
        log_of(home, create=True).close()  # as the next attempt does
    return checks.of_the_log(home, ids_told, (), [[id_] for id_, _ in BEFORE])


def _prepare_older(home: Path) -> None:
    record_before(home)
    make_older(tenants.tenant(home).log)
    older = apsw.Connection(str(tenants.tenant(home).log))
    for name in ("events_by_session", "events_of_jobs", "events_by_kind"):
        older.execute(f"DROP INDEX {name}")
    older.execute("DROP TABLE segments; PRAGMA user_version = 1")
    older.close()


# --- ingest: accepted into the queue, then recorded

_INGESTED = texts("q", job_queue.STEP + 20)
_JOB = "01KA00000000000000000000J1"


def _ingest(home: Path, acknowledge: Acknowledge) -> None:
    queue = Queue(tenants.tenant(home).ingest)
    try:
        batch = make_batch(_JOB, NOW, drafts(_INGESTED))
        queue.accept(_JOB, NOW, batch)
        acknowledge(_JOB)
        with log_of(home) as log:
            jobs = queue.list_jobs()
            now = max(NOW, *(max(job.lease_until or 0, job.next_at) for job in jobs))
            while lease := queue.lease(job_queue.new_owner(), now):
                job_queue.record_lease(queue, log, lease, lambda: now)
        acknowledge("recorded")
    finally:
        queue.close()


def _check_ingest(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Check that an accepted batch is in the queue or the log, and a recorded one in the log."""
    ids = [id_ for id_, _ in _INGESTED]
    steps = [ids[: job_queue.STEP], ids[job_queue.STEP :]]
    ids_told = ids if "recorded" in acknowledged else []
    wrong = _check_log(home, ids_told, writing=steps)
    if _JOB not in acknowledged:
        return wrong
    queue = Queue(tenants.tenant(home).ingest)
    try:
        job = queue.get(_JOB)
    finally:
        queue.close()
    with log_of(home) as log:
        missing = [id_ for id_ in ids[: job.done] if not log.present_ids([id_])]
    return [*wrong, *(f"{id_} was taken off the queue and is lost" for id_ in missing)]


WORKS = (
    _of_log("append", _append, [[text] for text in ONE_BY_ONE]),
    _of_log("batch", _batch, _BATCHES),
    _of_log("import", _import, _batched(_IMPORTED), _prepare_import),
    Work("make", lambda home: None, _make, _check_made, ("made", *(id_ for id_, _ in BEFORE))),
    _of_log("migrate", _append, [[text] for text in ONE_BY_ONE], _prepare_older),
    Work("ingest", record_before, _ingest, _check_ingest, (_JOB, "recorded"), built=False),
)
