"""
Membership: what a tenant's folder notes of the place that its machines sync through.

    sync/place.json   which place, and who this machine is there
    sync/key          what the files there are sealed with
    sync/sent.json    how far this machine's own events are there
    sync/heard.json   how far each other machine's are here
    sync/git          what was fetched, where the place is a git remote

No backup, export or replica holds any of it: what is restored elsewhere is a machine of its own.
"""

import shutil
from pathlib import Path
from typing import TypeVar

import msgspec

from store.home.errors import ConfigError
from store.home.files import make_folder, replace_file, sync_folder
from store.home.origin import read_or_make_origin
from store.home.tenant import Tenant
from store.log import copies
from store.log.event_log import EventLog
from store.replica.state import read_state

T = TypeVar("T")
# since which clock the newest event of each other home, by its clock, was known; the oldest first
Knowledge = tuple[tuple[int, dict[str, int]], ...]
KIND = "sync"  # of a failure that is kept


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tenant is synced, and who this machine is there. `adopted` are homes that are no more
    and whose events this one sends.
    """

    url: str
    machine: str
    name: str
    adopted: tuple[str, ...] = ()
    is_paused: bool = False


class Machine(msgspec.Struct, frozen=True):
    """Another machine's generation: how far its events are here, its name, its newest event's
    clock (microseconds), its home, and what it knew (`store.replica.parts.About`).
    """

    seq: int
    name: str
    clock: int
    home: str = ""
    knew: Knowledge = ()


class Heard(msgspec.Struct, frozen=True):
    """What came from other machines, by generation. `to_erase` are memories that one of them erased
    and that may still have words here. `at` is when all was well last, microseconds UTC; `knew` is
    what this machine says it knew.
    """

    machines: dict[str, Machine] = {}
    to_erase: tuple[str, ...] = ()
    at: int = 0
    knew: Knowledge = ()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a tenant's sync stands: through which place, as which machine, when all was well last
    (microseconds UTC; 0: never), how many events wait to be sent, and what came from the others,
    the newest first, by generation.
    """

    url: str
    name: str
    is_paused: bool
    at: int
    waiting: int
    machines: tuple[tuple[str, Machine], ...]


def standing(tenant: Tenant, log: EventLog) -> Standing | None:
    """Return how a tenant's sync stands; None where it has none. Nothing is asked of the place."""
    if (place := read_place(tenant)) is None:
        return None
    heard, sent = read_heard(tenant), read_state(sent_file(tenant))
    homes = (own_home(tenant, heard.at), *place.adopted)  # made when it joined
    machines = sorted(heard.machines.items(), key=lambda pair: -pair[1].clock)
    return Standing(
        url=place.url,
        name=place.name,
        is_paused=place.is_paused,
        at=heard.at,
        waiting=copies.count_after(log, sent.seq if sent else 0, homes)[0],
        machines=tuple(machines),
    )


def own_home(tenant: Tenant, now: int) -> str:
    """Return the id of a tenant's home, made where there is none yet."""
    return read_or_make_origin(tenant.root.parent.parent, now)


def folder_of(tenant: Tenant) -> Path:
    return tenant.root / "sync"


def sent_file(tenant: Tenant) -> Path:
    return folder_of(tenant) / "sent.json"


def read_place(tenant: Tenant) -> Place | None:
    """Return where a tenant is synced; None where it is not."""
    return _read(folder_of(tenant) / "place.json", Place)


def read_key(tenant: Tenant, place: Place) -> bytes:
    """Return the key of a place; raise ConfigError where there is none."""
    try:
        return (folder_of(tenant) / "key").read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the key of {place.url} is gone: run `mnemolog sync init {place.url}` again"
        ) from error


def read_heard(tenant: Tenant) -> Heard:
    """Return what came from other machines. What cannot be read is heard again."""
    return _read(folder_of(tenant) / "heard.json", Heard) or Heard()


def join(tenant: Tenant, place: Place, key: bytes) -> None:
    """Note where a tenant is synced from now on; what was noted before is forgotten."""
    leave(tenant)
    make_folder(folder_of(tenant))
    replace_file(folder_of(tenant) / "key", key)
    write_place(tenant, place)


def leave(tenant: Tenant) -> None:
    """Note that a tenant is synced no more."""
    if folder_of(tenant).exists():
        (folder_of(tenant) / "place.json").unlink(missing_ok=True)
        shutil.rmtree(folder_of(tenant))
        sync_folder(tenant.root)


def write_place(tenant: Tenant, place: Place) -> None:
    replace_file(folder_of(tenant) / "place.json", msgspec.json.encode(place))


def write_heard(tenant: Tenant, heard: Heard) -> None:
    replace_file(folder_of(tenant) / "heard.json", msgspec.json.encode(heard))


def _read(path: Path, of: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=of)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
