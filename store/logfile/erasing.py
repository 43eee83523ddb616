"""
Erasing: what a memory said is taken out of the log itself, everywhere the log says it of it.

The rows stay, with their ids, times and kinds, so that the order of the log is unbroken and every
build counts them; their texts are gone, overwritten with zeros on the page. Only what was written
about the memory is reached: the words of a person or an agent that it was made from are receipts of
their own. What was derived from the log is to be built again, and what jobs made of the memory is
stale from the same moment on.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from store.agent_events import Followed, Proposed, Surfaced
from store.body import Body
from store.cold import compaction, segment
from store.cold.segment import Segment
from store.errors import LogCorrupt
from store.events import (
    Archived,
    Erased,
    Event,
    Forgotten,
    Rated,
    Recorded,
    Restored,
    Revised,
    Superseded,
    Unknown,
    decode,
    encode,
    is_erased,
    new_id,
)
from store.job_events import Judged, Planned, Staled, Step
from store.log import EventLog
from store.logfile.file import Row
from store.logfile.rows import BODY, PUT_AWAY

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
    Staled: (),
    Rated: ("verdict",),
    Surfaced: ("place",),
    Followed: ("verdict", "place", "stood"),
}
_EMPTY: dict[type[Body], dict[str, Any]] = {Recorded: {"content": ""}, Staled: {"reason": ""}}


class Erasure(msgspec.Struct, frozen=True):
    """What was erased. `made` are the memories that jobs made of them: stale, but still worded.

    `is_settled` is False where others read the log meanwhile: old bytes may lie in its write-ahead
    file until it is done again.
    """

    ids: tuple[str, ...]
    events: int
    made: tuple[str, ...]
    is_settled: bool


def reach(log: EventLog, ids: Sequence[str]) -> Erasure:
    """Return what erasing some memories would rewrite, and nothing done."""
    changed = _blanked(log, frozenset(ids))
    return Erasure(tuple(ids), len(changed), tuple(_made_of(log, ids)), is_settled=True)


def erase(log: EventLog, ids: Sequence[str], now: int) -> Erasure:
    """Erase memories from the log, all of them or none; return what was done.

    Done a second time it ends what was ended halfway. Raise LogBusy where another process rewrites
    the log, LogCorrupt where a segment with receipts about them is missing.
    """
    folder = segment.folder_of(log.path)
    with compaction.alone(log.path):
        made = tuple(_made_of(log, ids))
        changed = _blanked(log, frozenset(ids))
        away = {row[0] for row, _ in changed if row[BODY] == PUT_AWAY}
        old = [one for one in log.segments() if any(one.first <= seq <= one.last for seq in away)]
        new = [written for one in old if (written := _without(log, one, away))]
        already = log.erased(log.head())
        events = [
            Event(new_id(now), now, Erased(events=len(changed)), id_, _project(log, id_))
            for id_ in ids
            if id_ not in already
        ]
        if changed or events:
            log.rewrite(changed, events, adding=new, dropping=old)
        segment.sweep(folder, log.segments())
        return Erasure(tuple(ids), len(changed), made, log.settle())


def _blanked(log: EventLog, ids: Ids) -> list[tuple[Row, str]]:
    """Return the rows that say something of some memories, and what they are to say instead."""
    kinds = ", ".join(f"'{kind}'" for kind in _QUOTING)
    found = {
        row[0]: row
        for id_ in sorted(ids)
        for row in log.rows(
            f"subject = ? OR (kind IN ({kinds}) AND instr(body, ?) > 0)", (id_, id_)
        )
    }
    rows = [found[seq] for seq in sorted(found)]
    changed = []
    for row, whole in zip(rows, log.whole(rows), strict=True):
        blank = _without_texts(log, whole, ids)
        if blank != whole[BODY]:
            changed.append((row, blank))
    return changed


def _without_texts(log: EventLog, row: Row, ids: Ids) -> str:
    kind, subject, project, text = row[3], row[4], row[5], row[BODY]
    body = decode(kind, text)
    match body:
        case Unknown():
            return "{}" if subject in ids else str(text)
        case Planned():
            return encode(_plan(body, ids))
        case Judged():
            evidence = {id_: said for id_, said in body.evidence.items() if id_ not in ids}
            return encode(replace(body, evidence=evidence))
        case Proposed() if not ids.isdisjoint(body.source_ids):
            draft = {"content": "", "kind": body.draft.get("kind", "lesson")}
            return encode(replace(body, draft=draft, because=None))
        case Superseded(by=by) if subject in ids or by in ids:
            return encode(Superseded(by=by))
        case _ if subject not in ids:
            return str(text)
        case Recorded():
            blank = _kept(body)
            if body.key is not None and _is_shared(log, row[1], project, body.key):
                blank = replace(blank, key=body.key)  # the values before it gave way to it
            return encode(blank)
        case _:
            return encode(_kept(body))


def _kept(body: Body) -> Body:
    of = type(body)
    if of not in _KEPT:
        return body  # it has no text
    return of(**{name: getattr(body, name) for name in _KEPT[of]}, **_EMPTY.get(of, {}))


def _plan(plan: Planned, ids: Ids) -> Planned:
    """Return a plan that tells nothing of some memories: what it did with them stays."""
    steps = tuple(_step(one, ids) for one in plan.steps)
    return plan if steps == plan.steps else replace(plan, steps=steps, notes=())


def _step(step: Step, ids: Ids) -> Step:
    sources = step.body.get("source_ids", ())
    if step.subject not in ids and ids.isdisjoint((step.body.get("by"), *sources)):
        return step
    body = decode(step.event, msgspec.json.encode(step.body).decode())
    # what was drafted from it may quote it; what it was about says so itself
    left: dict[str, Any] = msgspec.json.decode(encode(_kept(body)))
    before = {} if step.subject in ids else step.before
    return replace(step, body=left, why="", before=before, evidence={})


def _is_shared(log: EventLog, id_: str, project: str | None, key: str) -> bool:
    """Return whether another memory is a value of the same key."""
    near = log.rows(
        "kind = 'recorded' AND project IS ? AND id != ? AND instr(body, ?) > 0",
        (project, id_, msgspec.json.encode(key).decode()),
    )
    bodies = (decode("recorded", row[BODY]) for row in near)
    return any(
        isinstance(body, Recorded) and body.key == key and not is_erased(body) for body in bodies
    )


def _made_of(log: EventLog, ids: Iterable[str]) -> list[str]:
    """Return the ids of the memories that jobs made of some, and that still say something."""
    found = {}
    for id_ in ids:
        for row in log.rows("kind = 'recorded' AND instr(body, ?) > 0", (id_,)):
            body = decode("recorded", row[BODY])
            if isinstance(body, Recorded) and body.made and id_ in body.source_ids:
                found[row[1]] = body
    return [id_ for id_, body in found.items() if not is_erased(body) and id_ not in set(ids)]


def _without(log: EventLog, old: Segment, seqs: set[int]) -> Segment | None:
    """Write a segment again without some events; return it, or None where nothing is left."""
    folder = segment.folder_of(log.path)
    rows = segment.read(folder, old)
    left = [row for row in rows if row[0] not in seqs]
    if len(left) == len(rows):
        raise LogCorrupt(f"{folder / old.name} does not hold what the log says: restore a backup")
    return segment.write(folder, left) if left else None


def _project(log: EventLog, id_: str) -> str | None:
    project: str | None = log.rows("id = ?", (id_,))[0][5]
    return project
