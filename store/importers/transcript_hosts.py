"""
Transcript hosts: where each host keeps its transcripts, and which importer reads them.

A place without transcripts is an easy mistake, so the error names the kind of place and the right
one.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from store.home.errors import SourceError
from store.importers import (
    aider,
    chat_exports,
    claude_code,
    codex,
    gemini,
    opencode,
    specstory,
)
from store.importers.source_files import is_database, read_lines
from store.importers.transcript_turn import Skip, Transcript, Turns

_BEGINNING = 64_000  # bytes of a line by which a file is known
_FIRST_LINES = 40
_BEGAN = re.compile(rb'"(?:timestamp|startTime)"\s*:\s*"([^"]{10,40})"')
_NEVER = re.compile(rb"(?!)")  # no file is known by its first lines
_EXPORT = re.compile(rb'\A\s*\{(?=[^\n]*"content":)(?=[^\n]*"kind":)')

# at a variable's path, else at a path in the home folder
Folder = Callable[[str, str], Path]


class TranscriptHost(msgspec.Struct, frozen=True):
    """A host: `marks` are in the first lines of each of its files, `usual` is for people.

    `inner` are globs of the files with its sessions, in its folder or below the one above.
    """

    agent: str
    title: str
    usual: str
    inner: tuple[str, ...]
    place: Callable[[Folder], Path]
    marks: re.Pattern[bytes]
    find: Callable[[Path, Skip], list[Transcript]]
    turns: Turns


TRANSCRIPT_HOSTS = {
    host.agent: host
    for host in (
        TranscriptHost(
            "claude-code",
            "Claude Code",
            "~/.claude/projects",
            ("projects", ".claude/projects"),
            lambda folder: folder("CLAUDE_CONFIG_DIR", ".claude") / "projects",
            re.compile(rb'"(?:sessionId|parentUuid|leafUuid|isSidechain)"\s*:'),
            claude_code.find,
            claude_code.turns,
        ),
        TranscriptHost(
            "codex",
            "Codex",
            "~/.codex/sessions",
            ("sessions", "archived_sessions", ".codex"),
            lambda folder: folder("CODEX_HOME", ".codex"),
            re.compile(
                rb'"type"\s*:\s*"(?:session_meta|response_item|turn_context|event_msg)"'
                rb'|"record_type"\s*:|\A\{"id":"[0-9a-f-]{36}","timestamp":'
            ),
            codex.find,
            codex.turns,
        ),
        TranscriptHost(
            "gemini",
            "Gemini CLI",
            "~/.gemini/tmp",
            ("tmp", ".gemini/tmp"),
            lambda folder: folder("GEMINI_CLI_HOME", "") / ".gemini" / "tmp",
            re.compile(rb'"projectHash"\s*:'),
            gemini.find,
            gemini.turns,
        ),
        TranscriptHost(
            "opencode",
            "OpenCode",
            "~/.local/share/opencode",
            ("opencode*.db", "storage", "opencode", ".local/share/opencode"),
            lambda folder: folder("XDG_DATA_HOME", ".local/share") / "opencode",
            re.compile(rb'"id"\s*:\s*"(?:ses|msg|prt)_'),
            opencode.find,
            opencode.turns,
        ),
        TranscriptHost(
            "aider",
            "Aider",
            f"{aider.NAME} of the repository you are in",
            (aider.NAME,),
            lambda folder: Path(aider.NAME),
            aider.MARKS,
            aider.find,
            aider.turns,
        ),
        TranscriptHost(
            "specstory",
            "SpecStory",
            f"{specstory.FOLDER} of the repository you are in",
            (str(specstory.FOLDER), specstory.FOLDER.name),
            lambda folder: specstory.FOLDER,
            specstory.MARKS,
            specstory.find,
            specstory.turns,
        ),
        TranscriptHost(
            "chatgpt",
            "ChatGPT",
            "a data export in ~/Downloads",
            ("conversations*.json",),
            lambda folder: folder("", "Downloads"),
            _NEVER,
            chat_exports.find_chatgpt,
            chat_exports.chatgpt_turns,
        ),
        TranscriptHost(
            "claude-ai",
            "Claude.ai",
            "a data export in ~/Downloads",
            ("conversations*.json",),
            lambda folder: folder("", "Downloads"),
            _NEVER,
            chat_exports.find_claude_ai,
            chat_exports.claude_ai_turns,
        ),
    )
}
# the most telling marks first
_KNOWN_BY = ("specstory", "aider", "gemini", "codex", "claude-code", "opencode")


def find_transcripts(host: TranscriptHost, source: Path, on_skip: Skip) -> list[Transcript]:
    """Return a host's transcripts at a place, oldest first; another host's go to `on_skip`.

    Raise SourceError if there are none, naming the kind of place and the right one.
    """
    try:
        return _transcripts(host, source, on_skip)
    except OSError as error:
        raise SourceError(_unreadable(source, error)) from error


def _transcripts(host: TranscriptHost, source: Path, on_skip: Skip) -> list[Transcript]:
    is_home = any(next(source.glob(pattern), None) for pattern in host.inner)
    if (source / ".git").exists() and not is_home:  # its tests may hold others' sessions
        raise _repository(host, source)
    transcripts = host.find(source, on_skip)
    if source.is_file():
        transcripts = transcripts or [Transcript(source)]
    dated: list[tuple[bytes, str, Transcript]] = []
    others: list[TranscriptHost] = []
    skipped: list[str] = []
    unreadable: list[str] = []
    for transcript in transcripts:
        if transcript.session:  # in a database, which is known
            dated.append((b"", f"{len(dated):09}", transcript))
            continue
        try:
            writer, began = _detect_host(transcript.path)
        except OSError as error:
            unreadable.append(_unreadable(transcript.path, error))
            continue
        if writer is host:
            dated.append((began, str(transcript.path), transcript))
        elif writer is None:
            skipped.append(f"{transcript.path} was left out: it is no session of {host.title}")
        else:
            others.append(writer)
            skipped.append(
                f"{transcript.path} is a session of {writer.title}: "
                f"`mnemolog import {writer.agent}`"
            )
    if not dated and not others and unreadable:
        raise SourceError(unreadable[0])
    if not dated:
        raise _mistake(host, source, others)
    for sentence in (*unreadable, *skipped):
        on_skip(sentence)
    return [transcript for _, _, transcript in sorted(dated, key=lambda entry: entry[:2])]


def _detect_host(path: Path) -> tuple[TranscriptHost | None, bytes]:
    """Return the host of a file, known by its first lines, and the time of its start; None if there
    is none. Raise OSError as the disk does.
    """
    try:
        if is_database(path):
            return (TRANSCRIPT_HOSTS["opencode"] if opencode.find(path, _ignore) else None), b""
        beginning = b"\n".join(islice(read_lines(path, _BEGINNING), _FIRST_LINES))
    except SourceError:
        return None, b""
    hosts = (TRANSCRIPT_HOSTS[agent] for agent in _KNOWN_BY)
    began = _BEGAN.search(beginning)
    writer = next((host for host in hosts if host.marks.search(beginning)), None)
    return writer, began[1] if began else b""


def _mistake(host: TranscriptHost, source: Path, others: Sequence[TranscriptHost]) -> SourceError:
    """Return the error that explains a place without a host's transcripts."""
    there, named = f"{host.title} keeps its sessions in {host.usual}", shlex.quote(str(source))
    for other in others or _other_hosts(host, source):
        content = "is a session" if source.is_file() else "holds sessions"
        return SourceError(
            f"{source} {content} of {other.title}: run `mnemolog import {other.agent} {named}`"
        )
    if source.is_file():
        if _is_export(source):
            return SourceError(
                f"{source} is an export of memories: run `mnemolog import jsonl {named}`"
            )
        return SourceError(f"{source} is no session of {host.title}: {there}")
    if not source.is_dir():
        state = "is neither a file nor a folder" if source.exists() else "is not there"
        return SourceError(f"{source} {state}: {there}")
    if next(source.iterdir(), None) is None:
        return SourceError(f"{source} is empty: {there}")
    if (source / ".git").exists():
        return _repository(host, source)
    return SourceError(f"no session of {host.title} in {source}: {there}")


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read ({error.strerror}): check its owner and mode"


def _repository(host: TranscriptHost, source: Path) -> SourceError:
    return SourceError(
        f"{source} is a git repository: run `mnemolog import {host.agent}` without a path to read "
        f"the sessions in {host.usual}, or `mnemolog import git {shlex.quote(str(source))}` for "
        "the repository's history"
    )


def _ignore(sentence: str) -> None:
    """Ignore a skipped file: only the place's host is wanted."""


def _is_export(source: Path) -> bool:
    try:
        return bool(_EXPORT.match(next(read_lines(source, _BEGINNING), b"")))
    except (OSError, SourceError):
        return False


def _other_hosts(host: TranscriptHost, source: Path) -> list[TranscriptHost]:
    """Return the other hosts with transcripts at a place."""
    hosts: list[TranscriptHost] = []
    for other in TRANSCRIPT_HOSTS.values():
        if other is not host and source.is_dir():
            try:
                paths = other.find(source, _ignore)
            except SourceError:
                continue
            if any(
                transcript.session or _is_written_by(other, transcript.path)
                for transcript in paths[:3]
            ):
                hosts.append(other)
    return hosts


def _is_written_by(host: TranscriptHost, path: Path) -> bool:
    try:
        return _detect_host(path)[0] is host
    except OSError:
        return False
