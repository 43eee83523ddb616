"""
Backup: one tenant in one file, proven before it counts and before any of it is used.

A backup holds the log as it was at one moment, the segments below `cold/log` that it names, and the
batches waiting to be recorded. Everything else is built from these. Its parts are in a folder laid
out as a tenant's before they are packed and after they are unpacked, and are proven there: so a
restored tenant is whole when its folder gets its name, or does not exist at all.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import apsw
import filelock
import msgspec

from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import Conflict, LogCorrupt, LogForeign, LogVersion, NotFound, SourceError
from store.home.files import make_folder, sync_folder
from store.home.tenant import Tenant
from store.ingest import batch, queue_file
from store.ingest.job_queue import Queue
from store.ingest.queue_file import QueueFile
from store.log import compaction, integrity, log_file, log_queries, segments
from store.log.event_log import EventLog
from store.log.log_file import Row
from store.log.rows import decode_row
from store.maintenance import backup_file, erase
from store.maintenance.backup_file import Listing
from store.maintenance.erase_scan import scan

_PASSING = ".backup-"  # no tenant's name begins so
_PATIENCE_S = 10.0  # for a lock whose name no other process knows
_AT_ONCE = 16 << 20  # bytes of bodies that are checked together
_MOST_ROWS = 2_000
_NEXT_JOB = "SELECT number, at, body FROM jobs WHERE number > ? ORDER BY number LIMIT 1"


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """A new backup: its path, the size of the file, and its listing."""

    file: str
    bytes: int
    listing: Listing


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """A restored tenant. `replaced` is the folder of the tenant it replaced.

    `erased_again` counts the memories that had been erased since; None: the log that lists them
    could not be read.
    """

    tenant: str
    listing: Listing
    replaced: str | None = None
    erased_again: int | None = 0


def make_backup(tenant: Tenant, path: Path, version: str, now: int) -> BackupReport:
    """Write a backup of a tenant that may be in use meanwhile, and prove it first.

    Raise Conflict if the file already exists, LogBusy if the log is being rewritten all the time,
    LogCorrupt if the log is damaged, and disk errors as a LogError.
    """
    if path.exists() or path.is_symlink():
        raise Conflict(f"{path} already exists: give a new file")
    with log_file.translate_errors(path), _temporary_folder(path.absolute().parent) as folder:
        staged = Tenant(tenant.name, folder)
        with compaction.alone(tenant.log):
            # the queue first: a job that is recorded in between is in both, and recorded once
            if tenant.ingest.exists():
                copy_queue(tenant.ingest, staged.ingest)
            copy_log(tenant.log, staged.log)
            _copy_segments(tenant, staged)
        with EventLog(staged.log) as log:
            Queue(staged.ingest).erase(log_queries.erased_ids(log, log.head()))
        events, newest, jobs = prove(staged)
        listing = Listing(
            mnemolog=version,
            tenant=tenant.name,
            made_at=now,
            events=events,
            newest_at=newest,
            jobs=jobs,
            parts=backup_file.parts_of(folder),
        )
        backup_file.pack(path, folder, listing)
    return BackupReport(file=str(path), bytes=path.stat().st_size, listing=listing)


def check_backup(path: Path) -> Listing:
    """Return the listing of a backup, after unpacking it elsewhere and proving all of it.

    Raise SourceError if it cannot be restored whole, LogFull if there is no room.
    """
    with TemporaryDirectory(prefix="mnemolog-") as folder:
        return _unpack_and_prove(path, Path(folder))


def restore_backup(
    settings: Settings, path: Path, name: str | None, now: int, *, replace: bool
) -> RestoreReport:
    """Make a tenant from a backup, under its own name or another; see `install`.

    Raise SourceError as `check_backup` does.
    """
    name = name or backup_file.read_listing(path).tenant
    return install(
        settings, name, now, lambda folder: _unpack_and_prove(path, folder), replace=replace
    )


def install(
    settings: Settings, name: str, now: int, fill: Callable[[Path], Listing], *, replace: bool
) -> RestoreReport:
    """Make a tenant from the files that `fill` writes and proves in an empty folder; build nothing.

    With `replace`, an existing tenant is set aside first, and memories erased from it since are
    erased again; the caller ensures that no server has it open. Raise Conflict if one exists,
    InvalidName, BuildBusy, LogBusy or LogFull, and the errors of `fill`.
    """
    tenant = tenants.tenant(settings.home, name)
    is_there = tenant.exists or (tenant.root.is_dir() and any(tenant.root.iterdir()))
    if is_there and not replace:
        raise Conflict(
            f"there is a tenant {tenant.name}: name another (--into), or replace it (--replace)"
        )
    with log_file.translate_errors(tenant.root), _temporary_folder(tenant.root.parent) as folder:
        listing = fill(folder)
        staged = Tenant(tenant.name, folder)
        if not is_there:
            _rename(staged.root, tenant.root)  # fails if that tenant was made meanwhile
            return RestoreReport(tenant=tenant.name, listing=listing)
        with tenants.lock_jobs(tenant):
            erased = _erase_again(staged, tenant, now)
            kept_in = _replace(staged, tenant, settings.home, now)
    return RestoreReport(
        tenant=tenant.name, listing=listing, replaced=str(kept_in), erased_again=erased
    )


def _copy_segments(tenant: Tenant, staged: Tenant) -> None:
    folder, to = segments.folder_of(tenant.log), segments.folder_of(staged.log)
    with EventLog(staged.log) as log:
        log_segments = log.segments()
    for segment in log_segments:
        make_folder(to)
        try:
            shutil.copyfile(folder / segment.name, to / segment.name)
        except FileNotFoundError as error:
            raise LogCorrupt(f"{folder / segment.name} is missing: restore a backup") from error


def _unpack_and_prove(path: Path, folder: Path) -> Listing:
    """Unpack a backup and prove it; raise SourceError if it cannot be restored whole."""
    listing = backup_file.unpack(path, folder)
    try:
        counts = prove(Tenant(listing.tenant, folder))
    except (LogCorrupt, LogForeign, LogVersion) as error:
        raise SourceError(f"{path} cannot be restored: {error}") from error
    if counts != (listing.events, listing.newest_at, listing.jobs):
        raise SourceError(f"{path} does not hold the events and batches that its list counts")
    return listing


def prove(staged: Tenant) -> tuple[int, int, int]:
    """Return a folder's count of events, the moment of the newest, and the count of waiting
    batches.

    Raise LogCorrupt, LogForeign or LogVersion if anything in it was not written by us.
    """
    longest, newest = check_log(staged.log)
    with EventLog(staged.log) as log:
        _check_segments(staged, log)
        events = _check_events(log, max(1, min(_MOST_ROWS, _AT_ONCE // max(1, longest))))
    return events, newest, _check_jobs(staged) if staged.ingest.exists() else 0


def _check_segments(staged: Tenant, log: EventLog) -> None:
    folder = segments.folder_of(staged.log)
    named = {segment.name: segment for segment in log.segments()}
    there = {path.name for path in folder.glob("*")}
    if strange := there ^ named.keys():
        state = "missing" if strange - there else "not named in the log"
        raise LogCorrupt(f"below cold/log {', '.join(sorted(strange)):.200} is {state}")
    for segment in named.values():
        if problem := segments.problem(folder, segment):
            raise LogCorrupt(problem)


def _check_events(log: EventLog, at_once: int) -> int:
    """Return the number of events, after checking every hash and that no event is missing except
    those the log reports as lost.
    """
    lost = dict(integrity.gaps(log))
    count = newest = 0
    for rows in log_queries.row_batches(log, at_once):
        for row in log.whole(rows):
            while newest + 1 < row[0] and newest + 1 in lost:
                newest = lost[newest + 1]
            if row[0] != newest + 1:
                raise LogCorrupt(f"event {newest + 1} is missing")
            decode_row(row)
            count, newest = count + 1, row[0]
    return count


def _check_jobs(staged: Tenant) -> int:
    """Return the number of waiting batches, after checking that each can be read."""
    check_queue(staged.ingest)
    queue, number, count = QueueFile(staged.ingest), 0, 0
    try:
        while rows := queue.read(_NEXT_JOB, number):
            ((number, at, body),) = rows
            batch.batch_events(body, at)
            count += 1
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"batch {number} of those that wait cannot be read: {error}") from error
    finally:
        queue.close()
    return count


def _replace(staged: Tenant, tenant: Tenant, home: Path, now: int) -> Path:
    """Move a proven folder into a tenant's place; return the new path of the old one.

    A process killed between the two renames leaves the new folder under the successor's name: the
    next lookup of the tenant moves it into place.
    """
    shutil.rmtree(tenant.successor, ignore_errors=True)
    _rename(staged.root, tenant.successor)
    try:
        kept_in = tenants.move_to_deleted(home, tenant, now)
        if not tenant.exists:
            os.rename(kept_in, tenant.root)
            raise Conflict(f"{tenant.root} cannot be made: try again")
    except BaseException:  # an interrupt too
        if tenant.root.exists():  # else only the successor is left
            shutil.rmtree(tenant.successor, ignore_errors=True)
        raise
    return kept_in


def _rename(folder: Path, to: Path) -> None:
    try:
        os.rename(folder, to)
    except OSError as error:
        raise Conflict(f"{to} cannot be made ({error.strerror}): try again") from error
    sync_folder(to.parent)


def _erase_again(staged: Tenant, tenant: Tenant, now: int) -> int | None:
    """Erase from a folder the memories erased from a tenant, as `mnemolog erase` does, and scan it;
    return their number.

    None if the tenant's log cannot be read.
    """
    try:
        with EventLog(tenant.log) as present:
            erased = log_queries.erased_ids(present, present.head())
    except (LogCorrupt, LogForeign, NotFound):
        return None
    with EventLog(staged.log) as log:
        ids = sorted(
            (erased & log.present_ids(sorted(erased))) - log_queries.erased_ids(log, log.head())
        )
        wiped = erase.wipe(staged, log, erase.EraseRequest(tuple(ids)), now) if ids else None
    Queue(staged.ingest).erase(erased)
    if wiped is not None:
        report = scan(staged.root, staged.root, wiped.marks)
        if not report.found and not report.unread:  # else `doctor` names the erasing to repeat
            erase.drop_start(staged, ids)
    return len(ids)


@contextmanager
def _temporary_folder(beside: Path) -> Iterator[Path]:
    """Yield an empty folder beside another, removed at the end unless it was moved.

    A folder left by a killed process is removed too: its lock is free.
    """
    make_folder(beside)
    for lock in beside.glob(f"{_PASSING}*.lock"):
        with suppress(filelock.Timeout), filelock.FileLock(lock, timeout=0.0):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            _unlink(lock)
    folder = beside / f"{_PASSING}{uuid4().hex[:8]}"
    lock = folder.with_suffix(".lock")
    try:
        lock.touch(mode=0o600)  # if no file can be made, filelock would try for ever
    except FileNotFoundError as error:
        raise Conflict(f"{beside} takes no file: name one in another folder") from error
    with filelock.FileLock(lock, timeout=_PATIENCE_S, mode=0o600):
        make_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _unlink(lock)


def _unlink(lock: Path) -> None:
    """Delete a held lock's file; on Windows that fails, and filelock does it there."""
    with suppress(PermissionError):
        lock.unlink(missing_ok=True)


