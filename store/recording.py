"""
What of a session reaches the log, by the kinds that the setting `record` names.

prompts: what the user types, in its questions to the memory too, and the lasting words that are
kept of it. commands: the tools that were used, with command lines, files and the names an edit
defines. outputs: what those tools wrote; without `commands` there is nothing to hang it on. words:
what the agent said last in a turn, and a host's summary of what it compacted. What is off is left
out here, before anything is written.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace as with_fields

from msgspec.structs import replace

from store.home.config import RECORD_KINDS, RecordKind
from store.log.event_kinds import (
    Acted,
    Body,
    Followed,
    Outcome,
    Prompted,
    Recalled,
    Recorded,
    SessionTold,
    Surfaced,
)
from store.log.events import Event

FROM_PROMPT = "prompt"  # the source of a memory that quotes one
SAID_OTHERWISE = "the user said otherwise"  # why a statement gave way to a later one
_ALL = frozenset(RECORD_KINDS)


def recordable(events: Iterable[Event], kinds: Collection[RecordKind]) -> list[Event]:
    """Return what of some events may be written, in order; nothing where no kind is on."""
    if not kinds:
        return []
    if _ALL.issubset(kinds):
        return list(events)
    found = ((event, _left(event.body, kinds)) for event in events)
    return [with_fields(event, body=body) for event, body in found if body is not None]


def _left(body: Body, kinds: Collection[RecordKind]) -> Body | None:
    match body:
        case Prompted() if "prompts" not in kinds:  # a turn begins all the same
            return replace(body, prompt="", intent=None)
        case Recalled() if "prompts" not in kinds:
            return replace(body, query="")
        case Recorded(source=source) if source == FROM_PROMPT and "prompts" not in kinds:
            return None
        case Acted() | Outcome() if "commands" not in kinds:
            return None
        case Acted() if "outputs" not in kinds:
            return replace(body, output=None, error=None)
        case SessionTold() if "words" not in kinds:
            return replace(body, said=None)
        case Surfaced() if "commands" not in kinds:
            return replace(body, about=None)
        case Followed() if "commands" not in kinds:
            return replace(body, evidence=None)
        case _:
            return body
