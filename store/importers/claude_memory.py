"""
Claude Code's memory: its own notes on each project, the CLAUDE.md files and rules it reads, and the
memory in a data export of Claude.ai.

A project's notes lie in ~/.claude/projects/SLUG/memory, one a file under a front matter (name,
description, metadata.type), and an index, MEMORY.md, which holds notes too where it is older. The
slug does not determine the folder: the sessions beside it do. Claude wrote the notes, so they have
an agent's trust and are no rules; CLAUDE.md files and rules count as `mnemolog import markdown` has
it: as the user's own words outside git repositories, as quotes inside.

https://code.claude.com/docs/en/memory; an export of Claude.ai holds memories.json.
"""

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from store.home.capped_files import CappedZip
from store.home.errors import SourceError
from store.home.projects import git_root
from store.importers import markdown
from store.importers.jsonl import Exported
from store.importers.memory_store import (
    MemoryStore,
    kind_of,
    memory_line,
    modified,
    note_texts,
    own_line,
    read_json,
    read_note,
    words,
)
from store.importers.source_files import is_source_file, printable_name, read_lines
from store.importers.transcript_hosts import Folder
from store.importers.transcript_turn import Skip
from store.log.event_kinds import RecordedKind

NAME = "claude-memory"
_KINDS: dict[str, RecordedKind] = {"feedback": "preference", "user": "fact"}
_POINTER = re.compile(r"^\s*[-*]\s+\[[^\]]*\]\([^)]*\.md\)")  # a line of the index
_IMPORT = re.compile(r"(?:^|\s)@((?:~/|\.{0,2}/)?[\w./-]+\.md)\b", re.MULTILINE)
_CWD = re.compile(rb'"cwd"\s*:\s*"((?:[^"\\]|\\.)+)"')
_MOST_HOPS = 5  # of files that a CLAUDE.md imports, as Claude Code has it
_LOOKED_AT = 200  # lines of a session in which its folder is named


def find(folder: Folder, here: Path) -> list[Path]:
    """Return Claude Code's own folder and the user's current repository, if they hold any."""
    home, root = folder("CLAUDE_CONFIG_DIR", ".claude"), git_root(here) or here
    places = [home] if any(_user_files(home)) or any(home.glob("projects/*/memory/*.md")) else []
    return places + ([root] if root != home.parent and any(_project_files(root)) else [])


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories in Claude's home, a project, one folder of notes, or an export."""
    if zipfile.is_zipfile(source) or source.name == "memories.json":
        yield from _exported_memory(source)
    elif source.is_file():
        yield from _instructions([source], source.parent, on_skip)
    elif (source / "memories.json").is_file():
        yield from _exported_memory(source / "memories.json")
    elif source.is_dir() and (source.name == "memory" or (source / "MEMORY.md").is_file()):
        yield from _notes(source, on_skip)
    elif source.name == ".claude" or (source / "projects").is_dir():
        yield from _instructions([*_user_files(source)], source, on_skip)
        for memory in sorted(source.glob("projects/*/memory")):
            yield from _notes(memory, on_skip)
    elif any(_project_files(source)):
        yield from _instructions([*_project_files(source)], source, on_skip)
    else:
        raise SourceError(
            f"{source} holds no memory of Claude's: it lies in {STORE.usual}, or in a repository "
            "with a CLAUDE.md"
        )


def _user_files(home: Path) -> Iterator[Path]:
    files = (home / "CLAUDE.md", *sorted(home.glob("rules/**/*.md")))
    return (path for path in files if is_source_file(path, home))


def _project_files(root: Path) -> Iterator[Path]:
    names = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")
    files = (*(root / name for name in names), *sorted(root.glob(".claude/rules/**/*.md")))
    return (path for path in files if is_source_file(path, root))