# Copies of a tenant's SQLite files, taken while others write, and the checks of a copy that comes
# back.
#
# The copy is SQLite's own (https://www.sqlite.org/backup.html), in one step, so it is the file at
# one moment. A foreign file could hold triggers and views that would run as ours: its schema must
# match ours exactly (https://www.sqlite.org/security.html).

_COMMENT = re.compile(r"--[^\n]*")
_SPACE = re.compile(r" ?([(),;]) ?")
_UNFINISHED = (
    "DELETE FROM jobs WHERE state = 'done'",
    "UPDATE jobs SET state = 'queued', owner = NULL, lease_until = NULL WHERE state = 'running'",
    "VACUUM",
)


def copy_log(path: Path, to: Path) -> None:
    """Copy a log as it is at one moment; raise as `translate_errors` does."""
    with _copy_database(path, to) as copy:
        copy.execute("VACUUM")  # a page may still hold text erased from its rows


def copy_queue(path: Path, to: Path) -> None:
    """Copy the waiting batches, to be processed by the opener of the copy."""
    with _copy_database(path, to) as copy:
        for statement in _UNFINISHED:
            copy.execute(statement)


@contextmanager
def _copy_database(path: Path, to: Path) -> Iterator[apsw.Connection]:
    with log_file.translate_errors(path):
        log_file.create_file(to)
        with closing(log_file.connect(path)) as source, closing(apsw.Connection(str(to))) as copy:
            with copy.backup("main", source, "main") as backup:
                backup.step(-1)
            yield copy


