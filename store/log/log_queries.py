"""
Log queries: the SQL behind `EventLog`'s questions, each a function with the name of its method.

They ask through the log's own `Ask`; most are answered by an index alone, and no hash is checked.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from store.log import log_file
from store.log.checks import CHANGES
from store.log.event_kinds import Body
from store.log.events import RECEIPTS, decode
from store.log.log_file import Ask, Row
from store.log.rows import PUT_AWAY


class EventLine(NamedTuple):
    """An event without what it says."""

    seq: int
    id: str
    kind: str
    subject: str


class KeyedFact(NamedTuple):
    """A memory that was recorded as the value of a key of its project."""

    seq: int
    id: str
    project: str | None
    key: str


class _Key(msgspec.Struct, frozen=True):
    key: str | None = None


_LINE = "seq, id, kind, subject"
_KEYED = "seq, id, project, body"
_HAS_KEY = 'instr(body, \'"key":"\') > 0'
_decoder = msgspec.json.Decoder(_Key)


def newest_change(ask: Ask, subject: str) -> int:
    found = ask(f"SELECT coalesce(max(seq), 0) FROM events WHERE {CHANGES}", (subject,))
    return int(found[0][0])


def last_change(ask: Ask) -> int:
    marks = ", ".join("?" * len(RECEIPTS))
    found = ask(
        f"SELECT seq FROM events WHERE kind NOT IN ({marks}) ORDER BY seq DESC LIMIT 1",
        tuple(sorted(RECEIPTS)),
    )
    return int(found[0][0]) if found else 0


def bytes_by_kind(ask: Ask) -> dict[str, int]:
    return dict(
        ask(
            "SELECT kind, sum(octet_length(body) + length(id) + length(subject) + 120) "
            "FROM events GROUP BY kind",
            (),
        )
    )


def head(ask: Ask) -> int:
    return int(ask("SELECT coalesce(max(seq), 0) FROM events", ())[0][0])


def at(ask: Ask, seq: int) -> int | None:
    found = ask("SELECT at FROM events WHERE seq = ?", (seq,))
    return int(found[0][0]) if found else None


def known_ids(ask: Ask, ids: Sequence[str]) -> set[str]:
    sql = "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))"
    return {row[0] for row in ask(sql, (_listed(ids),))}


def ids_with_prefix(ask: Ask, prefix: str, limit: int, kinds: Sequence[str]) -> list[str]:
    marks = ", ".join("?" * len(kinds))
    found = ask(
        f"SELECT id FROM events WHERE kind IN ({marks}) AND id >= ? AND id < ? ORDER BY id LIMIT ?",
        (*kinds, prefix, prefix + "\U0010ffff", limit),
    )
    return [row[0] for row in found]


def counts(ask: Ask, until: int) -> dict[tuple[str, int], int]:
    found = ask(
        "SELECT kind, at / 86400000000, count(*) FROM events WHERE seq <= ? GROUP BY 1, 2",
        (until,),
    )
    return {(kind, day): count for kind, day, count in found}


def tally(
    ask: Ask, kinds: Sequence[str], since: int, step: int, steps: int
) -> dict[str, list[int]]:
    counts = {kind: [0] * steps for kind in kinds}
    for kind, place, count in ask(log_file.TALLY, (steps, since, step, _listed(kinds))):
        counts[kind][place] = count
    return counts


def newest(ask: Ask, kind: str, most: int) -> list[tuple[int, Body]]:
    found = ask("SELECT at, body FROM events WHERE kind = ? ORDER BY at DESC LIMIT ?", (kind, most))
    return [(at, decode(kind, body)) for at, body in found if body != PUT_AWAY]


def window(
    ask: Ask, kind: str, since: int, until: int, holding: str
) -> list[tuple[int, str | None, str, Body]]:
    found = ask(
        "SELECT at, session, subject, body FROM events WHERE kind = ? AND at >= ? AND at < ? "
        "AND (? = '' OR instr(body, ?)) ORDER BY at DESC",
        (kind, since, until, holding, holding),
    )
    return [(at, of, subject, decode(kind, body)) for at, of, subject, body in found if body]


def nth_newest(ask: Ask, kind: str, until: int, number: int) -> int | None:
    found = ask(
        "SELECT at FROM events WHERE kind = ? AND at < ? ORDER BY at DESC LIMIT 1 OFFSET ?",
        (kind, until, number),
    )
    return int(found[0][0]) if found else None


def subjects(ask: Ask, kinds: Sequence[str]) -> dict[str, frozenset[str]]:
    found = ask(
        "SELECT kind, subject FROM events WHERE kind IN (SELECT value FROM json_each(?))",
        (_listed(kinds),),
    )
    return {name: frozenset(of for kind, of in found if kind == name) for name in kinds}


def erased_ids(ask: Ask, until: int, after: int) -> frozenset[str]:
    found = ask(
        "SELECT subject FROM events WHERE seq > ? AND seq <= ? AND kind = 'erased'",
        (after, until),
    )
    return frozenset(row[0] for row in found)


def select_places(
    ask: Ask, where: str, values: tuple[object, ...], limit: int
) -> list[tuple[int, int]]:
    rows = ask(
        f"SELECT at, seq FROM events WHERE {where} ORDER BY at DESC, seq DESC LIMIT ?",
        (*values, limit),
    )
    return [(at, seq) for at, seq in rows]


def newest_plan_ids(ask: Ask) -> list[str]:
    found = ask(
        "SELECT id FROM events WHERE kind = 'planned' AND seq IN (SELECT max(seq) FROM events "
        "WHERE kind = 'planned' GROUP BY json_extract(body, '$.job')) ORDER BY at DESC, seq DESC",
        (),
    )
    return [row[0] for row in found]


def changes_of(ask: Ask, subjects: Sequence[str], kinds: Sequence[str]) -> list[EventLine]:
    # the plus keeps SQLite to the index of subjects: https://www.sqlite.org/optoverview.html
    found = ask(
        f"SELECT {_LINE} FROM events WHERE subject IN (SELECT value FROM json_each(?)) "
        "AND +kind IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (_listed(subjects), _listed(kinds)),
    )
    return [EventLine(*row) for row in found]


def other_changes_of(
    ask: Ask, subjects: Sequence[str], kinds: Sequence[str], after: int
) -> list[EventLine]:
    found = ask(
        f"SELECT {_LINE} FROM events WHERE subject IN (SELECT value FROM json_each(?)) "
        "AND +seq > ? AND kind NOT IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (_listed(subjects), after, _listed(kinds)),
    )
    return [EventLine(*row) for row in found]


def restorings(ask: Ask, after: int) -> list[EventLine]:
    found = ask(
        f"SELECT {_LINE} FROM events WHERE +kind = 'restored' AND seq > ? ORDER BY seq", (after,)
    )
    return [EventLine(*row) for row in found]


def keyed_facts(ask: Ask, ids: Sequence[str]) -> list[KeyedFact]:
    found = ask(
        f"SELECT {_KEYED} FROM events WHERE subject IN (SELECT value FROM json_each(?)) "
        f"AND +kind = 'recorded' AND {_HAS_KEY} ORDER BY seq",
        (_listed(ids),),
    )
    return _with_keys(found)


def new_keyed_facts(ask: Ask, after: int) -> list[KeyedFact]:
    found = ask(
        f"SELECT {_KEYED} FROM events WHERE +kind = 'recorded' AND seq > ? AND {_HAS_KEY} "
        "ORDER BY seq",
        (after,),
    )
    return _with_keys(found)


def _with_keys(rows: Sequence[Row]) -> list[KeyedFact]:
    keys = ((row, _decoder.decode(row[3]).key) for row in rows)
    return [KeyedFact(row[0], row[1], row[2], key) for row, key in keys if key is not None]


def _listed(texts: Sequence[str]) -> str:
    return msgspec.json.encode(list(texts)).decode()
