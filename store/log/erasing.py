"""
Erasing: remove a memory's text from the log itself, everywhere the log quotes it.

The rows stay, with their ids, times and kinds, so that the order of the log is unbroken and every
build counts them; their texts are overwritten with zeros on the page. Only events about the memory
are rewritten: the words of a person or an agent that it was made from are receipts of their own.
For an episode that is its prompt and every event of its turn. Snapshots must be rebuilt, and
memories that jobs made from it are stale from that moment on. `store.erase` covers the files beside
the log.
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

_QUOTING = ("judged", "planned", "proposed", "superseded")  # may quote a memory they name
# the fields kept in a body about an erased memory: ids, numbers and kinds
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
# events of a turn, whose words are its episode's; memories it recorded are separate
_OF_TURN = ("action", "session", "recalled", "surfaced", "followed")


class Erasure(msgspec.Struct, frozen=True):
    """The result of an erasure. `made` are the memories that jobs made from the erased ones,
    directly or not: stale, but with their texts.

    `is_settled` is False if others read the log meanwhile: old bytes may remain in its write-ahead
    file until the erasure is repeated.
    """

    ids: tuple[str, ...]
    events: int
    made: tuple[str, ...]
    is_settled: bool


class Change(msgspec.Struct, frozen=True):
    """A row as stored, its current body, from a segment if archived, and its new body."""

    row: Row
    said: str
    left: str


def reach(log: EventLog, ids: Sequence[str]) -> Erasure:
    """Return the result of erasing some memories, without erasing them."""
    changed = changes(log, ids)
    return Erasure(tuple(ids), len(changed), derivatives(log, ids), is_settled=True)


def erase(log: EventLog, ids: Sequence[str], now: int) -> Erasure:
    """Erase memories from the log, all of them or none; return the result.

    Repeating it completes an interrupted erasure. Raise LogBusy if another process rewrites the
    log, LogCorrupt if a segment with receipts about them is missing.
    """
    with compaction.alone(log.path):
        made = derivatives(log, ids)
        count = 0
        while changed := changes(log, ids):  # another process may have written about one meanwhile
            rewrite(log, changed, _erasure_events(log, ids, len(changed), now))
            count += len(changed)
        if events := _erasure_events(log, ids, 0, now):  # memories without texts are erased too
            log.rewrite(events=events)
        return Erasure(tuple(ids), count, made, purge_old_bytes(log))


def changes(log: EventLog, ids: Sequence[str]) -> list[Change]:
    """Return the rows with texts about some memories, and their new bodies."""
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
    """Return the ids of the memories recorded in a session, its episodes included, and of its other
    events that can lose their texts.
    """
    rows = log.select_rows("session = ?", (session,))
    ids = [row[1] for row in rows if row[3] in ("recorded", "prompted")]
    return ids, [row[1] for row in rows if row[3] in EMPTIED and row[1] not in ids]


def event_changes(log: EventLog, ids: Sequence[str]) -> list[Change]:
    """Return the rows of some events, by their own ids, with their bodies stripped of texts.

    Raise InvalidInput for a kind that cannot be stripped: it has no texts, or they belong to
    memories.
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
    """Return the rows of the turn that an episode covers; none for a memory."""
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
    """Give rows their new bodies, archived ones too; the caller holds the log alone."""
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
    """Remove all old bytes from the log's files; return True if that succeeded.

    The whole file is rewritten: SQLite overwrites deleted bytes, but not bytes it once moved.
    """
    segments.sweep(segments.folder_of(log.path), log.segments())
    return log.settle(shrink=True)


def derivatives(log: EventLog, ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the unerased memories that jobs made from some others, directly or not."""
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
    """Return the erasure events of those memories that have none yet."""
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
    """Return the event stating that so many events lost words, and no memory was erased."""
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
            # the plan's effects on the memories stay
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
                blank = replace(blank, key=body.key)  # it replaced the earlier values of the key
            return encode(blank)
        case _:
            return encode(strip_texts(body))


def strip_texts(body: Body) -> Body:
    """Return a body without its texts."""
    of = type(body)
    if of not in _KEPT:
        return body  # it has no text
    return of(**{name: getattr(body, name) for name in _KEPT[of]}, **_EMPTY.get(of, {}))


def _step(step: Step, ids: Ids) -> Step:
    if not _names(msgspec.json.encode(step), ids):
        return step
    body = decode(step.event, msgspec.json.encode(step.body).decode())
    # a body drafted from it may quote it; evidence is stored by the memory it is about
    stripped = _strip_evidence(body, ids) if isinstance(body, Judged) else strip_texts(body)
    fields: dict[str, Any] = msgspec.json.decode(encode(stripped))
    before = {} if step.subject in ids else step.before
    return replace(step, body=fields, why="", before=before, evidence={})


def _strip_evidence(body: Judged, ids: Ids) -> Judged:
    return replace(
        body, evidence={id_: text for id_, text in body.evidence.items() if id_ not in ids}
    )


def _names(body: str | bytes, ids: Ids) -> bool:
    """Return True if a body names any of some memories: as a value, not within a text."""
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
    """Yield the current values of a key, and those erased since."""
    near = log.select_rows(
        "kind = 'recorded' AND project IS ? AND instr(body, ?) > 0",
        (project, msgspec.json.encode(key).decode()),
    )
    for row in near:
        body = decode("recorded", row[BODY])
        if isinstance(body, Recorded) and body.key == key:
            yield row[1], body


def _without(log: EventLog, old: Segment, seqs: set[int]) -> Segment | None:
    """Write a segment again without some events; return it, or None if nothing is left."""
    folder = segments.folder_of(log.path)
    rows = segments.read(folder, old)
    rest = [row for row in rows if row[0] not in seqs]
    if len(rest) == len(rows):
        raise LogCorrupt(f"{folder / old.name} does not hold what the log says: restore a backup")
    return segments.write(folder, rest) if rest else None
