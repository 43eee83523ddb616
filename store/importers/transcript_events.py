"""
Transcript events: a host's session as the events that its hooks would have written.

So an imported session makes the same episodes as a live one, and the lasting sentences of its
prompts become the same statements. Ids come from the transcript's own numbers, so reading a session
again adds only its new turns; times are the transcript's.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import msgspec
from msgspec.structs import replace

from store.agents.authorship import author_of
from store.agents.prompt_statements import recordable, statement_events
from store.agents.tool_calls import action_event
from store.home.config import Choices
from store.home.errors import SourceError
from store.home.instants import DAY, HOUR, derived_id
from store.home.pauses import Pause, covers
from store.home.projects import git_root, holds_in, scope_of
from store.importers.source_files import printable_name
from store.importers.transcript_turn import Skip, Transcript, Turn, Turns
from store.log import log_queries
from store.log.event_kinds import (
    STATEMENT,
    Author,
    Body,
    Intent,
    Prompted,
    Recorded,
    SessionTold,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.fold import Fold
from store.memories.memory import ACTIVE, Memory
from store.text import frame
from store.text.excerpt import plural

MAX_PROMPT = 2_000  # characters kept, as of a live prompt
LONGEST_NAME = 200  # characters of a session's id, a branch
HEARD_WITHIN = 20_000_000  # microseconds between a prompt's hook and its line in the transcript
AT_WORK = HOUR  # since a hook reported a turn that did not end
_BATCH = 500  # turns whose ids are looked up at once
_ENDS = ("stopped", "ended")

IntentOf = Callable[[str, str], Intent | None]  # of a prompt, and the agent's words before it
ChoicesOf = Callable[[str | None], Choices]  # as seen from a folder; None: from no project's


class TranscriptTurn(msgspec.Struct, frozen=True):
    """A turn as events, its prompt first; `is_live` if hooks reported it.

    `statements` are the events that record the lasting sentences of a new prompt.
    """

    events: tuple[Event, ...]
    is_live: bool = False
    statements: tuple[Event, ...] = ()


class Sessions:
    """A reader of one host's sessions for a log, and its counts.

    A turn that the hooks reported live is in the log already and is left out, as is a session that
    another program reported. Without a log there is none. All turns belong to `project`; without
    it, each belongs to its folder's. `choices_of` gives that project, the kinds recorded there and
    whether the user's words are kept, as the settings have it. Turns that are paused, or were when
    they happened, are left out, as are those older than episodes are kept.

    A transcript in a git repository may have come with other people's code: its turns are quoted as
    they happened, and none of its statements is kept. Below `own`, the host's own folder of
    sessions, it is the user's, even inside a repository.
    """

    def __init__(
        self,
        log: EventLog | None,
        agent: str,
        project: str | None,
        now: int,
        intent_of: IntentOf = lambda prompt, before: None,
        choices_of: ChoicesOf = lambda folder: Choices(),
        pauses: Sequence[Pause] = (),
        own: Path | None = None,
    ) -> None:
        self.turns = self.live = self.off = self.statements = 0
        self._sessions: dict[str, _SessionState] = {}
        self._heard: tuple[int, int, list[Event]] = (0, 0, [])  # since, until, their events
        self._log, self._agent, self._project, self._now = log, agent, project, now
        self._intent_of, self._choices_of, self._pauses = intent_of, choices_of, pauses
        self._own = own.absolute() if own is not None else None
        self._statement_fold: Fold | None = None  # the statements, once one is looked for

    @property
    def sessions(self) -> int:
        """The number of sessions."""
        return len(self._sessions)

    @property
    def summary(self) -> str:
        """A summary of the sessions read so far, for people."""
        live = f" ({self.live} already recorded by hooks)" if self.live else ""
        text = f", {plural(self.statements, 'statement')}" if self.statements else ""
        off = f", {self.off} paused or not to be recorded" if self.off else ""
        turns = f"{plural(self.turns, 'turn')} in {plural(self.sessions, 'session')}"
        return turns + live + off + text

    def events(
        self, transcripts: Sequence[Transcript], turns: Turns, on_skip: Skip
    ) -> Iterator[Event]:
        """Yield the events of the turns that the log did not record live; raise as `read` does."""
        for turn in self.read(transcripts, turns, on_skip):
            if not turn.is_live:
                # a crash between the two leaves the prompt unknown, so that it is read again
                yield from turn.statements
                yield from turn.events

    def read(
        self, transcripts: Sequence[Transcript], turns: Turns, on_skip: Skip
    ) -> Iterator[TranscriptTurn]:
        """Yield the turns of some transcripts, in their order.

        The unreadable rest of a transcript is left out and reported to `on_skip`. Raise SourceError
        if the only transcript is unreadable from its start.
        """
        for transcript in transcripts:
            before = self.turns
            try:
                path = transcript.path.absolute()
                is_hosts = self._own is not None and path.is_relative_to(self._own)
                is_users = is_hosts or git_root(path.parent) is None
                yield from self._turns(turns(transcript, on_skip), is_users, on_skip)
            except (OSError, SourceError) as error:
                if len(transcripts) == 1 and self.turns == before:
                    raise SourceError(f"{transcript} cannot be read: {error}") from error
                on_skip(f"{transcript} was left out from here on: {error}")

    def _turns(
        self, turns: Iterable[Turn], is_users: bool, on_skip: Skip
    ) -> Iterator[TranscriptTurn]:
        before = ""
        for turn in turns:
            choices = self._choices_of(turn.cwd if turn.cwd and _is_here(turn.cwd) else None)
            project = self._project or choices.project or (turn.cwd and project_at(turn.cwd))
            intent = self._intent_of(turn.request.text, before)
            events = tuple(turn_events(turn, self._agent, project or None, self._now, intent))
            if not events:
                continue
            if not is_users:
                events = (replace(events[0], author="repository"), *events[1:])
            asked_after, before = before, turn.closing.text if turn.closing else ""
            session = events[0].session or ""
            if (state := self._sessions.get(session)) is None:
                state = self._sessions[session] = self._read_session(session)
                if state.is_at_work:
                    on_skip(f"session {session} is at work: import again once its turn has ended")
            self.turns += 1
            is_live = state.is_elsewhere or self._was_heard(events[0])
            self.live += is_live
            if is_live:
                yield TranscriptTurn(events, is_live)
            elif self._is_off(events[0], turn.cwd, choices):
                self.off += 1
            elif not state.is_at_work:
                events = tuple(recordable(events, choices.record))
                keeps = is_users and choices.remember_words and "prompts" in choices.record
                keeps = keeps and events[0].id not in state.ids
                statements = (
                    self._lasting_events(turn.request.text, asked_after, events[0]) if keeps else ()
                )
                yield TranscriptTurn(events, statements=statements)

    def _lasting_events(self, prompt: str, before: str, prompted: Event) -> tuple[Event, ...]:
        """Return the events for a prompt's lasting sentences that the log does not have."""
        events = statement_events(
            frame.strip(prompt).strip(), before, prompted, lambda: self._valid_statements(prompted)
        )
        if events and self._log is not None and self._log.present_ids([prompted.id]):
            return ()  # read in another session, from which this one was copied
        for event in events:
            self._statements.apply(event)
            self.statements += isinstance(event.body, Recorded)
        return tuple(events)

    def _valid_statements(self, prompted: Event) -> list[Memory]:
        """Return the statements of a prompt's project, or of none, that are active or ended after
        it.
        """
        return [
            memory
            for memory in self._statements.rows.values()
            if holds_in(memory.project, prompted.project or "")
            and (memory.state == ACTIVE or (memory.ended_at or 0) > prompted.at)
        ]

    @property
    def _statements(self) -> Fold:
        """The statements in the log, and those that were read since."""
        if self._statement_fold is None:
            self._statement_fold = Fold()
            if self._log is not None:
                for statement in log_queries.memories_of_kind(self._log, STATEMENT):
                    for event in self._log.events_for(statement.id):
                        self._statement_fold.apply(event)
        return self._statement_fold

    def _is_off(self, event: Event, cwd: str | None, choices: Choices) -> bool:
        """Return True if a turn is not to be recorded, or the next build would erase it."""
        days = choices.episodes_days
        if not choices.record or (days and event.at < self._now - days * DAY):
            return True
        session, project = event.session or "", event.project or ""
        return any(
            (pause.holds(event.at) or pause.holds(self._now))
            and covers(pause, session, project, cwd)
            for pause in self._pauses
        )

    def _was_heard(self, prompt: Event) -> bool:
        """Return True if a hook reported a prompt, in its session or in the copied one."""
        if self._log is None:
            return False
        since, until, prompts = self._heard
        if not since <= prompt.at - HEARD_WITHIN <= prompt.at + HEARD_WITHIN <= until:
            since, until = prompt.at - HEARD_WITHIN, prompt.at + HEARD_WITHIN + HOUR
            prompts = [
                event
                for event in self._log.events_between(("prompted",), since, until)
                if isinstance(event.body, Prompted) and not event.body.imported
            ]
            self._heard = since, until, prompts
        return any(_is_same(event, prompt) for event in prompts)

    def _read_session(self, session: str) -> "_SessionState":
        """Return the state of a session in the log before it is read."""
        if self._log is None:
            return _SessionState()
        events = self._log.session_events(session)
        prompts = [event for event in events if isinstance(event.body, Prompted)]
        is_at_work = False
        if events and events[-1].at >= self._now - AT_WORK:
            last = events[-1].body
            is_at_work = not (isinstance(last, SessionTold) and last.stage in _ENDS)
        return _SessionState(
            is_at_work,
            any(event.agent != self._agent for event in prompts),
            frozenset(event.id for event in prompts),
        )


