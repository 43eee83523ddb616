"""
Transcript: what a model is shown of a session, line by line, each with an id it may cite.

What a tool wrote is a line of its own and says so. Bounded: of a long session the end is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pipelines.distill.found import listed
from pipelines.distill.sessions import Past
from store.log.event_kinds import Acted, Prompted, SessionTold
from store.log.events import Event
from store.memories.memory import Memory
from store.text import frame
from store.text.excerpt import one_line
from store.text.text_features import MAY_RULE

MOST = 24_000  # characters of a transcript
_LEAST = 3  # lines; fewer teach nothing
_TEXT, _ERROR = 800, 400  # characters of a line

By = Literal["person", "agent", "tool"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: `source` is the id of the event or memory it is of."""

    id: str
    by: By
    text: str
    source: str
    is_memory: bool
    at: int
    project: str | None
    files: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return msgspec.json.encode({"id": self.id, "by": self.by, "text": self.text}).decode()


def lines(past: Past, after: int) -> list[Line]:
    """Return what a session says after an event of the log, in order; nothing where it is little.

    What jobs made of it is left out: a model is not to learn from itself.
    """
    told = [(one.seq, _of_event(one)) for one in past.events if one.seq > after]
    told += [
        (one.seq, _of_memory(one)) for one in past.memories if one.seq > after and one.job is None
    ]
    told.sort(key=lambda pair: pair[0])
    found = [line for _, some in told for line in some]
    kept: list[Line] = []
    left = MOST
    for line in reversed(found):
        left -= len(line.shown)
        if left < 0:
            break
        kept.append(line)
    has_words = any(line.by != "tool" for line in kept)
    return _numbered(kept[::-1]) if len(kept) >= _LEAST and has_words else []


def _numbered(found: Sequence[Line]) -> list[Line]:
    return [
        Line(f"{line.by[0]}{place}", line.by, line.text, line.source, line.is_memory, line.at,
             line.project, line.files)
        for place, line in enumerate(found, 1)
    ]  # fmt: skip


def _of_event(event: Event) -> list[Line]:
    return [
        Line("", by, text, event.id, False, event.at, event.project, files)
        for by, text, files in _said(event)
        if text
    ]


def _said(event: Event) -> Iterator[tuple[By, str, tuple[str, ...]]]:
    match event.body:
        case Prompted(prompt=prompt):
            yield "person", _plain(prompt), ()
        case SessionTold(said=str(said)):
            yield "agent", _plain(said), ()
        case Acted(doing="edit", files=files) if files:
            yield "agent", f"edited {listed(files)}", files
        case Acted(doing="run", command=str(command)) as deed:
            came = {True: "passed", False: "failed", None: "was run"}[deed.passed]
            yield "agent", f"`{one_line(command, _ERROR)}` {came}", ()
            yield "tool", _plain(deed.error or "", _ERROR), ()


def _of_memory(memory: Memory) -> list[Line]:
    by: By = "tool"  # or the web
    if memory.trust in MAY_RULE:
        by = "person" if memory.trust == "user" else "agent"
    text = _plain(memory.content)
    return [Line("", by, text, memory.id, True, memory.created_at, memory.project)] if text else []


def _plain(text: str, longest: int = _TEXT) -> str:
    return one_line(frame.strip(text), longest)
