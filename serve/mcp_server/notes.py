"""
Notes: memories as a model gets to see them, each with its provenance inside.

A host shows its model either the text or the structured form, so both say of every memory where it
is from and that it is unverified data; and both stand between the marks by which the memory knows
its own words again and does not record them a second time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from serve.recall.context_block import cleaned, plain_json
from serve.recall.request import short
from serve.rules import role
from store.memories.memory import ACTIVE, Memory
from store.text.frame import CLOSING, OPENING

Note = dict[str, Any]

LONGEST = 1_500  # characters of a text; the whole is read by its id
BESIDE = 8_000  # of what stands beside the text of a whole one
MOST = 24_000  # characters of all texts in an answer

_MARKS = (
    *("state", "superseded_by", "conflicts_with", "ended_at", "pinned", "key", "value"),
    *("status", "progress", "chain", "tags"),
)
_OLDER = 2  # of the memories that one replaced
_NOTHING: tuple[object, ...] = (None, False, "", [])
_TEXTS = ("context", "action", "result", "text")


def note(memory: Memory, longest: int = LONGEST) -> Note:
    """Return a memory as a note, its texts cut."""
    state = {
        name: getattr(memory, name) for name in ("key", "value", "status", "progress", "chain")
    }
    return shown(short(memory) | {"role": role(memory)} | state, longest)


def shown(found: Mapping[str, Any], longest: int = LONGEST) -> Note:
    """Return what recall says of a memory as a note: provenance first, the text last."""
    source = found.get("source") or found.get("created_by") or found.get("agent")
    labels = {
        "id": found["id"],
        "kind": found["kind"],
        "role": found["role"],
        "date": found["at"],
        "project": found.get("project"),
        "source": source,
        "trust": found.get("trust"),
        "confidence": found.get("confidence"),
    }
    told = labels | {name: found.get(name) for name in _MARKS}
    told["replaced"] = [_old(one) for one in found.get("history", ())[:_OLDER] if "text" in one]
    texts = {name: text for name in _TEXTS if (text := found.get(name))}
    most = {name: longest if name == "text" else min(longest, BESIDE) for name in texts}
    cut = any(len(text) > most[name] for name, text in texts.items())
    told |= {name: _cut(text, most[name]) for name, text in texts.items()}
    if told["state"] == ACTIVE:
        del told["state"]
    kept = {name: _clean(value) for name, value in told.items() if value not in _NOTHING}
    return kept | ({"cut": True} if cut else {})


def bounded(notes: Sequence[Note]) -> tuple[list[Note], int]:
    """Return the first notes that fit into an answer together, and how many were left out."""
    kept: list[Note] = []
    length = 0
    for one in notes:
        length += sum(len(value) for value in one.values() if isinstance(value, str))
        if kept and length > MOST:
            break
        kept.append(one)
    return kept, len(notes) - len(kept)


def framed(notes: Sequence[Note]) -> str:
    """Return notes as the block a model reads: a line of JSON each, without any markup."""
    return "\n".join([OPENING, *map(plain_json, notes), CLOSING])


def _old(replaced: Mapping[str, Any]) -> str:
    said = f"{replaced['at'][:10]}, trust {replaced['trust']}"
    return f"{said}: {_cut(replaced['text'], LONGEST // 5)}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _clean(value: Any) -> Any:
    """Return a value without what nobody sees and without our own marks; lines stay lines."""
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if not isinstance(value, str):
        return value
    return "\n".join(map(cleaned, value.splitlines()))
