"""
A session read from a host's transcript, as the events that its hooks would have told.

So an imported session makes the same episodes as a live one. Ids come from what the transcript
itself numbers, so that a session read again adds only what is new; times are those of then.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath

from store import frame
from store.agent_events import Prompted, SessionTold
from store.body import Body
from store.deeds.deed import deed
from store.deeds.tools import ToolUse
from store.events import Event, derived_id
from store.importers.files import plain
from store.log import EventLog
from store.tenant import project_of

MAX_PROMPT = 2_000  # characters kept, as of a live prompt
MAX_SAID = 8_000


@dataclass(frozen=True, slots=True)
class Said:
    """What was said; `id` is what its line has in the transcript, `at` microseconds, 0 unknown."""

    text: str
    id: str
    at: int


@dataclass(frozen=True, slots=True)
class Step:
    """A tool that was used; `source` is what an edited file said before, where that is told."""

    tool: ToolUse
    id: str
    at: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A request (None where the file begins without one) and what followed it, in order."""

    session: str
    cwd: str | None
    branch: str | None
    request: Said | None
    steps: tuple[Said | Step, ...]


Turns = Callable[[Path, Callable[[str], None]], Iterator[Turn]]


class Sessions:
    """Reads sessions of one host's agent for a log, and counts what was read.

    A session that the hooks told of while it was lived is in the log already: those of its prompts
    are left out. `project` is whose all turns are; without, each belongs to that of its folder.
    """

    def __init__(self, log: EventLog, agent: str, project: str | None, now: int) -> None:
        self.sessions = self.turns = self.live = 0
        self._log, self._agent, self._project, self._now = log, agent, project, now

    def events(
        self, paths: Iterable[Path], turns: Turns, on_skip: Callable[[str], None]
    ) -> Iterator[Event]:
        """Yield the events of the turns in some files; raise SourceError for what cannot be read
        where it is all that was asked for.
        """
        for path in paths:
            self.sessions += 1
            try:
                for turn in turns(path, on_skip):
                    yield from self._events(turn)
            except OSError as error:
                on_skip(f"{path} was left out: {error}")

    def _events(self, turn: Turn) -> Iterator[Event]:
        project = self._project or (_project(turn.cwd) if turn.cwd else None)
        events = list(events_of(turn, self._agent, project, self._now))
        if not events:
            return
        self.turns += 1
        first = events[0].body
        assert isinstance(first, Prompted)
        if first.prompt in self._heard_live(turn.session):
            self.live += 1
            return
        yield from events

    def _heard_live(self, session: str) -> set[str]:
        """Return the prompts of a session that its hooks told of."""
        told = self._log.of_session(session)
        prompts = (one.body for one in told if isinstance(one.body, Prompted))
        return {one.prompt for one in prompts if not one.imported}


def events_of(turn: Turn, agent: str, project: str | None, now: int) -> Iterator[Event]:
    """Yield what the hooks of a turn would have told; nothing of one that nobody asked for.

    What has no time of its own happened `now`, in microseconds.
    """
    asked = frame.strip(turn.request.text).strip() if turn.request else ""
    if turn.request is None or not asked:
        return

    def event(body: Body, id_: str, at: int, facet: str) -> Event:
        made = derived_id(at, agent, id_, facet)
        return Event(made, at or now, body, made, project, plain(turn.session), agent, "agent")

    branch = plain(turn.branch) if turn.branch else None
    first = turn.request
    prompted = Prompted(prompt=asked[:MAX_PROMPT], branch=branch, imported=True)
    yield event(prompted, first.id, first.at, "prompt")
    at = first.at
    for step in turn.steps:
        at = step.at or at
        if isinstance(step, Step):
            files = tuple(_relative(path, turn.cwd) for path in step.tool.files)
            kept = deed(step.tool, files, (step.source,) if step.source else ())
            if kept is not None:
                yield event(kept, step.id, at, "action")
    said = closing_words(turn)
    yield event(
        SessionTold(stage="stopped", said=said.text[:MAX_SAID] if said else None),
        said.id if said else first.id,
        at,
        "stop",
    )


def closing_words(turn: Turn) -> Said | None:
    """Return what was said after the last use of a tool, as one; None where nothing was."""
    last: list[Said] = []
    for step in turn.steps:
        last = [*last, step] if isinstance(step, Said) else []
    text = frame.strip("\n\n".join(said.text for said in last)).strip()
    return Said(text, last[-1].id, last[-1].at) if text else None


def _relative(path: str, cwd: str | None) -> str:
    """Return a path relative to the working directory; as it is where it lies outside."""
    flavour = PureWindowsPath if "\\" in (cwd or path) else PurePosixPath
    pure = flavour(path)
    if cwd and pure.is_absolute() and pure.is_relative_to(cwd):
        return pure.relative_to(cwd).as_posix()
    return pure.as_posix()


@lru_cache(maxsize=256)
def _project(cwd: str) -> str | None:
    """Return the project of a working directory, or its name where it is gone or no repository."""
    found = project_of(Path(cwd)) if os.path.isdir(cwd) else None
    name = (PureWindowsPath(cwd) if "\\" in cwd else PurePosixPath(cwd)).name
    return found or re.sub(r"[^A-Za-z0-9._~+-]+", "-", name).lstrip("._-+")[:200] or None
