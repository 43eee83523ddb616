"""
Checkup: the problems of a home and of one of its tenants, each with its fix.

It changes nothing. Checks that need a rebuild of the memory are left to `verify`.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import msgspec

from store.derived import catalog, constraints
from store.embedders.embedder import Embedder, SilentEmbedder, make_embedder
from store.home import failures, files, spool
from store.home.config import Llm, Settings
from store.home.errors import (
    ConfigError,
    LogError,
    MnemologError,
    NoManifest,
    NotFound,
    SnapshotDamaged,
)
from store.home.instants import isoformat
from store.home.model_programs import program_of
from store.home.registry import is_held, listens, live_server
from store.home.tenant import Tenant, find_tenant, list_tenants
from store.log import integrity, log_queries
from store.log.event_log import EventLog
from store.log.events import RECEIPTS
from store.log.log_file import LEAST_SQLITE, sqlite_version
from store.log.log_head import numbers
from store.log.rows import redact_event
from store.maintenance import quarantine
from store.plans import job_catalog
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.manifest import CheckResult, Manifest
from store.snapshots.projection import Projection
from store.text.excerpt import plural

Severity = Literal["ok", "warn", "error"]

LITTLE_SPACE, NO_SPACE = 1 << 30, 100 << 20  # bytes
LONG_TAIL = 4  # times `build_after`
_BUILD = "run `mnemolog build`"
_REPAIR = "restore a backup, or run `mnemolog doctor --repair`: it says what it saves and what not"
_LOST = "only a backup has them; all else is as it was"
_ANOTHER_PORT = "free the port or set another `port`, then `mnemolog stop`, `start` and `connect`"
_SHOWN = 3  # paths named in one finding


class Finding(msgspec.Struct, frozen=True):
    """The result of one check. `cure` is the fix; empty if all is well."""

    severity: Severity
    what: str
    cure: str = ""


def checkup(settings: Settings) -> list[Finding]:
    """Return a finding for every check, the worst first."""
    findings = [
        *_permissions(settings.home),
        _space(settings.home),
        _sqlite(),
        server(settings),
        *_spool(settings),
        *_failures(settings.home),
        *_programs(settings.choices.llm),
        *_tenant(settings),
    ]
    order = ("error", "warn", "ok")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def damage(tenant: Tenant, manifest: Manifest) -> list[str]:
    """Return the problem and its fix for each projection whose files are not as written.

    Every file is hashed, the only way to find a flipped bit. Its constraints are checked too.
    """
    by_name = {projection.name: projection for projection in _manifest_projections(manifest)}
    problems = []
    for name, ref in manifest.projections.items():
        try:
            snapshot.verify(tenant.snapshots, ref)
            if name in by_name and by_name[name].version == ref.version:
                constraints.check(tenant.snapshots, manifest, by_name[name])
        except SnapshotDamaged as error:
            problems.append(str(error))
    return problems


def _manifest_projections(manifest: Manifest) -> tuple[Projection, ...]:
    """Return the projections of this version of mnemolog, as for the manifest's own model."""
    model = SilentEmbedder(manifest.embedder, manifest.dimension, "nothing is embedded here")
    return catalog.all_projections(model)


def _permissions(home: Path) -> Iterator[Finding]:
    """Report files that others may read: an error for the log and the token, else a warning."""
    if os.name != "posix" or not home.is_dir():
        return
    open_ones = open_paths(home)
    secret = [path for path in open_ones if path.name.startswith(("log.sqlite", "token"))]
    others = [path for path in open_ones if path not in secret]
    if secret:
        yield _open_to_others("error", secret, home)
    if others:
        yield _open_to_others("warn", others, home)
    if not open_ones:
        yield Finding("ok", f"{home} is open to its owner alone")


def open_paths(home: Path) -> list[Path]:
    """Return the files and folders of a home that other users may read, on systems that tell."""
    if os.name != "posix" or not home.is_dir():
        return []
    open_ones = []
    # Dagster's own records are protected by their folder's mode
    for path in chain((home,), home.iterdir(), (home / "tenants").rglob("*")):
        with suppress(FileNotFoundError):  # SQLite's -wal and -shm come and go
            if path.stat().st_mode & 0o077:
                open_ones.append(path)
    return open_ones


