"""
Rows: an event as the log's table keeps it, redacted and hashed, and back.

The body of a row that was put away is empty: it lies in a segment (`store.cold.segment`), and the
row's own hash says what it must be.
"""

from dataclasses import replace
from hashlib import sha256

import msgspec

from store.events import Event, decode, encode
from store.home.errors import InvalidInput, LogCorrupt
from store.logfile.file import Row
from store.redaction import redact

COLUMNS = "seq, id, at, kind, subject, project, session, agent, trust, body, sha256"
BODY = 9  # the place of the body among the columns
PUT_AWAY = ""  # no body is written so: an empty one is {}
MAX_NAME = 1_024  # bytes of an id, and of the name of a project, session or agent


def kept(event: Event) -> tuple[Event, Row]:
    """Return the event as it is kept, and its row; raise InvalidInput for what cannot be kept."""
    for name in ("id", "subject", "project", "session", "agent"):
        size = len((getattr(event, name) or "").encode(errors="replace"))
        if size > MAX_NAME:
            raise InvalidInput(f"{name} may have {MAX_NAME} bytes, not {size}: send a shorter one")
    try:
        event = _redacted(event)
        return event, columns(event)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"event {event.id} cannot be recorded: {error}") from error


def columns(event: Event) -> Row:
    """Return the columns of an event but its seq, its hash last."""
    row = (
        event.id,
        event.at,
        event.kind,
        event.subject,
        event.project,
        event.session,
        event.agent,
        event.trust,
        encode(event.body),
    )
    return (*row, hashed(row))


def hashed(row: Row) -> bytes:
    """Return the hash of a row's columns from its id to its body."""
    return sha256(msgspec.json.encode(row)).digest()


def event_of(row: Row) -> Event:
    """Return the event of a whole row; raise LogCorrupt where its hash is not that of it."""
    seq, id_, at, kind, subject, project, session, agent, trust, body, digest = row
    if hashed(row[1:-1]) != digest:
        raise LogCorrupt(f"event {seq} does not match its hash: restore a backup")
    try:
        value = decode(kind, body)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"event {seq} ({kind}) cannot be read: {error}") from error
    return Event(id_, at, value, subject, project, session, agent, trust, seq)


def _redacted(event: Event) -> Event:
    # as JSON, not by to_builtins: that leaves tuples, which are no JSON, and a tag in one unread
    values = redact.redact_value(msgspec.json.decode(encode(event.body)))
    return replace(
        event,
        body=msgspec.convert(values, type(event.body)),
        project=redact.redact(event.project) if event.project else None,
        session=redact.redact(event.session) if event.session else None,
        agent=redact.redact(event.agent) if event.agent else None,
    )
