"""
Erasing: what a memory said is taken out of the log itself, everywhere the log says it of it.

The rows stay, with their ids, times and kinds, so that the order of the log is unbroken and every
build counts them; their texts are gone, overwritten with zeros on the page. Only what was written
about the memory is reached: the words of a person or an agent that it was made from are receipts of
their own. Of an episode that is its prompt and all that its turn told. What was derived from the
log is to be built again, and what jobs made of the memory is stale from the same moment on.
`store.erase` reaches what lies beside the log.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from store.home.errors import InvalidInput, LogCorrupt
from store.home.instants import new_id
from store.log import compaction, log_queries, segments
from store.log.event_kinds import (
    Acted,
    Archived,
    Body,
    Erased,
    Expected,
    Followed,
    Forgotten,
    Judged,
    Planned,
    Prompted,
    Proposed,
    Quarantined,
    Rated,
    Recalled,
    Recorded,
    Restored,
    Revised,
    SessionTold,
    Staled,
    Step,
    Superseded,
    Surfaced,
    Unknown,
)
from store.log.event_log import EventLog
from store.log.events import KINDS, Event, decode, encode, is_erased
from store.log.log_file import Row
from store.log.rows import BODY, PUT_AWAY
from store.log.segments import Segment
from store.text.fingerprints import leaves

Ids = frozenset[str]

_QUOTING = ("judged", "planned", "proposed", "superseded")  # may tell of a memory they name
# what stays of a body about an erased memory: ids, numbers and kinds, which texts are told by
_KEPT: dict[type[Body], tuple[str, ...]] = {
    Recorded: tuple(
        "kind tier importance score pinned parent_id source_ids status progress ttl_s created_at "
        "made".split()
    ),
    Revised: ("importance", "tier", "status", "progress", "ttl_s"),
    Superseded: ("by",),
    Archived: (),
    Forgotten: (),
    Restored: (),
    Quarantined: ("check",),
    Staled: (),
    Rated: ("verdict",),
    Expected: ("expected",),
    Surfaced: ("place", "characters"),
    Followed: ("verdict", "place", "stood"),
    Prompted: ("intent", "imported"),
    Acted: ("doing", "effort", "passed"),
    SessionTold: ("stage", "characters"),
    Recalled: tuple({*Recalled.__struct_fields__} - {"query", "basis", "digest"}),
}
_EMPTY: dict[type[Body], dict[str, Any]] = {
    Recorded: {"content": ""},
    Staled: {"reason": ""},
    Quarantined: {"reason": ""},
    Prompted: {"prompt": ""},
    Acted: {"tool": "-"},
    Expected: {"question": ""},
    Recalled: {"query": ""},
}
EMPTIED = frozenset(kind for kind, body in KINDS.items() if body in _KEPT)  # by an event's own id
# what a turn told, whose words are its episode's; what it recorded is a memory of its own
_OF_TURN = ("action", "session", "recalled", "surfaced", "followed")


class Erasure(msgspec.Struct, frozen=True):
    """What was erased. `made` are the memories that jobs made of them, and of these in turn: stale,
    but still worded.

    `is_settled` is False where others read the log meanwhile: old bytes may lie in its write-ahead
    file until it is done again.
    """

    ids: tuple[str, ...]
    events: int
    made: tuple[str, ...]
    is_settled: bool


class Change(msgspec.Struct, frozen=True):
    """A row as it lies, what its body says, wherever that lies, and what it is to say instead."""

    row: Row
    said: str
    left: str


def reach(log: EventLog, ids: Sequence[str]) -> Erasure:
    """Return what erasing some memories would rewrite, and nothing done."""
    changed = changes(log, ids)
    return Erasure(tuple(ids), len(changed), derivatives(log, ids), is_settled=True)


def erase(log: EventLog, ids: Sequence[str], now: int) -> Erasure:
    """Erase memories from the log, all of them or none; return what was done.

    Done a second time it ends what was ended halfway. Raise LogBusy where another process rewrites
    the log, LogCorrupt where a segment with receipts about them is missing.
    """
    with compaction.alone(log.path):
        made = derivatives(log, ids)
        count = 0
        while changed := changes(log, ids):  # somebody may have told of one meanwhile
            rewrite(log, changed, _erasure_events(log, ids, len(changed), now))
            count += len(changed)
        if events := _erasure_events(log, ids, 0, now):  # what said nothing is erased all the same
            log.rewrite(events=events)
        return Erasure(tuple(ids), count, made, purge_old_bytes(log))


def changes(log: EventLog, ids: Sequence[str]) -> list[Change]:
    """Return the rows that say something of some memories, and what they are to say instead."""
    wanted = frozenset(ids) | _ids_erased_with_key(log, frozenset(ids))
    kinds = ", ".join(f"'{kind}'" for kind in _QUOTING)
    about = {
        row[0]: row
        for id_ in sorted(wanted)
        for row in log.select_rows(
            f"subject = ? OR (kind IN ({kinds}) AND instr(body, ?) > 0)", (id_, id_)
        )
    }
    turns = {row[0]: row for id_ in ids for row in _turn(log, id_)}
    rows = [row for _, row in sorted((turns | about).items())]
    changed = (
        Change(
            row,
            whole[BODY],
            encode(strip_texts(decode(row[3], whole[BODY])))
            if row[0] in turns
            else _without_texts(log, whole, wanted),
        )
        for row, whole in zip(rows, log.whole(rows), strict=True)
    )
    return [change for change in changed if change.left != change.said]


def sessions_like(log: EventLog, prefix: str) -> list[str]:
    """Return the ids of sessions that start with `prefix`, in order."""
    rows = log.select_rows("session >= ? AND session < ?", (prefix, prefix + chr(sys.maxunicode)))
    return sorted({row[6] for row in rows})


def of_session(log: EventLog, session: str) -> tuple[list[str], list[str]]:
    """Return the ids of the memories that were recorded in a session, its episodes among them, and
    of its other events that can lose their texts.
    """
    rows = log.select_rows("session = ?", (session,))
    ids = [row[1] for row in rows if row[3] in ("recorded", "prompted")]
    return ids, [row[1] for row in rows if row[3] in EMPTIED and row[1] not in ids]


def event_changes(log: EventLog, ids: Sequence[str]) -> list[Change]:
    """Return the rows of some events, by their own ids, and what they say without their texts.

    Raise InvalidInput for a kind that cannot lose them: it has none, or they are of memories.
    """
    rows = [row for id_ in ids for row in log.select_rows("id = ?", (id_,))]
    for row in rows:
        if row[3] not in EMPTIED:
            raise InvalidInput(
                f"event {row[1]} ({row[3]}) cannot be erased by id: give the memory's, or --text"
            )
    changed = (
        Change(row, whole[BODY], encode(strip_texts(decode(row[3], whole[BODY]))))
        for row, whole in zip(rows, log.whole(rows), strict=True)
    )
    return [change for change in changed if change.left != change.said]


def _turn(log: EventLog, id_: str) -> list[Row]:
    """Return the rows of what was told in the turn that an episode is of; none of a memory."""
    prompt = log.select_rows("id = ? AND kind = 'prompted' AND session IS NOT NULL", (id_,))
    if not prompt:
        return []
    seq, session = prompt[0][0], prompt[0][6]
    later = log.select_rows(
        "session = ? AND kind = 'prompted' AND seq > ?", (session, seq), limit=1
    )
    until = later[0][0] if later else log.head() + 1
    kinds = ", ".join(f"'{kind}'" for kind in _OF_TURN)
    return log.select_rows(
        f"session = ? AND kind IN ({kinds}) AND seq > ? AND seq < ?", (session, seq, until)
    )


def rewrite(log: EventLog, changed: Sequence[Change], events: Sequence[Event] = ()) -> None:
    """Have rows say what is left, those that were put away too; the caller holds the log alone."""
    away = {change.row[0] for change in changed if change.row[BODY] == PUT_AWAY}
    old = [
        segment
        for segment in log.segments()
        if any(segment.first <= seq <= segment.last for seq in away)
    ]
    new = [written for segment in old if (written := _without(log, segment, away))]
    bodies = [(change.row, change.left) for change in changed]
    log.rewrite(bodies, events, adding=new, dropping=old)
    segments.sweep(segments.folder_of(log.path), log.segments())


def purge_old_bytes(log: EventLog) -> bool:
    """Leave none of the old bytes in the log's files; return whether that could be done.

    The whole file is written anew: SQLite overwrites what it deletes, but not what it once moved.
    """
    segments.sweep(segments.folder_of(log.path), log.segments())
    return log.settle(shrink=True)


def derivatives(log: EventLog, ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the memories that jobs made of some, and of what they made of these, that
    still say something.
    """
    has_text: dict[str, bool] = {}
    waiting = list(ids)
    while waiting:
        source = waiting.pop()
        for row in log.select_rows("kind = 'recorded' AND instr(body, ?) > 0", (source,)):
            id_, body = row[1], decode("recorded", row[BODY])
            if not isinstance(body, Recorded) or not body.made or source not in body.source_ids:
                continue
            if id_ not in has_text and id_ not in ids:
                has_text[id_] = not is_erased(body)
                waiting.append(id_)
    return tuple(id_ for id_, has in has_text.items() if has)


