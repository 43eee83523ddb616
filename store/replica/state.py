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
    """What is noted in a tenant's folder: where its replica is, and the last event there."""

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


def read_state(tenant: Tenant) -> State | None:
    """Return what is noted of a tenant's replica; None where there is none, or it is unreadable."""
    try:
        return _decoder.decode(_file(tenant).read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None  # the remote itself tells it anew


def lag(tenant: Tenant, log: EventLog, url: str) -> Lag | None:
    """Return how far a tenant's replica is behind; None where the settings name no place (`url`)
    and none was written to by hand. Nothing is asked of the remote.
    """
    state = read_state(tenant)
    if state is None or (url and state.url != url):
        if not url:
            return None
        state = State(url, "", 0)
    events, since = copies.count_after(log, state.seq)
    return Lag(url=state.url, events=events, since=since)


def stop(tenant: Tenant) -> None:
    """Note that a tenant has no replica any more; what was sent stays where it is."""
    _file(tenant).unlink(missing_ok=True)
    failures.forget(tenant.root, KIND)


def write_state(tenant: Tenant, state: State) -> None:
    replace_file(_file(tenant), msgspec.json.encode(state))


def _file(tenant: Tenant) -> Path:
    return tenant.root / "replica.json"


_decoder = msgspec.json.Decoder(State)
