"""
ToolContext: the memory, place and time that a tool works with; ToolResult: its result.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from serve.mcp_server.methods import Result
from serve.reader.filters import Filter
from serve.reader.memory_json import is_withheld, role, short_json
from serve.recall.context_block import clean_text, plain_json
from serve.server.open_tenants import OpenTenant
from store.home.config import Choices
from store.home.errors import InvalidInput
from store.home.projects import check_project
from store.memories.memory import ACTIVE, Memory
from store.text.frame import CLOSING, OPENING

# Notes: memories as a model sees them, each with its provenance inside.
#
# A host shows its model either the text or the structured form, so both give every memory's origin
# and mark it as unverified data; and both stand between the marks by which the memory recognizes
# its own words and does not record them a second time.

Note = dict[str, Any]

LONGEST = 1_500  # characters of a text; the whole is read by its id
BESIDE = 8_000  # of the texts beside the text of a memory in full
MOST = 24_000  # characters of all texts in an answer

_MARKS = (
    *("state", "superseded_by", "conflicts_with", "until", "replaced_by", "outdated", "no_longer"),
    *("ended_at", "pinned", "key", "value", "status", "progress", "chain", "tags"),
)
_OLDER = 2  # of the memories that a memory replaced
_NOTHING: tuple[object, ...] = (None, False, "", [])
_TEXTS = ("context", "action", "result", "text")


def memory_note(memory: Memory, longest: int = LONGEST) -> Note:
    """Return a memory as a note, its texts cut."""
    names = () if is_withheld(memory) else ("key", "value", "status", "progress", "chain")
    state = {name: getattr(memory, name) for name in names}
    return recall_note(short_json(memory) | {"role": role(memory)} | state, longest)


def recall_note(payload: Mapping[str, Any], longest: int = LONGEST) -> Note:
    """Return a recall hit as a note: provenance first, the text last."""
    source = payload.get("source") or payload.get("created_by") or payload.get("agent")
    labels = {
        "id": payload["id"],
        "kind": payload["kind"],
        "role": payload["role"],
        "date": payload["at"],
        "project": payload.get("project"),
        "source": source,
        "trust": payload.get("trust"),
        "held": payload.get("held"),
        "confidence": payload.get("confidence"),
        "unsure": payload.get("unsure"),
    }
    note = labels | {name: payload.get(name) for name in _MARKS}
    note["replaced"] = [
        f"{old['at'][:10]}, trust {old['trust']}: {_cut(old['text'], LONGEST // 5)}"
        for old in payload.get("history", ())[:_OLDER]
        if "text" in old
    ]
    texts = {name: text for name in _TEXTS if (text := payload.get(name))}
    most = {name: longest if name == "text" else min(longest, BESIDE) for name in texts}
    cut = any(len(text) > most[name] for name, text in texts.items())
    note |= {name: _cut(text, most[name]) for name, text in texts.items()}
    if note["state"] == ACTIVE:
        del note["state"]
    note = {name: _clean(value) for name, value in note.items() if value not in _NOTHING}
    return note | ({"cut": True} if cut else {})


def fit_notes(notes: Sequence[Note]) -> tuple[list[Note], int]:
    """Return the first notes that fit into an answer together, and the number left out."""
    first: list[Note] = []
    length = 0
    for note in notes:
        length += sum(len(value) for value in note.values() if isinstance(value, str))
        if first and length > MOST:
            break
        first.append(note)
    return first, len(notes) - len(first)


def frame_notes(notes: Sequence[Note]) -> str:
    """Return notes as the block a model reads: a line of JSON each, without any markup."""
    return "\n".join([OPENING, *map(plain_json, notes), CLOSING])


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _clean(value: Any) -> Any:
    """Return a value without invisible characters and our own marks; line breaks stay."""
    if isinstance(value, list):
        return [_clean(member) for member in value]
    if not isinstance(value, str):
        return value
    return "\n".join(map(clean_text, value.splitlines()))


class ToolContext(msgspec.Struct, frozen=True):
    """A tool call's context. `project` "" means only memories without a project."""

    tenant: OpenTenant
    choices: Choices
    project: str
    now: int  # microseconds UTC
    agent: str | None = None
    session: str | None = None
    off: str = ""  # why nothing of this session is recorded
    shared: tuple[str, ...] = ()  # shared by the current work tree

    def scope(self, named: str | None) -> str:
        """Return the project that is meant: the one named, else the current one."""
        return check_project(named) if named else self.project

    def must_record(self) -> None:
        """Raise InvalidInput if this session is not recorded."""
        if self.off:
            raise InvalidInput(f"nothing was written: recording is off here ({self.off})")

    def filter(self, named: str | None = None, kinds: Sequence[str] = ()) -> Filter:
        return Filter(self.now, self.scope(named), kinds=tuple(kinds), shared=self.shared)


class ToolResult(msgspec.Struct, frozen=True):
    """A tool's result: a sentence, some values, and notes in named groups."""

    said: str
    values: Mapping[str, object] = {}
    groups: Mapping[str, Sequence[Note]] = {}


def render_result(result: ToolResult) -> Result:
    """Return a tool's result, the same as text and as values."""
    several = len(result.groups) > 1
    notes = [
        (group, {"group": group, **one} if several else one)
        for group, those in result.groups.items()
        for one in those
    ]
    kept, left_out = fit_notes([one for _, one in notes])
    text = (
        result.said
        if not left_out
        else f"{result.said} {left_out} more did not fit: ask for fewer."
    )
    structured: Result = {"said": text, **result.values}
    if kept:
        structured["about"] = OPENING
        for (group, _), one in zip(notes, kept, strict=False):
            structured.setdefault(group, []).append(one)
        structured["end"] = CLOSING
        text = f"{text}\n{frame_notes(kept)}"
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}


def error_result(message: str) -> Result:
    """Return the result of a failed tool call; the model reads the reason."""
    return {"content": [{"type": "text", "text": message}], "isError": True}
