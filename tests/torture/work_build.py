"""
Work on builds, and work that rewrites the log: a candidate made, published; memories erased, old
receipts and cold memories archived.
"""

from collections.abc import Collection
from pathlib import Path

from torture import work_checks as checks
from torture.work_checks import NOW
from torture.work_memory import (
    ANSWER,
    BEFORE,
    QUERY,
    Acknowledge,
    Work,
    build_all,
    drafts,
    log_of,
    record_before,
    texts,
)

from pipelines.jobs.archive import write_archive
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home.config import Settings
from store.ingest.batch import make_batch
from store.ingest.job_queue import Queue
from store.log import commands, compaction, log_queries
from store.log.commands import Draft
from store.log.event_kinds import Followed, Recorded, Revised
from store.log.events import Event, encode
from store.maintenance import build, erase, erase_receipt, memory_archive
from store.maintenance.build import Build
from store.snapshots import manifest as manifests

OLD = NOW - 100 * 86_400_000_000
SECRET = "zanzibar"  # the word that must be nowhere after its erasure
_JOB = "01KA00000000000000000000J2"
_AWAY = ("z1", "The old bucket in us-east-1 was emptied last spring.")


# --- build and publish


def _prepare_build(home: Path) -> None:
    record_before(home)
    build_all(home)
    with log_of(home) as log:
        commands.record_batch(log, drafts(texts("c", 6)), NOW)
        commands.forget(log, "b2", NOW)


def _prepare_publish(home: Path) -> None:
    _prepare_build(home)
    tenant = tenants.tenant(home)
    with log_of(home) as log, build.lock(tenant):
        _candidate(build.start(tenant, log, LexicalEmbedder()))


def _candidate(made: Build) -> None:
    for projection in made.projections:
        _, tables = build.step(made, projection)
        build.check(made, projection, tables)


def _make_candidate(home: Path, acknowledge: Acknowledge) -> None:
    tenant = tenants.tenant(home)
    with log_of(home) as log, build.lock(tenant):
        _candidate(build.start(tenant, log, LexicalEmbedder()))
        acknowledge("candidate")


def _publish(home: Path, acknowledge: Acknowledge) -> None:
    tenant = tenants.tenant(home)
    with log_of(home) as log, build.lock(tenant):
        candidate = build.resume(tenant, log, LexicalEmbedder())
        build.publish(candidate, build.load_checks(candidate), NOW)
        acknowledge("published")


def _check_build(home: Path, acknowledged: Collection[str]) -> list[str]:
    tenant = tenants.tenant(home)
    wrong = checks.of_the_log(home, (), [id_ for id_, _ in BEFORE], (), and_others=True)
    wrong += [*checks.served(tenant), *checks.recalled(home, QUERY, ANSWER)]
    if "published" in acknowledged and not wrong:
        with log_of(home) as log:
            if manifests.current(tenant).watermark < log.head():
                wrong.append("what was published is not served")
    return wrong


# --- erase and archive: the log's rows are rewritten

_RECEIPTS = compaction.LEAST + 6
_SAYING = 3 + _RECEIPTS // 2  # recorded, revised, archived, and every other old receipt


def _followed(number: int) -> Event:
    """Return an old receipt, alternately about the memory to erase and about another."""
    about, whom = ("e1", SECRET) if number % 2 else ("b1", "Anna")
    body = Followed(verdict="followed", evidence=f"as {whom} said")
    return Event(f"r{number}", OLD + number, body, about)


