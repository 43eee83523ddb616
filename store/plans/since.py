"""
Since: what was said, after plans were made, of the memories and the keys that they rest on.

All plans are asked about at once, and of what was said only the kinds are looked at: reading every
event of every memory for each of them took seconds. Events that were undone count for nothing.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import msgspec

from store.events import RECEIPTS
from store.job_events import Planned, Step
from store.log import EventLog
from store.logfile.rows import BODY

_HARMLESS = RECEIPTS | {"rated"}  # events about a memory that no plan rests on

Key = tuple[str | None, str]  # of a project


@dataclass(frozen=True, slots=True)
class Said:
    """An event, as far as it matters here."""

    seq: int
    id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Since:
    """What was said in the order of the log, by memory, and by key where a memory gave it a value.

    It is of the plans it was read for; of others it tells nothing.
    """

    memories: Mapping[str, Sequence[Said]]
    keys: Sequence[tuple[int, Key]]

    def changed(self, plan: Planned, own: Set[str] = frozenset()) -> tuple[str, ...]:
        """Return what changed since a plan was made of what it rests on.

        With `own`, the events that carried it out, what changed of its memories since then.
        """
        return tuple(self._changes(plan, own))

    def _changes(self, plan: Planned, own: Set[str]) -> Iterator[str]:
        for id_ in dict.fromkeys(touched(plan.steps)):
            said = self.memories.get(id_, ())
            begins = max((one.seq for one in said if one.id in own), default=plan.watermark)
            for one in said:
                if one.seq > begins and one.id not in own:
                    yield f"{id_} was {one.kind} since"
                    break
        if not own:
            wanted = _keys(plan)
            for seq, (project, key) in self.keys if wanted else ():
                if seq > plan.watermark and (project, key) in wanted:
                    yield f"{key} was recorded since"


def since(log: EventLog, made: Sequence[Planned]) -> Since:
    """Return what was said since plans were made."""
    gone = log.undone(log.head()) if made else frozenset()
    return Since(_of_memories(log, made, gone), _of_keys(log, made, gone))


def touched(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the ids of the memories that some steps change, name or are made of."""
    for step in steps:
        yield step.subject
        for name in ("by", "target"):
            if isinstance(found := step.body.get(name), str):
                yield found
        yield from step.body.get("source_ids", ())


def _of_memories(
    log: EventLog, made: Sequence[Planned], gone: Set[str]
) -> dict[str, Sequence[Said]]:
    ids = sorted({id_ for plan in made for id_ in touched(plan.steps)})
    if not ids:
        return {}
    harmless = ", ".join("?" * len(_HARMLESS))
    # the plus keeps SQLite to the index of subjects: https://www.sqlite.org/optoverview.html
    rows = log.rows(
        f"subject IN (SELECT value FROM json_each(?)) AND +seq > ? AND kind NOT IN ({harmless})",
        (_json(ids), min(plan.watermark for plan in made), *sorted(_HARMLESS)),
    )
    found: dict[str, list[Said]] = {}
    for seq, id_, _, kind, subject, *_ in rows:
        if id_ not in gone:
            found.setdefault(subject, []).append(Said(seq, id_, kind))
    return dict(found)


class _Recorded(msgspec.Struct, frozen=True):
    key: str | None = None


_decoder = msgspec.json.Decoder(_Recorded)


def _of_keys(log: EventLog, made: Sequence[Planned], gone: Set[str]) -> list[tuple[int, Key]]:
    keyed = [plan for plan in made if _keys(plan)]
    if not keyed:
        return []
    wanted = set[Key]().union(*map(_keys, keyed))
    rows = log.rows(
        "+kind = 'recorded' AND seq > ? AND instr(body, '\"key\":\"') > 0",
        (min(plan.watermark for plan in keyed),),
    )
    found = [
        (row[0], (row[5], key))
        for row in rows
        if row[1] not in gone and (key := _decoder.decode(row[BODY]).key) is not None
    ]
    return [one for one in found if one[1] in wanted]


def _keys(plan: Planned) -> set[Key]:
    """Return the keys that a plan would give a value."""
    steps = (one for one in plan.steps if one.event == "recorded")
    return {(one.project, key) for one in steps if (key := one.body.get("key"))}


def _json(ids: Sequence[str]) -> str:
    return msgspec.json.encode(ids).decode()
