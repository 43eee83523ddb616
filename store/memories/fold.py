"""
Fold: the memories that result from a run of events, and the effect of each event.

Every event changes the row of its subject. A newer fact of the same key and project supersedes the
older one; this needs no event in the log. The newer is the one written later, whenever it became
true: it takes over from its own `created_at` on, so that at any moment one value of a key is valid,
and a value that became true after its successor never was.

Text from a tool or the web never replaces text from a user or an agent: as a value of a key it is
stored as superseded, and a person may restore it. It is never stored as pinned.

A revised memory has the lower trust of its writer and its editor, and the lower author of the two.

`default_importance` and `default_tier` apply where no event sets an importance or a tier.

A memory's `ended_at` is when it was first superseded, archived or forgotten. A restored memory
counts as never having ended.

A memory in quarantine is hidden like a forgotten one; the insights made from it stay.

An erased memory keeps its place but none of its text, and no event changes it any more.

A prompt begins an episode, and its session's actions until the next prompt belong to it
(`episode`).

An insight becomes stale as soon as one of its sources is superseded, forgotten or stale, unless the
insight itself superseded that source.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Protocol

import msgspec
from msgspec.structs import force_setattr, replace

from store.home.instants import micros
from store.log.event_kinds import (
    AUTHORS,
    EPISODE,
    TRUSTS,
    Acted,
    Archived,
    Erased,
    Forgotten,
    Linked,
    Pinned,
    Prompted,
    Quarantined,
    Recorded,
    Restored,
    Revised,
    SessionTold,
    Staled,
    Superseded,
)
from store.log.events import Event
from store.log.rows import redact_event
from store.memories import episode as episodes
from store.memories.memory import (
    ACTIVE,
    ARCHIVED,
    AUTO,
    DEFAULT_SCORE,
    ERASED,
    FALLEN,
    FIELDS,
    FORGOTTEN,
    KEPT,
    OPEN,
    STALE,
    SUPERSEDED,
    TEXT_FIELDS,
    Edge,
    Memory,
    default_importance,
    default_tier,
    indexed_text,
)
from store.text.text_features import MAY_RULE
from store.text.tokenizer import text_hash

_WITH_TEXTS = (Recorded, Revised, Prompted, Acted, SessionTold)


class Rows(Protocol):
    """The source of the memories that a fold did not make itself."""

    def find(self, id_: str) -> Memory | None:
        """Return the memory with this id."""

    def holder(self, project: str | None, key: str) -> str | None:
        """Return the id of the current memory of a key in a project."""

    def values(self, project: str | None, key: str) -> Sequence[str]:
        """Return the ids of all memories of a key in a project, in the order of their writing."""

    def made_of(self, id_: str) -> Sequence[str]:
        """Return the ids of the memories that jobs made of this one, in order of their writing."""

    def episode(self, session: str) -> str | None:
        """Return the id of the newest episode of a session."""


class Fold:
    """The memories that result from a run of events: give it rows, `apply` events in order.

    `rows` has the given, the new and the changed memories. With `beneath`, it lies over a larger
    set of memories that it reads from and never changes: the log's tail over a snapshot.
    """

    def __init__(
        self, rows: Iterable[Memory] = (), edges: Iterable[Edge] = (), beneath: Rows | None = None
    ) -> None:
        self.rows = {memory.id: memory for memory in rows}
        self.edges = list(edges)
        self._beneath = beneath
        self._holders = {
            (memory.project, memory.key): memory.id
            for memory in self.rows.values()
            if memory.key is not None and memory.state == ACTIVE
        }
        self._values: dict[tuple[str | None, str], list[str]] = {}
        self._made_of: dict[str, list[str]] = {}
        self._episodes: dict[str, str] = {}
        for memory in self.rows.values():
            self._file(memory)

    def find(self, id_: str) -> Memory | None:
        memory = self.rows.get(id_)
        return self._beneath.find(id_) if memory is None and self._beneath else memory

    def holder(self, project: str | None, key: str) -> str | None:
        id_ = self._holders.get((project, key))
        return self._beneath.holder(project, key) if id_ is None and self._beneath else id_

    def values(self, project: str | None, key: str) -> Sequence[str]:
        beneath = self._beneath.values(project, key) if self._beneath else ()
        return [*beneath, *self._values.get((project, key), ())]

    def made_of(self, id_: str) -> Sequence[str]:
        beneath = self._beneath.made_of(id_) if self._beneath else ()
        return [*beneath, *self._made_of.get(id_, ())]

    def episode(self, session: str) -> str | None:
        """Return the id of the newest episode of a session."""
        id_ = self._episodes.get(session)
        return self._beneath.episode(session) if id_ is None and self._beneath else id_

    def apply(self, event: Event) -> tuple[str, ...]:
        """Apply one event; return the ids of the memories it made or changed, without those of
        unfinished episodes, which are not recalled yet.
        """
        if isinstance(event.body, _WITH_TEXTS):
            event = redact_event(event)  # from an earlier version, it may contain a secret
        body = event.body
        if isinstance(body, (Prompted, Acted, SessionTold)):
            return self._add_to_episode(event)
        if isinstance(body, Recorded):
            memory = self._within_its_trust(new_memory(event, body))
            self._file(memory)
            return self._store(memory, event.at)
        before = self.find(event.subject)
        if before is None:
            return ()
        if isinstance(body, Linked):
            self.edges.append(Edge(event.subject, body.target, body.relation, event.seq))
            return ()
        changes = changes_of(event)
        if isinstance(body, Restored) and self._rests_on_erased(before):
            changes |= {"state": STALE, "ended_at": event.at}
        if not changes or before.text_hash == ERASED:
            return ()
        state = changes.get("state", ACTIVE)
        is_put_away = state not in (ACTIVE, FORGOTTEN) and not isinstance(body, Restored)
        if before.state == FORGOTTEN and is_put_away:
            return ()  # archived or superseded, it would be visible again to queries for those
        has_ended = before.ended_at is not None and changes.get("ended_at") is not None
        if has_ended and not isinstance(body, Erased):  # its end's event is blanked in the log
            changes["ended_at"] = before.ended_at  # it ends once
        after = with_tier(before, replace(before, updated_at=event.at, **changes))
        if "text_hash" not in changes and not changes.keys().isdisjoint(TEXT_FIELDS):
            trust = max(before.trust, event.trust, key=TRUSTS.index)
            author = max(before.author, event.author, key=_AUTHORS.index)
            after = replace(after, text_hash=text_hash(after.text), trust=trust, author=author)
        # the insights made from it stay valid
        if isinstance(body, Quarantined) or (isinstance(body, Erased) and body.aged):
            return self._store_value(after, event.at)
        return self._store(after, event.at)

    def dependents(self, ids: Iterable[str]) -> list[str]:
        """Return the memories among some ids, and all whose states theirs may depend on or that may
        depend on theirs.
        """
        related: dict[str, None] = {}
        waiting = list(ids)
        while waiting:
            id_ = waiting.pop()
            if id_ not in related and (memory := self.find(id_)) is not None:
                related[id_] = None
                waiting += self.made_of(id_)
                if memory.key is not None:
                    waiting += self.values(memory.project, memory.key)
                if memory.job is not None:
                    waiting += memory.source_ids
        return list(related)

    def anew(self, ids: Sequence[str], events: Iterable[Event], since: int = 0) -> list[str]:
        """Fold some memories anew from all valid events about them; return the changed ids.

        The ids must include the memories that their states depend on (`dependents`). Memories
        without an event are forgotten. Links drawn up to the seq `since` lie beneath.
        """
        fold = Fold()
        for event in events:
            fold.apply(event)
        among, changed = set(ids), []
        for id_ in ids:
            before = self.find(id_)
            assert before is not None
            after = fold.rows.get(id_) or replace(before, state=FORGOTTEN)
            if after != before:
                self.rows[id_] = after
                changed.append(id_)
        self._holders |= fold._holders
        others = [edge for edge in self.edges if edge.source not in among]
        drawn = [edge for edge in fold.edges if edge.source in among and edge.seq > since]
        self.edges = sorted([*others, *drawn], key=attrgetter("seq"))
        return changed

    def settle(self, ids: Iterable[str]) -> list[Memory]:
        """Return the rows of some ids, which are beneath from now on, and drop them here."""
        self._holders.clear()
        self._values.clear()
        self._made_of.clear()
        settled = [self.rows.pop(id_) for id_ in ids]
        for memory in settled:
            if memory.kind == EPISODE and self._episodes.get(memory.session or "") == memory.id:
                del self._episodes[memory.session or ""]
        return settled

    def _add_to_episode(self, event: Event) -> tuple[str, ...]:
        """Begin an episode, or add to the newest of its session."""
        id_ = self.episode(event.session) if event.session is not None else None
        before = self.find(id_) if id_ is not None else None
        if isinstance(event.body, Prompted):
            begun = episodes.begin_episode(event, event.body)
            self.rows[begun.id] = begun
            self._file(begun)
            after = episodes.close_episode(before) if before is not None else None
        else:
            after = episodes.extend_episode(before, event) if before is not None else None
        if before is None or after is None or after == before:
            return ()
        self.rows[after.id] = after
        return () if after.state == OPEN else (after.id,)

    def _rests_on_erased(self, memory: Memory) -> bool:
        """Return True if a job made a memory from an erased one, directly or indirectly."""
        waiting, visited = [memory], {memory.id}
        while waiting:
            memory = waiting.pop()
            for id_ in memory.source_ids if memory.job is not None else ():
                source = self.find(id_) if id_ not in visited else None
                visited.add(id_)
                if source is not None:
                    if source.text_hash == ERASED and source.kind != EPISODE:
                        return True
                    waiting.append(source)
        return False

    def _within_its_trust(self, memory: Memory) -> Memory:
        """Return a new memory; superseded at once if its key has a more trusted value."""
        if memory.key is None or memory.trust in MAY_RULE:
            return memory
        id_ = self.holder(memory.project, memory.key)
        there = self.find(id_) if id_ is not None else None
        if there is None or there.state != ACTIVE or there.trust not in MAY_RULE:
            return memory
        return replace(memory, state=SUPERSEDED, superseded_by=there.id, ended_at=memory.created_at)

    def _file(self, memory: Memory) -> None:
        if memory.kind == EPISODE and memory.session is not None:
            self._episodes[memory.session] = memory.id
        if memory.key is not None:
            self._values.setdefault((memory.project, memory.key), []).append(memory.id)
        for source in dict.fromkeys(memory.source_ids) if memory.job is not None else ():
            self._made_of.setdefault(source, []).append(memory.id)

    def _store(self, memory: Memory, at: int) -> tuple[str, ...]:
        """Store a row and its effects on other memories; return the ids of all changed ones."""
        changed = self._store_value(memory, at)
        fallen = [id_ for id_ in changed if self.rows[id_].state in FALLEN]
        for id_ in fallen:  # which grows
            by = self.rows[id_].superseded_by
            for insight_id in self.made_of(id_):
                insight = self.find(insight_id)
                if insight is not None and insight.state == ACTIVE and insight_id != by:
                    self.rows[insight_id] = replace(
                        insight, state=STALE, ended_at=max(at, insight.created_at), updated_at=at
                    )
                    fallen.append(insight_id)
        return tuple(dict.fromkeys((*changed, *fallen)))

    def _store_value(self, memory: Memory, at: int) -> tuple[str, ...]:
        """Store a row; if it is the newest of its key, it supersedes the other values."""
        self.rows[memory.id] = memory
        if memory.key is None or memory.state != ACTIVE:
            return (memory.id,)
        older = self.holder(memory.project, memory.key)
        if older == memory.id:
            return (memory.id,)
        self._holders[memory.project, memory.key] = memory.id
        there = self.find(older) if older is not None else None
        if there is not None and there.state == ACTIVE and there.created_at <= memory.created_at:
            others = [there]  # it superseded the earlier ones, and so do its successors
        else:
            ids = self.values(memory.project, memory.key)
            memories = (self.find(id_) for id_ in ids if id_ != memory.id)
            # an erased one is a value of no key any more
            others = [other for other in memories if other is not None and other.key == memory.key]
        changed = {
            other.id: after
            for other in others
            if (after := _supersede_value(other, memory, at)) != other
        }
        self.rows |= changed
        return memory.id, *changed


def _supersede_value(memory: Memory, newer: Memory, at: int) -> Memory:
    """Return a value of a key, superseded by a newer one: it ends when that begins."""
    ends = max(memory.created_at, newer.created_at)
    if memory.state == ACTIVE:
        return replace(
            memory, state=SUPERSEDED, superseded_by=newer.id, ended_at=ends, updated_at=at
        )
    return replace(memory, ended_at=ends if memory.ended_at is None else min(memory.ended_at, ends))


# Effects: an event's change to the row of its subject, independent of all other rows.
#
# The fold handles the consequences for other memories.


def new_memory(event: Event, body: Recorded) -> Memory:
    """Return the row of a new memory, active even if another has its key."""
    created = micros(body.created_at) if body.created_at else event.at
    tags = tuple(dict.fromkeys(body.tags))
    text = indexed_text(body.content, body.context, body.action, body.result, tags)
    pinned = body.pinned and event.trust in MAY_RULE  # else it would confirm itself
    memory = Memory(
        id=event.id,
        seq=event.seq,
        kind=body.kind,
        state=ACTIVE,
        content=body.content,
        context=body.context,
        action=body.action,
        result=body.result,
        tags=tags,
        project=event.project,
        session=event.session,
        agent=event.agent,
        trust=event.trust,
        source=body.source,
        created_by=body.created_by,
        importance=(
            default_importance(body.kind, event.trust, body.key)
            if body.importance is None
            else body.importance
        ),
        score=DEFAULT_SCORE if body.score is None else body.score,
        pinned=pinned,
        tier=(
            default_tier(body.kind, event.session, body.key, pinned=pinned)
            if body.tier == AUTO
            else body.tier
        ),
        parent_id=body.parent_id,
        source_ids=body.source_ids,
        insight_type=body.insight_type,
        job=body.made.job if body.made else None,
        superseded_by=None,
        key=body.key,
        value=body.value,
        chain=body.chain,
        status=body.status or ("open" if body.kind == "goal" else None),
        progress=body.progress,
        created_at=created,
        updated_at=event.at,
        # a ttl runs from the moment of writing: an import of old notes would expire at once
        expires_at=event.at + body.ttl_s * 1_000_000 if body.ttl_s else None,
        ended_at=None,
        metadata=msgspec.json.encode(body.metadata).decode(),
        text_hash=text_hash(text),
        author=event.author,
    )
    for name in _AS_RECORDED:
        force_setattr(memory, name, getattr(body, name))
    return memory


# the fields with a default, which were added later; set from `Recorded` if it has them
_LATER = Memory.__struct_fields__[::-1][: len(Memory.__struct_defaults__)]
_AS_RECORDED = [name for name in _LATER if name in Recorded.__struct_fields__]

# a text by two authors is the lower one's; an unknown author ranks below "typed"
_AUTHORS: tuple[str | None, ...] = ("typed", None, *AUTHORS[1:])


# an erased memory's row depends on its place, its ids and its time alone, so that it is the same
# whether its events were folded before they were blanked or after
_BLANK: dict[str, Any] = {field.name: field.blank for field in FIELDS if field.blank is not KEPT}


def with_tier(before: Memory, after: Memory) -> Memory:
    """Return a changed memory; recompute a tier that is `AUTO` or was the default one."""
    if after.tier == AUTO or (after.tier == before.tier == before.auto_tier):
        return replace(after, tier=after.auto_tier)
    return after


_ENCODED = ("tags", "metadata")  # a memory has them in another form than a revision
_REVISABLE = [
    name
    for name in Revised.__struct_fields__
    if name in Memory.__struct_fields__ and name not in _ENCODED
]


def changes_of(event: Event) -> dict[str, Any]:
    """Return the columns an event sets on the row of its subject."""
    match event.body:
        case Revised() as body:
            changes = {
                name: value for name in _REVISABLE if (value := getattr(body, name)) is not None
            }
            if body.tags is not None:
                changes["tags"] = tuple(dict.fromkeys(body.tags))
            if body.metadata is not None:
                changes["metadata"] = msgspec.json.encode(body.metadata).decode()
            if body.ttl_s is not None:
                changes["expires_at"] = event.at + body.ttl_s * 1_000_000
            return changes
        case Superseded(by=by):
            return {"state": SUPERSEDED, "superseded_by": by, "ended_at": event.at}
        case Archived():
            return {"state": ARCHIVED, "ended_at": event.at}
        case Forgotten() | Quarantined():
            return {"state": FORGOTTEN, "ended_at": event.at}
        case Staled():
            return {"state": STALE, "ended_at": event.at}
        case Restored(state=state) if state != ACTIVE:
            return {"state": state}  # its end and its successor do not change
        case Restored():
            return {"state": ACTIVE, "superseded_by": None, "expires_at": None, "ended_at": None}
        case Erased():
            return {**_BLANK, "ended_at": event.at}
        case Pinned(pinned=pinned):
            return {"pinned": pinned}
        case _:
            return {}
