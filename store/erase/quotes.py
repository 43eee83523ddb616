"""
Quotes: what else in a log says the words of what was erased.

What a job wrote is made of memories, so a run of an erased one's words in it is that one's, and is
cut out. What a person, an agent or another memory said in the same words is theirs: it is named,
and cut out where that is asked for. A memory's own text is never cut: it can be erased by its id.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from store.home.instants import isoformat
from store.log.erasing import Change
from store.log.event_log import EventLog
from store.log.events import RECEIPTS, decode, encode
from store.log.log_file import Row
from store.log.rows import BODY
from store.text.fingerprints import Looker

MADE = frozenset(("planned", "proposed", "judged", "staled"))  # by jobs, of memories
_BATCH = 2_000
_FEW = 20  # receipts: a word that more of them use is anybody's
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
    named: frozenset[bytes]  # those in ids and names of projects, sessions and agents, which stay


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
    quotes, runs, words, named = [], set(), set(), set()
    for row, whole in _rows(log):
        found = looker.runs(whole[BODY])
        names = [name for name in (row[1], *row[_ENVELOPE]) if name]
        here = {one for name in names for one in looker.runs(name)}
        if found or here:
            about, kind = row[4], row[3]
            can_be_cut = bool(found) and _can_be_cut(kind)
            quotes.append(Quote(row[1], kind, isoformat(row[2]), about, can_be_cut))
        runs |= found
        words |= looker.words(whole[BODY])
        words |= {one for name in names for one in looker.words(name)}
        runs |= here
        named |= here
    return Said(tuple(quotes), frozenset(runs), frozenset(words), frozenset(named))


def distinctive(log: EventLog, looker: Looker, without: Container[int]) -> frozenset[bytes]:
    """Return the words that no memory says, nor a name, and few receipts: whoever used one spoke of
    what is erased. The rows `without` are not looked at.
    """
    told = Counter[bytes]()
    others = set[bytes]()
    receipts = 0
    for row, whole in _rows(log):
        if row[0] not in without:
            for name in (row[1], *row[_ENVELOPE]):
                others |= looker.words(name or "")
            here = looker.words(whole[BODY])
            if _can_be_cut(row[3]):
                receipts += 1
                told.update(here)
            else:
                others |= here
    most = max(_FEW, receipts // 100)
    return frozenset(word for word in told if told[word] <= most and word not in others)


def memories_saying(log: EventLog, looker: Looker) -> list[str]:
    """Return the ids of the memories of which an event that is no receipt holds a run."""
    found = (
        row[4]
        for row, whole in _rows(log)
        if not _can_be_cut(row[3]) and row[3] != "prompted" and looker.holds(whole[BODY])
    )
    return [id_ for id_ in dict.fromkeys(found) if log.matching(id_, 1, ("recorded",)) == [id_]]


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