def _erasure_events(log: EventLog, ids: Sequence[str], events: int, now: int) -> list[Event]:
    """Return the events that tell of an erasing, of those memories of which none does yet."""
    already = log_queries.erased_ids(log, log.head())
    return [
        Event(
            new_id(now),
            now,
            Erased(events=events),
            id_,
            project=log.select_rows("id = ?", (id_,))[0][5],
        )
        for id_ in ids
        if id_ not in already
    ]


def cut_event(count: int, now: int) -> Event:
    """Return the event that states that so many events lost words, and no memory was erased."""
    id_ = new_id(now)
    return Event(id_, now, Erased(events=count), id_)


def _without_texts(log: EventLog, row: Row, ids: Ids) -> str:
    kind, subject, project, text = row[3], row[4], row[5], row[BODY]
    body = decode(kind, text)
    match body:
        case Unknown():
            return "{}" if subject in ids else str(text)
        case Planned():
            steps = tuple(_step(step, ids) for step in body.steps)
            # what the plan did with the memories stays
            return encode(body if steps == body.steps else replace(body, steps=steps, notes=()))
        case Judged():
            return encode(_strip_evidence(body, ids))
        case Proposed() if _names(text, ids):
            draft = {"content": "", "kind": body.draft.get("kind", "lesson")}
            return encode(replace(body, draft=draft, because=None))
        case Superseded(by=by) if subject in ids or by in ids:
            return encode(Superseded(by=by))
        case _ if subject not in ids:
            return str(text)
        case Recorded():
            blank = strip_texts(body)
            if body.key is not None and any(
                id_ not in ids and not is_erased(other)
                for id_, other in _of_key(log, project, body.key)
            ):
                blank = replace(blank, key=body.key)  # the values before it gave way to it
            return encode(blank)
        case _:
            return encode(strip_texts(body))


