"""
Values as a page shows them: texts sanitized and cut, times, numbers, differences.

Jinja escapes HTML but leaves control characters: they are removed here.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from markupsafe import Markup, escape

from serve import formatting
from serve.formatting import sanitize
from store.text import tokenizer

MOST_LINES = 200  # of a difference: comparing more takes longer than a page may
LONGEST = 20_000  # characters of a side of a difference
_LATEST = datetime.max.replace(tzinfo=UTC).timestamp() * 1e6
_EARLIEST = datetime.min.replace(tzinfo=UTC).timestamp() * 1e6

Sign = Literal["same", "gone", "new", "left"]


def clean(text: object) -> str:
    """Return a value's text sanitized; line ends and tabs stay."""
    return sanitize(str(text))


def line(text: object, longest: int = 200) -> str:
    """Return the beginning of a text as one line."""
    words = str(text)
    cut = " ".join(clean(words[: 4 * longest]).split())  # not all of 64 KiB for a line
    is_whole = len(words) <= 4 * longest and len(cut) <= longest
    return cut if is_whole else cut[: longest - 1].rstrip() + "…"


_WORDS = re.compile(r"[.-]?\w+(?:['’.-]+\w+)*")
_BEFORE = 60  # characters before the first word found, where a text is cut at its beginning
_LEAST_PREFIX = 2  # letters of a word that is still being typed


def highlight(text: object, query: str, longest: int = 220) -> Markup:
    """Return a text on one line, cut around the first of a query's words, which are marked.

    The last word may be incomplete: words with that prefix are marked too. Only the beginning of a
    very long text is read.
    """
    words = " ".join(clean(str(text)[:LONGEST]).split())
    terms = frozenset(tokenizer.terms(query))
    last = tokenizer.normalize(query.split()[-1]) if query.split() else ""
    spans = [
        match.span()
        for match in (_WORDS.finditer(words) if query else ())
        if not terms.isdisjoint(tokenizer.terms(match[0]))
        or (len(last) >= _LEAST_PREFIX and tokenizer.normalize(match[0]).startswith(last))
    ]
    start = 0
    if spans and spans[0][0] > longest // 2:
        start = words.rfind(" ", 0, max(1, spans[0][0] - _BEFORE)) + 1
    end = len(words) if len(words) - start <= longest else start + longest - 1
    parts, place = [Markup("…" if start else "")], start
    for first, after in spans:
        if first >= place and after <= end:
            parts += [
                escape(words[place:first]),
                Markup("<mark>{}</mark>").format(words[first:after]),
            ]
            place = after
    rest = escape(words[place:end].rstrip())
    return Markup("").join([*parts, rest, "…" if end < len(words) else ""])


_PASSAGE = 220  # characters of each part


def passages(hit: Mapping[str, Any], query: str) -> list[tuple[str, Markup]]:
    """Return the parts of a hit that answer a question, each with its speaker and the question's
    words marked. Only the beginning of a very long part is read.
    """
    terms = frozenset(tokenizer.terms(query))

    def shared(part: str) -> int:
        return len(terms.intersection(tokenizer.terms(part))) if terms else 0

    cut = {name: value[:LONGEST] for name, value in hit.items() if name in _PARTS.values()}
    parts = formatting.passages({**cut, "kind": hit["kind"]}, _PASSAGE, shared)
    marked = [(who, highlight(words, query, _PASSAGE)) for who, words in parts]
    if not query or any("<mark>" in words for _, words in marked):
        return marked
    # a sentence longer than a part, and words that are still being typed
    return [(who, highlight(cut[_PARTS[who]], query, _PASSAGE)) for who, _ in parts]


_PARTS = {"": "text", "asked": "text", "ran": "action", "agent": "result"}
_CODE = re.compile(r"`([^`\n]+)`")


def prose(text: object, longest: int = 600) -> Markup:
    """Return a message of ours on one line, the parts in `backticks` as code."""
    parts = _CODE.split(line(text, longest))  # code is at the odd places
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def iso(at: int) -> str:
    """Return microseconds UTC in the format of <time datetime>."""
    return _moment(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(at: int) -> str:
    """Return microseconds UTC for people, to the second."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(at: int, now: int) -> str:
    """Return a moment as "2 h ago", "now" or "in 2 h"."""
    passed = (now - at) // 1_000_000
    if passed < 0:
        return "in " + formatting.ago(-passed).removesuffix(" ago")
    return "now" if passed < 5 else formatting.ago(passed)


def number(value: float) -> str:
    """Return a number with thousands separators; a whole number without a fraction."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}"


def pretty(value: object) -> str:
    """Return a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def differences(before: str, after: str) -> list[tuple[Sign, str]]:
    """Return the lines of two texts, without equal ones far from a change.

    Texts of very many lines are shown whole, one after the other.
    """
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > MOST_LINES:
        return [*_all("gone", old), *_all("new", new)]
    signed: list[tuple[Sign, str]] = []
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes()
    for number_, group in enumerate(groups):
        if number_:
            signed.append(("left", "…"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                signed += _all("same", old[i1:i2])
            else:
                signed += [*_all("gone", old[i1:i2]), *_all("new", new[j1:j2])]
    return signed


def signed_lines(diff: str) -> list[tuple[Sign, str]]:
    """Return the lines of an edit's diff (`store.agents.diffs`)."""
    signs: Mapping[str, Sign] = {"-": "gone", "+": "new", " ": "same"}
    lines = clean(diff).splitlines()
    # the others divide hunks, name a file or say that there is more
    return [
        (signs[line[0]], line[2:]) if line[:1] in signs else ("left", "…" if line == "@@" else line)
        for line in lines
    ]


def _lines(text: str) -> list[str]:
    cut = clean(text[:LONGEST]).splitlines()
    return cut if len(text) <= LONGEST else [*cut, f"… {len(text) - LONGEST:,} more characters"]


def _all(sign: Sign, lines: Sequence[str]) -> list[tuple[Sign, str]]:
    return [(sign, text) for text in lines]


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(min(max(at, _EARLIEST), _LATEST - 1e6) / 1e6, UTC)
