"""
Listing: memories that pass a filter, in an order, a page at a time, for the API and the dashboard.

A page starts after the last memory of the previous page, by that memory's place in the order and
not by a count. So later writes move nothing: by `created_at`, which never changes, each memory that
matches throughout is listed once. A memory that changes meanwhile moves to the end of `updated_at`,
where it is listed again with its new state, so no memory is missed; in `-updated_at` and
`-importance` it may be missed, since it may have moved to an earlier page.

Filters work on columns; only the memories of the page are read.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from serve.formatting import sanitize
from serve.reader.filters import Filter
from serve.reader.memory_json import listed_json, visible_json
from serve.reader.tail_storage import Columns
from serve.reader.view import View
from store.home.instants import isoformat
from store.log.event_kinds import EPISODE
from store.memories.memory import ACTIVE, FORGOTTEN, UNSEEN, Memory
from store.memories.rows import Mask, MemoryRows
from store.text import tokenizer

Sort = Literal["-created_at", "created_at", "-updated_at", "updated_at", "-importance"]
State = Literal["active", "expired", "archived", "superseded", "forgotten", "stale", "any"]

Documents = npt.NDArray[np.int64]  # rows of the snapshot, then slots of the tail


class Listing(msgspec.Struct, frozen=True):
    """A selection of memories and their order; `state` overrides the state of `those`.

    A memory must have every word of `words`, or for an unknown word a word with that prefix.
    """

    those: Filter
    state: State = "active"
    pinned: bool | None = None
    key: str | None = None
    words: str = ""
    sort: Sort = "-created_at"

    @property
    def column(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def sign(self) -> int:
        """-1: the greatest first."""
        return -1 if self.sort.startswith("-") else 1


class Position(NamedTuple):
    """A memory's place in an order: the value it is sorted by, then its seq."""

    value: float
    seq: int


class Page(msgspec.Struct, frozen=True):
    """Some memories in order; `next` is the start of the next page, None at the end.

    `documents` are all matches, ascending.
    """

    memories: list[Memory]
    next: Position | None
    documents: Documents

    @property
    def total(self) -> int:
        return len(self.documents)


def page(view: View, wanted: Listing, limit: int, after: Position | None = None) -> Page:
    """Return up to `limit` matching memories that come `after` a position in the order."""
    passing = np.flatnonzero(_mask(view, wanted))
    values = wanted.sign * _column(view, wanted.column)[passing]
    seqs = wanted.sign * _column(view, "seq")[passing]
    following = np.arange(len(passing))
    if after is not None:
        value, seq = wanted.sign * after.value, wanted.sign * after.seq
        following = np.flatnonzero((values > value) | ((values == value) & (seqs > seq)))
    chosen = following[_first(values[following], seqs[following], limit)]
    memories = _memories_at(view, passing[chosen])
    next_place = None
    if len(chosen) < len(following):
        last = memories[-1]
        next_place = Position(getattr(last, wanted.column), last.seq)
    return Page(memories, next_place, passing)


def count(view: View, wanted: Listing) -> int:
    """Return the number of memories that pass."""
    return int(np.count_nonzero(_mask(view, wanted)))


def _first(values: npt.NDArray[Any], seqs: Documents, limit: int) -> Documents:
    """Return the places of the `limit` least values, in order, without sorting all of them."""
    places = np.arange(len(values))
    if len(values) > limit:
        most = np.partition(values, limit - 1)[limit - 1]
        less, ties = np.flatnonzero(values < most), np.flatnonzero(values == most)
        room = limit - len(less)
        places = np.concatenate([less, ties[np.argsort(seqs[ties], kind="stable")[:room]]])
    return places[np.lexsort((seqs[places], values[places]))]


def _mask(view: View, wanted: Listing) -> Mask:
    """Return the mask of the documents that pass, [rows + slots]."""
    rows, tail = view.snapshots.rows, view.tail
    mask = np.concatenate([_own(rows, wanted), _own(tail.columns, wanted) & tail.live])
    mask[tail.hidden_rows] = False
    if wanted.words:
        mask &= _with_words(view, wanted.words)
    if wanted.key is not None:
        mask[: len(rows)] &= rows.with_key(wanted.key)
        slots = np.flatnonzero(mask[len(rows) :])
        others = [memory.key != wanted.key for memory in tail.take(slots.tolist())]
        mask[len(rows) + slots[others]] = False
    return mask


