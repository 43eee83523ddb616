"""
Build: a slice of the log becomes projections, a candidate, audits and a published manifest.

The same steps serve Dagster (one asset each), the CLI and the tests. Finished projections wait in
the tenant's `candidate` folder, one reference each, and only a candidate whose parts all have one
watermark and whose audits all passed is published. A pure function of equal inputs is not run
again: a projection with unchanged inputs keeps its published snapshot; one with changed inputs
keeps its unaffected parts.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import filelock
import msgspec
from msgspec.structs import replace

from store.derived import catalog, constraints
from store.derived.constraints import Constraints
from store.embedders.embedder import Embedder
from store.home.errors import (
    BuildBusy,
    BuildRefused,
    EmbedderError,
    LogBusy,
    NoManifest,
    SnapshotDamaged,
)
from store.home.files import make_folder, sweep, translate_disk_errors, without_syncs
from store.home.tenant import Tenant
from store.log import integrity, log_queries, merging
from store.log.event_log import EventLog
from store.maintenance import build_state, memory_audits, quarantine, retention
from store.maintenance.audits import run_audits
from store.maintenance.build_state import StepJournal
from store.maintenance.candidate_checks import check_completeness, check_shrinkage
from store.maintenance.memory_audits import AuditInput
from store.maintenance.progress import ProgressEstimate
from store.maintenance.quarantine import Held
from store.memories.parts import MemoryParts
from store.snapshots import manifest as manifests
from store.snapshots import parallel, snapshot
from store.snapshots.manifest import CheckResult, Manifest, Refusal
from store.snapshots.projection import Built, Inputs, Previous, Projection, build_checked
from store.snapshots.snapshot import SnapshotRef


class Build(msgspec.Struct, frozen=True):
    """One build of one tenant, up to `watermark`; every step takes it.

    A `full` build reuses nothing published; a `thorough` one hashes the files it reuses, any other
    checks whether they were written to since. One that `accepts` is published although past recalls
    are answered differently.
    """

    tenant: Tenant
    log: EventLog
    embedder: Embedder
    watermark: int
    full: bool = False
    thorough: bool = True
    accepts: bool = False

    @property
    def projections(self) -> tuple[Projection, ...]:
        return catalog.all_projections(self.embedder)

    @property
    def names(self) -> list[str]:
        return [projection.name for projection in self.projections]


_JOURNAL_S = 7 * 86_400.0  # journals for a build of another embedder are kept a week
MOST_ROUNDS = 3  # of rebuilding without the memories quarantined in the round before

Progress = Callable[[str], None]
WholeCheck = Callable[[Build], Sequence[CheckResult]]


@contextmanager
def lock(tenant: Tenant, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the tenant's build lock, required for writing build results.

    Raise BuildBusy if another build holds it longer, and a LogError if the disk fails a write in
    the block.
    """
    try:
        with translate_disk_errors(tenant.root):
            make_folder(tenant.root)
            with filelock.FileLock(tenant.build_lock, timeout=wait_s, mode=0o600):
                yield
    except filelock.Timeout:
        raise BuildBusy(f"another build of {tenant.name} is running: try again later") from None


def start(
    tenant: Tenant,
    log: EventLog,
    embedder: Embedder,
    *,
    full: bool = False,
    thorough: bool = True,
    accepts: bool = False,
    keep_days: int = 0,
    now: int = 0,
) -> Build:
    """Begin a build at the log's head and drop an earlier unpublished candidate.

    Before that, erase episodes older than `keep_days` at `now`; 0: none.
    """
    if before := retention.retention_bound(keep_days, now):
        with suppress(LogBusy):  # the next build does it
            retention.erase_old(tenant, log, before, now)
    if not embedder.dimension:
        with suppress(EmbedderError):  # learn a new embedder's vector width
            embedder.embed(["mnemolog"])
    build = Build(tenant, log, embedder, log.head(), full, thorough, accepts)
    for folder in (tenant.root, *(tenant.root / name for name in ("erased", "failures", "sync"))):
        sweep(folder)
    build_state.begin_candidate(
        tenant, build_state.CandidateStart(build.watermark, full, thorough, accepts)
    )
    manifests.expire(tenant)  # the snapshots of a build that was refused or killed
    return build


