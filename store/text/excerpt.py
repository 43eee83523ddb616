"""
Excerpts of long texts: the beginning, cut where a reader would stop, or the telling sentences.
"""

import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote

MORE = " ..."
_STOP = re.compile(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])(?=.)")
_SOONEST = 20  # characters of a sentence
_LEAST = 0.2  # of the limit, to be filled by a text cut after a sentence
_SENTENCE_END = re.compile(r"[.!?][)\"'`]*(?=\s)|[\u3002\uff01\uff1f]|\n(?=\n|\s*[-*#|])")
# not after the number of a list's item
_CLAUSE_END = re.compile(
    r"(?<=[.!?;])(?<!^\d\.)(?<!^\d\d\.)(?<![\s*]\d\.)(?<![\s*]\d\d\.)\s+"
    r"|(?<=[\u3002\uff01\uff1f])"
)
_LETTER = re.compile(r"[^\W\d_]")
_FENCED = re.compile(
    r"^[ \t]*(```|~~~)([^\n]*)\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_SHORT_CODE = 160  # characters: a command to run, not a listing
_PARTING = re.compile(r"^[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,}|#{1,6})[ \t]*$\n?", re.MULTILINE)
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t]+", re.MULTILINE)
# a link to a file or command of an editor, as VS Code writes it; its text may be empty
_EDITOR_LINK = re.compile(r"\[(`?)([^\[\]`\n]*)\1\]\((?:file:([^()\s]*)|command:[^()\s]*)\)")
_CODE_SPAN = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*(?:`|\Z)", re.DOTALL)


_NARRATES = re.compile(
    r"\W*(?:(?:now|first|next|finally|then|okay|ok|alright|so|and)\b[,!.]?\s+)*"
    r"(?:let me\b|let us\b|let's (?:check|look|see|start|examine|take|try|first)\b|read file:"
    r"|i(?:'ll| will|'m going to| am going to)\b"
    r"|i (?:need|want|have) to (?:check|see|look|understand|find|read|examine|update|fix)\b"
    r"|here(?:'s| is| are) (?:what|the|an?|my|some)\b[^.!?]{0,80}:\W*$"
    r"|the user (?:wants|asks|asked|is asking|would like)\b"
    r"|you(?:'re| are) (?:absolutely )?right\b[^.!?,;:]{0,80}[.!]?\W*$"
    r"|(?:(?:that's )?an? )?(?:perfect|great|excellent|good|sure|certainly|of course|absolutely)\b"
    r"[^.!?]{0,30}!\s*$"
    r"|ich werde\b|lass mich\b|je vais\b|laisse[sz]?-moi\b|voy a\b|déjame\b|vou\b)",
    re.IGNORECASE,
)
_ENDING = " *_\"'`)"  # marks after the last sign of a sentence
_LONGEST_TITLE = 4  # words of a line that only says what follows


