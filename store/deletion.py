"""
Deletion of a tenant: its folder is put away whole, so nothing is lost, and its tokens end.

To bring it back, move the folder from `<home>/deleted` to `<home>/tenants`, under its name.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from store import tokens
from store.config import Settings
from store.errors import BuildBusy, Conflict
from store.events import new_id
from store.files import make_folder, sync_folder
from store.tenant import Tenant, existing

_LOCKS = ("build.lock", "jobs.lock", "rewrite.lock")  # of whoever reads or writes for long


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant that was deleted: where its folder lies now, and how many tokens that ended."""

    tenant: str
    kept_in: str
    tokens: int


def delete(settings: Settings, name: str, now: int) -> Deleted:
    """Put a tenant away that no server of the home has open.

    Raise InvalidName or NotFound, Conflict for the default tenant, BuildBusy.
    """
    tenant = existing(settings.home, name)
    check(settings, tenant)
    with unused(tenant):
        return put_away(settings.home, tenant, now)


def check(settings: Settings, tenant: Tenant) -> None:
    """Raise Conflict for the default tenant: who names none would find nothing."""
    if tenant.name == settings.choices.tenant:
        raise Conflict(f"{tenant.name} is the default tenant: make another the default first")


@contextmanager
def unused(tenant: Tenant) -> Iterator[None]:
    """Let no build and no job of a tenant begin; raise BuildBusy where one is at work."""
    import filelock  # costs a tenth of a server's start, and tenants are seldom deleted

    with ExitStack() as held:
        for name in _LOCKS:
            try:
                lock = filelock.FileLock(tenant.root / name, timeout=0.0, mode=0o600)
                held.enter_context(lock)
            except filelock.Timeout:
                raise BuildBusy(
                    f"a build or a job of {tenant.name} is at work: try again when it is done"
                ) from None
        yield


def put_away(home: Path, tenant: Tenant, now: int) -> Deleted:
    """Move a tenant's folder to the deleted ones, as `unused` lets nobody write there.

    Raise Conflict where another program has the folder open on a system that minds.
    """
    ended = tokens.revoke_all(home, tenant.name, now)  # before: a new tenant may take the name
    shutil.rmtree(tenant.successor, ignore_errors=True)  # of a restoring that was killed at once
    return Deleted(tenant=tenant.name, kept_in=str(move_away(home, tenant, now)), tokens=ended)


def move_away(home: Path, tenant: Tenant, now: int) -> Path:
    """Move a tenant's folder to the deleted ones; return where it lies. Its tokens stay.

    Raise Conflict as `put_away` does.
    """
    place = home / "deleted" / f"{tenant.name}-{new_id(now)}"
    make_folder(place.parent)
    try:
        os.rename(tenant.root, place)
    except OSError as error:
        raise Conflict(
            f"{tenant.root} cannot be moved ({error.strerror}): end what has it open, and try again"
        ) from error
    sync_folder(place.parent)
    sync_folder(tenant.root.parent)
    return place
