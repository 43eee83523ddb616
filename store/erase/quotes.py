"""
Quotes: what else in a log says the words of what was erased.

What a job wrote is made of memories, so a run of an erased one's words in it is that one's, and is
cut out. What a person, an agent or another memory said in the same words is theirs: it is named,
and cut out where that is asked for. A memory's own text is never cut: it can be erased by its id.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from store.erase.marks import Looker
from store.events import RECEIPTS, decode, encode, isoformat
from store.log import EventLog
from store.logfile.erasing import Change
from store.logfile.file import Row
from store.logfile.rows import BODY

MADE = frozenset(("planned", "proposed", "judged", "staled"))  # by jobs, of memories
_BATCH = 2_000
_ENVELOPE = slice(5, 8)  # project, session, agent


class Quote(msgspec.Struct, frozen=True):
    """An event that still says some of the erased words in a row; `about` is a memory's id, or its
    own. `can_be_cut` where `--also-quotes` reaches it.
    """

    id: str
    kind: str
    at: str
    about: str
    can_be_cut: bool


class Said(msgspec.Struct, frozen=True):
    """What a log says of some marks: where, which runs, and which words by themselves."""

    quotes: tuple[Quote, ...]
    runs: frozenset[bytes]
    words: frozenset[bytes]


def cuts(log: EventLog, looker: Looker, *, receipts: bool) -> list[Change]:
    """Return the rows to cut the erased words out of: what jobs made, and with `receipts` prompts,
    commands, questions and what else is no memory's own.
    """
    found = []
    for row, whole in _rows(log):
        if _can_be_cut(row[3]) and (receipts or row[3] in MADE):
            left = _cut(row[3], whole[BODY], looker)
            if left != whole[BODY]:
                found.append(Change(row, whole[BODY], left))
    return found


def said(log: EventLog, looker: Looker) -> Said:
    """Return what the log says of the marks, be it whose it may."""
    quotes, runs, words = [], set(), set()
    for row, whole in _rows(log):
        found = looker.runs(whole[BODY])
        if found:
            about, kind = row[4], row[3]
            quotes.append(Quote(row[1], kind, isoformat(row[2]), about, _can_be_cut(kind)))
        runs |= found
        words |= looker.words(whole[BODY])
        for name in (row[1], *row[_ENVELOPE]):
            words |= looker.words(name or "")
            runs |= looker.runs(name or "")
    return Said(tuple(quotes), frozenset(runs), frozenset(words))


def _rows(log: EventLog) -> Iterator[tuple[Row, Row]]:
    """Yield every row as it lies, and whole."""
    after = 0
    while rows := log.rows("seq > ?", (after,), limit=_BATCH):
        yield from zip(rows, log.whole(rows), strict=True)
        after = rows[-1][0]


def _can_be_cut(kind: str) -> bool:
    return kind in MADE or kind in RECEIPTS or kind == "rated"


def _cut(kind: str, body: str, looker: Looker) -> str:
    """Return a body without the texts that hold a run; what must be there is empty instead."""
    if not looker.holds(body):
        return body
    value = msgspec.json.decode(body)
    for leaves_out in (True, False):
        try:
            return encode(
                decode(kind, msgspec.json.encode(_left(value, looker, leaves_out)).decode())
            )
        except msgspec.ValidationError:
            continue
    return "{}" if kind not in _NEEDED else msgspec.json.encode(_NEEDED[kind]).decode()


# the least that these say, where even their names held such words
_NEEDED: Mapping[str, Mapping[str, Any]] = {"prompted": {"prompt": ""}, "action": {"tool": "-"}}


def _left(value: object, looker: Looker, leaves_out: bool) -> object:
    """Return a JSON value without such texts, each left out or made empty."""
    if isinstance(value, str):
        return "" if looker.holds(value) else value
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not looker.holds(name)}
        return {
            name: _left(one, looker, leaves_out)
            for name, one in kept.items()
            if not (leaves_out and isinstance(one, str) and looker.holds(one))
        }
    if isinstance(value, Sequence):
        return [
            _left(one, looker, leaves_out)
            for one in value
            if not (isinstance(one, str) and looker.holds(one))
        ]
    return value