def _prepare_worn(home: Path) -> None:
    """
    Make a memory with old receipts, an archived memory and a queued batch; all but the batch built.
    """
    with log_of(home, create=True) as log:
        commands.record_batch(log, drafts([*BEFORE, _AWAY]), NOW)
        commands.archive(log, _AWAY[0], NOW)
        secret = Draft(id="e1", content=f"The {SECRET} data lies in the old bucket", tags=(SECRET,))
        commands.record(log, secret, NOW)
        commands.revise(log, "e1", Revised(context=f"asked by {SECRET}"), NOW)
        commands.archive(log, "e1", NOW, f"{SECRET} said so")
        log.append([_followed(number) for number in range(_RECEIPTS)])
    build_all(home)
    queue = Queue(tenants.tenant(home).ingest)
    waiting = Draft(id="e1", content=f"The {SECRET} data lies in the old bucket", tags=(SECRET,))
    queue.accept(_JOB, NOW, make_batch(_JOB, NOW, [waiting, Draft(id="b1", content=BEFORE[0][1])]))
    queue.close()


def _prepare_compacted(home: Path) -> None:
    _prepare_worn(home)
    _archive(home, lambda text: None)


def _archive(home: Path, acknowledge: Acknowledge) -> None:
    settings, name = Settings(home), tenants.tenant(home).name
    write_archive(settings, name, NOW, lambda text: None, compact=True)
    acknowledge("compacted")
    write_archive(settings, name, NOW, lambda text: None)
    acknowledge("cold")


def _erase(home: Path, acknowledge: Acknowledge) -> None:
    """Do what `mnemolog erase` does, in its order; its job is done in this process."""
    tenant = tenants.tenant(home)
    with log_of(home) as log, erase.lock_out_jobs(tenant):
        before = erase.file_names(tenant)
        wiped = erase.wipe(tenant, log, erase.EraseRequest(("e1",)), NOW)
        acknowledge("log")
        write_archive(Settings(home), tenant.name, NOW, lambda text: None, only_newest=True)
        receipt = erase_receipt.make_receipt(home, tenant, wiped, "somebody", NOW, before)
        acknowledge("erased" if receipt.is_clean else f"left in {receipt.left}")


def _check_archive(home: Path, acknowledged: Collection[str]) -> list[str]:
    wrong = _check_worn(home)
    with log_of(home) as log:
        saying = sum(SECRET in encode(event.body) for event in log.read())
        if "compacted" in acknowledged and not log.segments():
            wrong.append("nothing was put away")
    tenant = tenants.tenant(home)
    if saying != _SAYING:
        wrong.append(f"{saying} events say what {_SAYING} said")
    if "cold" in acknowledged and not list(memory_archive.folder_of(tenant).glob("*.parquet")):
        wrong.append("there is no cold file")
    return wrong + [problem for problem in [memory_archive.problem(tenant)] if problem]


def _check_erase(home: Path, acknowledged: Collection[str]) -> list[str]:
    wrong = _check_worn(home)
    with log_of(home) as log:
        saying = sum(SECRET in encode(event.body) for event in log.read())
        if saying not in (0, _SAYING):
            wrong.append(f"half erased: {saying} of {_SAYING} events still say it")
        if saying and "log" in acknowledged:
            wrong.append("the log says what was erased")
        if not saying and "e1" not in log_queries.erased_ids(log, log.head()):
            wrong.append("it was erased and the log does not say so")
        content = [
            event.body.content for event in log.events_for("e1") if isinstance(event.body, Recorded)
        ]
        if len(content) != 1:
            wrong.append(f"the memory is there {len(content)} times")
    if "erased" in acknowledged:
        wrong += checks.holding(home, SECRET)
    return wrong


def _check_worn(home: Path) -> list[str]:
    before = [*(id_ for id_, _ in (*BEFORE, _AWAY)), "e1"]
    before += [f"r{number}" for number in range(_RECEIPTS)]
    return [
        *checks.of_the_log(home, (), before, (), and_others=True),
        *checks.served(tenants.tenant(home)),
        *checks.recalled(home, QUERY, ANSWER),
    ]


WORKS = (
    Work("build", _prepare_build, _make_candidate, _check_build, ("candidate",)),
    Work("publish", _prepare_publish, _publish, _check_build, ("published",)),
    Work("archive", _prepare_worn, _archive, _check_archive, ("compacted", "cold")),
    Work("erase", _prepare_compacted, _erase, _check_erase, ("log", "erased")),
)
