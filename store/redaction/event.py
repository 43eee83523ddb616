"""
An event that was kept, as today's patterns would keep it.

The log holds what an earlier version took for no secret, until `mnemolog erase` takes it out.
What is built of it and what is shown of it go through here.
"""

from dataclasses import replace
from typing import TypeVar, cast

import msgspec

from store.events import Event
from store.redaction import redact

T = TypeVar("T")


def redacted(event: Event) -> Event:
    """Return an event without the secrets in it: itself, if there are none.

    Nothing is validated: a tag may grow beyond what is accepted from outside.
    """
    body = _redacted(event.body)
    names = [_redacted(name) for name in (event.project, event.session, event.agent)]
    if body is event.body and names == [event.project, event.session, event.agent]:
        return event
    return replace(event, body=body, project=names[0], session=names[1], agent=names[2])


def _redacted(value: T) -> T:
    found: object = value
    if isinstance(value, str):
        found = redact.redact(value)
    elif isinstance(value, tuple):
        found = tuple(map(_redacted, value))
    elif isinstance(value, dict):
        found = redact.redact_value(value)
    elif isinstance(value, msgspec.Struct):
        old = {name: getattr(value, name) for name in value.__struct_fields__}
        new = {name: _redacted(one) for name, one in old.items()}
        changed = {name: one for name, one in new.items() if one is not old[name]}
        found = msgspec.structs.replace(value, **changed) if changed else value
    return value if found == value else cast(T, found)
