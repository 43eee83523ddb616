"""
Counted: what is asked of the log as a whole: which ids there are, how many events, of what, when.

Each function is the method of `EventLog` of its name, which says what it returns. It asks through
the log's own `Fetch`; most are answered by an index alone, and no hash is looked at.
"""

from collections.abc import Callable, Sequence

import msgspec

from store.body import Body
from store.events import RECEIPTS, decode
from store.logfile import file as log_file
from store.logfile.checks import CHANGES
from store.logfile.file import Row
from store.logfile.rows import PUT_AWAY

Fetch = Callable[[str, tuple[object, ...]], list[Row]]  # the rows of a query and its values


def newest_change(fetch: Fetch, subject: str) -> int:
    found = fetch(f"SELECT coalesce(max(seq), 0) FROM events WHERE {CHANGES}", (subject,))
    return int(found[0][0])


def last_change(fetch: Fetch) -> int:
    marks = ", ".join("?" * len(RECEIPTS))
    found = fetch(
        f"SELECT seq FROM events WHERE kind NOT IN ({marks}) ORDER BY seq DESC LIMIT 1",
        tuple(sorted(RECEIPTS)),
    )
    return int(found[0][0]) if found else 0


def head(fetch: Fetch) -> int:
    return int(fetch("SELECT coalesce(max(seq), 0) FROM events", ())[0][0])


def at(fetch: Fetch, seq: int) -> int | None:
    found = fetch("SELECT at FROM events WHERE seq = ?", (seq,))
    return int(found[0][0]) if found else None


def known(fetch: Fetch, ids: Sequence[str]) -> set[str]:
    sql = "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))"
    return {row[0] for row in fetch(sql, (_listed(ids),))}


def matching(fetch: Fetch, prefix: str, limit: int, kinds: Sequence[str]) -> list[str]:
    marks = ", ".join("?" * len(kinds))
    found = fetch(
        f"SELECT id FROM events WHERE kind IN ({marks}) AND id >= ? AND id < ? ORDER BY id LIMIT ?",
        (*kinds, prefix, prefix + "\U0010ffff", limit),
    )
    return [row[0] for row in found]


def counts(fetch: Fetch, until: int) -> dict[tuple[str, int], int]:
    found = fetch(
        "SELECT kind, at / 86400000000, count(*) FROM events WHERE seq <= ? GROUP BY 1, 2",
        (until,),
    )
    return {(kind, day): count for kind, day, count in found}


def tally(
    fetch: Fetch, kinds: Sequence[str], since: int, step: int, steps: int
) -> dict[str, list[int]]:
    counts = {kind: [0] * steps for kind in kinds}
    for kind, place, count in fetch(log_file.TALLY, (steps, since, step, _listed(kinds))):
        counts[kind][place] = count
    return counts


def newest(fetch: Fetch, kind: str, most: int) -> list[tuple[int, Body]]:
    found = fetch(
        "SELECT at, body FROM events WHERE kind = ? ORDER BY at DESC LIMIT ?", (kind, most)
    )
    return [(at, decode(kind, body)) for at, body in found if body != PUT_AWAY]


def subjects(fetch: Fetch, kinds: Sequence[str]) -> dict[str, frozenset[str]]:
    found = fetch(
        "SELECT kind, subject FROM events WHERE kind IN (SELECT value FROM json_each(?))",
        (_listed(kinds),),
    )
    return {name: frozenset(of for kind, of in found if kind == name) for name in kinds}


def erased(fetch: Fetch, until: int, after: int) -> frozenset[str]:
    found = fetch(
        "SELECT subject FROM events WHERE seq > ? AND seq <= ? AND kind = 'erased'",
        (after, until),
    )
    return frozenset(row[0] for row in found)


def places(
    fetch: Fetch, where: str, values: tuple[object, ...], limit: int
) -> list[tuple[int, int]]:
    rows = fetch(
        f"SELECT at, seq FROM events WHERE {where} ORDER BY at DESC, seq DESC LIMIT ?",
        (*values, limit),
    )
    return [(at, seq) for at, seq in rows]


def _listed(texts: Sequence[str]) -> str:
    return msgspec.json.encode(list(texts)).decode()
