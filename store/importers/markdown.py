"""
Markdown notes read into memories: CLAUDE.md and AGENTS.md, decision records, folders of notes.

One memory for each section, its headings as context; the sentences of a list of rules, and the
entries of a changelog, one memory each. A day in the front matter, on a "Date:" line or in a
heading is the time of the text under it. Ids come from the project, the file's place in it and the
text, never from a clock, so that on a second import, from any clone, only sections that changed are
new.

A file in a git repository may be anybody's: it is quoted, with a tool's trust, and is no rule,
unless the user claims its words.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from store.home.errors import SourceError
from store.home.instants import derived_id
from store.home.projects import git_root, project_of
from store.importers.source_files import Progress, files_below, no_progress, printable_name
from store.log.commands import Draft
from store.log.event_kinds import RecordedKind
from store.text.dates import interval
from store.text.excerpt import one_line
from store.text.frame import strip_rules

# Section: a Markdown text divided at its headings, and further into paragraphs and list items.
#
# Only the syntax needed for dividing is understood: ATX headings, fences, lists and front matter
# (https://spec.commonmark.org/0.31.2/). A fence is never divided and holds no heading.

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"^( {0,3})(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(\S.*)$")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TAGS = re.compile(r"^tags:[ \t]*(.*(?:\n[ \t]*-[ \t].*)*)", re.MULTILINE | re.IGNORECASE)
_DAY = (
    r"(?:[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}"
    r"|[0-9]{1,2}(?:st|nd|rd|th|\.)? (?:de )?[^\W\d_]{3,10}\.?,? (?:de )?[0-9]{4}"
    r"|[^\W\d_]{3,10}\.? [0-9]{1,2}(?:st|nd|rd|th)?,? [0-9]{4})"
)
_FRONT_DATE = re.compile(rf"^(?:date|created|published)(?:_at)?:[ \t]*['\"]?({_DAY})", re.M | re.I)
_DATE_LINE = re.compile(
    rf"^[ \t]*(?:[-*+] )?[*_]{{0,2}}(?:date|created|written|decided|datum|fecha)[*_]{{0,2}}[ \t]*:"
    rf"[*_]{{0,2}}[ \t]*({_DAY})(?![\w-])",
    re.M | re.I,
)
# At the start of a heading, after a version, or at the end after a separating sign.
_HEADING_DATE = re.compile(
    rf"^[\[(]?({_DAY})(?![\w-])"
    rf"|^\W{{0,3}}[vV]?[0-9]{{1,9}}(?:\.[0-9]{{1,9}}){{1,5}}\S{{0,40}}\W{{0,5}}({_DAY})(?![\w-])"
    rf"|[-\u2013\u2014:,/|(]\s?({_DAY})\W{{0,3}}$"
)
_LANGUAGES = ("en", "de", "fr", "es")


class Front(msgspec.Struct, frozen=True):
    """The fields read from a front matter: tags, and the day it was written."""

    tags: tuple[str, ...] = ()
    date: datetime | None = None


class Section(msgspec.Struct, frozen=True):
    """The text under one heading; `path` holds the headings from the outermost to its own."""

    path: tuple[str, ...]
    text: str


def split_front_matter(text: str) -> tuple[Front, str]:
    """Return the front matter and the text after it."""
    match = _FRONT.match(text)
    if match is None:
        return Front(), text
    tags = _FRONT_TAGS.search(match[1])
    words = re.split(r"[,\n\[\]]", tags[1]) if tags else []
    names = (re.sub(r"^[\s\-#'\"]+|[\s'\"]+$", "", word)[:100] for word in words)
    date = _FRONT_DATE.search(match[1])
    return (
        Front(tuple(dict.fromkeys(filter(None, names))), _day(date[1]) if date else None),
        text[match.end() :],
    )


def _day(written: str) -> datetime | None:
    """Return the start of a written day; None for 2026-02-31, or no day at all."""
    for language in _LANGUAGES:
        if period := interval(written.replace(".", ""), 0, language):
            day = datetime.fromtimestamp(period.since / 1e6, UTC)
            return day if str(day.year) in written else None
    return None


def heading_date(path: Sequence[str]) -> datetime | None:
    """Return the day in the innermost heading that has one."""
    for title in reversed(path):
        if match := _HEADING_DATE.search(title):
            return _day(match[1] or match[2] or match[3])
    return None


def line_date(text: str) -> datetime | None:
    """Return the day of the first "Date:" line."""
    match = _DATE_LINE.search(text)
    return _day(match[1]) if match else None


def split_sections(text: str) -> Iterator[Section]:
    """Yield the sections with text, in order; text before the first heading has no path."""
    path: dict[int, str] = {}
    body: list[str] = []
    for line, is_fenced in _mark_fences(_without_comments(text).splitlines()):
        heading = None if is_fenced else _HEADING.match(line)
        if heading is None:
            body.append(line)
            continue
        yield from _section(path, body)
        level = len(heading[1])
        title = _without_closing(heading[2])
        path = {key: value for key, value in path.items() if key < level} | {level: title}
        body = []
    yield from _section(path, body)


def _without_closing(title: str) -> str:
    """Return a heading's words without its closing #, if a space separates them.

    By hand: a regular expression takes quadratic time on a line of blanks.
    """
    title = title.rstrip(" \t")
    words = title.rstrip("#")
    return words.rstrip(" \t") if words.endswith((" ", "\t")) else title


def _without_comments(text: str) -> str:
    """Return a text without its comments; an unclosed one is kept.

    By hand: a regular expression would search to the end of the text for each unclosed one.
    """
    pieces, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        pieces.append(text[at:start])
        at = end + 3
    return "".join((*pieces, text[at:]))


def _section(path: dict[int, str], body: Sequence[str]) -> Iterator[Section]:
    if text := "\n".join(body).strip("\n"):
        yield Section(tuple(path[level] for level in sorted(path)), text)


def _mark_fences(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it belongs to a fence, the fence's own marks included."""
    mark = ""
    for line in lines:
        fence = _FENCE.match(line)
        if not mark:
            mark = fence[1] if fence else ""
            yield line, bool(mark)
        else:
            is_end = fence is not None and fence[1].startswith(mark) and not line.strip(" `~\t")
            mark = "" if is_end else mark
            yield line, True


