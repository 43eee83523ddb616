"""
Batch: memories or turns of a conversation as they are queued: checked, redacted, with ids.

The id of a memory follows from its job's id and its place, unless its draft brings one. So a batch
that is recorded again, wholly or from somewhere in the middle, adds nothing twice: the log knows.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import Literal

import msgspec

from store.home.errors import InvalidInput, JunkText
from store.home.instants import derived_id
from store.log.commands import Draft, author_of, memory_event
from store.log.event_kinds import Author, Instant, Name, Recorded, Trust
from store.log.events import Event
from store.log.rows import encode_row
from store.redaction import redact

MAX_ITEMS = 10_000

Role = Literal["user", "assistant", "tool", "system"]
# a tool's output gives no orders; nor does a system prompt, which is not the user's
_TRUST: dict[Role, Trust] = {"user": "user", "assistant": "agent", "tool": "tool", "system": "tool"}
_ULID_TIME = 10  # the characters of an id that encode its moment


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody said in a conversation; `speaker` by name, where that is known."""

    role: Role
    content: str
    at: Instant | None = None
    speaker: Name | None = None


class Refused(msgspec.Struct, frozen=True):
    """An item refused as a memory, by its place in the batch, and the reason."""

    item: int
    reason: str


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pending memory: the event that will record it, as the log will store it."""

    place: int
    id: str
    body: Recorded
    project: str | None = None
    session: str | None = None
    agent: str | None = None
    trust: Trust = "user"
    author: Author | None = None

    def event(self, at: int) -> Event:
        whose = (self.project, self.session, self.agent, self.trust)
        return Event(self.id, at, self.body, self.id, *whose, author=self.author)


# made once, before any threads start: msgspec 0.22 crashes if two use a new type at once
_items = msgspec.json.Decoder(tuple[Item, ...])


class Batch(msgspec.Struct, frozen=True):
    """`ids` are those of all items, None for a refused one; `body` holds the pending items, `turns`
    is the number of conversation turns among them.
    """

    ids: tuple[str | None, ...]
    refused: tuple[Refused, ...]
    body: bytes
    turns: int = 0

    @property
    def digest(self) -> bytes:
        """A digest that is equal for batches with the same content."""
        return sha256(self.body + msgspec.json.encode(self.refused)).digest()


def make_batch(job: str, at: int, memories: Sequence[Draft], turns: Sequence[Draft] = ()) -> Batch:
    """Return drafts as they are queued, those of `memories` before those of turns; junk is refused.

    Raise InvalidInput, naming the item, for an invalid memory: too large, a wrong project.
    """
    items: list[Item] = []
    refused: list[Refused] = []
    for place, draft in enumerate((*memories, *turns)):
        try:
            event, _ = encode_row(memory_event(draft, at))
        except JunkText as error:
            refused.append(Refused(place, redact.redact(str(error))))  # it may quote the text
            continue
        except InvalidInput as error:
            first = len(memories)  # index of the first turn
            path = f"memories[{place}]" if place < first else f"turns[{place - first}]"
            raise type(error)(f"{path}: {error}") from error
        assert isinstance(event.body, Recorded)
        whose = (event.project, event.session, event.agent, event.trust, event.author)
        items.append(Item(place, draft.id or memory_id(job, place), event.body, *whose))
    ids: list[str | None] = [None] * (len(memories) + len(turns))
    for item in items:
        ids[item.place] = item.id
    count = sum(item.place >= len(memories) for item in items)
    return Batch(tuple(ids), tuple(refused), msgspec.json.encode(items), count)


def turn_drafts(
    turns: Iterable[Turn],
    *,
    project: str | None = None,
    session: str | None = None,
    agent: str | None = None,
) -> list[Draft]:
    """Return the turns of one conversation as drafts of memories."""
    return [
        Draft(
            content=turn.content,
            kind="raw_turn",
            created_by=turn.speaker,
            created_at=turn.at,
            project=project,
            session=session,
            agent=agent,
            trust=_TRUST[turn.role],
            author=author_of("program", _TRUST[turn.role]),
        )
        for turn in turns
    ]


def batch_events(body: bytes, at: int) -> list[tuple[int, Event]]:
    """Return the events in a body, each with the place of its item."""
    return [(item.place, item.event(at)) for item in _items.decode(body)]


def drop_memories(body: bytes, memories: Collection[str]) -> bytes:
    """Return a body without the items of some memories."""
    return msgspec.json.encode([item for item in _items.decode(body) if item.id not in memories])


def memory_id(job: str, place: int) -> str:
    """Return the id of the memory made from an item of a job."""
    return job[:_ULID_TIME] + derived_id(0, "ingest", job, str(place))[_ULID_TIME:]
