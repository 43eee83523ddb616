"""
Git history, read into memories: what was changed and why, what was fixed, what was decided.

`git log` runs once, without a shell, and its output is read as it comes. Its fields are parted by
NUL, which no message, name or path can hold (https://git-scm.com/docs/git-log, `-z`). The oldest
come first; commits that `is_noise` knows make no memory. No e-mail address is read.
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
from store.importers.source_files import printable_name
from store.log.commands import Draft
from store.log.event_kinds import MemoryKind
from store.text.excerpt import excerpt, label

# Message: what a commit message says, without what machines and habits add to it.
#
# Subject, the why of the body, and what the conventional-commit prefix tells
# (https://www.conventionalcommits.org/en/v1.0.0/). The rules for noise are the tables at the top:
# a commit they match makes no memory, because nobody will ever ask for it.

MAX_WHY = 1_200  # characters of the body that are kept
MAX_SUBJECT = 300

# Commits nobody wrote for a reader, whatever their body says.
NOISE = re.compile(
    r"^(?:fixup|squash|amend)!"
    r"|^bump \S+ from \S+ to\b"
    r"|^update (?:dependency|dependencies|lock ?files?)\b"
    r"|^lock file maintenance\b"
    r"|^\[pre-commit\.ci\]"
    r"|^(?:auto-?)?(?:generated|update) (?:changelog|translations|snapshots|contributors)\b",
    re.IGNORECASE,
)
NOISE_AUTHORS = re.compile(
    r"\[bot\]$|^(?:dependabot|renovate|greenkeeper|github-actions?|pre-commit-ci|snyk-bot)\b",
    re.IGNORECASE,
)
# Subjects that say nothing by themselves: kept only when the body says why.
NOISE_WITHOUT_WHY = re.compile(
    r"^(?:wip|typos?|oops|nits?|initial commit)\b"
    r"|^(?:fmt|format(?:ting)?|lint(?:ing)?|ruff|black|prettier|isort|tmp|misc|minor|whitespace"
    r"|clean(?:ing)? ?ups?)(?: \S+){0,2}$"
    r"|\b(?:fix|fixed|fixes|correct) (?:a |some |the |more )?"
    r"(?:typos?|lint(?:er|ing)?|format(?:ting)?|whitespace|indent(?:ation)?|style|flake8|tests?|ci"
    r"|build)\b[\w ,]{0,20}$"
    r"|^(?:more|small|minor|some|various|final|last|another)\b.{0,12}"
    r"\b(?:fix(?:es)?|changes?|tweaks?|updates?|improvements?)$"
    r"|^(?:address|apply|respond to|incorporate)\b.{0,20}"
    r"\b(?:review|comments?|feedback|suggestions?)\b"
    r"|^(?:bump|update|set|increase|prepare)(?: the)? (?:version|release)\b"
    r"|^(?:release|version|prepare|tag|cut)?[ :-]*v?\d+\.\d+[\w.+-]*(?: release)?$"
    r"|^(?:preparing|prepare) (?:for )?(?:the )?(?:next )?release\b"
    r"|^release (?:of|notes|candidate)\b"
    r"|^(?:update|edit|change)s? (?:the )?\S+\.(?:md|rst|txt|ya?ml|toml|json)$"
    r"|^(?:run|apply) (?:ruff|black|prettier|gofmt|rustfmt|isort|formatter)\b"
    r"|^merge\b|\[(?:skip ci|ci skip|no ci)\]",
    re.IGNORECASE,
)
NOISE_TYPES = frozenset({"style", "ci", "chore"})  # conventional types that need a why

BUGFIX = re.compile(
    r"\b(?:fix(?:e[sd]|ing)?|hotfix|bug(?:fix)?s?|regress(?:ion|ed|es)?|crash(?:es|ed|ing)?"
    r"|revert(?:s|ed)?|deadlocks?|race condition|leak(?:s|ed|ing)?|corrupt(?:s|ed|ion)?)\b",
    re.IGNORECASE,
)
DECISION = re.compile(
    r"\bBREAKING\b|\binstead of\b|\bin favou?r of\b|\brather than\b"
    r"|\bswitch(?:ed|es)? (?:\w+ )?to\b"
    r"|\bdecid(?:e|es|ed)\b|\bdecision\b|\bbecause\b|\bdeprecat\w+|\bdrop(?:s|ped)? support\b"
    r"|\bmigrat(?:e|es|ed|ion)\b|\bno longer\b|\breplac(?:e|es|ed) .{1,60}\b(?:with|by)\b",
    re.IGNORECASE,
)

_CONVENTIONAL = re.compile(r"^(\w+)(?:\(([^)]{1,60})\))?(!)?:\s+(\S.*)$")
_TYPES = frozenset("feat fix docs style refactor perf test tests build ci chore revert".split())
_MERGE = re.compile(r"^Merge (?:pull request|branch|branches|remote-tracking|tag|commit)\b")
# Lines written by tools or for bookkeeping; `Fixes #12` and `BREAKING CHANGE:` are for readers.
_STRIPPED = re.compile(
    r"^(?:[A-Za-z]+(?:-[A-Za-z]+)*-by|Change-Id|Cc|Reviewed-on|git-svn-id|PiperOrigin-RevId"
    r"|Differential Revision|Auto-Submit|Commit-Queue|Bot-Commit|Cr-[A-Za-z-]+"
    r"|Claude-Session): "
    r"|^>|^#(?:\s|$)|^Conflicts:$|^\s+\S.*\|\s+(?:\d+ [+-]*|Bin\b.*)$|^\s*\d+ files? changed\b"
    r"|^\(cherry picked from|^\S* ?Generated (?:with|by) |^-{3,}$|^\* Merge (?:branch|pull)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*[*-] +(.*)$")


@dataclass(frozen=True, slots=True)
class Message:
    """A commit's message: `topic` is the subject without its conventional prefix."""

    subject: str
    topic: str
    why: str
    type: str | None = None
    scope: str | None = None
    is_breaking: bool = False

    @property
    def is_revert(self) -> bool:
        return self.type == "revert" or self.topic.lower().startswith("revert ")