def split_blocks(text: str) -> list[str]:
    """Return the paragraphs, lists and fences of a text, as divided by blank lines outside fences.

    A list that follows its paragraph without a blank line is a block of its own too.
    """
    blocks: list[list[str]] = [[]]
    for line, is_fenced in _mark_fences(text.splitlines()):
        if blocks[-1] and not is_fenced and _ITEM.match(line) and not _ITEM.match(blocks[-1][0]):
            blocks.append([])
        if line.strip() or is_fenced:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return ["\n".join(lines) for lines in blocks if lines]


def list_items(block: str) -> list[str]:
    """Return a list's outermost items, each with its nested ones; [] if it is no list."""
    entries: list[list[str]] = []
    outermost = ""
    for line, is_fenced in _mark_fences(block.splitlines()):
        item = None if is_fenced else _ITEM.match(line)
        if item is not None and (not entries or len(item[1]) < len(outermost) + 2):
            outermost = outermost if entries else item[1]
            entries.append([item[2]])
        elif entries:
            entries[-1].append(line)
        else:
            return []
    return ["\n".join(lines).strip() for lines in entries]


def pack(parts: Sequence[str], limit: int) -> list[str]:
    """Return the parts joined to texts of about `limit` characters, divided between parts.

    A part much longer than `limit` is divided between its lines, and a line that is still too long
    within it.
    """
    texts: list[str] = []
    for piece in (piece for part in parts for piece in _pieces(part, limit * 4)):
        if texts and len(texts[-1]) + len(piece) <= limit:
            texts[-1] += "\n\n" + piece
        else:
            texts.append(piece)
    return texts