class _SessionState(msgspec.Struct, frozen=True):
    """A session's state in the log, and the ids of its prompts.

    It is at work while hooks report a turn of it: its next action belongs to its newest episode, so
    no older turn may become the newest. It is elsewhere if another program reported it under the
    same id: SpecStory exports every program's sessions.
    """

    is_at_work: bool = False
    is_elsewhere: bool = False
    ids: frozenset[str] = frozenset()


@dataclass(slots=True)
class Share:
    """One project's share of the turns; times are microseconds of the first and the last prompt."""

    turns: int = 0
    new: int = 0  # neither in the log already, nor heard live
    first: int = 0
    last: int = 0
    sessions: set[str] = field(default_factory=set)


def survey(turns: Iterable[TranscriptTurn], log: EventLog | None) -> dict[str | None, Share]:
    """Return the number of turns by project, most turns first; nothing is recorded."""
    shares: dict[str | None, Share] = {}
    waiting: dict[str, Share] = {}
    for turn in turns:
        prompt = turn.events[0]
        share = shares.setdefault(prompt.project, Share())
        share.turns += 1
        share.sessions.add(prompt.session or "")
        share.first = min(share.first or prompt.at, prompt.at)
        share.last = max(share.last, prompt.at)
        if not turn.is_live:
            waiting[prompt.id] = share
        if len(waiting) >= _BATCH:
            _count_new(waiting, log)
    _count_new(waiting, log)
    return dict(sorted(shares.items(), key=lambda item: (-item[1].turns, item[0] or "")))