def log_inputs(log: EventLog, watermark: int) -> Inputs:
    """Return the inputs of a step that come from the log alone."""
    return Inputs(
        watermark,
        lambda after: log.effective_events(after, watermark),
        late=lambda after: merging.late_subjects(log, after, watermark),
        about=lambda ids: merging.events_about(log, ids, watermark),
    )


def resume(tenant: Tenant, log: EventLog, embedder: Embedder) -> Build:
    """Return the build that `start` began, for a step that runs by itself."""
    begun = build_state.load_candidate(tenant)
    if begun is None:
        return start(tenant, log, embedder)
    return Build(tenant, log, embedder, begun.watermark, begun.full, begun.thorough, begun.accepts)


def step(
    build: Build, projection: Projection, on_progress: Progress = lambda what: None
) -> tuple[SnapshotRef, Built]:
    """Build one projection and put it into the candidate; return its reference and its tables.

    Journal entries left by an interrupted build are reused.
    """
    began = time.perf_counter()
    refs = build_state.load_refs(build.tenant, projection.inputs)
    inputs = {
        name: str(build.watermark) if name == "log" else refs[name].digest
        for name in projection.inputs
    }
    old = None if build.full else newest_published(build.tenant, projection)
    if reused := _reuse(build, projection, old, inputs):
        ref, tables = reused
    else:
        with parallel.workers() as workers:
            below = [name for name in projection.inputs if name != "log"]
            step_inputs = replace(
                log_inputs(build.log, build.watermark),
                tables={name: load(build, refs[name]) for name in below},
                keep=partial(snapshot.keep, build.tenant.snapshots, projection),
                map=workers.map,
                journal=journal_of(build.tenant, build.embedder, projection),
                report=ProgressEstimate("embedded", on_progress),
            )
            tables = build_checked(projection, step_inputs, _previous(build, projection, old))
            if build.full and "missing" in tables and tables["missing"].num_rows:
                # the model does not answer now: reuse the published rows rather than have none
                old = newest_published(build.tenant, projection)
                tables = build_checked(projection, step_inputs, _previous(build, projection, old))
        seconds = time.perf_counter() - began
        ref, tables = snapshot.write(  # from here on in files, not in memory
            build.tenant.snapshots, projection, build.watermark, inputs, tables, seconds
        )
    build_state.save_ref(build.tenant, ref)
    return ref, tables


def check(build: Build, projection: Projection, tables: Built) -> list[CheckResult]:
    """Run the audits of one projection and store their results beside the candidate.

    Tables that break a constraint fail by that alone: an audit relies on them.
    """
    if problem := _broken_constraint(build, projection, tables):
        results = [
            CheckResult(CONSTRAINTS, False, problem, projection.name, cure=memory_audits.ANEW)
        ]
        build_state.save_checks(build.tenant, results, projection.name)
        return results
    served, unread = last_published(build.tenant)
    before = served.projections.get(projection.name) if served else None
    compared = None
    if served is not None and before is not None:
        if projection.name == "memories":  # its audits read the published rows
            compared = _load_earlier(build, Published(served, before))
        else:
            compared = load(build, before)
        if compared is None:
            unread = (
                f"the files of {projection.name} are damaged, or of another version of mnemolog"
            )
    memories = (
        load(build, build_state.load_refs(build.tenant, ["memories"])["memories"])
        if "memories" in projection.inputs
        else tables  # they may not be built yet
    )
    results = run_audits(
        projection.name,
        AuditInput(
            log=build.log,
            watermark=build.watermark,
            tables=tables,
            of_memories=memories,
            published=compared,
            published_watermark=0 if served is None else served.watermark,
            unread=unread,
        ),
    )
    build_state.save_checks(build.tenant, results, projection.name)
    return results


CONSTRAINTS = "constraints"  # the check that tables fit together


