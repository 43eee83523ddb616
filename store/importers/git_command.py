"""
git as a program: run without a shell, and its output read as it comes.

Fields are separated by NUL, which no message, name or path can contain
(https://git-scm.com/docs/git-log, `-z`). A repository is anybody's: reading it must run no program
and fetch nothing.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from store.home.errors import SourceError

MAX_FIELD = 1 << 20  # bytes; the rest of a longer message or name is left out
_CHUNK = 1 << 16

# A partial clone lacks objects, which git would fetch by a program that the repository itself may
# name (core.sshCommand, ext::): reading a history must run nothing, so nothing is ever fetched.
_ALONE = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # for a git too old to know the line above
    "GIT_TERMINAL_PROMPT": "0",
}
_SAFE = ("--no-pager", "-c", "i18n.logOutputEncoding=UTF-8", "-c", "core.fsmonitor=false")
_EMPTY = ("does not have any commits yet", "ambiguous argument 'HEAD'")
_MISSING = ("lazy fetching", "promisor", "not allowed", "unable to read ")


class MissingObject(SourceError):
    """Raised if git lacks a requested object."""


@contextmanager
def git_fields(source: Path, arguments: Sequence[str]) -> Iterator[Iterator[str]]:
    """Run git in a repository; yield the fields of its output, none if that is empty.

    Raise SourceError if `source` is no repository or git cannot read it, MissingObject if it lacks
    an object.
    """
    command = ["git", *_SAFE, "-C", str(source), *arguments]
    with TemporaryFile() as complaints, _start(command, source, complaints) as git:
        assert git.stdout is not None
        try:
            yield _fields(git.stdout)
            git.wait()
        finally:
            git.kill()  # a reader that stops early leaves git waiting on a full pipe
        if git.returncode != 0:
            complaints.seek(0)
            _explain(source, complaints.read(2_000).decode(errors="replace").strip())


def _start(command: list[str], source: Path, complaints: IO[bytes]) -> "subprocess.Popen[bytes]":
    if not source.is_dir():
        raise SourceError(f"{source} is not a folder: name the folder of a git repository")
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=own_environment() | _ALONE,
        )
    except FileNotFoundError as error:
        raise SourceError(f"git was not found, so {source} cannot be read: install git") from error


def own_environment() -> dict[str, str]:
    """Return the environment for a git of ours.

    Variables set by another repository's hook would name that repository instead.
    """
    own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_DIR")}
    for key in ("GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"):
        own.pop(key, None)
    return own


def _explain(source: Path, complaint: str) -> None:
    """Raise the error in git's last words; return if they only say the repository is empty."""
    if any(words in complaint for words in _EMPTY):
        return
    if "not a git repository" in complaint:
        raise SourceError(f"{source} is not a git repository: name a folder inside one")
    if any(words in complaint for words in _MISSING):
        raise MissingObject(f"{source} lacks commits or folders: fetch them before an import")
    raise SourceError(f"git cannot read {source}: {complaint or 'it gave no reason'}")


def _fields(output: IO[bytes]) -> Iterator[str]:
    """Yield the fields between the NULs, bytes that are no UTF-8 replaced."""
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