def _open_to_others(severity: Severity, paths: list[Path], home: Path) -> Finding:
    named = ", ".join(map(str, paths[:_SHOWN])) + (" ..." if len(paths) > _SHOWN else "")
    text = f"{len(paths)} files or folders are open to other users: {named}"
    return Finding(severity, text, f"chmod -R go= {home}")


def _space(home: Path) -> Finding:
    there = next(path for path in (home, *home.absolute().parents) if path.exists())
    if files.is_read_only(there):
        text = f"{home} lies on a read-only disk: what is there is read, nothing is written"
        return Finding("error", text, "have it mounted for writing, or set MNEMOLOG_HOME")
    free = shutil.disk_usage(there).free
    text = f"{free / 2**30:.1f} GiB free for {home}"
    if free >= LITTLE_SPACE:
        return Finding("ok", text)
    return Finding("error" if free < NO_SPACE else "warn", text, "free some disk space")


def _sqlite() -> Finding:
    version = sqlite_version()
    if tuple(map(int, version.split("."))) >= LEAST_SQLITE:
        return Finding("ok", f"SQLite {version}")
    least = ".".join(map(str, LEAST_SQLITE))
    text = f"SQLite {version} can lose writes when two processes checkpoint"
    return Finding("error", text, f"install an apsw that carries {least} or newer")


def server(settings: Settings) -> Finding:
    """Check that the server is where the connected hosts look for it."""
    live, port = live_server(settings), settings.choices.port
    if live is not None and live.port == port:
        return Finding("ok", f"the server listens on port {port} (process {live.pid})")
    if live is not None:
        text = f"the server listens on port {live.port}, the settings say {port}"
        cure = f"hosts that were given {port} do not reach it: {_ANOTHER_PORT}"
        return Finding("warn", text, cure)
    if is_held(settings):
        text = "a server of this home lives and does not answer"
        return Finding("warn", text, "run `mnemolog stop`, then `mnemolog start`")
    if settings.server_file.exists():
        text = f"{settings.server_file} is left of a server that was killed"
        return Finding("warn", text, "run `mnemolog start`, or delete the file")
    if listens(port):
        text = f"no server runs, and another program listens on port {port}"
        return Finding("warn", text, _ANOTHER_PORT)
    return Finding("ok", "no server runs")


def _spool(settings: Settings) -> Iterator[Finding]:
    """Report hook events not yet recorded, and those that were dropped."""
    waiting = spool.backlog(settings.home)
    if waiting.events:
        events = plural(waiting.events, "hook event")
        text = f"{events} since {isoformat(waiting.oldest)} wait for a server to record them"
        yield Finding("warn", text, f"run `mnemolog start`; {settings.server_log} names what fails")
    if waiting.dropped:
        text = f"{plural(waiting.dropped, 'hook event')} found no room in the spool and are lost"
        dropped = spool.dropped_file(settings.home)
        yield Finding("warn", text, f"run `mnemolog start`, then delete {dropped}")


def _programs(llm: Llm) -> Iterator[Finding]:
    """Report the programs that jobs run as a model; without its program a job has no model."""
    named = {tier: getattr(llm, tier) for tier in ("cheap", "balanced", "expensive")}
    for model in dict.fromkeys(named.values()):
        if (program := program_of(model)) is None:
            continue
        tiers = ", ".join(f"llm.{tier}" for tier, name in named.items() if name == model)
        if description := program.description:
            yield Finding("ok", f"{tiers}: {model} is asked through {description}")
        else:
            text = f"{tiers}: {model} is set, and there is no program `{program.command}`"
            yield Finding("error", text, program.cure)


def _tenant(settings: Settings) -> Iterator[Finding]:
    try:
        tenant = find_tenant(settings.home, settings.choices.tenant)
        log = EventLog(tenant.log)
    except NotFound as error:
        names = ", ".join(other.name for other in list_tenants(settings.home))
        cure = f"name one that is there: {names}" if names else "run `mnemolog init`"
        yield Finding("error", str(error), cure)
        return
    except MnemologError as error:
        yield Finding("error", str(error), _REPAIR)
        return
    with log:
        yield from _log(log)
        yield from _cold(tenant)
        yield from _check_snapshots(settings, tenant, log)
        yield from _check_quarantine(log)
    yield from _check_mirrors(settings, tenant)
    yield _refusal(tenant)
    yield from _check_erasure(tenant)
    yield from _failures(tenant.root)
    yield from _check_queue(tenant)
    if problem := job_catalog.load_switches(tenant).problem:
        yield Finding("warn", problem, "delete the file, then `mnemolog jobs on NAME`")


