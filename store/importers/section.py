"""
Section: a Markdown text divided at its headings, and further into paragraphs and list items.

Only what dividing needs is understood: ATX headings, fences, lists and front matter
(https://spec.commonmark.org/0.31.2/). A fence is never divided and holds no heading.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"^( {0,3})(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(\S.*)$")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TAGS = re.compile(r"^tags:[ \t]*(.*(?:\n[ \t]*-[ \t].*)*)", re.MULTILINE | re.IGNORECASE)
_FRONT_DATE = re.compile(r"^(?:date|created)(?:_at)?:[ \t]*['\"]?(\d{4}-\d\d-\d\d)", re.M | re.I)


@dataclass(frozen=True, slots=True)
class Front:
    """What is read of a front matter: tags, and the day it was written."""

    tags: tuple[str, ...] = ()
    date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading; `path` holds the headings from the outermost to its own."""

    path: tuple[str, ...]
    text: str


def front(text: str) -> tuple[Front, str]:
    """Return what the front matter says and the text after it."""
    found = _FRONT.match(text)
    if found is None:
        return Front(), text
    tags = _FRONT_TAGS.search(found[1])
    words = re.split(r"[,\n\[\]]", tags[1]) if tags else []
    names = (re.sub(r"^[\s\-#'\"]+|[\s'\"]+$", "", word)[:100] for word in words)
    return Front(tuple(dict.fromkeys(filter(None, names))), _date(found[1])), text[found.end() :]


def _date(front_matter: str) -> datetime | None:
    found = _FRONT_DATE.search(front_matter)
    try:
        return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) if found else None
    except ValueError:  # 2026-02-31
        return None


def sections(text: str) -> Iterator[Section]:
    """Yield the sections that hold any text, in order; what precedes all headings has no path."""
    path: dict[int, str] = {}
    body: list[str] = []
    for line, is_fenced in _fenced(_without_comments(text).splitlines()):
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
    """Return a heading's words without the # that may close it, which stand apart from them.

    By hand: an expression takes the square of the time on a line of blanks.
    """
    title = title.rstrip(" \t")
    words = title.rstrip("#")
    return words.rstrip(" \t") if words.endswith((" ", "\t")) else title


def _without_comments(text: str) -> str:
    """Return a text without its comments; one that never ends is none.

    Found by hand: an expression would look for the end of each that has none, to the end.
    """
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return "".join((*kept, text[at:]))


def _section(path: dict[int, str], body: Sequence[str]) -> Iterator[Section]:
    if text := "\n".join(body).strip("\n"):
        yield Section(tuple(path[level] for level in sorted(path)), text)


def _fenced(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
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


def blocks(text: str) -> list[str]:
    """Return the paragraphs, lists and fences of a text: what blank lines outside fences part.

    A list that follows its paragraph without a blank line is a block of its own too.
    """
    found: list[list[str]] = [[]]
    for line, is_fenced in _fenced(text.splitlines()):
        if found[-1] and not is_fenced and _ITEM.match(line) and not _ITEM.match(found[-1][0]):
            found.append([])
        if line.strip() or is_fenced:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return ["\n".join(lines) for lines in found if lines]


def items(block: str) -> list[str]:
    """Return a list's outermost items, each with what is nested in it; [] where it is no list."""
    found: list[list[str]] = []
    outermost = ""
    for line, is_fenced in _fenced(block.splitlines()):
        item = None if is_fenced else _ITEM.match(line)
        if item is not None and (not found or len(item[1]) < len(outermost) + 2):
            outermost = outermost if found else item[1]
            found.append([item[2]])
        elif found:
            found[-1].append(line)
        else:
            return []
    return ["\n".join(lines).strip() for lines in found]


def packed(parts: Sequence[str], limit: int) -> list[str]:
    """Return the parts joined to texts of about `limit` characters, parted where parts meet.

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