def _broken_constraint(build: Build, projection: Projection, tables: Built) -> str:
    """Return the first constraint that a built projection breaks; empty if there is none.

    Published parts were checked when they were built.
    """
    earlier = newest_published(build.tenant, projection)
    published_files = {file.path for file in earlier.ref.files} if earlier else set()
    rules = Constraints(candidate_manifest(build, (), 0))
    try:
        rules.check_tables(projection)
        rules.check_rows(projection)
        for name, parts in tables.parts.items():
            for number, part in enumerate(parts):
                if part.file is None or part.file.path not in published_files:
                    rules.check_part(projection.name, name, number, part.table)
    except SnapshotDamaged as error:
        return str(error).removesuffix(": run `mnemolog build`")
    return ""


def _is_broken(results: Sequence[CheckResult]) -> bool:
    return any(result.name == CONSTRAINTS and result.stops for result in results)


def load_checks(build: Build) -> list[CheckResult]:
    """Return the audit results for the candidate so far, for the step that publishes it."""
    return build_state.load_checks(build.tenant, build.names)


def save_checks(build: Build, results: Sequence[CheckResult]) -> None:
    """Store the results for the candidate as a whole; rebuilding a part drops them."""
    build_state.save_checks(build.tenant, results)


def refuse(build: Build, now: int) -> None:
    """Store why the candidate will not be published, where no later step can report it."""
    manifests.refuse(build.tenant, Refusal(now, build.watermark, tuple(load_checks(build))))


def candidate_manifest(build: Build, checks: Sequence[CheckResult], now: int) -> Manifest:
    """Return the candidate as the manifest it would be published as; its number is 0."""
    return Manifest(
        number=0,
        at=now,
        watermark=build.watermark,
        embedder=build.embedder.model,
        dimension=build.embedder.dimension,
        moment=log_queries.moment_at(build.log, build.watermark),
        projections=build_state.load_refs(build.tenant, build.names),
        checks=tuple(checks),
    )


def publish(
    build: Build, checks: Sequence[CheckResult], now: int, decided_by: str = ""
) -> Manifest:
    """Publish the candidate if it is whole and every check passed; drop outdated snapshots.

    Raise BuildRefused otherwise: the reason is kept beside the last good manifest.
    """
    refs = build_state.load_refs(build.tenant, build.names)
    served = current_manifest(build.tenant)
    of_whole = []
    if not _is_broken(checks):
        of_whole = [
            check_completeness(build.tenant, build.names, refs, build.watermark),
            check_shrinkage(build.log, None if build.accepts else served, refs, build.watermark),
        ]
    results = (*checks, *(result for result in of_whole if not result.passed))
    if failed := [result for result in results if result.stops]:
        manifests.refuse(build.tenant, Refusal(now, build.watermark, tuple(results)))
        reasons = "; ".join(f"{result.name}: {result.reason}" for result in failed)
        raise BuildRefused(f"{build.tenant.name} at {build.watermark} was not published: {reasons}")
    candidate = candidate_manifest(build, checks, now)
    manifest = manifests.publish(
        build.tenant, msgspec.structs.replace(candidate, decided_by=decided_by)
    )
    for projection in build.projections:
        journal_of(build.tenant, build.embedder, projection).drop()
    erased = served and log_queries.erased_ids(build.log, build.watermark, served.watermark)
    # another embedder's journal may hold vectors of an erased text: the next build must not use
    # them
    build_state.sweep_journals(build.tenant.journals, older_than_s=0 if erased else _JOURNAL_S)
    # earlier snapshots still contain it too
    manifests.expire(build.tenant, keep=1 if erased else manifests.KEEP)
    return manifest


