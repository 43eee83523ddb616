"""
Replica: a home's logs, sent elsewhere as they are written, so that a lost disk loses at most a
second; with the home's settings, and the batches waiting to be recorded.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from platform import node
from tempfile import TemporaryDirectory

from store.home import failures
from store.home.errors import MnemologError, RemoteError
from store.home.files import FileStamp, file_stamp, try_lock
from store.home.origin import read_or_make_origin
from store.home.tenant import Tenant, list_tenants
from store.ingest.queue_file import QueueFile
from store.log.event_log import EventLog
from store.replica import parts
from store.replica.parts import About
from store.replica.remote import Remote
from store.replica.sender import LogSender, Sent
from store.replica.state import KIND, file_of

HOME_FILES = ("config.toml", "tokens.json")


class TenantReplica:
    """One tenant's replica. One thread at a time."""

    def __init__(self, tenant: Tenant, remote: Remote) -> None:
        self._tenant, self._remote = tenant, remote
        anew = f"mnemolog replicate {remote.url}"
        top = parts.tenant_folder(tenant.name)
        self._sender = LogSender(remote, top, file_of(tenant), anew)
        self._sent_waiting: tuple[FileStamp | None, ...] | None = None

    def sync(self, now: int, *, anew: bool = False) -> Sent | None:
        """Send the new events; None if another process is doing it.

        With `anew`, and once an hour, each part is compared with the log. Raise RemoteError, or a
        LogError; the parts sent until then count.
        """
        with (
            try_lock(self._tenant.root / "replica.lock") as is_ours,
            EventLog(self._tenant.log) as log,
        ):
            if not is_ours:
                return None
            if anew or self._sender.is_due():
                self._sent_waiting = None
            about = About(node(), read_or_make_origin(self._tenant.root.parent.parent, now))
            sent = self._sender.send(log, about, now, anew=anew)
            self._send_waiting()
            return sent

    def _send_waiting(self) -> None:
        """Update the remote's copy of the batches waiting to be recorded."""
        queue = self._tenant.ingest
        stamps = (file_stamp(queue), file_stamp(queue.with_name(f"{queue.name}-wal")))
        at = self._sender.generation
        if stamps == self._sent_waiting or not at.parts:
            return
        data = _copy_of_queue(queue) if stamps[0] is not None else b""
        name = f"waiting-{sha256(data).hexdigest()[:16]}.sqlite" if data else ""
        if name and name not in at.waiting:
            self._remote.put(at.path(name), data)
        self._remote.delete(at.path(other) for other in at.waiting if other != name)
        self._sender.note_waiting((name,) if name else ())
        self._sent_waiting = stamps


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
        """Send the new events of each tenant; yield each tenant's result: the sent counts, the
        error, or None if another process is sending it. A tenant whose files did not change is
        skipped.

        An error does not stop the other tenants. It is kept until the tenant succeeds. Raise
        RemoteError if not even the home's settings could be sent.
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
            replica = self._tenants.setdefault(tenant.name, TenantReplica(tenant, self.remote))
            try:
                sent = replica.sync(now, anew=anew)
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


def _stamps(tenant: Tenant) -> tuple[FileStamp | None, ...]:
    """Return stamps that change with every write to a tenant's log or queue."""
    files = (tenant.log, tenant.ingest)
    return tuple(
        file_stamp(path.with_name(path.name + suffix)) for path in files for suffix in ("", "-wal")
    )


def _copy_of_queue(path: Path) -> bytes:
    """Return a copy of the waiting batches; empty if there are none."""
    queue = QueueFile(path)
    try:
        waiting = queue.read("SELECT count(*) FROM jobs WHERE state != 'done'")[0][0]
    finally:
        queue.close()
    if not waiting:
        return b""
    from store.maintenance import backup  # imports all of the build: batches rarely wait

    with TemporaryDirectory(prefix="mnemolog-") as folder:
        copy = Path(folder) / path.name
        backup.copy_queue(path, copy)
        return copy.read_bytes()
