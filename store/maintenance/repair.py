"""
Repair: fixes problems that can be fixed without loss, one at a time, and reports each.

Steps that touch the log, or set aside files that cannot be made again, need permission; the damaged
files are kept in the tenant's folder `damaged`. If interrupted, each file is either as it was or
mended.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from store.embedders.embedder import make_embedder
from store.home.config import Settings
from store.home.errors import (
    LogBusy,
    LogCorrupt,
    LogError,
    LogForeign,
    MnemologError,
    NoManifest,
    SnapshotDamaged,
)
from store.home.files import has_passing_name, is_old
from store.home.registry import is_held
from store.home.tenant import Tenant, lock_jobs, tenant
from store.ingest.job_queue import Queue
from store.log import erasing, integrity, log_head, log_queries, salvage
from store.log.event_log import EventLog
from store.log.log_head import Gap, OtherLog
from store.log.salvage import Salvaged
from store.maintenance import build, checkup
from store.maintenance import memory_archive as cold_memories
from store.snapshots import manifest as manifests


class RepairStep(msgspec.Struct, frozen=True):
    """A problem and its fix; with "asked", the fix that permission would allow."""

    state: Literal["mended", "would mend", "asked", "failed"]
    what: str
    how: str


class _Mend(msgspec.Struct, frozen=True):
    what: str
    how: str
    act: Callable[[], object]
    needs_leave: bool = False


def repair(
    settings: Settings, now: int, *, may_touch_log: bool = False, dry_run: bool = False
) -> Iterator[RepairStep]:
    """Yield the problems found and fixed, in order; nothing if all is well.

    `now` is microseconds UTC. Without `may_touch_log` the steps that need it are only reported, and
    with `dry_run` all are.
    """
    for mend in _mends(settings, now):
        if dry_run:
            yield RepairStep("would mend", mend.what, mend.how)
        elif mend.needs_leave and not may_touch_log:
            yield RepairStep("asked", mend.what, mend.how)
        else:
            try:
                mend.act()
            except (MnemologError, OSError) as error:
                yield RepairStep("failed", mend.what, str(error))
            else:
                yield RepairStep("mended", mend.what, mend.how)


def _mends(settings: Settings, now: int) -> Iterator[_Mend]:
    """Yield the fixes to make; each is done, or not, before the next is looked for."""
    of = tenant(settings.home, settings.choices.tenant)
    for path in checkup.open_paths(settings.home):
        how = "is its owner's alone"
        yield _Mend(f"{path} is open to others", how, partial(_make_private, path))
    yield from _temporary_files(settings)
    yield from _log(settings, of, now)
    yield from _queue(of)
    yield from _cold(of)
    yield from _snapshots(settings, of, now)


def _make_private(path: Path) -> None:
    path.chmod(path.stat().st_mode & 0o700)


def _temporary_files(settings: Settings) -> Iterator[_Mend]:
    """Yield leftover files of interrupted writes and servers."""
    for path in sorted(settings.home.glob("**/[.l]*")):
        is_passing = has_passing_name(path) or path.name.startswith(salvage.REPAIRING)
        is_ours = is_passing and settings.dagster_home not in path.parents
        if is_ours and path.is_file() and is_old(path):
            act = partial(path.unlink, missing_ok=True)
            yield _Mend(f"{path} is left of a write that was ended", "deleted", act)
    if settings.server_file.exists() and not is_held(settings):
        what = f"{settings.server_file} is left of a server that was killed"
        yield _Mend(what, "deleted", partial(settings.server_file.unlink, missing_ok=True))


def _log(settings: Settings, of: Tenant, now: int) -> Iterator[_Mend]:
    path = of.log
    try:
        if not path.exists():
            if of.manifests.exists() or salvage.folder_of(path).exists():
                yield from _salvage(settings, of, now, f"{path} is missing")
            return
        with EventLog(path) as log:
            gap = integrity.head_gap(log)
            has_head = log_head.read(path) is not None or not log.head()
            problem, are_indexes_alone = integrity.damage(log)
    except (LogCorrupt, LogForeign) as error:
        yield from _salvage(settings, of, now, str(error))
        return
    except LogError:
        return  # `doctor` reports the obstacle
    if problem and are_indexes_alone:
        how = "its indexes are made anew"
        yield _Mend(f"{path}: {problem}", how, partial(_reindex, settings, of), True)
    elif problem or (isinstance(gap, Gap) and _gives_more(of)):
        yield from _salvage(settings, of, now, problem or str(gap))
    elif isinstance(gap, Gap):
        how = "the log says so, and goes on after them"
        yield _Mend(f"{path}: {gap}", how, partial(_state, settings, of, gap, now), True)
    if isinstance(gap, OtherLog):
        how = f"{log_head.path_of(path).name} is kept in `damaged` and made anew for this log"
        yield _Mend(f"{path}: {gap}", how, partial(_renew_head, settings, path), True)
    elif not has_head:
        act = partial(_renew_head, settings, path)
        yield _Mend(f"{log_head.path_of(path)} is missing", "made anew", act)


def _salvage(settings: Settings, of: Tenant, now: int, problem: str) -> Iterator[_Mend]:
    salvaged = _read(of)
    if not salvaged.rows:
        return  # `doctor` names the cure: a backup
    lost = log_head.numbers(salvaged.gaps) if salvaged.gaps else "none"
    ids = f" ({', '.join(salvaged.ids[:20])})" if salvaged.ids else ""
    how = (
        f"a new log holds the events that are whole, {len(salvaged.rows)}, and the damaged one is "
        f"kept in `damaged`; lost: {lost}{ids}"
    )
    what = problem.removesuffix(": restore a backup")
    yield _Mend(what, how, partial(_write, settings, of, now), True)


def _read(of: Tenant) -> Salvaged:
    return salvage.salvage(
        of.log, max((manifest.watermark for manifest in manifests.list_manifests(of)), default=0)
    )


def _gives_more(of: Tenant) -> bool:
    """Return True if lost events are in the kept files, or behind a damaged frame."""
    salvaged = _read(of)
    with EventLog(of.log) as log:
        return len(salvaged.rows) > log_queries.row_count(log)


def _write(settings: Settings, of: Tenant, now: int) -> None:
    _check_nobody_writes(settings)
    with lock_jobs(of):
        salvage.write(of.log, _read(of), now)
        with EventLog(of.log) as log:
            _renew(log)
    with EventLog(of.log) as log:  # a page may date from before an event was erased
        there = [id_ for id_ in log_queries.erased_ids(log, log.head()) if log.present_ids([id_])]
        if there:
            erasing.erase(log, sorted(there), now)


def _reindex(settings: Settings, of: Tenant) -> None:
    _check_nobody_writes(settings)
    salvage.keep(of.log)
    with EventLog(of.log) as log:
        integrity.reindex(log)


def _state(settings: Settings, of: Tenant, gap: Gap, now: int) -> None:
    _check_nobody_writes(settings)
    with EventLog(of.log) as log:
        integrity.state_gap(log, gap, now)
        _renew(log)


def _renew_head(settings: Settings, path: Path) -> None:
    _check_nobody_writes(settings)  # it would go on in the file that is deleted here
    salvage.keep(log_head.path_of(path))
    with EventLog(path) as log:
        _renew(log)


def _renew(log: EventLog) -> None:
    log_head.path_of(log.path).unlink(missing_ok=True)
    integrity.make_head(log)


def _check_nobody_writes(settings: Settings) -> None:
    if is_held(settings):
        raise LogBusy("a server of this home is running: run `mnemolog stop`")


def _queue(of: Tenant) -> Iterator[_Mend]:
    queue = Queue(of.ingest)
    try:
        queue.counts()
    except LogBusy:
        return
    except LogError as error:
        how = "kept in `damaged`, and made anew: what waited in it is to be sent again"
        yield _Mend(str(error), how, partial(_set_queue_aside, of), True)
    finally:
        queue.close()


def _set_queue_aside(of: Tenant) -> None:
    ahead, shared = (of.ingest.with_name(f"{of.ingest.name}-{end}") for end in ("wal", "shm"))
    for path in (of.ingest, ahead):
        salvage.keep(path)
    for path in (ahead, shared, of.ingest):
        path.unlink(missing_ok=True)


def _cold(of: Tenant) -> Iterator[_Mend]:
    if problem := cold_memories.problem(of):
        how = "deleted: it is derived, and `mnemolog archive` writes it anew"
        yield _Mend(problem.partition(": ")[0], how, partial(cold_memories.drop, of))


def _snapshots(settings: Settings, of: Tenant, now: int) -> Iterator[_Mend]:
    """Yield a build if the published snapshot is damaged, or holds events that the log has lost."""
    if not of.exists:
        return
    try:
        manifest = manifests.current(of)
        with EventLog(of.log) as log:
            lost = integrity.gaps(log, after=manifest.watermark)
            problems = checkup.damage(of, manifest)
            if lost and not problems:
                problems = [f"lost: {log_head.numbers(lost)}"]
    except NoManifest:
        if not any(of.manifests.glob("*.json")):
            return
        problems = [f"{of.head} is missing"]
    except SnapshotDamaged as error:
        problems = [str(error)]
    except LogError:
        return
    if problems:
        what = problems[0].partition(": `mnemolog build`")[0]
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        yield _Mend(f"{what}{more}", "built anew from the log", partial(_build, settings, of, now))


def _build(settings: Settings, of: Tenant, now: int) -> None:
    with EventLog(of.log) as log:
        build.rebuild(of, log, make_embedder(settings.choices.embedder, settings.home), now)
