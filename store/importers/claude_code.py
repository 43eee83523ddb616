"""
Claude Code's session transcripts, read into memories.

Of each turn: what the user asked and laid down (trust "user"), what the agent concluded (trust
"agent"), and an error that a later run of the same command no longer had (trust "tool", because the
tool's words are in it). Ids come from the transcript's own uuids, so that a session read again
after it grew, or copied into another file by `--resume`, adds only what is new.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath

from store import frame
from store.commands import Draft
from store.errors import SourceError
from store.events import MemoryKind, Trust, derived_id, moment
from store.importers.excerpt import excerpt, one_line
from store.importers.files import is_ours, plain
from store.importers.fixes import fixes
from store.importers.message import DECISION
from store.importers.rules import rules
from store.importers.turn import Said, Title, Turn, edited, turns
from store.tenant import project_of

SOURCE = "claude-code"
MAX_REQUEST = 2_000  # characters kept of each
MAX_REPLY = 1_200
MAX_CONTEXT = 300
MIN_REPLY = 60  # shorter is "Done, all tests pass."
FILES_KEPT = 20
SIDE_FOLDERS = frozenset({"subagents", "tool-results", "workflows", "memory"})

# Prompts that only keep the work going.
NUDGES = re.compile(
    r"^(?:y|yes|yep|ok|okay|sure|go|go on|go ahead|continue|proceed|do it|thanks?|thank you|great"
    r"|nice|perfect|good|cool|lgtm|sounds good|looks good|ship it|commit|push|try again|retry|again"
    r"|next|stop|run (?:it|the tests?)|no)\b[^\n]{0,24}$",
    re.IGNORECASE,
)
REASONS = re.compile(r"\b(?:chose|root cause|the reason|so that|must not|trade-?off)\b", re.I)


def drafts(
    source: Path,
    *,
    project: str | None,
    on_skip: Callable[[str], None] = lambda sentence: None,
) -> Iterator[Draft]:
    """Yield the memories of a session file, a project's folder or the folder of all projects.

    Without `project` each turn belongs to the project of its working directory, or to that folder's
    name where it is gone. Raise SourceError where `source` holds no transcript.
    """
    for path in _files(source):
        seen: set[str] = set()
        try:
            for draft in _session(path, project, on_skip):
                key = " ".join(draft.content.casefold().split())
                if key not in seen:
                    seen.add(key)
                    yield draft
        except OSError as error:
            if path == source:
                raise SourceError(f"{path} cannot be read ({error}): check its mode") from error
            on_skip(f"{path} was left out: {error}")


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise SourceError(f"no transcripts at {source}: name a .jsonl file or ~/.claude/projects")
    found: list[Path] = []
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in SIDE_FOLDERS]
        paths = (Path(folder, name) for name in names if name.endswith(".jsonl"))
        found += (path for path in paths if is_ours(path, source))
    if not found:
        raise SourceError(f"no transcripts (*.jsonl) in {source}: name ~/.claude/projects")
    return sorted(found)


def _session(path: Path, project: str | None, on_skip: Callable[[str], None]) -> Iterator[Draft]:
    for part in turns(path, on_skip):
        name = project or (_project(part.cwd) if part.cwd else None)
        if isinstance(part, Title):
            said = Said(part.text, part.leaf, part.at)
            yield _draft(part, said, part.text, "title", name, "summary", "agent")
        else:
            yield from _turn(part, name)


def _turn(turn: Turn, project: str | None) -> Iterator[Draft]:
    asked = None
    if turn.request is not None and (text := frame.strip(turn.request.text).strip()):
        asked = Said(text, turn.request.uuid, turn.request.at)
        yield from _requested(turn, asked, project)
    for number, fix in enumerate(fixes(turn.steps)):
        said = Said(fix.content, fix.id, fix.at)
        yield _draft(
            turn,
            said,
            fix.content,
            f"fix-{number}",
            project,
            "bugfix",
            "tool",
            context=fix.context,
            action=fix.action,
            result=fix.result,
        )
    reply = _reply(turn)
    if reply is not None and len(reply.text) >= MIN_REPLY:
        is_decision = DECISION.search(reply.text) or REASONS.search(reply.text)
        kind: MemoryKind = "decision" if is_decision else "summary"
        context = f"Asked: {one_line(asked.text, 200)}" if asked else None
        content = excerpt(reply.text, MAX_REPLY)
        yield _draft(turn, reply, content, "reply", project, kind, "agent", context=context)


def _requested(turn: Turn, asked: Said, project: str | None) -> Iterator[Draft]:
    """Yield the rules a prompt lays down, and the prompt where it says more than they do."""
    found = rules(asked.text)
    said_by_rules = sum(len(rule.text) for rule in found)
    is_covered = len(asked.text) <= MAX_CONTEXT and said_by_rules * 2 >= len(asked.text)
    if _has_substance(asked.text) and not is_covered:
        content = excerpt(asked.text, MAX_REQUEST)
        yield _draft(turn, asked, content, "request", project, "raw_turn", "user")
    for number, rule in enumerate(found):
        is_all = rule.text == asked.text
        context = None if is_all else one_line(asked.text, MAX_CONTEXT)
        yield _draft(
            turn, asked, rule.text, f"rule-{number}", project, rule.kind, "user", context=context
        )


def _has_substance(text: str) -> bool:
    if NUDGES.match(text) or text.startswith("/"):
        return False
    letters = sum(character.isalpha() for character in text)
    return letters >= 15 if text.isascii() else letters >= 6


def _reply(turn: Turn) -> Said | None:
    """Return what was said after the last tool call, as one; None where nothing was."""
    last: list[Said] = []
    for step in turn.steps:
        last = [*last, step] if isinstance(step, Said) else []
    text = frame.strip("\n\n".join(said.text for said in last)).strip()
    return Said(text, last[-1].uuid, last[-1].at) if text else None


def _draft(
    part: Turn | Title,
    said: Said,
    content: str,
    facet: str,
    project: str | None,
    kind: MemoryKind,
    trust: Trust,
    *,
    context: str | None = None,
    action: str | None = None,
    result: str | None = None,
) -> Draft:
    """Return a draft; its id holds whatever project it is filed under, now or on a later import."""
    session = plain(part.session)
    source_id = said.uuid or f"{session}\x00{said.text}"
    return Draft(
        id=derived_id(said.at, SOURCE, source_id, facet),
        content=content,
        kind=kind,
        context=context,
        action=action,
        result=result,
        project=project,
        session=session,
        agent="claude-code",
        source=SOURCE,
        trust=trust,
        created_at=moment(said.at) if said.at else None,
        metadata=_metadata(part) if isinstance(part, Turn) else {},
    )


def _metadata(turn: Turn) -> dict[str, object]:
    inside = (_relative(path, turn.cwd) for path in edited(turn.steps))
    files = [path for path in inside if path]
    facts = {"files": files[:FILES_KEPT], "branch": turn.branch}
    return {key: value for key, value in facts.items() if value}


def _relative(path: str, cwd: str | None) -> str | None:
    """Return a path relative to the working directory; None where it lies outside."""
    flavour = PureWindowsPath if "\\" in (cwd or path) else PurePosixPath
    pure = flavour(path)
    if not pure.is_absolute():
        return pure.as_posix()
    return pure.relative_to(cwd).as_posix() if cwd and pure.is_relative_to(cwd) else None


@lru_cache(maxsize=256)
def _project(cwd: str) -> str | None:
    """Return the project of a working directory, or its name where it is gone or no repository."""
    found = project_of(Path(cwd)) if os.path.isdir(cwd) else None
    name = (PureWindowsPath(cwd) if "\\" in cwd else PurePosixPath(cwd)).name
    return found or re.sub(r"[^A-Za-z0-9._~+-]+", "-", name).lstrip("._-+")[:200] or None