def _pieces(part: str, most: int) -> Iterator[str]:
    while len(part) > most:
        cut = part.rfind("\n", most // 2, most)
        cut = cut if cut > 0 else most
        yield part[:cut]
        part = part[cut:].lstrip("\n")
    yield part


SOURCE = "markdown"
MAX_FILE = 4 << 20  # bytes; a longer text is data
MAX_TEXT = 1_500  # characters of one memory, about
MIN_WORDS = 4  # of a sentence, and of a section worth a memory
ENDINGS = (".md", ".markdown")
SKIPPED = frozenset({"node_modules", "site-packages", "vendor", "venv", "__pycache__"})

RULES_FILES = frozenset(
    {"claude.md", "claude.local.md", "agents.md", "gemini.md", "conventions.md"}
)
CHANGELOGS = re.compile(
    r"^(?:change[-_]?log|changes|history|news|releases|release[-_]notes)\b.*\.(?:md|markdown)$"
)
DECISIONS = re.compile(r"(?:^|/)(?:adrs?|decisions?|decision-records?)/[^/]+$|(?:^|/)adr-?\d+")
_DECISION_HEADING = re.compile(r"\bdecision\b(?! drivers?\b)", re.IGNORECASE)
_CONTEXT_HEADING = re.compile(
    r"\b(?:context|problem|background|motivation|drivers|options|alternatives|considered)\b",
    re.IGNORECASE,
)
_RECORD_HEADING = re.compile(r"^(?:context|consequences|status)\b", re.IGNORECASE)
_FIXED = re.compile(r"\b(?:bug ?-?fix(?:es)?|fix(?:es|ed)?|security)\b", re.IGNORECASE)
_DECIDED = re.compile(
    r"\b(?:breaking|incompatib\w+|removed|removals?|deprecat\w+|dropped)\b", re.IGNORECASE
)
_LINK = re.compile(r" {0,3}\[[^\]]{1,200}\]:\s")  # a definition, which has no text of its own
RULES_HEADING = re.compile(
    r"\b(?:rules?|conventions?|guidelines?|style|preferences?|principles?|always|never|do(?:n't)?s?"
    r"|constraints|requirements|workflow)\b",
    re.IGNORECASE,
)
IMPERATIVE = re.compile(
    r"^[*_`]*(?:always|never|do not|don't|prefer|avoid|use|run|keep|write|make|put|name|add|remove"
    r"|follow|ensure|check|commit|push|ask|read|test|treat|return|raise|handle|only|must|no|stop"
    r"|respect|document|format|install|include|update|create|import|call|log|pin|we (?:always|never"
    r"|use|don't|prefer)|you (?:must|should))\b",
    re.IGNORECASE,
)


def drafts(
    source: Path,
    *,
    project: str | None,
    is_mine: bool = False,
    has_rules: bool = False,
    on_skip: Callable[[str], None] = lambda sentence: None,
    on_progress: Progress = no_progress,
) -> Iterator[Draft]:
    """Yield the memories of a file, or of every Markdown file below a folder, in order of path.

    `on_progress` gets the number of files read, and of all. `is_mine`: the user's own words, also
    in a repository. `has_rules`: its lists are of rules, under any name.

    Without `project` it is that of the repository around `source`, if any. Raise SourceError if
    there is no Markdown; an unreadable file in a folder is left out and reported to `on_skip`.
    """
    folder = source if source.is_dir() else source.parent
    root = (git_root(folder) or folder).resolve()
    here = project_of(folder)
    name = project or here
    is_own = name is not None and name == here
    paths = _files(source)
    named = source if source.is_file() else None
    for count, path in enumerate(paths, 1):
        on_progress(count, len(paths))
        text = read_text(path, on_skip, named)
        place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        yield from _file(
            text,
            printable_name(place),
            name,
            is_own=is_own and path.is_relative_to(root),
            is_quoted=not is_mine and git_root(path.parent) is not None,
            is_mine=is_mine,
            has_rules=has_rules or _is_rules_file(place),
        )


def _files(source: Path) -> list[Path]:
    """Return the resolved paths to read, each once; links may not lead out of the folder."""
    if source.is_file():
        return [source.resolve()]
    if not source.is_dir():
        raise SourceError(f"{source} does not exist: name a Markdown file or a folder of them")
    paths = {path.resolve() for path in markdown_files(source.resolve())}
    if not paths:
        raise SourceError(f"no Markdown files in {source}: name a folder that has some")
    return sorted(paths)


def markdown_files(top: Path) -> Iterator[Path]:
    """Yield the Markdown files below a folder, but for hidden folders and installed packages."""
    return files_below(
        top,
        lambda name: name.lower().endswith(ENDINGS),
        lambda folder: folder.name in SKIPPED or folder.name.startswith("."),
    )


def read_text(path: Path, on_skip: Callable[[str], None], named: Path | None = None) -> str:
    """Return the text of a note; empty for one left out, which is reported to `on_skip`.

    An unreadable file that the user `named` raises SourceError.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        if named is not None:
            raise SourceError(
                f"{named} cannot be read ({error.strerror}): check its mode"
            ) from error
        on_skip(f"{path} was left out: {error.strerror}")
        return ""
    if len(data) > MAX_FILE or b"\x00" in data:
        on_skip(f"{path} was left out: it is over {MAX_FILE} bytes, or no text")
        return ""
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    return strip_rules(text)  # before its comments, the marks among them, go


def _file(
    text: str,
    place: str,
    project: str | None,
    *,
    is_own: bool,
    is_quoted: bool,
    is_mine: bool,
    has_rules: bool,
) -> Iterator[Draft]:
    """Yield the memories of a file; `is_own`: it lies in the work tree of its project."""
    matter, rest = split_front_matter(text)
    sections = list(split_sections(rest))
    written = matter.date or (line_date(sections[0].text) if sections else None)
    kind_of = _kind_of_sections(place, sections)
    ids: set[str] = set()
    for section in sections:
        context = one_line(" > ".join((place, *section.path)), 500)
        created_at = heading_date(section.path) or line_date(section.text) or written
        for content, is_rule in section_texts(
            section, has_rules=has_rules, is_changelog=_is_changelog(place)
        ):
            # ids of their own: a text quoted once can still be claimed as the user's words
            marks = ("mine",) if is_mine else ()
            id_ = derived_id(0, SOURCE, project or "", place, content, *marks)
            if id_ in ids:
                continue
            ids.add(id_)
            yield Draft(
                id=id_,
                content=content,
                kind=kind_of(section)
                or _kind(content, place, is_rule=is_rule, is_quoted=is_quoted),
                context=context,
                tags=matter.tags,
                project=project,
                source=SOURCE,
                trust="tool" if is_quoted else "user",
                author="repository" if is_quoted else "typed" if is_mine else None,
                created_at=created_at,
                metadata={"path": place} | ({"in_project": True} if is_own else {}),
            )


def _kind_of_sections(
    place: str, sections: Sequence[Section]
) -> Callable[[Section], RecordedKind | None]:
    """Return the function that gives a section's kind by its headings, in records and changelogs.

    A decision record is known by its folder or by its headings.
    """
    titles = [section.path[-1] for section in sections if section.path]
    is_record = bool(DECISIONS.search(place.lower())) or (
        any(map(_DECISION_HEADING.match, titles)) and any(map(_RECORD_HEADING.match, titles))
    )
    if is_record:
        return _record_kind
    return _change_kind if _is_changelog(place) else lambda section: None


def _record_kind(section: Section) -> RecordedKind:
    title = section.path[-1] if len(section.path) > 1 else ""
    is_context = _CONTEXT_HEADING.search(title) and not _DECISION_HEADING.search(title)
    return "context" if is_context else "decision"


def _change_kind(section: Section) -> RecordedKind:
    title = section.path[-1] if section.path else ""
    if _DECIDED.search(title):
        return "decision"
    return "bugfix" if _FIXED.search(title) else "activity"


def section_texts(
    section: Section, *, has_rules: bool = False, is_changelog: bool = False
) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a section, and for each if it came from a list of rules.

    `has_rules`: its file holds rules; a heading may say so too.
    """
    has_rules = has_rules or bool(section.path and RULES_HEADING.search(section.path[-1]))
    rest: list[str] = []
    for block in split_blocks(section.text):
        entries = list_items(block) if has_rules or is_changelog else []
        sentences = [entry for entry in entries if _is_sentence(entry)]
        if is_changelog and entries:
            yield from ((entry, False) for entry in entries if len(entry.split()) > 1)
        elif len(sentences) * 2 > len(entries):
            yield from ((entry, True) for entry in entries if len(entry.split()) > 1)
        elif not all(map(_LINK.match, block.splitlines())):
            rest.append(block)
    for text in pack(rest, MAX_TEXT):
        if len(re.findall(r"[^\W\d_]{2,}", text)) >= MIN_WORDS or not text.isascii():
            yield text, False


def _is_sentence(entry: str) -> bool:
    """Return True if a list item is self-contained: a full sentence, or an instruction."""
    first = entry.split("\n", 1)[0]
    ends = first.rstrip("*_`)\"' ").endswith((".", "!", ";"))
    return len(first.split()) >= MIN_WORDS and (ends or bool(IMPERATIVE.match(first)))


def _kind(content: str, place: str, *, is_rule: bool, is_quoted: bool) -> RecordedKind:
    is_order = bool(IMPERATIVE.match(content)) or bool(re.search(r"\b(?:never|always)\b", content))
    binds = is_order and not is_quoted and (is_rule or _is_rules_file(place))
    return "preference" if binds else "fact"


def _is_rules_file(place: str) -> bool:
    return place.rsplit("/", 1)[-1].lower() in RULES_FILES


def _is_changelog(place: str) -> bool:
    return bool(CHANGELOGS.match(place.rsplit("/", 1)[-1].lower()))
