"""
Commands: requests to a memory, checked here, then turned into events.

Every surface (CLI, HTTP, importers, jobs) goes through these functions, so each rule exists once.
The log redacts secrets itself; here texts are checked and our own injected blocks removed.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import structs

from store.home.errors import Conflict, InvalidInput, JunkText, NotFound, closest
from store.home.instants import EARLIEST, LATEST, micros, new_id
from store.home.projects import check_project
from store.log import log_queries
from store.log.checks import erasure_message
from store.log.event_kinds import (
    AUTHORS,
    Archived,
    Author,
    Expected,
    Forgotten,
    Id,
    Linked,
    Name,
    Pinned,
    Project,
    Prompted,
    Rated,
    Recalled,
    Recorded,
    Relation,
    Restored,
    Revised,
    Superseded,
    Trust,
)
from store.log.event_log import Appended, EventLog
from store.log.events import KINDS, Event, decode, encode, is_erased
from store.log.rows import redact_event
from store.redaction import redact
from store.text import frame

MAX_CONTENT = 64 * 1024  # characters; a longer text is a document, not a memory
MAX_METADATA = 32 * 1024  # bytes of JSON
MAX_DEPTH = 32  # of metadata: recursive readers must not run out of stack
MAX_VALUES = 1_000  # in metadata, at all depths
MAX_TAGS, MAX_TAGS_BYTES = 100, 8 * 1024  # of a memory, together
MAX_SOURCES = 1_000  # source memories of one memory
MAX_VALUE = 8 * 1024  # bytes of a keyed fact's value
MAX_REASON = 8 * 1024  # bytes
MAX_QUESTION = 2_000  # characters of a pinned question; a receipt stores as many
BATCH = 500  # events a transaction: one fsync for many, and no writer waits long

_SIDE_TEXTS = ("context", "action", "result")
_PLACEHOLDERS = frozenset(
    "todo tbd n/a na none null undefined test testing asdf foo bar placeholder lorem ipsum "
    "hello hi ok okay yes no thanks done xxx ... - example string text content memory".split()
)
_LEAST_TYPED = 4  # letters of an id that may contain a typing error
_REPEATED = re.compile(r"(.)\1*", re.DOTALL)


class Draft(Recorded, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory as a caller asks for it: what is recorded, and whose it is."""

    id: Id | None = None
    project: Project | None = None
    session: Name | None = None
    agent: Name | None = None
    trust: Trust = "user"
    author: Author | None = None


_AUTHOR_OF: Mapping[Trust, Author] = {
    "user": "typed",
    "agent": "agent",
    "tool": "tool",
    "web": "web",
}


def author_of(sender: Author, trust: Trust) -> Author:
    """Return the author of a text from its sender and the claimed trust: the lower of the two.

    Every entry point decides by this: only a person's own makes a text `typed`.
    """
    return max(sender, _AUTHOR_OF[trust], key=AUTHORS.index)


class Counts(msgspec.Struct, frozen=True):
    """The outcome of recording many drafts."""

    added: int = 0
    known: int = 0
    refused: int = 0


def memory_event(draft: Draft, now: int) -> Event:
    """Return the event that records a draft, without writing it.

    Raise JunkText for a text not worth a memory, InvalidName for a project's name, and InvalidInput
    for one that is too large.
    """
    if draft.made is not None:
        raise InvalidInput("`made` is for jobs to say: leave it out")
    content = check_text(draft.content)
    _check_metadata(draft.metadata)
    if draft.created_at is not None and not EARLIEST <= micros(draft.created_at) <= LATEST:
        raise InvalidInput(f"created_at {draft.created_at} lies outside the years 1 to 9999 UTC")
    _check_tags(draft.tags)
    if len(draft.source_ids) > MAX_SOURCES:
        many = len(draft.source_ids)
        raise InvalidInput(f"source_ids may name {MAX_SOURCES} memories, not {many}: name the main")
    _check_bytes("value", draft.value, MAX_VALUE)
    fields = {name: getattr(draft, name) for name in Recorded.__struct_fields__}
    for name in _SIDE_TEXTS:
        fields[name] = _side_text(name, fields[name]) or None
    if draft.id is not None and redact.find(draft.id):
        raise InvalidInput("the id holds a secret: send another, or none")
    project = check_project(draft.project) if draft.project is not None else None
    id_ = draft.id or new_id(now)
    body = Recorded(**(fields | {"content": content}))
    try:
        decode("recorded", encode(body))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"this is not a valid memory: {error}") from error
    whose = (project, draft.session, draft.agent, draft.trust)
    return Event(id_, now, body, id_, *whose, author=draft.author)


