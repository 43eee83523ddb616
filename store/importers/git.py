"""
Git history, read into memories: what was changed and why, what was fixed, what was decided.

`git log` runs once, without a shell, and its output is read as it comes. Its fields are parted by
NUL, which no message, name or path can hold (https://git-scm.com/docs/git-log, `-z`). The oldest
come first; commits that `message.is_noise` knows make no memory. No e-mail address is read.
"""

import os
import re
import subprocess
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO

from store.home.errors import SourceError
from store.home.instants import derived_id, moment
from store.home.projects import project_of
from store.importers import message
from store.importers.files import plain
from store.log.commands import Draft
from store.text.excerpt import label

SOURCE = "git"
FILES_SHOWN = 6  # in the text
FILES_KEPT = 20  # in the metadata
FILES_READ = 2_000  # of one commit: an import of a whole tree must not fill the memory
MERGES_COMPARED = 64  # a merge that repeats one of the last subjects adds nothing
LAST_SECOND = 253_402_300_799  # the year 9999; git takes any number

GENERATED = re.compile(
    r"(?:^|/)(?:vendor|node_modules|dist|build|__snapshots__|third_party)/"
    r"|(?:lock|\.lock|-lock\.(?:json|yaml)|\.sum|\.snap|\.min\.(?:js|css)|\.map|\.svg|\.png|\.csv)$"
    r"|(?:^|/)(?:CHANGELOG|CHANGES)\b[^/]*$"
)
PLAIN_FOLDERS = frozenset({"src", "lib", "app", "packages", "pkg", "internal", "crates"})

_FORMAT = "commit %H%x00%P%x00%at%x00%an%x00%B"
_HEADER = re.compile(r"commit ([0-9a-f]{40,64})")
_NUMSTAT = re.compile(r"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
_CHUNK = 1 << 16
MAX_FIELD = 1 << 20  # bytes; of a longer message or name the rest is left out

# A partial clone lacks objects, which git would fetch by a program that the repository itself may
# name (core.sshCommand, ext::): reading a history must run nothing, so nothing is ever fetched.
_ALONE = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # where git is too old to know the line above
    "GIT_TERMINAL_PROMPT": "0",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One file of a commit under its new name, with lines added and removed."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit as git tells it; `at` is the author's time in seconds."""

    sha: str
    is_merge: bool
    at: int
    author: str
    text: str
    changes: tuple[Change, ...]


def drafts(
    source: Path, *, project: str | None, since: str | None = None, limit: int | None = None
) -> Iterator[Draft]:
    """Yield a draft for every commit of HEAD's history that says something, oldest first.

    `since` is what git takes ("2026-01-31", "3 months ago"); `limit` reads only the newest commits.
    Without `project` it is the one `source` belongs to. An empty repository gives nothing. Raise
    SourceError where `source` is no repository or git cannot be run.
    """
    name = project or project_of(source)
    subjects: deque[str] = deque(maxlen=MERGES_COMPARED)
    for commit in commits(source, since=since, limit=limit):
        read = message.read(commit.text, is_merge=commit.is_merge)
        is_repeated = commit.is_merge and read.topic in subjects
        subjects.append(read.topic)
        if not is_repeated and not message.is_noise(read, commit.author):
            yield _draft(commit, read, name, plain(str(source.absolute())))


def commits(source: Path, *, since: str | None, limit: int | None) -> Iterator[Commit]:
    """Yield the commits `git log` tells of, oldest first; raise SourceError where it cannot."""
    command = ["git", "--no-pager", "-c", "i18n.logOutputEncoding=UTF-8"]
    command += ["-c", "core.fsmonitor=false", "-C", str(source), "log"]
    command += ["--reverse", "-z", "--no-color", "--no-show-signature", "--no-ext-diff"]
    command += ["--no-textconv", "--no-relative", "--submodule=short", "--numstat", "-M"]
    command += [f"--format={_FORMAT}"]
    command += [f"--since={since}"] if since else []
    command += [f"--max-count={limit}"] if limit is not None else []
    with TemporaryFile() as complaints, _started(command, source, complaints) as git:
        assert git.stdout is not None
        try:
            rest = yield from _commits(_fields(git.stdout))
            git.wait()
        finally:
            git.kill()  # a reader that stops early leaves git waiting on a full pipe
        if git.returncode != 0:
            complaints.seek(0)
            _explain(source, complaints.read(2_000).decode(errors="replace").strip())
        elif rest:
            raise SourceError(f"git log wrote {rest[:80]!r} where a commit begins: report this")


def _started(command: list[str], source: Path, complaints: IO[bytes]) -> "subprocess.Popen[bytes]":
    if not source.is_dir():
        raise SourceError(f"{source} is not a folder: name the folder of a git repository")
    # Set where a hook of another repository runs us; they would name that one instead.
    mine = {key: value for key, value in os.environ.items() if not key.startswith("GIT_DIR")}
    for key in ("GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"):
        mine.pop(key, None)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=mine | _ALONE,
        )
    except FileNotFoundError as error:
        raise SourceError(f"git was not found, so {source} cannot be read: install git") from error