def excerpt(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, and ` ...` if something was left out.

    The cut falls after a paragraph in the second half, else after the last sentence, else after a
    word; never within code, if there is anything to cut before it.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    head = text[:limit]
    half = limit // 2
    codes = [code.span() for code in _CODE_SPAN.finditer(text[: 2 * limit])]
    paragraph = head.rfind("\n\n", half)
    ends = [end for end in _ends(head, codes) if end >= _LEAST * limit]
    for cut in (paragraph, ends[-1] if ends else -1, head.rfind(" ", half)):
        if cut >= 0 and (whole := _before_code(head, cut, codes)):
            return whole + MORE
    return head + MORE


def whole_sentences(text: str, limit: int) -> str:
    """Return the first sentences of a text that fit, on one line; "" if none does."""
    text = text.strip()
    codes = [code.span() for code in _CODE_SPAN.finditer(text)]
    ends = (*_ends(text, codes), len(text))
    fitting = (" ".join(text[:end].split()) for end in reversed(ends))
    return next((line for line in fitting if len(line) <= limit), "")


def _ends(text: str, codes: Sequence[tuple[int, int]]) -> list[int]:
    """Return the ends of a text's sentences outside code."""
    ends = (match.end() for match in _SENTENCE_END.finditer(text))
    return [end for end in ends if not any(start < end < stop for start, stop in codes)]


def _before_code(head: str, cut: int, codes: Sequence[tuple[int, int]]) -> str:
    """Return the beginning of a text, up to the code that a cut would fall into."""
    for start, stop in codes:
        if start < cut < stop:
            cut = start
    return head[:cut].rstrip()


def without_listings(text: str) -> str:
    """Return a Markdown text without long blocks of code, rules and marks of headings, with the
    names of files in place of links to them; unchanged if that leaves nothing.
    """
    brief = _FENCED.sub(_short_code, text) if "```" in text or "~~~" in text else text
    brief = _EDITOR_LINK.sub(_link_name, brief) if "](" in brief else brief
    return _HEADING.sub("", _PARTING.sub("", brief)).strip() or text


def reports(text: str) -> list[str]:
    """Return the sentences of an agent's message that report something, in their order.

    "Let me look", a question and the title of a list inform no later reader. An item of a list is
    a sentence of its own, as is a row of a table: "pytest: 12 passed".
    """
    lines = [" ".join(line.split()) for line in without_listings(text).splitlines()]
    if "|" in text:
        lines = _rows_told(lines)
    return [part for line in lines for part in sentences(line) if _reports(part)]


def _rows_told(lines: Sequence[str]) -> list[str]:
    """Return lines of which those of a table are its first cell and the others that say something,
    without its head.
    """
    told: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("|"):
            told.append(line)
        elif not (_is_under_head(line) or _is_under_head(after)):
            first, *others = [cell.strip() for cell in line.strip("|").split("|")]
            told.append(": ".join(filter(None, (first, ", ".join(filter(None, others))))))
    return told


def _is_under_head(line: str) -> bool:
    return line.startswith("|") and "-" in line and not line.strip("|-: ")


def _reports(part: str) -> bool:
    end = part.rstrip(_ENDING)
    is_bold = part.startswith("**") and part.find("**", 2) >= len(end)  # all of it
    is_title = end.endswith(":") and (is_bold or len(part.split()) <= _LONGEST_TITLE)
    is_question = end.endswith(("?", "\uff1f"))
    return bool(_LETTER.search(end)) and not (is_title or is_question or _NARRATES.match(part))


def _short_code(code: re.Match[str]) -> str:
    """Return a short block; of a long one the file that Cursor names beside its language."""
    return code[3] if len(code[3]) <= _SHORT_CODE else f"{code[2].partition(':')[2].strip()}\n"


def _link_name(link: re.Match[str]) -> str:
    """Return the text of a link, or the name of the file that it leads to."""
    path = unquote((link[3] or "").partition("#")[0])
    return f"`{name}`" if (name := link[2] or path.rpartition("/")[2]) else ""


def one_line(text: str, limit: int) -> str:
    """Return an excerpt of a text with every run of white space made one space."""
    return excerpt(" ".join(text.split()), limit)


Score = Callable[[str], float]  # of a sentence or line: its information


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, and the parts between its semicolons."""
    return [part for part in _CLAUSE_END.split(text) if part]


def passage(text: str, limit: int, score: Score) -> str:
    """Return at most `limit` characters of a line: all of it, else the most telling sentences, in
    their order, with dots for omissions; the beginning, if only that is telling.
    """
    if len(text) <= limit:
        return text
    parts = sentences(text)
    scores = list(map(score, parts))
    if not any(scores[1:]):
        return one_line(text, limit)
    room, chosen = limit, set[int]()
    for place in sorted(range(len(parts)), key=lambda at: (-scores[at], at)):
        if len(parts[place]) + len(MORE) <= room and _LETTER.search(parts[place]):
            chosen.add(place)
            room -= len(parts[place]) + len(MORE)
    if not chosen:
        return one_line(text, limit)
    passages = [
        parts[place] if not place or place - 1 in chosen else f"... {parts[place]}"
        for place in sorted(chosen)
    ]
    return " ".join(passages) + ("" if len(parts) - 1 in chosen else MORE)


def fitting(parts: Sequence[str], limit: int, score: Score) -> list[str]:
    """Return the parts that fit, in their order: the most telling, then the earliest."""
    scores = list(map(score, parts))
    room, chosen = limit, set[int]()
    for place in sorted(range(len(parts)), key=lambda at: (-scores[at], at)):
        if len(parts[place]) <= room or not chosen:
            chosen.add(place)
            room -= len(parts[place]) + 1
    return [one_line(parts[place], limit) for place in sorted(chosen)]


def first_sentence(text: str, limit: int) -> str:
    """Return the first sentence of a text on one line, and ` ...` if something was left out.

    One so short that it may be an abbreviation takes the next with it.
    """
    line = " ".join(text.split())
    end = next((match.start() for match in _STOP.finditer(line, _SOONEST)), len(line))
    return (
        line
        if len(line) <= min(end, limit)
        else excerpt(line[:end], limit).removesuffix(MORE) + MORE
    )


def plural(count: int, noun: str) -> str:
    """Return a count and its noun: "1 turn", "2,000 turns", "3 memories"."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def label(text: str, limit: int = 100) -> str | None:
    """Return a text as a tag or name: one line, no longer than `limit`; None if it is empty."""
    return " ".join(text.split())[:limit].strip() or None
