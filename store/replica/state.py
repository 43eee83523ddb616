"""What a tenant's folder notes of its replica: where it is, and up to which event it is there."""

from pathlib import Path

import msgspec

from store.home import failures
from store.home.files import replace_file
from store.home.tenant import Tenant
from store.log import copies
from store.log.event_log import EventLog

KIND = "replica"  # of a failure that is kept


class State(msgspec.Struct, frozen=True):
    """What is noted in a tenant's folder: where its rows are sent, and the last event there."""

    url: str
    generation: str
    seq: int


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replica is behind: by how many events, and since when the first of them waits
    (microseconds UTC; None: nothing does).
    """

    url: str
    events: int
    since: int | None


def file_of(tenant: Tenant) -> Path:
    """Return the file that notes where a tenant's replica is."""
    return tenant.root / "replica.json"


def read_state(path: Path) -> State | None:
    """Return what a file notes; None where there is none, or it is unreadable."""
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None  # the remote itself tells it anew


def lag(tenant: Tenant, log: EventLog, url: str) -> Lag | None:
    """Return how far a tenant's replica is behind; None where the settings name no place (`url`)
    and none was written to by hand. Nothing is asked of the remote.
    """
    state = read_state(file_of(tenant))
    if state is None or (url and state.url != url):
        if not url:
            return None
        state = State(url, "", 0)
    events, since = copies.count_after(log, state.seq)
    return Lag(url=state.url, events=events, since=since)


def stop(tenant: Tenant) -> None:
    """Note that a tenant has no replica any more; what was sent stays where it is."""
    file_of(tenant).unlink(missing_ok=True)
    failures.forget(tenant.root, KIND)


def write_state(path: Path, state: State) -> None:
    replace_file(path, msgspec.json.encode(state))


_decoder = msgspec.json.Decoder(State)
