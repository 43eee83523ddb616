"""Drafts of lessons as proposed by versions before 0.1; they still wait for acceptance."""

from store.home.instants import derived_id
from store.log.event_kinds import Proposed, RecordedKind
from store.log.events import Event


def draft(
    content: str,
    kind: RecordedKind,
    now: int,
    *,
    because: str | None = None,
    project: str | None = None,
    session: str | None = None,
) -> Event:
    """Return the event that proposes a lesson, without writing it."""
    body = Proposed(what="lesson", draft={"content": content, "kind": kind}, because=because)
    id_ = derived_id(now, "lesson", project or "", content)
    return Event(id_, now, body, id_, project, session, None, "user")