def _instructions(files: list[Path], top: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the rules and notes of CLAUDE.md files and of their imports, each file once.

    Outside git repositories they are the user's own words, inside quoted. An imported file is read
    if it lies below `top`; elsewhere it may be anybody's.
    """
    waiting, read = [(file, 0) for file in files], set[Path]()
    while waiting:
        file, hops = waiting.pop(0)
        if file.resolve() in read:
            continue
        read.add(file.resolve())
        for draft in markdown.drafts(file, project=None, has_rules=True, on_skip=on_skip):
            yield Exported(**asdict(draft))
        if hops == _MOST_HOPS:
            continue
        for named in _IMPORT.findall(read_note(file, on_skip)[1]):
            target = (file.parent / Path(named).expanduser()).resolve()
            if is_source_file(target, top):
                waiting.append((target, hops + 1))
            elif target.exists():
                on_skip(f"{target} was left out: it lies outside {top}")


def _notes(folder: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the notes of one project."""
    where = _project_folder(folder.parent)
    for file in sorted(folder.glob("**/*.md")):
        if not is_source_file(file, folder):
            continue
        fields, text = read_note(file, on_skip)
        if (own := own_line(file, fields, text)) is not None:
            yield own
            continue
        if file.name == "MEMORY.md":
            text = "\n".join(line for line in text.splitlines() if not _POINTER.match(line)).strip()
            text = text if len(re.sub(r"(?m)^#.*$", "", text).split()) > 3 else ""
        about = fields["metadata"] if isinstance(fields.get("metadata"), dict) else fields
        place = printable_name(file.relative_to(folder).as_posix())
        for part, piece in note_texts(text):
            yield memory_line(
                NAME,
                f"{where}:{place}#{part}" if part else f"{where}:{place}",
                piece,
                at=modified(file),
                kind=kind_of(about.get("type"), _KINDS, "fact"),
                context=words(fields, "description") or words(fields, "name") or None,
                project=where or None,
                agent="claude-code",
                trust="agent",
                metadata={"path": place, "type": words(about, "type")},
            )


def _project_folder(folder: Path) -> str:
    """Return the working directory of the sessions beside some notes; the folder's own name if
    there are none.
    """
    for session in sorted(folder.glob("*.jsonl"))[:5]:
        try:
            for line in islice(read_lines(session, 64_000), _LOOKED_AT):
                if match := _CWD.search(line):
                    return str(read_json(session, BytesIO(b'"' + match[1] + b'"')))
        except (OSError, SourceError):
            continue
    return _folder_of_slug(folder.name) or folder.name.strip("-")


def _folder_of_slug(slug: str) -> str | None:
    """Return the folder on this disk whose path, with dashes for all but letters and digits, is
    `slug`.
    """
    at = Path("/")
    while slug.strip("-"):
        try:
            names = [path.name for path in at.iterdir() if path.is_dir()]
        except OSError:
            return None
        flat = {f"-{re.sub(r'[^A-Za-z0-9]', '-', name)}": name for name in names}
        fits = [name for name in flat if slug == name or slug.startswith(f"{name}-")]
        if not fits:
            return None
        longest = max(fits, key=len)
        at, slug = at / flat[longest], slug[len(longest) :]
    return str(at)


def _exported_memory(source: Path) -> Iterator[Exported]:
    """Yield Claude.ai's memory of the user, and of each project, from a data export."""
    accounts, names = _load_export(source)
    for account in accounts if isinstance(accounts, list) else [accounts]:
        if not isinstance(account, dict):
            raise SourceError(f"{source} is no memory of Claude.ai: export your data there again")
        projects = account.get("project_memories")
        texts = {"": account.get("conversations_memory"), **(projects or {})}
        for project, text in texts.items():
            title = names.get(project, project)
            for part, piece in note_texts(text.strip() if isinstance(text, str) else ""):
                yield memory_line(
                    NAME,
                    f"claude.ai:{project}#{part}",
                    piece,
                    context=f"Claude.ai's memory of {title or 'you'}",
                    trust="agent",
                    metadata={"project_name": title},
                )


def _load_export(source: Path) -> tuple[Any, dict[str, str]]:
    """Return memories.json, and the names of projects by their ids."""
    if not zipfile.is_zipfile(source):
        beside = source.with_name("projects.json")
        return read_json(source), _names(read_json(beside) if beside.is_file() else [])
    with CappedZip(source) as archive:
        inside = {Path(member.filename).name: member for member in archive.members()}
        if "memories.json" not in inside:
            raise SourceError(
                f"{source} holds no memories.json: `mnemolog import claude-ai` reads its "
                "conversations"
            )
        read = {
            name: read_json(source / name, archive.open(inside[name]))
            for name in ("memories.json", "projects.json")
            if name in inside
        }
    return read["memories.json"], _names(read.get("projects.json", []))


def _names(projects: Any) -> dict[str, str]:
    rows = projects if isinstance(projects, list) else []
    return {str(row.get("uuid")): words(row, "name") for row in rows if isinstance(row, dict)}


STORE = MemoryStore(
    NAME,
    "Claude Code's memory and CLAUDE.md files",
    "~/.claude",
    find,
    read,
    "managed policies, files imported from outside, instructions of Claude.ai projects",
)