def _failures(root: Path) -> Iterator[Finding]:
    """Report background failures without a success since."""
    for failure in failures.every(root):
        often = "" if failure.times == 1 else f" {failure.times} times, last"
        text = f"{failure.what} failed{often} at {isoformat(failure.at)}: {failure.said}"
        run = f"`mnemolog ui` has its run {failure.run}; " if failure.run else ""
        yield Finding("warn", text, f"{run}it goes from here when the same goes right")


def _check_erasure(tenant: Tenant) -> Iterator[Finding]:
    """Report an unfinished erasing."""
    from store.maintenance import erase

    if not erase.has_start(tenant):
        return
    start = erase.load_starts(tenant)
    ids = " ".join(start.ids) if start else "ID..."
    yield Finding(
        "error",
        "an erasing was begun and did not end: what it was to destroy may be there still",
        f"run `mnemolog erase {ids}` again, until it says that nothing is left",
    )


def _check_queue(tenant: Tenant) -> Iterator[Finding]:
    """Report accepted batches that could not be recorded."""
    from store.ingest.job_queue import Queue

    with closing(Queue(tenant.ingest)) as queue:
        try:
            counts = queue.counts()
        except MnemologError as error:
            yield Finding("error", str(error), "what waited in it is lost: send it again")
            return
    if counts["dead"]:
        text = f"{counts['dead']} accepted batches could not be recorded"
        yield Finding("warn", text, "`mnemolog ingest list --state dead`, then `... requeue JOB`")


def _log(log: EventLog) -> Iterator[Finding]:
    problems = integrity.problems(log)
    for problem in islice(problems, 10):
        yield Finding("error", f"{log.path}: {problem}", _REPAIR)
    if problems:
        return
    if gaps := integrity.gaps(log):
        yield Finding("warn", f"the log has lost {numbers(gaps)}, and says so", _LOST)
    yield Finding("ok", f"{plural(log_queries.row_count(log), 'event')}, all as written")
    yield from _secrets(log)


