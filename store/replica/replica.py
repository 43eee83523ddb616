"""
Replica: a tenant's log, sent elsewhere as it grows, so that a lost disk loses a second at most.

The log is never held up: it is read as anybody reads it, and what was sent is known by one number.
Whoever is killed between two steps sends a part again, under the same name. What was erased from
the log is rewritten there too: a part whose mark is not that of the log's rows is replaced. Small
parts are merged in time, so that a year of them is no million of files.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from platform import node
from tempfile import TemporaryDirectory

import filelock
import msgspec

from store.home import failures
from store.home.errors import MnemologError, RemoteError
from store.home.files import FileStamp, file_stamp
from store.home.instants import new_id
from store.home.origin import read_or_make_origin
from store.home.tenant import Tenant, list_tenants
from store.ingest.queue_file import QueueFile
from store.log import copies, segments
from store.log.event_log import EventLog
from store.log.log_file import Row
from store.log.rows import row_hash
from store.replica import parts
from store.replica.parts import About, Generation, Part
from store.replica.remote import Remote
from store.replica.state import KIND, State, read_state, write_state

_MOST_BYTES = 8 << 20  # bodies in a part
_SMALL = 1 << 20  # bytes: such parts are merged
_MOST_SMALL = 64
_MEND = "delete it, and `mnemolog replicate PLACE` sends it again where the log still says it"
_HOUR_S = 3_600.0  # between looks whether the log's rows were rewritten
HOME_FILES = ("config.toml", "tokens.json")


class Sent(msgspec.Struct, frozen=True):
    """What one pass did: events and bytes that were sent, and parts that were replaced."""

    events: int
    bytes: int
    replaced: int


class TenantReplica:
    """One tenant's replica, as whoever keeps it in step sees it. One thread at a time."""

    def __init__(self, tenant: Tenant, remote: Remote) -> None:
        self._tenant, self._remote = tenant, remote
        self._state: State | None = None
        self._at: Generation | None = None
        self._about = About("", "")
        self._checked_at = 0.0
        self._sent_waiting: tuple[FileStamp | None, ...] | None = None

    def sync(self, now: int, *, anew: bool = False) -> Sent | None:
        """Send what is new; None where another process is at it.

        With `anew`, and once an hour, each part is compared with the log. Raise RemoteError, or a
        LogError; what was sent until then counts.
        """
        with _alone(self._tenant) as is_ours, EventLog(self._tenant.log) as log:
            if not is_ours:
                return None
            self._about = About(node(), read_or_make_origin(self._tenant.root.parent.parent, now))
            replaced = 0
            if anew or self._is_due() or read_state(self._tenant) != self._state:
                replaced = self._join(log, now)
            events, size, has_erased = self._send_new(log)
            if has_erased:
                replaced += self._mend(log, now)
                self._send_new(log)  # where a new generation began
            self._merge(log)
            self._send_waiting()
            return Sent(events, size, replaced)

    def _is_due(self) -> bool:
        return self._at is None or time.monotonic() - self._checked_at > _HOUR_S

    @property
    def _generation(self) -> Generation:
        assert self._at is not None, "`_join` came first"
        return self._at

    def _join(self, log: EventLog, now: int) -> int:
        """Find the generation that this log continues, or begin one; return how many parts were
        replaced.
        """
        state = read_state(self._tenant)
        if state is not None and state.url != self._remote.url:
            state = None
        there = parts.list_generations(self._remote, self._tenant.name)
        if state is not None:
            there = [one for one in there if one.id == state.generation]
            if state.seq and not there:
                raise RemoteError(
                    f"{self._remote.url} holds nothing of {self._tenant.name} any more: mount its "
                    f"disk, or begin anew with `mnemolog replicate {self._remote.url}`"
                )
        self._at = next((one for one in reversed(there) if self._continues(log, one)), None)
        if self._at is None:
            self._begin(now)
        self._sent_waiting = None
        replaced = self._mend(log, now)
        self._note(self._generation.last)
        return replaced

    def _continues(self, log: EventLog, generation: Generation) -> bool:
        """Return whether a generation is this home's, and a log holds what it ends with: the same
        event in its place.

        Two homes never write one generation: one that was copied to another machine, or restored,
        begins its own.
        """
        if not generation.parts or not generation.has_about:
            return False
        if read_about(self._remote, generation) != self._about:
            return False
        newest = read_part(self._remote, generation, generation.parts[-1])[-1]
        return bool(copies.id_at(log, newest[0]) == newest[1])

    def _begin(self, now: int) -> None:
        folder = parts.folder_of(self._tenant.name, new_id(now))
        self._at = Generation(folder, (), (), (), has_about=False)

    def _send_new(self, log: EventLog) -> tuple[int, int, bool]:
        """Send the events that are not there yet; return how many, their bytes, and whether one
        erased others.
        """
        events = size = 0
        has_erased = False
        for first, rows in self._batches(log, self._generation.last, log.head()):
            if not self._generation.has_about:
                about = self._generation.path(parts.ABOUT)
                self._remote.put(about, msgspec.json.encode(self._about))
                self._at = self._generation._replace(has_about=True)
            part = self._put(first, rows)
            self._keep((*self._generation.parts, part))
            self._note(part.last)
            events, size = events + len(rows), size + part.bytes
            has_erased = has_erased or any(row[3] == "erased" for row in rows)
        return events, size, has_erased

    def _mend(self, log: EventLog, now: int) -> int:
        """Replace the parts that do not say what the log says, and delete what a killed writer
        left; return how many were replaced.

        Where the log lost events that a part holds, that generation stays as it is, and another
        begins: no replica forgets what its log lost.
        """
        at, mended, gone = self._generation, list[Part](), list(self._generation.others)
        for part in at.parts:
            hashes = copies.hashes_between(log, part.first, part.last)
            if parts.mark_of(hashes) == part.mark:
                mended.append(part)
            elif self._lost(at, part, {seq for seq, _ in hashes}):
                self._begin(now)
                return 0
            else:
                batches = self._batches(log, part.first - 1, part.last)
                mended += [self._put(first, rows) for first, rows in batches]
                gone.append(part)
        self._delete(part for part in gone if part not in mended)
        self._keep(mended)
        self._checked_at = time.monotonic()
        return len(gone) - len(at.others)

    def _lost(self, at: Generation, part: Part, seqs: set[int]) -> bool:
        """Return whether a part holds an event that is none of the log's `seqs`."""
        try:
            return any(row[0] not in seqs for row in read_part(self._remote, at, part))
        except DamagedPart:
            return False

    def _merge(self, log: EventLog) -> None:
        """Send many small parts at the end as a few; the small ones are deleted last."""
        there = self._generation.parts
        small = 0
        while small < len(there) and there[-1 - small].bytes < _SMALL:
            small += 1
        if small < _MOST_SMALL:
            return
        kept, old = there[:-small], there[-small:]
        batches = self._batches(log, old[0].first - 1, old[-1].last)
        merged = [self._put(first, rows) for first, rows in batches]
        self._delete(part for part in old if part not in merged)
        self._keep((*kept, *merged))

    def _send_waiting(self) -> None:
        """Have the remote hold the batches that wait to be recorded, as they are now."""
        queue = self._tenant.ingest
        stamps = (file_stamp(queue), file_stamp(queue.with_name(f"{queue.name}-wal")))
        if stamps == self._sent_waiting or not self._generation.parts:
            return
        data = _copy_of_queue(queue) if stamps[0] is not None else b""
        name = f"waiting-{sha256(data).hexdigest()[:16]}.sqlite" if data else ""
        at = self._generation
        if name and name not in at.waiting:
            self._remote.put(at.path(name), data)
        self._remote.delete(at.path(one) for one in at.waiting if one != name)
        self._at = at._replace(waiting=(name,) if name else ())
        self._sent_waiting = stamps

    def _batches(
        self, log: EventLog, after: int, until: int
    ) -> Iterator[tuple[int, Sequence[Row]]]:
        """Yield rows after a seq, a part's at a time, each with the first seq that is the part's:
        what the log lost belongs to the part that comes behind it.
        """
        for rows in copies.rows_between(log, after, until, _MOST_BYTES):
            yield after + 1, rows
            after = rows[-1][0]

    def _put(self, first: int, rows: Sequence[Row]) -> Part:
        data = segments.encode(rows)
        part = Part(first, rows[-1][0], parts.mark_of_rows(rows), len(data))
        self._remote.put(self._generation.path(part.name), data)
        return part

    def _delete(self, gone: "Iterator[Part]") -> None:
        names = [self._generation.path(part.name) for part in gone]
        if names:
            self._remote.delete(names)

    def _keep(self, there: Sequence[Part]) -> None:
        self._at = self._generation._replace(parts=tuple(there), others=())

    def _note(self, seq: int) -> None:
        state = State(self._remote.url, self._generation.id, seq)
        if state != self._state:
            write_state(self._tenant, state)
            self._state = state


