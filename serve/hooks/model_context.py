"""
Model context: the memories and turns still in a session's context, according to its events.

A compaction or a cleared context empties it. A host that keeps no notes in a session's history
restores the turns of a resumed session, and none of the notes beside them.
"""

from collections.abc import Mapping

import msgspec

from serve.hosts import HOSTS
from serve.reader.session_events import SessionEvents
from store.log.event_kinds import Prompted, Recalled, Recorded, SessionTold, Surfaced


class ModelContext(msgspec.Struct, frozen=True):
    """The memories and turns in the model's context; none by default."""

    known: Mapping[str, int] = msgspec.field(
        default_factory=dict
    )  # memory: when it was put there, µs
    own: frozenset[str] = frozenset()  # turns of this session, and the user's statements in them
    recorded: frozenset[str] = frozenset()  # memories that this session recorded
    briefed_at: int | None = None  # when the session last got a brief, µs


def model_context(journal: SessionEvents, *, is_started_again: bool = False) -> ModelContext:
    """Return the model's context; `is_started_again` is True if the session starts now, in a
    history without notes.
    """
    known: dict[str, int] = {}
    own: set[str] = set()
    recorded: set[str] = set()
    briefed_at = None
    for event in journal.events:
        match event.body:
            case SessionTold(stage="compacted" | "cleared", characters=characters):
                known.clear()
                own.clear()
                recorded.clear()
                briefed_at = event.at if characters else None
            case SessionTold(stage="started" | "resumed" as stage, characters=characters):
                if stage == "started" or not keeps_notes(event.agent):
                    known.clear()
                    briefed_at = None
                briefed_at = event.at if characters else briefed_at
            case Recalled(hits=hits):
                known |= {hit.id: event.at for hit in hits}
            case Surfaced():
                known[event.subject] = event.at
            case Prompted():
                own.add(event.id)
            case Recorded(kind=kind):
                recorded.add(event.id)
                if kind == "statement":
                    own.add(event.id)
    if is_started_again:
        return ModelContext({}, frozenset(own), frozenset(recorded))
    return ModelContext(known, frozenset(own), frozenset(recorded), briefed_at)


def keeps_notes(host: str | None) -> bool:
    """Return True if a host keeps notes in the history of its sessions."""
    adapter = HOSTS.get(host or "")
    return adapter is None or adapter.keeps_notes
