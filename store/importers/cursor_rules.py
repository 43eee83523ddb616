"""
Cursor's rules: .cursor/rules/*.mdc and the older .cursorrules of a repository.

A rule is Markdown under a front matter: description, globs, alwaysApply. In a repository it may be
anybody's, so it is quoted and has a tool's trust, as CLAUDE.md has; `mnemolog import markdown
--mine` takes a file for the user's own words.

https://cursor.com/docs/context/rules
"""

from collections.abc import Iterator
from pathlib import Path

from store.home.errors import SourceError
from store.home.projects import git_root, project_of
from store.importers import markdown
from store.importers.jsonl import Exported
from store.importers.memory_store import (
    MemoryStore,
    memory_line,
    modified,
    read_note,
    word_list,
    words,
)
from store.importers.source_files import is_source_file, printable_name
from store.importers.transcript_hosts import Folder
from store.importers.transcript_turn import Skip

NAME = "cursor"


def find(folder: Folder, here: Path) -> list[Path]:
    """Return the user's current repository, if it has rules."""
    root = git_root(here) or here
    return [root] if any(_files(root)) else []


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the rules of a repository, of a folder of rules, or of one file."""
    folder = source if source.is_dir() else source.parent
    files = [source] if source.is_file() else list(_files(source))
    if not files:
        raise SourceError(f"{source} holds no rules of Cursor's: they lie in {STORE.usual}")
    root = (git_root(folder) or folder).resolve()
    project, is_quoted = project_of(folder), git_root(folder) is not None
    for file in files:
        fields, text = read_note(file, on_skip)
        at = file.resolve()
        place = at.relative_to(root).as_posix() if at.is_relative_to(root) else file.name
        globs = ", ".join(word_list(fields.get("globs")))
        about = " ".join(filter(None, (words(fields, "description"), globs and f"({globs})")))
        for section in markdown.split_sections(text):
            for content, binds in markdown.section_texts(section, has_rules=True):
                is_rule = binds and bool(markdown.IMPERATIVE.match(content)) and not is_quoted
                yield memory_line(
                    NAME,
                    f"{project or ''}:{place}#{content[:2_000]}",
                    content,
                    at=modified(file),
                    kind="preference" if is_rule else "fact",
                    context=" > ".join(filter(None, (place, about, *section.path)))[:500],
                    project=project,
                    trust="tool" if is_quoted else "user",
                    metadata={
                        "path": printable_name(place),
                        "globs": globs,
                        "always": fields.get("alwaysApply") is True or None,
                    },
                )


def _files(root: Path) -> Iterator[Path]:
    at = root if root.name == "rules" else root / ".cursor" / "rules"
    files = (*sorted(at.glob("**/*.mdc")), *sorted(at.glob("**/*.md")), root / ".cursorrules")
    return (path for path in files if is_source_file(path, root))


STORE = MemoryStore(
    NAME,
    "Cursor's rules",
    ".cursor/rules and .cursorrules of a repository",
    find,
    read,
    "user rules and memories, which Cursor keeps with your account, not on this disk",
)