def _count_new(waiting: dict[str, Share], log: EventLog | None) -> None:
    present = log.present_ids(list(waiting)) if log is not None and waiting else set()
    for id_, share in waiting.items():
        share.new += id_ not in present
    waiting.clear()


def _is_same(event: Event, prompt: Event) -> bool:
    body, imported = event.body, prompt.body
    assert isinstance(body, Prompted) and isinstance(imported, Prompted)
    if event.agent != prompt.agent or abs(event.at - prompt.at) > HEARD_WITHIN:
        return False
    return event.session == prompt.session or body.prompt == imported.prompt


def turn_events(
    turn: Turn, agent: str, project: str | None, now: int, intent: Intent | None = None
) -> Iterator[Event]:
    """Yield the events that hooks would have written for a turn; none for a turn without a request.

    A step without a time gets `now`, in microseconds.
    """
    request = frame.strip(turn.request.text).strip()
    if not request:
        return
    session = printable_name(turn.session)[:LONGEST_NAME]

    def event(body: Body, id_: str, at: int, facet: str, author: Author | None = None) -> Event:
        event_id = derived_id(at, agent, id_, facet)
        of = (project, session, agent)
        return Event(event_id, at or now, body, event_id, *of, "agent", author=author)

    branch = printable_name(turn.branch)[:LONGEST_NAME] if turn.branch else None
    first = turn.request
    prompted = Prompted(prompt=request[:MAX_PROMPT], intent=intent, branch=branch, imported=True)
    author = author_of(request, is_unattended=turn.is_unattended)
    yield event(prompted, first.id, first.at, "prompt", author)
    at = first.at
    for step in turn.steps:
        at = step.at or at
        files = dict.fromkeys(in_project(path, turn.cwd) for path in step.tool.files)
        acted = action_event(step.tool, tuple(files))
        if acted is not None:
            if acted.doing == "edit" and acted.passed is not False:
                # the names defined before the edit, as a hook gives those defined after it
                acted = replace(acted, names=tuple(dict.fromkeys((*acted.names, *step.names))))
            yield event(acted, step.id, at, "action")
    statement = turn.closing
    yield event(
        SessionTold(stage="stopped", said=statement.text if statement else None),
        statement.id if statement else first.id,
        statement.at or at if statement else at,
        "stop",
    )


def in_project(path: str, cwd: str | None) -> str:
    """Return a path relative to a session's work tree, with forward slashes.

    A path elsewhere stays whole. The work tree of a missing folder is that folder; nothing else is
    looked up on the disk.
    """
    flavour = PureWindowsPath if "\\" in (cwd or path) else PurePosixPath
    if not cwd:
        return flavour(path).as_posix()
    pure, root = _normal(flavour(cwd, path)), flavour(_root(cwd))
    return pure.relative_to(root).as_posix() if pure.is_relative_to(root) else pure.as_posix()


def _normal(path: PurePath) -> PurePath:
    """Return a path without `..`, as it is written."""
    parts: list[str] = []
    for part in path.parts:
        if part != "..":
            parts.append(part)
        elif len(parts) > 1:
            parts.pop()
    return type(path)(*parts)


@lru_cache(maxsize=256)
def _root(cwd: str) -> str:
    return str(git_root(Path(cwd)) or cwd) if _is_here(cwd) else cwd


@lru_cache(maxsize=256)
def project_at(cwd: str) -> str | None:
    """Return the project of a working directory as hooks name it; its last name if it is gone.

    None if there is none (`scope_of`).
    """
    if _is_here(cwd):
        return scope_of(Path(cwd))
    name = (PureWindowsPath(cwd) if "\\" in cwd else PurePosixPath(cwd)).name
    return re.sub(r"[^A-Za-z0-9._~+-]+", "-", name).lstrip("._-+")[:200] or None


@lru_cache(maxsize=256)
def _is_here(cwd: str) -> bool:
    try:
        return os.path.isabs(cwd) and os.path.isdir(cwd)
    except ValueError:  # a NUL in it
        return False
