"""
Event: one thing that happened, its envelope and its body, to and from JSON.

A kind this version does not know is read as `Unknown` and left out of every projection; a log that
notes one (`store.log.vocabulary`) is not opened at all.
"""

from collections.abc import Mapping

import msgspec

from store.log.event_kinds import (
    Accepted,
    Acted,
    Adopted,
    Applied,
    Archived,
    Author,
    Body,
    Called,
    Configured,
    Erased,
    Expected,
    Followed,
    Forgotten,
    Judged,
    Linked,
    Lost,
    Outcome,
    Pinned,
    Planned,
    Prompted,
    Proposed,
    Quarantined,
    Rated,
    Recalled,
    Recorded,
    Rejected,
    Restored,
    Revised,
    SessionTold,
    Staled,
    Superseded,
    Surfaced,
    Trust,
    Undone,
    Unknown,
)

KINDS: Mapping[str, type[Body]] = {
    "recorded": Recorded,
    "revised": Revised,
    "superseded": Superseded,
    "archived": Archived,
    "forgotten": Forgotten,
    "restored": Restored,
    "quarantined": Quarantined,
    "erased": Erased,
    "lost": Lost,
    "pinned": Pinned,
    "linked": Linked,
    "recalled": Recalled,
    "rated": Rated,
    "prompted": Prompted,
    "action": Acted,
    "session": SessionTold,
    "surfaced": Surfaced,
    "followed": Followed,
    "outcome": Outcome,
    "proposed": Proposed,
    "accepted": Accepted,
    "rejected": Rejected,
    "planned": Planned,
    "applied": Applied,
    "undone": Undone,
    "staled": Staled,
    "judged": Judged,
    "adopted": Adopted,
    "configured": Configured,
    "called": Called,
    "expected": Expected,
}


# Events that change only an episode, which they are parts of: they never make a memory fresh, and
# alone are worth no rebuild.
RECEIPTS = frozenset(
    """recalled prompted action session surfaced followed outcome proposed accepted
    rejected planned applied undone judged adopted configured called lost expected""".split()
)


_kind_of = {body: kind for kind, body in KINDS.items()}


_decoders = {kind: msgspec.json.Decoder(body) for kind, body in KINDS.items()}


class Event(msgspec.Struct, frozen=True, eq=False):
    """One thing that happened. `at` is microseconds UTC; `seq` is 0 until the log assigns one.

    `trust` decides which texts may instruct, `author` is the author of the text; None: written
    before authors were recorded, or by no one in particular. `origin` is the home it was first
    written in, `clock` its place among the events of all homes (`store.log.event_clock`): the log
    fills in both if they are missing.
    """

    id: str
    at: int
    body: Body
    subject: str
    project: str | None = None
    session: str | None = None
    agent: str | None = None
    trust: Trust = "user"
    seq: int = 0
    author: Author | None = None
    origin: str | None = None
    clock: int = 0

    @property
    def kind(self) -> str:
        return self.body.kind if isinstance(self.body, Unknown) else _kind_of[type(self.body)]

    def __eq__(self, other: object) -> bool:
        """Return True if both have the same content, wherever they were first written."""
        return isinstance(other, Event) and self._content == other._content

    def __ne__(self, other: object) -> bool:  # a struct has its own
        return not self == other

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def _content(self) -> tuple[object, ...]:
        whose = (self.subject, self.project, self.session, self.agent, self.trust, self.author)
        return (self.id, self.at, self.body, self.seq, *whose)

    def with_seq(self, seq: int) -> "Event":
        return msgspec.structs.replace(self, seq=seq)

    def with_stamp(self, origin: str | None, clock: int) -> "Event":
        return msgspec.structs.replace(self, origin=origin, clock=clock)


def encode(body: Body) -> str:
    """Return the body as JSON, keys in declared order, fields at their default left out."""
    return msgspec.json.encode(body).decode()


def decode(kind: str, body: str) -> Body:
    """Return the body that `encode` wrote; `Unknown` for a kind of a later version.

    Raise msgspec.ValidationError or DecodeError if the JSON is not of that kind.
    """
    decoder = _decoders.get(kind)
    return Unknown(kind=kind) if decoder is None else decoder.decode(body)


def is_erased(body: Body) -> bool:
    """Return True if a body was erased: every recorded memory and every prompt has a text
    otherwise.
    """
    if isinstance(body, Prompted):
        return not body.prompt
    return isinstance(body, Recorded) and not body.content
