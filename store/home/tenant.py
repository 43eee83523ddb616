"""
Tenant: one isolated memory, a directory holding one log and what is derived from it.

No query ever needs a tenant filter, because no file holds two tenants. A tenant that is deleted is
moved whole, so nothing is lost, and its tokens end: to bring it back, move its folder from
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
from store.redaction.redact import redact

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Tenant(msgspec.Struct, frozen=True):
    """Where one tenant's files lie. Nothing is read or made by naming them."""

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
        """What is there from when an erasing is begun until nothing is left of what it destroys."""
        return self.root / "erasing.json"

    @property
    def successor(self) -> Path:
        """Where a whole folder waits that is to take this one's place, while this is put away."""
        return self.root.with_name(f".next-{self.name}")

    @property
    def exists(self) -> bool:
        """Whether it was made; its log may be damaged, or gone.

        Where a successor waits for its empty place, it takes it now.
        """
        return self.log.exists() or self.log_head.exists() or _install_successor(self)


def tenant(home: Path, name: str = DEFAULT_TENANT) -> Tenant:
    """Return the tenant called `name`; raise InvalidName for what could leave its folder, and for a
    new one that is named by a secret: a folder's name is on the disk as it is.
    """
    if not _TENANT.fullmatch(name):
        raise InvalidName(
            f"{name!r} is no tenant's name: use 1 to 63 of a-z 0-9 _ -, a letter or digit first"
        )
    named = Tenant(name, home / "tenants" / name)
    if redact(name) != name and not named.exists:
        raise InvalidName("this tenant's name looks like a secret: use another name")
    return named


def find_tenant(home: Path, name: str = DEFAULT_TENANT) -> Tenant:
    """Return the tenant called `name`; raise NotFound where it was never made."""
    named = tenant(home, name)
    if not named.exists:
        raise NotFound(
            f"no tenant {name!r} in {home}: make it with `mnemolog --tenant {name} init`"
        )
    return named


def _install_successor(tenant: Tenant) -> bool:
    """Let a tenant's successor take its place, for whoever put the old one away and was killed."""
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
    """Return how much the log's files take, the write-ahead log among them."""
    size = 0
    for path in tenant.root.glob("log.sqlite*"):
        with suppress(FileNotFoundError):  # SQLite has just taken it away
            size += path.stat().st_size
    return size


# Deletion of a tenant: its folder is put away whole, so nothing is lost, and its tokens end.
#
# To bring it back, move the folder from `<home>/deleted` to `<home>/tenants`, under its name.

_LOCKS = ("build.lock", "jobs.lock", "rewrite.lock")  # of whoever reads or writes for long


def delete_tenant(settings: Settings, name: str, now: int) -> tuple[Path, int]:
    """Delete a tenant that no server of the home has open, as `delete_locked` does.

    Raise InvalidName or NotFound, Conflict for the default tenant, BuildBusy.
    """
    tenant = find_tenant(settings.home, name)
    check_not_default(settings, tenant)
    with lock_jobs(tenant):
        return delete_locked(settings.home, tenant, now)


def check_not_default(settings: Settings, tenant: Tenant) -> None:
    """Raise Conflict for the default tenant: who names none would find nothing."""
    if tenant.name == settings.choices.tenant:
        raise Conflict(f"{tenant.name} is the default tenant: make another the default first")


@contextmanager
def lock_jobs(tenant: Tenant) -> Iterator[None]:
    """Let no build and no job of a tenant begin; raise BuildBusy where one is at work."""
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

    Return where the folder lies now, and how many tokens that ended.

    Raise Conflict where another program has the folder open on a system that minds.
    """
    ended = tokens.revoke_all(home, tenant.name, now)  # before: a new tenant may take the name
    shutil.rmtree(tenant.successor, ignore_errors=True)  # of a restoring that was killed at once
    return move_to_deleted(home, tenant, now), ended


def move_to_deleted(home: Path, tenant: Tenant, now: int) -> Path:
    """Move a tenant's folder to the deleted ones; return where it lies. Its tokens stay.

    Raise Conflict where another program has the folder open on a system that minds.
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
