"""
Here: whose memory a tool works on, from where and when; Told: what it has to say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from serve.mcp_server.notes import Note, bounded, framed
from serve.mcp_server.registry import Result
from serve.reader.filters import Filter
from serve.server.open_tenants import OpenTenant
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import InvalidInput
from store.home.projects import checked_project
from store.text.frame import CLOSING, OPENING


@dataclass(frozen=True, slots=True)
class Here:
    """`project` is "" outside any repository: only memories without a project are meant then."""

    tenant: OpenTenant
    embedder: Embedder
    choices: Choices
    project: str
    now: int  # microseconds UTC
    agent: str | None = None
    session: str | None = None
    off: str = ""  # why nothing of this session is recorded

    def scope(self, named: str | None) -> str:
        """Return the project that is meant: the one named, else the one we are in."""
        return checked_project(named) if named else self.project

    def must_record(self) -> None:
        """Raise InvalidInput where nothing of this session is recorded."""
        if self.off:
            raise InvalidInput(f"nothing was written: recording is off here ({self.off})")

    def filter(self, named: str | None = None, kinds: Sequence[str] = ()) -> Filter:
        return Filter(self.now, self.scope(named), tuple(kinds))


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool says: a sentence, some values, and notes in groups of a name."""

    said: str
    values: Mapping[str, object] = field(default_factory=dict)
    groups: Mapping[str, Sequence[Note]] = field(default_factory=dict)


def as_result(told: Told) -> Result:
    """Return a tool's result, the same as text and as values."""
    several = len(told.groups) > 1
    notes = [
        (group, {"group": group, **one} if several else one)
        for group, those in told.groups.items()
        for one in those
    ]
    kept, left_out = bounded([one for _, one in notes])
    said = told.said if not left_out else f"{told.said} {left_out} more did not fit: ask for less."
    structured: Result = {"said": said, **told.values}
    if kept:
        structured["about"] = OPENING
        for (group, _), one in zip(notes, kept, strict=False):
            structured.setdefault(group, []).append(one)
        structured["end"] = CLOSING
        said = f"{said}\n{framed(kept)}"
    return {"content": [{"type": "text", "text": said}], "structuredContent": structured}


def failed(message: str) -> Result:
    """Return the result of a tool that could not do it; the model reads why."""
    return {"content": [{"type": "text", "text": message}], "isError": True}
