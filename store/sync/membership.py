"""
Membership: the files in a tenant's folder about the place that its machines sync through.

    sync/place.json   the place, and this machine's identity there
    sync/key          the key that the files there are sealed with
    sync/sent.json    how far this machine's own events are there
    sync/heard.json   how far each other machine's are here
    sync/git          the fetched files, if the place is a git remote

No backup, export or replica contains these: a tenant restored elsewhere is a machine of its own.
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
KIND = "sync"  # the kind of a failure record


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a tenant is synced, and this machine's identity there. `adopted` are homes
    that no longer exist and whose events this one sends.

    `keyed_at` is when this machine got the place's key (microseconds UTC); `behind` are the
    generations that it did not open then: their machines had not been given it yet.
    """

    url: str
    machine: str
    name: str
    adopted: tuple[str, ...] = ()
    is_paused: bool = False
    keyed_at: int = 0
    behind: tuple[str, ...] = ()


class Machine(msgspec.Struct, frozen=True):
    """Another machine's generation: how far its events are here, its name, its newest event's clock
    (microseconds), its home, and its knowledge (`store.replica.parts.About`).
    """

    seq: int
    name: str
    clock: int
    home: str = ""
    knew: Knowledge = ()


class Heard(msgspec.Struct, frozen=True):
    """The events received from other machines, by generation.

    `to_erase` are memories that another machine erased and whose words may still be here. `at` is
    the last time all was well, microseconds UTC; `knew` is this machine's own knowledge as it
    reports it.
    """

    machines: dict[str, Machine] = {}
    to_erase: tuple[str, ...] = ()
    at: int = 0
    knew: Knowledge = ()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a tenant's sync: the place, this machine's name, the last time all was well
    (microseconds UTC; 0: never), the number of events waiting to be sent, the other machines'
    generations, the newest first, and which of them still need the new key.
    """

    url: str
    name: str
    is_paused: bool
    at: int
    waiting: int
    machines: tuple[tuple[str, Machine], ...]
    behind: frozenset[str]


def standing(tenant: Tenant, log: EventLog) -> Standing | None:
    """Return the state of a tenant's sync; None if it has none. Does not contact the place."""
    if (place := read_place(tenant)) is None:
        return None
    heard, sent = read_heard(tenant), read_state(sent_file(tenant))
    homes = (own_home(tenant, heard.at), *place.adopted)  # the id was made when it joined
    machines = sorted(heard.machines.items(), key=lambda pair: -pair[1].clock)
    return Standing(
        url=place.url,
        name=place.name,
        is_paused=place.is_paused,
        at=heard.at,
        waiting=copies.count_after(log, sent.seq if sent else 0, homes)[0],
        machines=tuple(machines),
        behind=frozenset(place.behind),
    )


def own_home(tenant: Tenant, now: int) -> str:
    """Return the id of a tenant's home, made if there is none yet."""
    return read_or_make_origin(tenant.root.parent.parent, now)


def folder_of(tenant: Tenant) -> Path:
    return tenant.root / "sync"


def sent_file(tenant: Tenant) -> Path:
    return folder_of(tenant) / "sent.json"


def read_place(tenant: Tenant) -> Place | None:
    """Return the place where a tenant is synced; None if it is not."""
    return _read(folder_of(tenant) / "place.json", Place)


def read_key(tenant: Tenant, place: Place) -> bytes:
    """Return the key of a place; raise ConfigError if there is none."""
    try:
        return (folder_of(tenant) / "key").read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the key of {place.url} is gone: run `mnemolog sync init {place.url}` again"
        ) from error


def read_heard(tenant: Tenant) -> Heard:
    """Return the state of the other machines; if it is unreadable, all is received again."""
    return _read(folder_of(tenant) / "heard.json", Heard) or Heard()


def join(tenant: Tenant, place: Place, key: bytes) -> None:
    """Record the place where a tenant is synced from now on; an earlier one is dropped.

    If it is the same place, what this machine knew of the others, and has yet to erase, stays.
    """
    before, heard = read_place(tenant), read_heard(tenant)
    leave(tenant)
    make_folder(folder_of(tenant))
    write_key(tenant, key)
    if before is not None and before.url == place.url:
        write_heard(tenant, Heard(to_erase=heard.to_erase, knew=heard.knew))
    write_place(tenant, place)


def write_key(tenant: Tenant, key: bytes) -> None:
    replace_file(folder_of(tenant) / "key", key)


def leave(tenant: Tenant) -> None:
    """Delete a tenant's sync files: it is no longer synced."""
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
