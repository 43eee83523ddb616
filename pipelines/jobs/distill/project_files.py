"""
Files of the current project: their digests, and the memories whose file has changed.

Only regular files in the project's own work tree are read: no links out of it, no pipes or devices,
nothing over four megabytes.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from pipelines.jobs import Context
from store.home.errors import SourceError
from store.home.projects import git_root, project_of, scope_chain
from store.importers import markdown
from store.log.event_kinds import Step
from store.memories.memory import Memory
from store.plans import steps

MAX_FILE = markdown.MAX_FILE
GONE = ""  # the digest of a missing file


class Note(msgspec.Struct, frozen=True):
    """The metadata of a note that was imported from a file; `in_project`: of its work tree."""

    path: str = ""
    in_project: bool = False


def work_tree(directory: Path | None) -> Path | None:
    """Return the resolved work tree that contains a directory, if it is a project's."""
    path = git_root(directory) if directory is not None else None
    return path.resolve() if path is not None else None


def digest(root: Path, file: str) -> str | None:
    """Return the hex SHA-256 of a file of a work tree, given relative to it; GONE for a missing
    file, None for a file that must not be read.
    """
    try:
        path = (root / file).resolve()
        if os.path.isabs(file) or not path.is_relative_to(root) or ".git" in Path(file).parts:
            return None
        # the path may have been replaced since: check the opened file, not the name
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None if (root / file).is_symlink() else GONE
    except (OSError, ValueError, RuntimeError):  # no name for a file, a loop of links, no right
        return None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        with os.fdopen(opened, "rb", closefd=False) as stream:
            data = stream.read(MAX_FILE + 1)
    finally:
        os.close(opened)
    return sha256(data).hexdigest() if len(data) <= MAX_FILE else None


def digests(root: Path | None, project: str | None, files: Sequence[str]) -> dict[str, str]:
    """Return the digests of the existing files; empty for another project's files."""
    if root is None or project is None or project_of(root) not in scope_chain(project):
        return {}
    return {file: sha for file in files if (sha := digest(root, file))}


def first_change(root: Path, before: dict[str, str]) -> tuple[str, str] | None:
    """Return the first file whose digest differs from before, and the change."""
    for file, was in sorted(before.items()):
        now = digest(root, file)
        if now is not None and now != was:
            return file, "is gone" if now == GONE else "has changed"
    return None


def stale_notes(
    context: Context, root: Path, project: str, notes: Sequence[Memory]
) -> Iterator[Step]:
    """Yield steps that mark imported notes stale that are no longer in their file."""
    by_path: dict[str, list[tuple[Memory, Note]]] = {}
    for memory in notes:
        try:
            note = msgspec.json.decode(memory.metadata, type=Note)
        except msgspec.ValidationError:
            continue
        if note.path and memory.project == project:
            by_path.setdefault(note.path, []).append((memory, note))
    for path, imported in sorted(by_path.items()):
        now = digest(root, path)
        current_ids = _note_ids(root, path, project) if now else set()
        if now is None or current_ids is None:
            continue
        # the note may be of a file of the same name elsewhere, unless the import says otherwise
        is_same_file = any(memory.id in current_ids for memory, _ in imported)
        for memory, note in imported:
            if memory.id not in current_ids and (is_same_file or note.in_project):
                became = "is gone" if now == GONE else "does not say it any more"
                yield steps.stale(memory, f"{path} {became}", path)


def _note_ids(root: Path, path: str, project: str) -> set[str] | None:
    """Return the ids of the notes in a file's present content; None for a link to another file."""
    try:
        drafts = [
            draft
            for is_mine in (False, True)
            for draft in markdown.drafts(root / path, project=project, is_mine=is_mine)
        ]
    except SourceError:
        return None
    if any(draft.metadata["path"] != path for draft in drafts):
        return None
    return {draft.id for draft in drafts if draft.id}