def _secrets(log: EventLog) -> Iterator[Finding]:
    """Report events with secrets that only today's patterns know."""
    ids = [event.id for event in log.read(cold=False) if redact_event(event) is not event]
    if ids:
        named = ", ".join(ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")
        text = (
            "the log keeps secrets that an earlier version did not know in "
            f"{plural(len(ids), 'event')}: {named}; what is built and shown of them is redacted"
        )
        yield Finding("warn", text, "`mnemolog erase ID` destroys them: they are still on the disk")


def _cold(tenant: Tenant) -> Iterator[Finding]:
    """Check the files of cold memories against their hashes; yield nothing if there are none."""
    from store.maintenance import memory_archive

    if problem := memory_archive.problem(tenant):
        text, _, cure = problem.partition(": ")
        yield Finding("warn", text, cure)
    elif memory_archive.folder_of(tenant).is_dir():
        yield Finding("ok", "the file of cold memories is as it was written")


def _check_snapshots(settings: Settings, tenant: Tenant, log: EventLog) -> Iterator[Finding]:
    try:
        manifest = manifests.current(tenant)
    except NoManifest as error:
        yield Finding("warn", str(error).partition(":")[0], _BUILD)
        return
    except SnapshotDamaged as error:
        yield Finding("error", str(error), _BUILD)
        return
    problems = damage(tenant, manifest)
    for problem in problems:
        yield Finding("error", problem, _BUILD)
    if not problems:
        yield Finding("ok", f"manifest {manifest.number}: every file matches its hash")
    yield from _warnings(manifest)
    yield from _tail(settings, manifest, log)
    try:
        yield from _versions(manifest, make_embedder(settings.choices.embedder, settings.home))
    except ConfigError as error:
        yield Finding("error", str(error), "set another `embedder` in config.toml")


def _warnings(manifest: Manifest) -> Iterator[Finding]:
    """Report the warnings of the build's checks, and the canaries found, if any ran."""
    for check in manifest.checks:
        if check.name == manifests.CANARIES:
            if alarm := alarm_text(check):
                cure = "`mnemolog canaries` names them; `mnemolog build --full` builds all anew"
                yield Finding("warn", alarm, cure)
            else:
                yield Finding("ok", check.detail)
        elif check.name == manifests.EXPECTED:
            yield Finding("ok" if check.passed else "warn", check.detail, check.cure)
        elif alarm := alarm_text(check):
            yield Finding("warn", alarm, "the next build compares again: run `mnemolog build`")


def alarm_text(check: CheckResult) -> str:
    """Return the warning of a published build's check; empty if nothing is wrong."""
    if check.name == manifests.EXPECTED:
        return "" if check.passed else check.detail
    if check.name != manifests.CANARIES:
        return f"{check.name}: {check.reason}" if check.warns else ""
    if check.metadata.get("has_fallen"):
        return f"{check.detail}: significantly fewer than in the builds before"
    return check.detail if check.metadata.get("is_doubted") else ""


def _tail(settings: Settings, manifest: Manifest, log: EventLog) -> Iterator[Finding]:
    try:
        head, fresh = log.head(), integrity.readable_events(log, manifest.watermark)[0]
    except LogError:  # reported by `_log`
        return
    if manifest.watermark > head:
        text = f"the log ends at {head}, but was at {manifest.watermark} when last built"
        yield Finding("error", text, "restore a newer backup of the log")
        return
    waiting = sum(event.kind not in RECEIPTS for event in fresh)
    text = f"{waiting} changes since the last build"
    if waiting > LONG_TAIL * (settings.choices.build_after or 500):
        yield Finding("warn", f"{text}: recall grows slow", _BUILD)
    else:
        yield Finding("ok", text)


def _versions(manifest: Manifest, chosen: Embedder) -> Iterator[Finding]:
    if manifest.embedder != chosen.model:
        text = f"the vectors were made by {manifest.embedder}, the settings name {chosen.model}"
        yield Finding("warn", f"{text}: the first answers while it is here", _BUILD)
    elif missing := manifest.missing_vectors:
        text = f"{plural(missing, 'text')} without a vector yet"
        text += f": {chosen.model} did not answer the last build"
        yield Finding("warn", text, "mend it (`mnemolog embedder test`), then run `mnemolog build`")
    if isinstance(chosen, SilentEmbedder):
        yield Finding("warn", f"no vectors: {chosen.reason}", "run `mnemolog embedder list`")
    for projection in _manifest_projections(manifest):
        ref = manifest.projections.get(projection.name)
        if ref is None or ref.version != projection.version:
            yield Finding("warn", f"{projection.name} is of another version of mnemolog", _BUILD)


def _check_quarantine(log: EventLog) -> Iterator[Finding]:
    """Report the memories that builds leave out."""
    try:
        entries = quarantine.entries(log)
    except LogError:  # reported by `_log`
        return
    for entry in entries[:_SHOWN]:
        text = f"builds leave memory {entry.id} out since {isoformat(entry.at)}: {entry.check}"
        yield Finding("warn", f"{text}: {entry.reason}", quarantine.CURE)
    if len(entries) > _SHOWN:
        text = f"builds leave {len(entries) - _SHOWN} more memories out"
        yield Finding("warn", text, "`mnemolog quarantine` lists them")


def _check_mirrors(settings: Settings, tenant: Tenant) -> Iterator[Finding]:
    """Check that the copies on other programs' servers are up to date."""
    from store.maintenance import mirrors  # with the writers, which the server never needs

    behind = {other.asset for other in mirrors.mirrors_behind(tenant, settings.choices)}
    for mirror in mirrors.chosen_mirrors(settings.choices):
        if mirror.asset in behind:
            text = f"{mirror} is behind: it does not hold what the last build published"
            yield Finding("warn", text, "see that its server answers, then run `mnemolog build`")
        else:
            yield Finding("ok", f"{mirror} holds what is published")


def _refusal(tenant: Tenant) -> Finding:
    refusal = manifests.last_refusal(tenant)
    if refusal is None:
        return Finding("ok", "the last build was not refused")
    text = f"the build of {isoformat(refusal.at)} was refused: {'; '.join(refusal.reasons)}"
    return Finding("error", text, "mend what the check names, then run `mnemolog build`")