def rebuild(
    tenant: Tenant,
    log: EventLog,
    embedder: Embedder,
    now: int,
    *,
    on_progress: Progress = lambda what: None,
    wait_s: float = 0.0,
    full: bool = False,
    thorough: bool = True,
    accepts: bool = False,
    on_whole: WholeCheck = lambda build: (),
    keep_days: int = 0,
    decided_by: str = "",
) -> Manifest:
    """Build, check and publish everything up to the log's head; return the manifest.

    `decided_by` names the code and settings that determine the results of `on_whole`. If nothing
    changed since an equal build, the published snapshot stays. Episodes older than `keep_days` are
    erased before; 0: none. Memories that fail an audit alone are quarantined, and everything is
    built again without them. `on_whole` checks the candidate as a whole, once every audit of its
    parts passed; a failure there also blocks publishing. Raise BuildBusy, BuildRefused, or LogError
    for disk errors; each leaves the published snapshot as it was.
    """
    with lock(tenant, wait_s=wait_s):
        for _ in range(MOST_ROUNDS):
            build = start(
                tenant,
                log,
                embedder,
                full=full,
                thorough=thorough,
                accepts=accepts,
                keep_days=keep_days,
                now=now,
            )
            if _quarantine_failing(build, on_progress, now):
                continue
            if any(result.stops for result in load_checks(build)):
                break
            if (served := _unchanged(build, decided_by)) is not None:
                return served
            on_progress("checks")
            save_checks(build, results := on_whole(build))
            if not _take_out(build, results, on_progress, now):
                break
        on_progress("publish")
        return publish(build, load_checks(build), now, decided_by)


def _unchanged(build: Build, decided_by: str) -> Manifest | None:
    """Return the published manifest if the candidate equals it and was checked under the same code.

    None if they differ, or a failed check or a refusal is pending.
    """
    served = current_manifest(build.tenant)
    if served is None or build.full or build.accepts or not decided_by:
        return None
    if not all(result.passed for result in served.checks):
        return None
    if manifests.last_refusal(build.tenant) is not None:
        return None
    was = served.watermark, served.embedder, served.decided_by, _timeless(served.projections)
    refs = _timeless(build_state.load_refs(build.tenant, build.names))
    is_same = was == (build.watermark, build.embedder.model, decided_by, refs)
    return served if is_same else None


def _timeless(refs: Mapping[str, SnapshotRef]) -> dict[str, SnapshotRef]:
    """Return snapshots without their build times."""
    return {name: msgspec.structs.replace(ref, seconds=0.0) for name, ref in refs.items()}


def rebuild_past(tenant: Tenant, log: EventLog, embedder: Embedder, now: int) -> Manifest:
    """Build and publish all events of a log that ends at a past moment; return the manifest.

    No audit runs: the findings of that time are in the log. Nor are there disk syncs: after a power
    cut this copy has no reader.
    """
    with without_syncs():
        build = start(tenant, log, embedder, thorough=False)
        for projection in build.projections:
            step(build, projection)
        return manifests.publish(tenant, candidate_manifest(build, (), now))


def journal_of(tenant: Tenant, embedder: Embedder, projection: Projection) -> StepJournal:
    """Return the journal of an embedder's build step, for a build that resumes it."""
    return StepJournal(tenant.journals, f"{embedder.model}/{projection.name}")


def _quarantine_failing(build: Build, on_progress: Progress, now: int) -> list[Held]:
    """Build and check every projection; return the memories quarantined for failing alone.

    If there are any, the rest is not built. Nor is it if tables break a constraint.
    """
    for projection in build.projections:
        on_progress(projection.name)
        _, tables = step(build, projection, on_progress)
        results = check(build, projection, tables)
        if quarantined := _take_out(build, results, on_progress, now):
            return quarantined
        if _is_broken(results):
            break  # projections made from these tables would break too
    return []


def _take_out(
    build: Build, results: Sequence[CheckResult], on_progress: Progress, now: int
) -> list[Held]:
    """Quarantine the memories named by failed checks, and report them; return them."""
    quarantined = take_out(build, results, now)
    for entry in quarantined:
        on_progress(f"quarantined {entry.id}: {entry.check}: {entry.reason}")
    return quarantined


def take_out(build: Build, results: Sequence[CheckResult], now: int) -> list[Held]:
    """Quarantine the candidate's memories that failed checks name as failing alone; return them."""
    if not (failed := quarantine.alone(results)):
        return []
    memories = load(build, build_state.load_refs(build.tenant, ["memories"])["memories"])
    return quarantine.isolate(build.log, failed, MemoryParts.open(memories), now)