def check_log(path: Path) -> tuple[int, int]:
    """Check a log that came from elsewhere, and switch it to write-ahead mode, as ours are.

    Return the length of its longest body, and the moment of its newest event. Raise LogForeign if
    its tables are not exactly ours, LogVersion if they are those of a later mnemolog, LogCorrupt if
    SQLite finds damage in it.
    """
    version = log_file.SCHEMA_VERSION
    with _check_database(path, log_file.APPLICATION_ID, version, "store.log") as connection:
        rows: list[Row] = connection.execute(
            "SELECT max(octet_length(body)), min(at), max(at) FROM events"
        ).fetchall()
    longest, oldest, newest = (number or 0 for number in rows[0])
    if not backup_file.FIRST <= oldest <= newest <= backup_file.LAST:
        raise LogCorrupt(f"{path.name} holds an event of no year from 1 to 9999")
    return longest, newest


def check_queue(path: Path) -> None:
    """Check a queue as `check_log` does a log; raise the same."""
    with _check_database(
        path, queue_file.APPLICATION_ID, queue_file.SCHEMA_VERSION, "store.ingest"
    ):
        pass


@contextmanager
def _check_database(path: Path, owner: int, newest: int, package: str) -> Iterator[apsw.Connection]:
    with log_file.translate_errors(path), closing(log_file.connect(path)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.pragma("cell_size_check", True)
        if connection.pragma("application_id") != owner:
            raise LogForeign(f"{path.name} is another program's database")
        if not 0 < int(connection.pragma("user_version")) <= newest:
            raise LogVersion(f"{path.name} was written by a newer mnemolog: upgrade it")
        _check_schema(connection, path.name, package)
        damage = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
        if damage != ["ok"]:
            raise LogCorrupt(f"{path.name}: {'; '.join(damage)}")
        log_file.write_ahead(connection)
        yield connection


def _check_schema(connection: apsw.Connection, name: str, package: str) -> None:
    with closing(apsw.Connection(":memory:")) as ours:
        ours.execute(files(package).joinpath("schema.sql").read_text())
        allowed = {*_statements(ours), *map(_plain, log_file.MIGRATIONS.values())}
        # an older log has neither these columns nor these tables yet
        allowed |= {text.replace(",author TEXT,origin TEXT,clock INTEGER", "") for text in allowed}
        wanted = set(_schema_names(ours)) - {"segments", "vocabulary"}
    if strange := [statement for statement in _statements(connection) if statement not in allowed]:
        raise LogForeign(f"{name} holds what mnemolog never made: {strange[0]:.80}")
    if missing := wanted - set(_schema_names(connection)):
        raise LogForeign(f"{name} has no {', '.join(sorted(missing))}")


def _statements(connection: apsw.Connection) -> Iterator[str]:
    for (text,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"):
        yield _plain(text)


def _schema_names(connection: apsw.Connection) -> Iterator[str]:
    """Yield the names of tables and triggers; missing indexes do no harm."""
    for kind, name in connection.execute("SELECT type, name FROM sqlite_schema"):
        if kind in ("table", "trigger"):
            yield name


def _plain(statement: str) -> str:
    """Return a statement without comments and needless space: those of a migration differ."""
    return _SPACE.sub(r"\1", " ".join(_COMMENT.sub(" ", statement).split()))