def _own(of: MemoryRows | Columns, wanted: Listing) -> Mask:
    """Return the mask of the memories whose columns pass, [rows] or [slots]."""
    if wanted.state == "active":
        mask = of.active_at(wanted.those.now)
    elif wanted.state == "any":
        mask = np.ones(len(of.created_at), np.bool_)
    elif wanted.state == "expired":
        mask = of.equal("state", (ACTIVE,)) & ~of.active_at(wanted.those.now)
    else:
        mask = of.equal("state", (wanted.state,))
    if wanted.words:  # a search must reveal no word of a forgotten memory
        mask &= ~of.equal("state", UNSEEN)
    if not wanted.those.kinds:  # episodes are listed only on request
        mask &= ~of.equal("kind", (EPISODE,))
    if wanted.pinned is not None:
        mask &= _numbers(of, "pinned") == wanted.pinned
    return wanted.those.narrow(mask, of)


def _with_words(view: View, words: str) -> Mask:
    """Return the mask of documents with every word, [rows + slots]; all false without words."""
    terms, rows = dict.fromkeys(tokenizer.terms(words)), len(view.snapshots.rows)
    mask = np.full(view.size, bool(terms))
    for term in terms:
        has_term = np.zeros(view.size, np.bool_)
        has_term[view.snapshots.postings.posting_list(term)[0]] = True
        has_term[view.tail.term(term).slots + rows] = True
        mask &= has_term
    return mask


def _column(view: View, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers of all documents, [rows + slots]."""
    rows = _numbers(view.snapshots.rows, name)
    return np.concatenate([rows, view.tail.columns[name]]) if len(view.tail) else rows


def _numbers(of: MemoryRows | Columns, name: str) -> npt.NDArray[Any]:
    return of.codes(name) if isinstance(of, MemoryRows) else of[name]


def _memories_at(view: View, documents: Documents) -> list[Memory]:
    rows = len(view.snapshots.rows)
    stored = iter(view.snapshots.rows.take(documents[documents < rows].tolist()))
    tail = iter(view.tail.take((documents[documents >= rows] - rows).tolist()))
    return [next(stored if document < rows else tail) for document in documents.tolist()]


def memory_fields(memory: Memory, now: int) -> dict[str, Any]:
    """Return a memory as an item of a list; the tombstone of a forgotten one."""
    fields = visible_json(memory)
    if memory.state == FORGOTTEN:
        return fields
    ends = memory.expires_at
    fields |= listed_json(memory)
    if memory.state == ACTIVE and ends is not None and ends <= now:
        fields |= {"state": "expired", "ended_at": isoformat(ends)}
    return fields


def all_memory_fields(memories: Sequence[Memory], now: int) -> list[dict[str, Any]]:
    return [memory_fields(memory, now) for memory in memories]


# The page of `mnemolog export --format markdown`: by project and kind, each text as a quote, so
# that no line of it becomes a heading of the page


def export_markdown(memories: Iterable[Memory], now: int) -> Iterator[str]:
    """Yield the page's lines; an item may have several lines."""
    yield f"# Memories, {isoformat(now)[:10]}"
    ordered = sorted(memories, key=lambda memory: (memory.project or "", memory.kind, memory.seq))
    for project, of_project in groupby(ordered, key=lambda memory: memory.project):
        yield f"\n## {project or 'No project'}"
        for kind, of_kind in groupby(of_project, key=lambda memory: memory.kind):
            yield f"\n### {kind.capitalize()}"
            for memory in of_kind:
                yield from _entry(memory)


def _entry(memory: Memory) -> Iterator[str]:
    facts = [isoformat(memory.created_at)[:10], f"`{memory.id}`", f"said by {memory.trust}"]
    facts += [] if memory.state == ACTIVE else [memory.state]
    facts += [] if memory.key is None else [f"key `{memory.key}`"]
    facts += [f"`{tag}`" for tag in memory.tags]
    yield f"\n{' '.join(sanitize(', '.join(facts)).split())}\n"
    beside = {"Context": memory.context, "Action": memory.action, "Result": memory.result}
    texts = [memory.content, *(f"{name}: {text}" for name, text in beside.items() if text)]
    quotes = [
        "\n".join(f"> {line}".rstrip() for line in sanitize(text).split("\n")) for text in texts
    ]
    yield "\n>\n".join(quotes)