def digests(
    log: EventLog,
    embedder: Embedder,
    watermark: int,
    *,
    taken_over: Mapping[str, Previous] = MappingProxyType({}),
    folder: Path | None = None,
) -> dict[str, Built]:
    """Return every projection's tables computed from the log, in memory or in files.

    Files go below `folder`, which is not the tenant's. Projections in `taken_over` are reused as in
    a build; all else comes from the log alone.
    """
    tables: dict[str, Built] = {}
    with parallel.workers() as workers:
        for projection in catalog.all_projections(embedder):
            inputs = replace(log_inputs(log, watermark), tables=tables)
            if folder is not None:
                keep = partial(snapshot.keep, folder, projection)
                inputs = replace(inputs, keep=keep, map=workers.map)
            built = build_checked(projection, inputs, taken_over.get(projection.name))
            tables[projection.name] = built if folder is None else built.write_parts(keep)
    return tables


def current_manifest(tenant: Tenant) -> Manifest | None:
    """Return the published manifest; None if nothing is published, or it is damaged."""
    return last_published(tenant)[0]


def last_published(tenant: Tenant) -> tuple[Manifest | None, str]:
    """Return the published manifest, or None and the reason it cannot be read."""
    try:
        return manifests.current(tenant), ""
    except NoManifest:
        return None, ""
    except SnapshotDamaged as error:
        return None, str(error)


def load(build: Build, ref: SnapshotRef) -> Built:
    """Return the tables of a snapshot that this build made or reused; it was checked then."""
    projection = next(other for other in build.projections if other.name == ref.projection)
    root = build.tenant.snapshots
    return snapshot.read(root, ref, projection, check=False, validate=False)


class Published(msgspec.Struct, frozen=True):
    """A published snapshot, and the manifest whose other snapshots it fits."""

    manifest: Manifest
    ref: SnapshotRef


def _load_earlier(build: Build, earlier: Published) -> Built | None:
    """Return a published snapshot's tables, or None if it is damaged or of another version."""
    served, ref, root = earlier.manifest, earlier.ref, build.tenant.snapshots
    projection = next(other for other in build.projections if other.name == ref.projection)
    if projection.version != ref.version:
        return None
    try:
        look = snapshot.verify if build.thorough else snapshot.glance
        look(root, ref)
        if build.thorough or snapshot.is_doubted(root, ref):
            constraints.check(root, served, projection)
        else:
            Constraints(served).check_rows(projection)
    except SnapshotDamaged:
        return None
    return load(build, ref)


def newest_published(tenant: Tenant, projection: Projection) -> Published | None:
    """Return the published snapshot of a projection.

    If that has another version, return the newest kept one of this version, such as that of the
    previous embedder.
    """
    served = current_manifest(tenant)
    for manifest in chain((served,), manifests.list_manifests(tenant)) if served else ():
        ref = manifest.projections.get(projection.name) if manifest else None
        if manifest and ref and ref.version == projection.version:
            return Published(manifest, ref)
    return None


def _reuse(
    build: Build, projection: Projection, earlier: Published | None, inputs: Mapping[str, str]
) -> tuple[SnapshotRef, Built] | None:
    """Return the published snapshot if its inputs are unchanged and its files are whole.

    A snapshot with missing rows is made again: they may be available this time.
    """
    if earlier is None or dict((old := earlier.ref).inputs) != dict(inputs) or old.missing:
        return None
    tables = _load_earlier(build, earlier)
    if tables is None:
        return None
    return msgspec.structs.replace(old, watermark=build.watermark, seconds=0.0), tables


def _previous(build: Build, projection: Projection, earlier: Published | None) -> Previous | None:
    if earlier is None or (old := earlier.ref).watermark > build.watermark:
        return None
    if integrity.gaps(build.log, old.watermark, build.watermark):
        return None  # it may contain events that the log has lost
    if projection.grows and (
        # an undone plan's rows are gone, so the remaining rows have other numbers
        build.log.undone_ids(build.watermark, old.watermark)
        # and no reused file may contain erased text
        or log_queries.erased_ids(build.log, build.watermark, old.watermark)
    ):
        return None
    tables = _load_earlier(build, earlier)
    return None if tables is None else Previous(old.watermark, tables)