class HomeReplica:
    """The replicas of a home's tenants and of its settings. One thread at a time."""

    def __init__(self, home: Path, remote: Remote) -> None:
        self._home, self.remote = home, remote
        self._tenants: dict[str, TenantReplica] = {}
        self._stamps: dict[str, tuple[FileStamp | None, ...]] = {}
        self._digests: dict[str, bytes] = {}

    def sync(
        self, now: int, *, anew: bool = False
    ) -> Iterator[tuple[str, Sent | Exception | None]]:
        """Send what is new of each tenant, and yield what came of it, tenant by tenant: what was
        sent, why nothing could be, or None where another process is at it. A tenant whose files
        did not change is passed over.

        One that fails is no reason to leave out the next. Why it failed is kept until it goes
        right. Raise RemoteError where not even the home's settings could be sent.
        """
        try:
            self._send_home()
        except RemoteError as error:
            failures.keep(self._home, KIND, now, str(error))
            raise
        failures.forget(self._home, KIND)
        for tenant in list_tenants(self._home):
            stamps = _stamps(tenant)
            if not anew and stamps == self._stamps.get(tenant.name):
                continue
            one = self._tenants.setdefault(tenant.name, TenantReplica(tenant, self.remote))
            try:
                sent = one.sync(now, anew=anew)
            except (MnemologError, OSError) as error:
                failures.keep(tenant.root, KIND, now, str(error))
                yield tenant.name, error
                continue
            if sent is not None:
                failures.forget(tenant.root, KIND)
                self._stamps[tenant.name] = stamps
            yield tenant.name, sent

    def _send_home(self) -> None:
        for name in HOME_FILES:
            try:
                data = (self._home / name).read_bytes()
            except FileNotFoundError:
                continue
            digest = sha256(data).digest()
            if self._digests.get(name) != digest:
                self.remote.put(f"home/{name}", data)
                self._digests[name] = digest


