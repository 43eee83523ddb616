"""
Restoring a tenant from its replica, as it was at a moment: the log's own prefix, event for event.

The moment of each event is its clock, which never goes back in one home. Texts erased since are
gone from the replica, and stay erased: the erasing events are restored too.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from store.home.config import Settings
from store.home.errors import (
    LogCorrupt,
    LogForeign,
    LogVersion,
    NotFound,
    RemoteError,
    SourceError,
)
from store.home.files import make_folder, replace_file
from store.home.instants import id_moment, isoformat
from store.home.tenant import Tenant
from store.log import copies, log_file
from store.log.event_log import EventLog
from store.log.log_file import Row
from store.maintenance import backup
from store.maintenance.backup import RestoreReport
from store.maintenance.backup_file import Listing
from store.replica import parts, replica
from store.replica.parts import Generation
from store.replica.remote import Remote

_CLOCK = -2  # its position among a row's columns


class Found(msgspec.Struct, frozen=True):
    """A generation at a remote: its start, the machine that wrote it, and its number of events."""

    id: str
    since: str
    machine: str
    events: int


def list_found(remote: Remote, tenant: str) -> list[Found]:
    """Return the generations of a tenant at a remote, the newest first; raise RemoteError."""
    return [
        Found(
            generation.id,
            isoformat(id_moment(generation.id)),
            _machine(remote, generation),
            generation.last,
        )
        for generation in reversed(parts.list_generations(remote, parts.tenant_folder(tenant)))
        if generation.parts
    ]


def restore_replica(
    settings: Settings,
    remote: Remote,
    tenant: str,
    now: int,
    *,
    into: str | None = None,
    until: int | None = None,
    generation: str | None = None,
    replace: bool = False,
) -> RestoreReport:
    """Make a tenant from its replica as of `until`, microseconds UTC; None: all of it.

    Of several generations, use the newest that had begun by then, unless one is named. Raise
    NotFound if there is none, SourceError if it cannot be restored whole, RemoteError if the place
    does not answer, and the errors of `backup.install`.
    """
    chosen = _choose(remote, tenant, until, generation)

    def fill(folder: Path) -> Listing:
        return _fill(remote, chosen, Tenant(tenant, folder), until)

    return backup.install(settings, into or tenant, now, fill, replace=replace)


def check_replica(remote: Remote, tenant: str, folder: Path, until: int | None = None) -> Listing:
    """Return the listing of a restore, after writing it to an empty folder and proving it."""
    return _fill(remote, _choose(remote, tenant, until, None), Tenant(tenant, folder), until)


def restore_home_files(remote: Remote, home: Path) -> list[str]:
    """Write the settings and tokens that a home lacks; return their names."""
    there = {entry.name for entry in remote.list("home")}
    written = []
    for name in replica.HOME_FILES:
        if f"home/{name}" in there and not (home / name).exists():
            replace_file(home / name, remote.get(f"home/{name}"))
            written.append(name)
    return written


def _choose(remote: Remote, tenant: str, until: int | None, generation: str | None) -> Generation:
    every = parts.list_generations(remote, parts.tenant_folder(tenant))
    there = [other for other in every if other.parts]
    if not there:
        raise NotFound(f"{remote.url} holds no replica of tenant {tenant}: name another place")
    if generation is not None:
        there = [other for other in there if other.id.startswith(generation.upper())]
        if len(there) != 1:
            raise NotFound(f"{len(there)} generations begin with {generation!r}: name one whole")
        return there[0]
    had_begun = [other for other in there if until is None or id_moment(other.id) <= until]
    return had_begun[-1] if had_begun else there[0]


def _fill(remote: Remote, chosen: Generation, staged: Tenant, until: int | None) -> Listing:
    """Write a generation's log, and its waiting batches, into an empty folder, and prove both."""
    make_folder(staged.root)
    try:
        with log_file.translate_errors(staged.log), EventLog(staged.log, create=True) as log:
            restored = _Restored(log)
            for part in chosen.parts:
                try:
                    rows = parts.read_part(remote, chosen, part)
                except parts.DamagedPart as error:
                    raise SourceError(f"cannot be restored whole: {error}") from error
                restored.take(rows, until)
            restored.erase()
        if until is None and chosen.waiting:
            replace_file(staged.ingest, remote.get(chosen.path(chosen.waiting[-1])))
        events, newest, jobs = backup.prove(staged)
    except (LogCorrupt, LogForeign, LogVersion) as error:
        raise SourceError(f"{remote.url} cannot be restored: {error}") from error
    return Listing(
        mnemolog="",
        tenant=staged.name,
        made_at=restored.clock or newest,
        events=events,
        newest_at=newest,
        jobs=jobs,
        parts=(),
    )


class _Restored:
    """A log being restored, up to a moment; later erasing events are kept for the end."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._erased: list[Row] = []
        self._is_over = False
        self._seq = 0
        self.clock = 0

    def take(self, rows: Sequence[Row], until: int | None) -> None:
        """Append rows up to a moment; a row without a clock is older than clocks are."""
        wanted: list[Row] = []
        for row in rows:
            self._is_over = self._is_over or (until is not None and (row[_CLOCK] or 0) > until)
            if not self._is_over:
                wanted.append(row)
            elif row[3] == "erased":
                self._erased.append(row)
        if wanted:
            copies.append_rows(self._log, wanted)
            self._seq, self.clock = wanted[-1][0], wanted[-1][_CLOCK] or self.clock

    def erase(self) -> None:
        """Append the events that erased, after that moment, a restored memory."""
        present = self._log.present_ids([row[4] for row in self._erased])
        rows = [row for row in self._erased if row[4] in present]
        copies.append_rows(
            self._log, [(self._seq + 1 + place, *row[1:]) for place, row in enumerate(rows)]
        )


def _machine(remote: Remote, generation: Generation) -> str:
    try:
        return parts.read_about(remote, generation).machine
    except RemoteError:
        return "?"
