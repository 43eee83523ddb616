"""
Tenant: one isolated memory, a directory with one log and the files derived from it.

No query ever needs a tenant filter, because no file holds two tenants. A deleted tenant is moved
whole, so nothing is lost, and its tokens end: to bring it back, move its folder from
`<home>/deleted` to `<home>/tenants`, under its name.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from store.home import tokens
from store.home.config import DEFAULT_TENANT, Settings
from store.home.errors import BuildBusy, Conflict, InvalidName, NotFound
from store.home.files import make_folder, sync_folder
from store.home.instants import new_id

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Tenant(msgspec.Struct, frozen=True):
    """The paths of one tenant's files. Naming them reads and creates nothing."""

    name: str
    root: Path

    @property
    def log(self) -> Path:
        return self.root / "log.sqlite"

    @property
    def log_head(self) -> Path:
        return self.root / "log.head"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def manifests(self) -> Path:
        return self.root / "manifests"

    @property
    def head(self) -> Path:
        return self.root / "HEAD"

    @property
    def candidate(self) -> Path:
        return self.root / "candidate"

    @property
    def journals(self) -> Path:
        return self.candidate / "embedded"

    @property
    def cold(self) -> Path:
        return self.root / "cold"

    @property
    def refusals(self) -> Path:
        return self.root / "refused.json"

    @property
    def ingest(self) -> Path:
        return self.root / "ingest.sqlite"

    @property
    def build_lock(self) -> Path:
        return self.root / "build.lock"

    @property
    def erasure_file(self) -> Path:
        """Exists from the start of an erasure until all of its targets are destroyed."""
        return self.root / "erasing.json"

    @property
    def successor(self) -> Path:
        """A complete folder that is to replace this one, while this one is moved away."""
        return self.root.with_name(f".next-{self.name}")

    @property
    def exists(self) -> bool:
        """True if the tenant was created; its log may be damaged, or gone.

        If a successor waits for its empty place, it is installed now.
        """
        return self.log.exists() or self.log_head.exists() or _install_successor(self)


def tenant(home: Path, name: str = DEFAULT_TENANT) -> Tenant:
    """Return the tenant called `name`; raise InvalidName for a name that could leave its folder,
    and for a new one that contains a secret: a folder's name is on the disk as it is.
    """
    if not _TENANT.fullmatch(name):
        raise InvalidName(
            f"{name!r} is no tenant's name: use 1 to 63 of a-z 0-9 _ -, a letter or digit first"
        )
    named = Tenant(name, home / "tenants" / name)
    if name == DEFAULT_TENANT:
        return named
    from store.redaction.redact import redact  # a tenth of a command's start

    if redact(name) != name and not named.exists:
        raise InvalidName("this tenant's name looks like a secret: use another name")
    return named


def find_tenant(home: Path, name: str = DEFAULT_TENANT) -> Tenant:
    """Return the tenant called `name`; raise NotFound if it was never created."""
    named = tenant(home, name)
    if not named.exists:
        raise NotFound(
            f"no tenant {name!r} in {home}: make it with `mnemolog --tenant {name} init`"
        )
    return named


def _install_successor(tenant: Tenant) -> bool:
    """Install a tenant's successor, if a process was killed after removing the old folder."""
    with suppress(OSError):  # there is none, which is usual, or another process was first
        os.rename(tenant.successor, tenant.root)
        sync_folder(tenant.root.parent)
    return tenant.log.exists()


def list_tenants(home: Path) -> Iterator[Tenant]:
    """Yield every tenant of a home, by name."""
    folder = home / "tenants"
    if folder.is_dir():
        names = {path.name.removeprefix(".next-") for path in folder.iterdir()}
        for name in sorted(filter(_TENANT.fullmatch, names)):
            if (named := Tenant(name, folder / name)).exists:
                yield named


def log_bytes(tenant: Tenant) -> int:
    """Return the size of the log's files, the write-ahead log included."""
    size = 0
    for path in tenant.root.glob("log.sqlite*"):
        with suppress(FileNotFoundError):  # SQLite has just removed it
            size += path.stat().st_size
    return size


# Deletion of a tenant: its folder is put away whole, so nothing is lost, and its tokens end.
#
# To bring it back, move the folder from `<home>/deleted` to `<home>/tenants`, under its name.

_LOCKS = ("build.lock", "jobs.lock", "rewrite.lock")  # of long readers and writers


def delete_tenant(settings: Settings, name: str, now: int) -> tuple[Path, int]:
    """Delete a tenant that no server of the home has open, as `delete_locked` does.

    Raise InvalidName or NotFound, Conflict for the default tenant, BuildBusy.
    """
    tenant = find_tenant(settings.home, name)
    check_not_default(settings, tenant)
    with lock_jobs(tenant):
        return delete_locked(settings.home, tenant, now)


def check_not_default(settings: Settings, tenant: Tenant) -> None:
    """Raise Conflict for the default tenant: callers that name none would find nothing."""
    if tenant.name == settings.choices.tenant:
        raise Conflict(f"{tenant.name} is the default tenant: make another the default first")


@contextmanager
def lock_jobs(tenant: Tenant) -> Iterator[None]:
    """Keep builds and jobs of a tenant from starting; raise BuildBusy if one is running."""
    import filelock  # costs a tenth of a server's start, and tenants are seldom deleted

    with ExitStack() as locks:
        for name in _LOCKS:
            try:
                lock = filelock.FileLock(tenant.root / name, timeout=0.0, mode=0o600)
                locks.enter_context(lock)
            except filelock.Timeout:
                raise BuildBusy(
                    f"a build or a job of {tenant.name} is running: try again when it is done"
                ) from None
        yield


def delete_locked(home: Path, tenant: Tenant, now: int) -> tuple[Path, int]:
    """Move a tenant's folder to the deleted ones and revoke its tokens; the caller has it locked.

    Return the folder's new place, and the number of revoked tokens.

    Raise Conflict if another program has the folder open on a system that forbids moving it.
    """
    ended = tokens.revoke_all(home, tenant.name, now)  # before: a new tenant may take the name
    shutil.rmtree(tenant.successor, ignore_errors=True)  # left by a restore that was killed
    return move_to_deleted(home, tenant, now), ended


def move_to_deleted(home: Path, tenant: Tenant, now: int) -> Path:
    """Move a tenant's folder to the deleted ones; return its new place. Its tokens stay.

    Raise Conflict if another program has the folder open on a system that forbids moving it.
    """
    place = home / "deleted" / f"{tenant.name}-{new_id(now)}"
    make_folder(place.parent)
    try:
        os.rename(tenant.root, place)
    except OSError as error:
        raise Conflict(
            f"{tenant.root} cannot be moved ({error.strerror}): close what uses it, and try again"
        ) from error
    sync_folder(place.parent)
    sync_folder(tenant.root.parent)
    return place
