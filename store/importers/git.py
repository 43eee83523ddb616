"""
Git history, read into memories: changes and their reasons, fixes, decisions.

The oldest come first; commits that `is_noise` knows make no memory. A commit's release, pull
request and revert, which it does not name itself, come from the history as a whole. No e-mail
address is read.
"""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

import msgspec

from store.home.errors import SourceError
from store.home.instants import derived_id, moment
from store.home.projects import project_of
from store.importers.git_command import MissingObject, git_fields
from store.importers.git_history import History, Origin, Pull, Release, ReleaseNotes, day, second
from store.importers.git_message import (
    Message,
    is_automatic,
    is_noise,
    kind_of_message,
    parse_message,
)
from store.importers.source_files import Progress, no_progress, printable_name
from store.log.commands import Draft
from store.memories.memory import COMMIT
from store.text.excerpt import label

FILES_SHOWN = 6  # in the text
FILES_KEPT = 20  # in the metadata
FILES_READ = 2_000  # of one commit: an import of a whole tree must not fill the memory
MERGES_COMPARED = 64  # a merge that repeats one of the last subjects adds nothing

GENERATED = re.compile(
    r"(?:^|/)(?:vendor|node_modules|dist|build|__snapshots__|third_party)/"
    r"|(?:lock|\.lock|-lock\.(?:json|yaml)|\.sum|\.snap|\.min\.(?:js|css)|\.map|\.svg|\.png|\.csv)$"
    r"|(?:^|/)(?:CHANGELOG|CHANGES)\b[^/]*$"
)
PLAIN_FOLDERS = frozenset({"src", "lib", "app", "packages", "pkg", "internal", "crates"})