def parse_message(raw: str, *, is_merge: bool = False) -> Message:
    """Return what a raw message says; a merge that says nothing itself has an empty subject."""
    subject, _, body = raw.strip().partition("\n")
    if is_merge:
        subject, body = _split_merge(subject, body.strip())
    subject = excerpt(" ".join(subject.split()), MAX_SUBJECT)
    why = excerpt(_why(body), MAX_WHY)
    found = _CONVENTIONAL.match(subject)
    if found is None or found[1].lower() not in _TYPES:
        return Message(subject, subject, why, is_breaking="BREAKING" in why)
    is_breaking = bool(found[3]) or "BREAKING" in why
    return Message(subject, found[4], why, found[1].lower(), found[2], is_breaking)


def is_noise(message: Message, author: str) -> bool:
    """Whether a commit is worth no memory: by the tables above, or a subject of one word."""
    if not message.subject or NOISE.search(message.topic) or NOISE_AUTHORS.search(author):
        return True
    if message.why:
        return False
    has_one_word = message.topic.isascii() and len(message.topic.split()) < 2
    is_quiet = message.type in NOISE_TYPES and not DECISION.search(message.topic)
    return has_one_word or is_quiet or bool(NOISE_WITHOUT_WHY.search(message.topic))


def kind_of_message(message: Message) -> MemoryKind:
    """Return bugfix, decision, context (it says why) or activity, the first that fits."""
    if message.type == "fix" or message.is_revert:
        return "bugfix"
    if message.type is None and BUGFIX.search(message.topic):
        return "bugfix"
    if message.is_breaking or DECISION.search(f"{message.topic}\n{message.why}"):
        return "decision"
    return "context" if message.why else "activity"


def _split_merge(subject: str, body: str) -> tuple[str, str]:
    """Return subject and body of a merge; a pull request's title is its body's first line."""
    if not _why(body):
        return "", ""
    if not _MERGE.match(subject):
        return subject, body
    title, _, rest = body.partition("\n")
    return title, rest


def _why(body: str) -> str:
    """Return the body's own words: no trailers, quotes, statistics, or bullets that are noise."""
    lines = [line.rstrip() for line in body.splitlines()]
    kept = [line for line in lines if not _STRIPPED.search(line) and not _is_noise_bullet(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _is_noise_bullet(line: str) -> bool:
    bullet = _BULLET.match(line)
    if bullet is None:
        return False
    return bool(NOISE.search(bullet[1]) or NOISE_WITHOUT_WHY.search(bullet[1]))


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
        read = parse_message(commit.text, is_merge=commit.is_merge)
        is_repeated = commit.is_merge and read.topic in subjects
        subjects.append(read.topic)
        if not is_repeated and not is_noise(read, commit.author):
            yield _draft(commit, read, name, printable_name(str(source.absolute())))


def commits(source: Path, *, since: str | None, limit: int | None) -> Iterator[Commit]:
    """Yield the commits `git log` tells of, oldest first; raise SourceError where it cannot."""
    command = ["git", "--no-pager", "-c", "i18n.logOutputEncoding=UTF-8"]
    command += ["-c", "core.fsmonitor=false", "-C", str(source), "log"]
    command += ["--reverse", "-z", "--no-color", "--no-show-signature", "--no-ext-diff"]
    command += ["--no-textconv", "--no-relative", "--submodule=short", "--numstat", "-M"]
    command += [f"--format={_FORMAT}"]
    command += [f"--since={since}"] if since else []
    command += [f"--max-count={limit}"] if limit is not None else []
    with TemporaryFile() as complaints, _start_git(command, source, complaints) as git:
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


def _start_git(
    command: list[str], source: Path, complaints: IO[bytes]
) -> "subprocess.Popen[bytes]":
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


def _draft(commit: Commit, read: Message, project: str | None, root: str) -> Draft:
    at = commit.at * 1_000_000
    telling = sorted(commit.changes, key=_file_rank)
    paths = [change.path for change in telling]
    parts = (read.subject, read.why, _files_line(paths))
    return Draft(
        id=derived_id(at, SOURCE, project or root, commit.sha),
        content="\n\n".join(part for part in parts if part),
        kind=kind_of_message(read),
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


def _file_rank(change: Change) -> tuple[bool, int, str]:
    """Return the key that puts files people write first, then those that changed most."""
    return bool(GENERATED.search(change.path)), -(change.added + change.removed), change.path


def _files_line(paths: list[str]) -> str:
    if not paths:
        return ""
    more = f" (+{len(paths) - FILES_SHOWN} more)" if len(paths) > FILES_SHOWN else ""
    return f"Files: {', '.join(paths[:FILES_SHOWN])}{more}"


def _tags(read: Message, paths: list[str]) -> tuple[str, ...]:
    """Return the scope, else the folder of the most telling file; and what else stands out."""
    area = label(read.scope or _folder(paths))
    marks = (("revert", read.is_revert), ("breaking", read.is_breaking))
    found = [area.lower()] if area else []
    return tuple(dict.fromkeys(found + [name for name, is_set in marks if is_set]))


def _folder(paths: list[str]) -> str:
    folders = PurePosixPath(paths[0]).parts[:-1] if paths else ()
    return next((folder for folder in folders if folder not in PLAIN_FOLDERS), "")
