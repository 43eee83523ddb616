"""
Codex's memory: the handbook, the summary, the recaps of sessions and the skills that it writes to
~/.codex/memories, and the user's own AGENTS.md beside it.

Codex wrote the memories, so they have an agent's trust. The working directory that an entry was
learned in is its project. raw_memories.md is the handbook's source and is not read.

https://github.com/openai/codex, codex-rs/core/templates/memories and src/memories/storage.rs.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import asdict

from store.home.errors import SourceError
from store.importers import markdown
from store.importers.jsonl import Exported
from store.importers.memory_store import (
    MemoryStore,
    instant,
    memory_line,
    modified,
    note_texts,
    read_note,
    words,
)
from store.importers.source_files import is_source_file, printable_name
from store.importers.transcript_hosts import Folder
from store.importers.transcript_turn import Skip
from store.log.event_kinds import RecordedKind
from store.text.frame import strip_rules

NAME = "codex-memory"
_CWD = re.compile(r"\bcwd\s*[=:]\s*([^\s,;)]+)")
_UPDATED = re.compile(r"\bupdated_at\s*[=:]\s*([0-9T:.Z+-]+)")
_FENCED = re.compile(r"(?m)^---[ \t]*$")
_HEADER = re.compile(r"\A(?:[a-z_]+: .*\n)+")
_POINTER = re.compile(r"^(?:rollout_summaries/|keywords?\b|rollout_summary_files)", re.IGNORECASE)
_BOOKKEEPING = re.compile(r"keywords|rollout_summary_files|what's in memory", re.IGNORECASE)
_PREFERENCES = re.compile(r"preferences?", re.IGNORECASE)
_FAILURES = re.compile(r"fail|pitfall|did not work|shield", re.IGNORECASE)


def find(folder: Folder, here: Path) -> list[Path]:
    """Return Codex's folder, if it holds memories or the user's instructions."""
    home = folder("CODEX_HOME", ".codex")
    is_there = any((home / "memories").glob("*.md")) or (home / "AGENTS.md").is_file()
    return [home] if is_there else []


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories of Codex's folder, or of `memories` in it."""
    home = source.parent if source.name == "memories" else source
    top = home / "memories"
    is_empty = True
    if is_source_file(home / "AGENTS.md", home) and home == source:
        for draft in markdown.drafts(home / "AGENTS.md", project=None):
            is_empty = False
            yield Exported(**asdict(draft))
    for file in sorted(top.glob("**/*.md")):
        if not is_source_file(file, top) or file.name == "raw_memories.md":
            continue
        is_empty = False
        place = printable_name(file.relative_to(top).as_posix())
        fields, text = read_note(file, on_skip)
        if place.startswith("rollout_summaries/"):
            yield from _recap(file, place, text)
        elif place.startswith("skills/"):
            if file.name == "SKILL.md":
                yield from _whole(file, place, text, "pattern", words(fields, "description"))
        else:
            # MEMORY.md may hold several front matters: none of them is the file's
            whole = strip_rules(file.read_text("utf-8-sig", errors="replace")) if fields else text
            yield from _handbook(file, place, whole)
    if is_empty:
        raise SourceError(f"{source} holds no memories of Codex: they lie in {STORE.usual}")


def _recap(file: Path, place: str, text: str) -> Iterator[Exported]:
    """Yield the recap of a session, which begins with lines that identify it."""
    header = _HEADER.match(text + "\n")
    about = dict(
        line.split(": ", 1) for line in (header[0].splitlines() if header else []) if ": " in line
    )
    body = text[header.end() :].strip() if header else text
    yield from _whole(
        file, place, body, "summary", "", about.get("cwd"), about.get("updated_at"),
        about.get("thread_id"),
    )  # fmt: skip


def _whole(
    file: Path,
    place: str,
    text: str,
    kind: RecordedKind,
    context: str,
    cwd: str | None = None,
    updated: str | None = None,
    session: str | None = None,
) -> Iterator[Exported]:
    for part, piece in note_texts(text):
        yield memory_line(
            NAME,
            f"{place}#{part}",
            piece,
            at=instant(updated) or modified(file),
            kind=kind,
            context=context or None,
            project=cwd,
            session=session,
            agent="codex",
            trust="agent",
            metadata={"path": place},
        )


def _handbook(file: Path, place: str, text: str) -> Iterator[Exported]:
    """Yield the entries of the handbook or the summary; a block's head gives their scope."""
    parts = _FENCED.split(text)
    is_fenced = any("rollout_summary_files" in part for part in parts[1::2])
    blocks = list(zip(parts[1::2], parts[2::2], strict=False)) if is_fenced else [("", text)]
    for head, body in blocks:
        description = re.search(r"(?m)^description:\s*(.+)$", head)
        group = head
        for section in markdown.split_sections(body):
            if section.path and not is_fenced:
                is_new = len(section.path) == 1
                group = section.text if is_new else f"{group}\n{section.text}"
            title = " > ".join(section.path) or (description[1].strip() if description else "")
            if _BOOKKEEPING.search(section.path[-1] if section.path else ""):
                continue
            yield from _entries(file, place, section.text, title, group)


def _entries(file: Path, place: str, text: str, title: str, about: str) -> Iterator[Exported]:
    cwd, updated = _CWD.search(about), _UPDATED.search(about)
    kind: RecordedKind = "fact"
    if _PREFERENCES.search(title):
        kind = "preference"
    elif _FAILURES.search(title):
        kind = "lesson"
    for block in markdown.split_blocks(text):
        for entry in markdown.list_items(block) or [block]:
            if len(entry.split()) < markdown.MIN_WORDS or _POINTER.match(entry):
                continue
            yield memory_line(
                NAME,
                f"{place}#{title}#{entry[:2_000]}",
                entry,
                at=instant(updated[1]) if updated else modified(file),
                kind=kind,
                context=title[:500] or None,
                project=cwd[1] if cwd else None,
                agent="codex",
                trust="agent",
                metadata={"path": place},
            )


STORE = MemoryStore(
    NAME,
    "Codex's memories and your AGENTS.md",
    "~/.codex/memories",
    find,
    read,
    "raw_memories.md, from which Codex made the others; scripts of skills",
)