class DamagedPart(RemoteError):
    """A file of a replica is not what its name says."""


def read_part(remote: Remote, generation: Generation, part: Part) -> list[Row]:
    """Return the whole rows of a part; raise DamagedPart where it is not what its name says."""
    import pyarrow as pa

    path = generation.path(part.name)
    data = remote.get(path)
    try:
        rows = [row for group in segments.decode(data) for row in group]
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        raise DamagedPart(f"{remote.url}: {path} is damaged ({error}): {_MEND}") from error
    is_whole = all(row_hash(row[1:-1]) == row[-1] for row in rows)
    if not rows or not is_whole or parts.mark_of_rows(rows) != part.mark:
        raise DamagedPart(f"{remote.url}: {path} is damaged: {_MEND}")
    return rows


def read_about(remote: Remote, generation: Generation) -> About:
    """Return what a generation says of itself; raise DamagedPart where it cannot be read."""
    data = remote.get(generation.path(parts.ABOUT))
    try:
        return _about.decode(data)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise DamagedPart(f"{remote.url}: {generation.path(parts.ABOUT)}: {error}") from error


def _stamps(tenant: Tenant) -> tuple[FileStamp | None, ...]:
    """Return what changes whenever something is written to a tenant's log or queue."""
    files = (tenant.log, tenant.ingest)
    return tuple(
        file_stamp(path.with_name(path.name + suffix)) for path in files for suffix in ("", "-wal")
    )


@contextmanager
def _alone(tenant: Tenant) -> Iterator[bool]:
    """Hold what only one may who writes a tenant's replica; False where another process does."""
    lock = filelock.FileLock(tenant.root / "replica.lock", timeout=0.0, mode=0o600)
    try:
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _copy_of_queue(path: Path) -> bytes:
    """Return a copy of the batches that wait; empty where none does."""
    queue = QueueFile(path)
    try:
        waiting = queue.read("SELECT count(*) FROM jobs WHERE state != 'done'")[0][0]
    finally:
        queue.close()
    if not waiting:
        return b""
    from store.maintenance import backup  # with all that builds: few batches ever wait

    with TemporaryDirectory(prefix="mnemolog-") as folder:
        copy = Path(folder) / path.name
        backup.copy_queue(path, copy)
        return copy.read_bytes()


_about = msgspec.json.Decoder(About)