def strip_texts(body: Body) -> Body:
    """Return what is left of a body when its texts are gone."""
    of = type(body)
    if of not in _KEPT:
        return body  # it has no text
    return of(**{name: getattr(body, name) for name in _KEPT[of]}, **_EMPTY.get(of, {}))


def _step(step: Step, ids: Ids) -> Step:
    if not _names(msgspec.json.encode(step), ids):
        return step
    body = decode(step.event, msgspec.json.encode(step.body).decode())
    # what was drafted from it may quote it; what it was about says so itself
    stripped = _strip_evidence(body, ids) if isinstance(body, Judged) else strip_texts(body)
    fields: dict[str, Any] = msgspec.json.decode(encode(stripped))
    before = {} if step.subject in ids else step.before
    return replace(step, body=fields, why="", before=before, evidence={})


def _strip_evidence(body: Judged, ids: Ids) -> Judged:
    return replace(
        body, evidence={id_: text for id_, text in body.evidence.items() if id_ not in ids}
    )


def _names(body: str | bytes, ids: Ids) -> bool:
    """Return whether a body names some memory: as a value, not within a text."""
    return not ids.isdisjoint(leaves(msgspec.json.decode(body)))


def _ids_erased_with_key(log: EventLog, ids: Ids) -> Ids:
    """Return the memories that were erased before and kept their key for the sake of some."""
    keys = {
        (row[5], body.key)
        for id_ in ids
        for row in log.select_rows("id = ? AND kind = 'recorded'", (id_,))
        if isinstance(body := decode(row[3], row[BODY]), Recorded)
    }
    return frozenset(
        id_
        for project, key in keys
        if key is not None
        for id_, body in _of_key(log, project, key)
        if is_erased(body)
    )


def _of_key(log: EventLog, project: str | None, key: str) -> Iterator[tuple[str, Recorded]]:
    """Yield the memories that are, or before their erasing were, values of a key."""
    near = log.select_rows(
        "kind = 'recorded' AND project IS ? AND instr(body, ?) > 0",
        (project, msgspec.json.encode(key).decode()),
    )
    for row in near:
        body = decode("recorded", row[BODY])
        if isinstance(body, Recorded) and body.key == key:
            yield row[1], body


def _without(log: EventLog, old: Segment, seqs: set[int]) -> Segment | None:
    """Write a segment again without some events; return it, or None where nothing is left."""
    folder = segments.folder_of(log.path)
    rows = segments.read(folder, old)
    rest = [row for row in rows if row[0] not in seqs]
    if len(rest) == len(rows):
        raise LogCorrupt(f"{folder / old.name} does not hold what the log says: restore a backup")
    return segments.write(folder, rest) if rest else None
