"""A tenant's note of its replica: its location, and the last event sent there."""

from pathlib import Path

import msgspec

from store.home import failures
from store.home.files import replace_file
from store.home.tenant import Tenant
from store.log import copies
from store.log.event_log import EventLog

KIND = "replica"  # the kind of a failure record


class State(msgspec.Struct, frozen=True):
    """The note in a tenant's folder: the destination of its rows, and the last event there."""

    url: str
    generation: str
    seq: int


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """A replica's lag: the number of events it is behind, and since when the first of them waits
    (microseconds UTC; None: none waits).
    """

    url: str
    events: int
    since: int | None


def file_of(tenant: Tenant) -> Path:
    """Return the file that notes a tenant's replica."""
    return tenant.root / "replica.json"


def read_state(path: Path) -> State | None:
    """Return the note in a file; None if there is none, or it is unreadable."""
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None  # the next pass finds it at the remote


def lag(tenant: Tenant, log: EventLog, url: str) -> Lag | None:
    """Return the lag of a tenant's replica; None if the settings name no place (`url`) and none was
    written to by hand. Does not contact the remote.
    """
    state = read_state(file_of(tenant))
    if state is None or (url and state.url != url):
        if not url:
            return None
        state = State(url, "", 0)
    events, since = copies.count_after(log, state.seq)
    return Lag(url=state.url, events=events, since=since)


def stop(tenant: Tenant) -> None:
    """Note that a tenant no longer has a replica; sent files stay where they are."""
    file_of(tenant).unlink(missing_ok=True)
    failures.forget(tenant.root, KIND)


def write_state(path: Path, state: State) -> None:
    replace_file(path, msgspec.json.encode(state))


_decoder = msgspec.json.Decoder(State)