def _side_text(name: str, text: str | None) -> str | None:
    """Return a text that accompanies the content without our own blocks; None stays None."""
    clean = None if text is None else frame.strip(text)
    if clean is not None and len(clean) > MAX_CONTENT:
        raise InvalidInput(f"{name} is over {MAX_CONTENT} characters")
    return clean


def _check_bytes(name: str, text: str | None, most: int) -> None:
    if text is not None and (size := len(text.encode(errors="replace"))) > most:
        raise InvalidInput(f"{name} may have {most} bytes, not {size}: shorten it")


def limit_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the first tags, each once: as many as a memory may have."""
    first: list[str] = []
    size = 0
    for tag in dict.fromkeys(tags):
        size += len(tag.encode())
        if len(first) == MAX_TAGS or size > MAX_TAGS_BYTES:
            break
        first.append(tag)
    return tuple(first)


def _check_tags(tags: Sequence[str]) -> None:
    if len(tags) > MAX_TAGS:
        raise InvalidInput(
            f"a memory may have {MAX_TAGS} tags, not {len(tags)}: keep the most useful"
        )
    if (size := sum(len(tag.encode(errors="replace")) for tag in tags)) > MAX_TAGS_BYTES:
        raise InvalidInput(f"tags may have {MAX_TAGS_BYTES} bytes together, not {size}: shorten")
    if any(frame.contains(tag) for tag in tags):
        raise JunkText("a tag is text that mnemolog injected: remove it")


def _check_metadata(metadata: dict[str, Any]) -> None:
    if _is_deeper(metadata, MAX_DEPTH):
        raise InvalidInput(f"metadata is nested more than {MAX_DEPTH} deep: flatten it")
    if (many := _values(metadata)) > MAX_VALUES:
        raise InvalidInput(f"metadata may hold {MAX_VALUES} values, not {many}: keep it small")
    try:
        encoded = msgspec.json.encode(metadata)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"metadata cannot be written as JSON: {error}") from error
    if len(encoded) > MAX_METADATA:
        raise InvalidInput(f"metadata is over {MAX_METADATA} bytes of JSON: keep it small")
    if frame.OPENING.encode() in encoded:
        raise JunkText("metadata contains text that mnemolog injected: remove it")


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def _values(value: object) -> int:
    """Return the number of values in metadata, at all depths."""
    if not isinstance(value, dict | list):
        return 1
    return sum(map(_values, value.values() if isinstance(value, dict) else value))


def check_text(text: str) -> str:
    """Return the text as it will be stored; raise JunkText or InvalidInput with the reason."""
    clean = frame.strip(text.replace("\x00", "")).strip()
    if not clean:
        reason = "it is only what mnemolog injected" if frame.contains(text) else "it is empty"
        raise JunkText(f"nothing to remember: {reason}")
    if len(clean) > MAX_CONTENT:
        raise InvalidInput(
            f"a memory holds {MAX_CONTENT} characters, this has {len(clean)}: split it"
        )
    if clean.casefold().strip(" .!?:;") in _PLACEHOLDERS or _REPEATED.fullmatch(clean):
        raise JunkText(f"nothing to remember: {clean[:40]!r} is a placeholder")
    if not any(character.isalpha() for character in clean):
        raise JunkText(f"nothing to remember: {clean[:40]!r} has no word in it")
    return clean


def record(log: EventLog, draft: Draft, now: int) -> Appended:
    """Record one memory; the same id and text again is the same memory, not a second one."""
    return log.append([memory_event(draft, now)])[0]


def record_batch(log: EventLog, drafts: Sequence[Draft], now: int) -> list[Appended]:
    """Record all or none, in order; an error names the draft it is about."""
    return log.append(memory_events(drafts, now))


def memory_events(drafts: Sequence[Draft], now: int) -> list[Event]:
    """Return the events that record drafts, without writing them; raise as `memory_event` does."""
    events = []
    for number, draft in enumerate(drafts):
        try:
            events.append(memory_event(draft, now))
        except InvalidInput as error:
            raise type(error)(f"memories[{number}]: {error}") from error
    return events


def import_drafts(
    log: EventLog,
    drafts: Iterable[Draft | Event],
    now: int,
    *,
    on_progress: Callable[[int], None] = lambda done: None,
    on_refused: Callable[[str], None] = lambda reason: None,
) -> Counts:
    """Record drafts with ids, and events of sessions, in transactions of `BATCH`; existing ones are
    left alone.

    A draft that fails the quality bar is counted as refused and stops nothing.
    """
    added = refused = done = 0
    remaining = iter(drafts)
    while batch := list(islice(remaining, BATCH)):
        events: dict[str, Event] = {}
        for draft in batch:
            try:
                event = draft if isinstance(draft, Event) else memory_event(draft, now)
            except InvalidInput as error:
                refused += 1
                on_refused(str(error))
            else:
                events.setdefault(event.id, event)  # the first counts, as across batches
        there = log.present_ids(list(events))
        appended = log.append([event for id_, event in events.items() if id_ not in there])
        added += sum(line.is_new for line in appended)
        done += len(batch)
        on_progress(done)
    return Counts(added, done - refused - added, refused)


Change = Revised | Superseded | Archived | Forgotten | Restored | Pinned | Linked


def forget(
    log: EventLog, id_: str, now: int, reason: str | None = None, trust: Trust = "user"
) -> Event:
    """Hide a memory for good; `restore` undoes it. Raise NotFound for an unknown id."""
    return _tell(log, id_, Forgotten(reason=reason), now, trust)


def archive(log: EventLog, id_: str, now: int, reason: str | None = None) -> Event:
    return _tell(log, id_, Archived(reason=reason), now)


def restore(log: EventLog, id_: str, now: int, reason: str | None = None) -> Event:
    """Make a forgotten, archived, superseded or expired memory current again.

    Raise Conflict for a memory that a job made from an erased one, since it repeats its text, and
    for one whose plan was undone.
    """
    return _tell(log, id_, Restored(reason=reason), now)


def pin(log: EventLog, id_: str, now: int, *, pinned: bool = True) -> Event:
    return _tell(log, id_, Pinned(pinned=pinned), now)


def revise(
    log: EventLog,
    id_: str,
    changes: Revised,
    now: int,
    trust: Trust = "user",
    author: Author | None = None,
) -> Event:
    """Replace the fields that `changes` sets; the log keeps their old values.

    A text by another author is trusted no more than that author.
    """
    event = change_event(log, id_, changes, now, trust=trust, author=author)
    return log.append([event])[0].event


def supersede(log: EventLog, id_: str, by: str, now: int, reason: str | None = None) -> Event:
    """Let `by` take the place of `id_`; raise NotFound if either is unknown."""
    return _tell(log, id_, Superseded(by=by, reason=reason), now)


def link(
    log: EventLog, id_: str, target: str, relation: Relation, now: int, trust: Trust = "user"
) -> Event:
    return _tell(log, id_, Linked(target=target, relation=relation), now, trust)


def change_event(
    log: EventLog,
    id_: str,
    change: Change,
    now: int,
    event_id: str | None = None,
    trust: Trust = "user",
    author: Author | None = None,
) -> Event:
    """Return the event that changes a memory, without writing it; `trust` is the trust in the
    sender, `author` the author of the text.

    Raise NotFound if the memory, or another that the change names, is unknown or was erased,
    Conflict if the memory was recorded by an undone plan, since it no longer counts, and for a
    `Restored` of a memory that a job made from an erased one, InvalidInput for a revision of an
    episode, and it or JunkText for a revision that `memory_event` would refuse too.
    """
    first = _must_know(log, id_)
    if not isinstance(change, Pinned | Linked):
        _check_bytes("reason", change.reason, MAX_REASON)
    if isinstance(change, Revised):
        if isinstance(first.body, Prompted):
            raise InvalidInput(
                f"{id_} is an episode, a record of what happened: record a new memory instead"
            )
        change = _check_revision(change)
    elif isinstance(change, Superseded):
        if change.by == id_:
            raise InvalidInput(f"memory {id_!r} cannot replace itself: give another")
        _must_know(log, change.by)
    elif isinstance(change, Linked):
        _must_know(log, change.target)
    elif isinstance(change, Restored) and (source := _find_erased_source(log, first)) is not None:
        raise Conflict(f"memory {id_!r} was made of {source!r}, which was erased: record it again")
    whose = (first.project, None, None, trust)
    return Event(event_id or new_id(now), now, change, id_, *whose, author=author)


def _tell(log: EventLog, id_: str, change: Change, now: int, trust: Trust = "user") -> Event:
    return log.append([change_event(log, id_, change, now, trust=trust)])[0].event


def _check_revision(changes: Revised) -> Revised:
    if changes.content is not None:
        changes = msgspec.structs.replace(changes, content=check_text(changes.content))
    side = {name: _side_text(name, getattr(changes, name)) for name in _SIDE_TEXTS}
    changes = msgspec.structs.replace(changes, **side)
    if changes.tags is not None:
        _check_tags(changes.tags)
    if changes.metadata is not None:
        _check_metadata(changes.metadata)
    return changes


def rate(
    log: EventLog,
    id_: str,
    verdict: float,
    now: int,
    reason: str | None = None,
    trust: Literal["user", "agent"] = "user",
) -> Event:
    """Rate a memory, or all results of a recall by the id of its receipt.

    The verdict goes from -1 (harmful) to 1 (decisive). Only a person or an agent can rate:
    statements of tools and the web do not count. Raise NotFound for an id that is neither.
    """
    return log.append([rating_event(log, id_, verdict, now, reason, trust)])[0].event


def rating_event(
    log: EventLog,
    id_: str,
    verdict: float,
    now: int,
    reason: str | None = None,
    trust: Literal["user", "agent"] = "user",
    event_id: str | None = None,
) -> Event:
    """Return the event that rates, without writing it; raise as `rate` does."""
    if not -1.0 <= verdict <= 1.0:
        raise InvalidInput(f"a verdict lies between -1 and 1, not {verdict}")
    _check_bytes("reason", reason, MAX_REASON)
    events = log.events_for(id_)
    if not events or not isinstance(events[0].body, Recorded | Prompted | Recalled):
        raise NotFound(f"no memory {id_!r}, and no recall: `mnemolog pending` lists those")
    body = Rated(verdict=verdict, reason=reason)
    return Event(event_id or new_id(now), now, body, id_, events[0].project, trust=trust)


def expectation_event(
    log: EventLog,
    question: str,
    id_: str,
    project: str | None,
    now: int,
    *,
    expected: bool = True,
) -> Event:
    """Return the event that pins a question to a memory, or removes the pin, without writing it.

    Raise NotFound for a memory that is unknown or was erased, InvalidInput for a question that is
    empty or longer than MAX_QUESTION.
    """
    question = " ".join(question.split())
    if not 0 < len(question) <= MAX_QUESTION:
        raise InvalidInput(f"a question to pin has 1 to {MAX_QUESTION:,} characters")
    if expected:
        _must_know(log, id_)
    body = Expected(question=question, expected=expected)
    return redact_event(Event(new_id(now), now, body, id_, project))


def resolve(log: EventLog, prefix: str) -> str:
    """Return the one memory whose id starts with `prefix`; people type the first few letters.

    Raise NotFound if there is none, InvalidInput if there are several.
    """
    return _only_match(log, prefix, ("recorded", "prompted"), "memory", "list")


def resolve_rated(log: EventLog, prefix: str) -> str:
    """Return the one memory or receipt of a recall whose id starts with `prefix`.

    Raise NotFound if there is none, InvalidInput if there are several.
    """
    kinds = ("recorded", "prompted", "recalled")
    return _only_match(log, prefix, kinds, "memory or recall", "pending")


def resolve_recall(log: EventLog, prefix: str) -> str:
    """Return the one receipt of a recall whose id starts with `prefix`.

    Raise NotFound if there is none, InvalidInput if there are several.
    """
    return _only_match(log, prefix, ("recalled",), "recall", "receipts")


def resolve_event(log: EventLog, prefix: str) -> tuple[str, bool]:
    """Return the id of the one memory whose id starts with `prefix`, else of the one event of any
    kind; and whether it is a memory's.

    Raise NotFound if there is none, InvalidInput if there are several.
    """
    is_memory = bool(prefix and log.ids_with_prefix(prefix, 1))
    kinds = ("recorded", "prompted") if is_memory else tuple(KINDS)
    return _only_match(log, prefix, kinds, "memory or event", "list"), is_memory


def _only_match(log: EventLog, prefix: str, kinds: Sequence[str], noun: str, command: str) -> str:
    ids = log.ids_with_prefix(prefix, kinds=kinds) if prefix else []
    if prefix in ids or len(ids) == 1:
        return prefix if prefix in ids else ids[0]
    if not ids:
        hint = _near_id(log, prefix, kinds)
        raise NotFound(f"no {noun} {prefix!r}:{hint} `mnemolog {command}` shows what there is")
    raise InvalidInput(f"{prefix!r} could be {', '.join(ids)}: give more letters of the id")


def _near_id(log: EventLog, prefix: str, kinds: Sequence[str]) -> str:
    """Return " did you mean ...?" for an id with one wrong letter; "" if none is near.

    Up to 500 ids with the same first half, then the same first third, are compared.
    """
    if len(prefix) < _LEAST_TYPED:
        return ""
    for part in (2, 3):
        some = log.ids_with_prefix(prefix[: len(prefix) // part].upper(), 500, kinds)
        alike = 1 - 1.5 / len(prefix)
        if near := closest(prefix, (id_[: len(prefix)] for id_ in some), 3, alike):
            return f" did you mean {' or '.join(near)}?"
    return ""


def _must_know(log: EventLog, id_: str) -> Event:
    events = log.events_for(id_)
    if not events or not isinstance(events[0].body, Recorded | Prompted):
        raise NotFound(f"no memory {id_!r}: `mnemolog list` shows what there is")
    if is_erased(events[0].body):
        raise NotFound(erasure_message(id_))
    if (plan := log_queries.plan_that_lacks(log, id_)) is not None:
        is_made = isinstance(events[0].body, Recorded) and events[0].body.made is not None
        cure = (
            "record again what is still true"
            if is_made
            else f"`mnemolog plans apply {plan}` brings back what it had brought"
        )
        raise Conflict(f"memory {id_!r} is of plan {plan}, which was undone: {cure}")
    return events[0]


def _find_erased_source(log: EventLog, recorded: Event) -> str | None:
    """Return an erased memory that jobs made `recorded` from, directly or not; None if there is
    none.
    """
    waiting, visited = [recorded], {recorded.id}
    while waiting:
        body = waiting.pop().body
        if isinstance(body, Recorded) and body.made is not None:
            for id_ in body.source_ids:
                events = log.events_for(id_)[:1] if id_ not in visited else []
                if events and is_erased(events[0].body):
                    return id_
                visited.add(id_)
                waiting += events
    return None


# Goals: their status, progress and due day.


def change_goal(
    log: EventLog,
    id_: str,
    changes: Revised,
    now: int,
    due: date | None = None,
    trust: Trust = "user",
) -> Event:
    """Change a goal; `due` joins its metadata. Raise NotFound, and InvalidInput for another kind.

    It raises the errors of a revision, too.
    """
    bodies = [event.body for event in log.events_for(id_)]
    if bodies and not (isinstance(bodies[0], Recorded) and bodies[0].kind == "goal"):
        raise InvalidInput(f"{id_} is not a goal: `mnemolog list --kind goal` lists them")
    if due is not None:
        metadata: dict[str, Any] = {}  # its current metadata
        for body in bodies:
            if isinstance(body, Recorded | Revised) and body.metadata is not None:
                metadata = body.metadata
        changes = structs.replace(changes, metadata=metadata | {"due": due.isoformat()})
    return revise(log, id_, changes, now, trust)