_SERIES = re.compile(r"([0-9]+\.[0-9]+)\.[0-9]")
_FORMAT = "commit %H%x00%P%x00%at%x00%an%x00%B"
_HEADER = re.compile(r"commit ([0-9a-f]{40,64})")
_NUMSTAT = re.compile(r"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
_NAME_STATUS = re.compile(r"\n?([A-Z])[0-9]{0,3}")
_WITH_LINES = ("--numstat", "-M")
_WITH_NAMES = ("--name-status", "-M100%")  # needs no contents: renames of unchanged files only


class Change(msgspec.Struct, frozen=True):
    """One file of a commit under its new name, with lines added and removed."""

    path: str
    added: int
    removed: int
    old_path: str = ""  # where it was renamed


class Commit(msgspec.Struct, frozen=True):
    """One commit as git reports it; `at` is the author's time in seconds."""

    sha: str
    is_merge: bool
    at: int
    author: str
    text: str
    changes: tuple[Change, ...]


def drafts(
    source: Path,
    *,
    project: str | None,
    since: str | None = None,
    limit: int | None = None,
    on_progress: Progress = no_progress,
) -> Iterator[Draft]:
    """Yield a draft for every meaningful commit of HEAD's history, oldest first.

    `since` is any date that git takes ("2026-01-31", "3 months ago"); `limit` reads only the newest
    commits. `on_progress` gets the number of commits read, and of all. Without `project` it is the
    one `source` belongs to. An empty repository gives nothing. Raise SourceError if `source` is no
    repository or git cannot be run.
    """
    name = project or project_of(source)
    root = printable_name(str(source.absolute()))
    history = History(source)
    subjects: deque[str] = deque(maxlen=MERGES_COMPARED)
    alone: set[str] = set()  # pull requests of one commit, which describes them
    began: int | None = None
    with git_fields(source, ["rev-list", "--count", *_bounds(since, limit), "HEAD"]) as counts:
        total = int(next(counts, "0"))
    for count, commit in enumerate(commits(source, since=since, limit=limit), 1):
        on_progress(count, total)
        began = commit.at if began is None else began
        read = parse_message(commit.text, is_merge=commit.is_merge)
        origin = history.of(commit.sha)
        pull = origin.pull
        is_told = commit.is_merge and (
            read.topic in subjects or (pull is not None and pull.number in alone and not read.why)
        )
        subjects.append(read.topic)
        if not is_told and not is_noise(read, commit.author):
            if pull is not None and pull.commits == 1:
                alone.add(pull.number)
            yield _draft(commit, read, origin, name, root)
    for notes in history.notes:
        if began is not None and began <= notes.release.at:
            yield _release_draft(notes, name, root)


def commits(source: Path, *, since: str | None, limit: int | None) -> Iterator[Commit]:
    """Yield the commits of `git log`, oldest first; raise SourceError if it fails.

    If a version of a file is missing, as in a partial clone, that commit and the following ones
    come with the names of their files only.
    """
    some = _bounds(since, limit)
    read, last = 0, None
    try:
        for commit in _log(source, [*_WITH_LINES, *some]):
            if last is not None:
                read += 1
                yield last
            last = commit  # delayed: git may fail among its files
    except MissingObject:
        yield from islice(_log(source, [*_WITH_NAMES, *some]), read, None)
    else:
        if last is not None:
            yield last


def _bounds(since: str | None, limit: int | None) -> list[str]:
    """Return the options of git that leave out older commits."""
    some = [f"--since={since}"] if since else []
    return some + ([f"--max-count={limit}"] if limit is not None else [])


def _log(source: Path, options: list[str]) -> Iterator[Commit]:
    command = ["log", "--reverse", "-z", "--no-color", "--no-show-signature", "--no-ext-diff"]
    command += ["--no-textconv", "--no-relative", "--submodule=short"]
    with git_fields(source, [*command, f"--format={_FORMAT}", *options]) as fields:
        field = next(fields, "")
        while header := _HEADER.match(field):
            parents, at, author, text = (next(fields, "") for _ in range(4))
            changes: list[Change] = []
            field = next(fields, "")
            while change := _change(field, fields):
                if len(changes) < FILES_READ:
                    changes.append(change)
                field = next(fields, "")
            yield Commit(header[1], " " in parents, second(at), author, text, tuple(changes))
    if field:
        raise SourceError(f"git log wrote {field[:80]!r} where a commit begins: report this")


def _change(field: str, fields: Iterator[str]) -> Change | None:
    """Return the file whose change a field begins; None if it is no file."""
    if stat := _NUMSTAT.match(field):
        path, old = stat[3], ""
        if not path:  # renamed: the old and the new name follow
            old, path = next(fields, ""), next(fields, "")
        return Change(path, _count(stat[1]), _count(stat[2]), old)
    if status := _NAME_STATUS.fullmatch(field):
        path, old = next(fields, ""), ""
        if status[1] in "RC":
            old, path = path, next(fields, "")
        return Change(path, 0, 0, old)
    return None


def _count(number: str) -> int:
    return 0 if number == "-" else int(number)  # "-" stands for a binary file


def _draft(commit: Commit, read: Message, origin: Origin, project: str | None, root: str) -> Draft:
    at = commit.at * 1_000_000
    changes = sorted(commit.changes, key=_file_rank)
    paths = [change.path for change in changes]
    parts = (read.subject, read.why, _files_line(changes))
    return Draft(
        id=derived_id(at, COMMIT, project or root, commit.sha),
        content="\n\n".join(part for part in parts if part),
        context=(
            _pull_line(origin.pull, read, is_whole=commit.is_merge or origin.pull.commits == 1)
            if origin.pull
            else None
        ),
        result=" ".join(_consequences(origin)) or None,
        kind=kind_of_message(read),
        tags=_tags(read, paths, origin),
        project=project,
        source=COMMIT,
        created_by=None if is_automatic(commit.author) else label(commit.author),
        created_at=moment(at),
        trust="agent",  # collaborators wrote it too: notes of work, not this user's word
        author="repository",
        metadata={
            "commit": commit.sha[:12],
            "files": paths[:FILES_KEPT],
            "insertions": sum(change.added for change in commit.changes),
            "deletions": sum(change.removed for change in commit.changes),
        }
        | _references(origin),
    )


def _pull_line(pull: Pull, read: Message, *, is_whole: bool) -> str:
    """Return the line on a pull request beside a commit of it.

    Its title and branch describe all its commits together: beside one of several they would make
    "fix tests" as good an answer as the right commit.
    """
    kind = "Merge" if pull.number.startswith("!") else "Pull"
    branch = f" from {pull.branch}" if is_whole and pull.branch else ""
    title = pull.title if is_whole and pull.title not in (read.subject, read.topic) else ""
    return f"{kind} request {pull.number}{branch}{title and ': '}{title}"


def _consequences(origin: Origin) -> Iterator[str]:
    """Yield a commit's reverts, in both directions, and its release, a sentence each."""
    if old := origin.reverts:
        yield f"Reverts {old.sha[:7]} of {day(old.at)}."
    if new := origin.reverted_by:
        yield f"Reverted by {new.sha[:7]} on {day(new.at)}."
    if origin.release:
        yield f"Released in {_named(origin.release)}."


def _named(release: Release) -> str:
    """Return a name like "2.3.1 (2.3)": people name a release by its series too."""
    series = _SERIES.match(release.version)
    return f"{release.version} ({series[1]})" if series else release.version


def _release_draft(notes: ReleaseNotes, project: str | None, root: str) -> Draft:
    release, at = notes.release, notes.release.at * 1_000_000
    after = f", after {notes.previous.version}" if notes.previous else ""
    count = f"{notes.changes} changes" if notes.changes > 1 else "one change"
    return Draft(
        id=derived_id(at, COMMIT, project or root, "release", release.version),
        content=f"Release {_named(release)} on {day(release.at)}{after}: {count}.",
        kind="milestone",
        tags=("release",),
        project=project,
        source=COMMIT,
        created_at=moment(at),
        trust="agent",
        author="repository",
        metadata={"release": release.version, "changes": notes.changes},
    )


def _references(origin: Origin) -> dict[str, str]:
    release = origin.release
    references = {
        "release": release.version if release else "",
        "released": moment(release.at * 1_000_000).date().isoformat() if release else "",
        "pull_request": origin.pull.number if origin.pull else "",
        "reverts": origin.reverts.sha[:12] if origin.reverts else "",
        "reverted_by": origin.reverted_by.sha[:12] if origin.reverted_by else "",
    }
    return {name: value for name, value in references.items() if value}


def _file_rank(change: Change) -> tuple[bool, int, str]:
    """Return a file's sort key: files that people write first, then those that changed most."""
    return bool(GENERATED.search(change.path)), -(change.added + change.removed), change.path


def _files_line(changes: list[Change]) -> str:
    if not changes:
        return ""
    names = [
        f"{change.path} (renamed from {change.old_path})" if change.old_path else change.path
        for change in changes[:FILES_SHOWN]
    ]
    more = f" (+{len(changes) - FILES_SHOWN} more)" if len(changes) > FILES_SHOWN else ""
    return f"Files: {', '.join(names)}{more}"


def _tags(read: Message, paths: list[str], origin: Origin) -> tuple[str, ...]:
    """Return the scope, else the folder of the most telling file; and other prominent tags."""
    folders = PurePosixPath(paths[0]).parts[:-1] if paths else ()
    folder = next((folder for folder in folders if folder not in PLAIN_FOLDERS), "")
    area = label(read.scope or folder)
    marks = (
        ("revert", read.is_revert or origin.reverts is not None),
        ("reverted", origin.reverted_by is not None),
        ("breaking", read.is_breaking),
    )
    tags = [area.lower()] if area else []
    return tuple(dict.fromkeys(tags + [name for name, is_set in marks if is_set]))