def _explain(source: Path, complaint: str) -> None:
    """Raise what git's last words mean; return where they only say the repository is empty."""
    if "does not have any commits yet" in complaint:
        return
    if "not a git repository" in complaint:
        raise SourceError(f"{source} is not a git repository: name a folder inside one")
    if any(words in complaint for words in ("lazy fetching", "promisor", "not allowed")):
        raise SourceError(f"{source} is a partial clone: fetch what it lacks before an import")
    raise SourceError(f"git cannot read {source}: {complaint or 'it gave no reason'}")


def _fields(output: IO[bytes]) -> Iterator[str]:
    """Yield what stands between the NULs, bytes that are no UTF-8 replaced."""
    rest = bytearray()
    while chunk := output.read(_CHUNK):
        *ends, begun = chunk.split(b"\x00")
        for end in ends:
            yield _field(rest + end)
            rest.clear()
        if len(rest) <= MAX_FIELD:
            rest += begun
    if rest:
        yield _field(rest)


def _field(data: bytearray) -> str:
    return data[:MAX_FIELD].decode(errors="replace")


def _commits(fields: Iterator[str]) -> Generator[Commit, None, str]:
    """Yield the commits; return what follows them, which is nothing where git came to its end."""
    field = next(fields, "")
    while header := _HEADER.match(field):
        parents, at, author, text = (next(fields, "") for _ in range(4))
        changes: list[Change] = []
        while stat := _NUMSTAT.match(field := next(fields, "")):
            path = stat[3]
            if not path:  # renamed: the old and the new name follow
                _, path = next(fields, ""), next(fields, "")
            if len(changes) < FILES_READ:
                changes.append(Change(path, _count(stat[1]), _count(stat[2])))
        yield Commit(header[1], " " in parents, _second(at), author, text, tuple(changes))
    return field


def _count(number: str) -> int:
    return 0 if number == "-" else int(number)  # "-" stands for a binary file


def _second(at: str) -> int:
    return min(max(int(at or 0), 0), LAST_SECOND)


def _draft(commit: Commit, read: message.Message, project: str | None, root: str) -> Draft:
    at = commit.at * 1_000_000
    telling = sorted(commit.changes, key=_telling)
    paths = [change.path for change in telling]
    parts = (read.subject, read.why, _files_line(paths))
    return Draft(
        id=derived_id(at, SOURCE, project or root, commit.sha),
        content="\n\n".join(part for part in parts if part),
        kind=message.kind_of(read),
        tags=_tags(read, paths),
        project=project,
        source=SOURCE,
        created_by=label(commit.author),
        created_at=moment(at),
        trust="agent",  # collaborators wrote it too: notes of work, not this user's word
        metadata={
            "commit": commit.sha[:12],
            "files": paths[:FILES_KEPT],
            "insertions": sum(change.added for change in commit.changes),
            "deletions": sum(change.removed for change in commit.changes),
        },
    )


def _telling(change: Change) -> tuple[bool, int, str]:
    """Return the key that puts files people write first, then those that changed most."""
    return bool(GENERATED.search(change.path)), -(change.added + change.removed), change.path


def _files_line(paths: list[str]) -> str:
    if not paths:
        return ""
    more = f" (+{len(paths) - FILES_SHOWN} more)" if len(paths) > FILES_SHOWN else ""
    return f"Files: {', '.join(paths[:FILES_SHOWN])}{more}"


def _tags(read: message.Message, paths: list[str]) -> tuple[str, ...]:
    """Return the scope, else the folder of the most telling file; and what else stands out."""
    area = label(read.scope or _folder(paths))
    marks = (("revert", read.is_revert), ("breaking", read.is_breaking))
    found = [area.lower()] if area else []
    return tuple(dict.fromkeys(found + [name for name, is_set in marks if is_set]))


def _folder(paths: list[str]) -> str:
    folders = PurePosixPath(paths[0]).parts[:-1] if paths else ()
    return next((folder for folder in folders if folder not in PLAIN_FOLDERS), "")
