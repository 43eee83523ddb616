"""
Trees: the notes that the work tree of a directory shares, as recall reads them.

Each version of each file is recorded once in the log, as a memory of a project of its own
(`SHARED`), which is visible only to queries that name it. A query from a directory names those in
its tree at this moment: so recall follows the checked-out branch, in two work trees at once,
without an event in the log.

A file's text is quoted with the trust of a tool, and never a rule: anybody may send a pull request.
If the user trusts the repository, files that are also in its remote's default branch have the trust
of an agent: they were reviewed.
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from store.home import projects
from store.home.errors import ConfigError, InvalidInput, LogError, MnemologError, SourceError
from store.home.files import file_stamp
from store.home.instants import derived_id, moment
from store.home.projects import SHARED, git_root, project_of
from store.importers.git_command import git_fields
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.log.events import Event
from store.shared.notes import FOLDER, SharedNote, note_stamps, read_notes

_KEPT_S = 10  # the remote branch's notes are looked up this often
_KEPT = 32  # trees
_DEFAULT_BRANCHES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
)


class TreeNote(NamedTuple):
    """A note of a tree, and `is_reviewed`; the project and id of its memory in the log."""

    note: SharedNote
    is_reviewed: bool
    scope: str
    id: str


class SharedTrees:
    """The recently queried trees. Threads may share it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._kept = lru_cache(maxsize=_KEPT)(self._look_up)
        self._recorded: dict[Path, set[str]] = {}  # ids of notes, by log
        self._recording = Lock()

    def scopes(self, log: EventLog, cwd: str | None, now: int) -> tuple[str, ...]:
        """Return the projects of the notes that the tree of a directory shares, each recorded in
        the log; none outside a repository, or if the log cannot be written.
        """
        notes = self.notes(cwd)
        if not notes:
            return ()
        try:
            self._record(log, notes, now)
        except (LogError, OSError):
            return ()
        return tuple(note.scope for note in notes)

    def notes(self, cwd: str | None) -> tuple[TreeNote, ...]:
        """Return the notes that the tree of a directory shares, by path."""
        try:
            root = git_root(Path(cwd)) if cwd is not None else None
            if root is None or not (root / FOLDER).is_dir():
                return ()
        except (OSError, ValueError):  # no path, or not readable by us
            return ()
        stamps = tuple(note_stamps(root))
        agreed = file_stamp(projects.consents_file(self._home))
        return self._kept(root, stamps, agreed, int(time.monotonic() / _KEPT_S))

    def _look_up(
        self, root: Path, stamps: object, agreed: object, period: int
    ) -> tuple[TreeNote, ...]:
        return tuple(tree_notes(self._home, root))

    def _record(self, log: EventLog, notes: Sequence[TreeNote], now: int) -> None:
        recorded = self._recorded.setdefault(log.path, set())
        new = [note for note in notes if note.id not in recorded]
        if not new:
            return
        with self._recording:
            there = log.present_ids([note.id for note in new])
            events = [event for note in new if note.id not in there for event in _events(note, now)]
            if events:
                log.append(events)
            recorded.update(note.id for note in new)


def tree_notes(home: Path, root: Path) -> Iterator[TreeNote]:
    """Yield the notes of a tree, by path; the home has the user's consents."""
    project = project_of(root)
    if project is None:
        return
    notes = [note for note in read_notes(root) if not note.problem]
    reviewed = _reviewed(root) if notes and _trusts(home, root) else frozenset()
    for note in notes:
        is_reviewed = (note.path, note.blob) in reviewed
        mark = f"{note.mark}+" if is_reviewed else note.mark
        scope = f"{project}{SHARED}{mark}"
        yield TreeNote(note, is_reviewed, scope, derived_id(note.created, "shared", scope))


def _trusts(home: Path, root: Path) -> bool:
    """Return True if the user trusts the notes in the default branch of a repository."""
    try:
        return projects.trusts_notes(home, root)
    except ConfigError:  # unreadable consents trust no repository; the hooks' settings report why
        return False


def notes_at(root: Path, ref: str) -> dict[str, str]:
    """Return path and blob of the notes in a commit or branch; raise SourceError, or InvalidInput
    for a ref that git would take for an option.
    """
    if ref.startswith("-"):
        raise InvalidInput(f"{ref!r} is no branch or commit: name one, such as origin/main")
    with git_fields(root, ["ls-tree", "-r", "-z", "--full-tree", ref, "--", FOLDER]) as fields:
        rows = [field.partition("\t") for field in fields if field]
    return {path: text.split()[2] for text, _, path in rows if path.endswith(".md")}


def note_at(root: Path, ref: str, path: str) -> bytes:
    """Return a note's bytes in a commit or branch; raise SourceError."""
    with git_fields(root, ["cat-file", "blob", f"{ref}:{path}"]) as fields:
        return "\x00".join(fields).encode()


def _reviewed(root: Path) -> frozenset[tuple[str, str]]:
    """Return path and blob of the notes in the remote's default branch."""
    for ref in _DEFAULT_BRANCHES:
        try:
            return frozenset(notes_at(root, ref).items())
        except SourceError:
            continue
    return frozenset()


def _events(tree_note: TreeNote, now: int) -> Iterator[Event]:
    """Yield the event that records a note; none if the note makes no memory."""
    note = tree_note.note
    draft = Draft(
        id=tree_note.id,
        kind=note.kind,  # type: ignore[arg-type]  # `parse_note` takes no other
        content=note.content,
        context=note.context,
        action=note.action,
        result=note.result,
        tags=note.tags,
        created_at=moment(min(note.created, now)) if note.created else None,
        source=f"shared:{note.path}",
        project=tree_note.scope,
        trust="agent" if tree_note.is_reviewed else "tool",
        author="repository",
    )
    try:
        yield commands.memory_event(draft, now)
    except MnemologError:  # too large, or no text worth keeping: the review view says which
        return
