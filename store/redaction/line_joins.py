"""
A text without what splits its words: characters that nobody sees, and line ends that are not its
own, so that a secret is known as it was before it was mailed, pasted or wrapped.

Mail breaks a line with `=` (RFC 2045, 6.7), a shell with a backslash; a terminal breaks a long one
at its width, which only shows by how long it is.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

# soft hyphen, joiners and marks of width nought, of direction, of variation; of them no word is
# made: what is left without them reads the same
UNSEEN = (
    "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff"
)
CONTINUED = r"=\r?\n|\\\r?\n"
WIDE = 60  # characters: a shorter line was not broken at the width of a window
LONG = 20  # characters without white space in the shortest credential known by itself

_UNSEEN = re.compile(f"[{UNSEEN}]+")
_SOFT = re.compile(rf"(?:[{UNSEEN}]|{CONTINUED})+")
_LONG = re.compile(rf"\S{{{LONG},}}+\s?")
_DRAWN = re.compile(r"[0-9A-Z]")
_WIDE_FORM = re.compile("[\uff01-\uff5e]")
_HARD = re.compile(r"(?<=[\w+/=.~-])\r?\n(?=[\w+/=.~-])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Joined:
    """A text without its gaps; `starts` are the places in it of the pieces between them, `befores`
    the places of those in the text as it was.
    """

    text: str
    starts: tuple[int, ...]
    befores: tuple[int, ...]

    def before(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of this text stood; `end` is behind its last character."""
        return self._place(start), self._place(end - 1) + 1

    def first_gap(self, start: int) -> int:
        """Return the first place behind `start` where something was taken out; else the end."""
        piece = bisect_right(self.starts, start)
        return self.starts[piece] if piece < len(self.starts) else len(self.text)

    def _place(self, at: int) -> int:
        piece = bisect_right(self.starts, at) - 1
        return self.befores[piece] + at - self.starts[piece]


def join_continuations(text: str) -> Joined | None:
    """Return a text without what nobody sees and without continued line ends; None: it has none."""
    has_unseen = not text.isascii() and _UNSEEN.search(text)
    if not has_unseen and "=\n" not in text and "\\\n" not in text and "\r\n" not in text:
        return None
    return _without(text, [found.span() for found in _SOFT.finditer(text)])


def join_wraps(text: str) -> Joined | None:
    """Return a text without the ends of lines that look broken at a width; None: it has none."""
    if len(text) <= WIDE or "\n" not in text:
        return None
    return _without(text, list(_wraps(text)))


def long_words(text: str) -> Joined | None:
    """Return the words of a text of at least `LONG` characters that have a digit or a capital, as
    what is drawn at random has; each with the character behind it, nothing else between them.
    None: it has none.
    """
    starts, befores, pieces = [], [], []
    length = 0
    for word in _LONG.finditer(text):
        if _DRAWN.search(word[0]) is None:
            continue
        starts.append(length)
        befores.append(word.start())
        pieces.append(word[0])
        length += len(word[0])
    return Joined("".join(pieces), tuple(starts), tuple(befores)) if pieces else None


def fold_wide_forms(text: str) -> str:
    """Return `text` with the wide forms of ASCII characters as those characters, of one length."""
    return _WIDE_FORM.sub(lambda found: chr(ord(found[0]) - 0xFEE0), text)


def _wraps(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        if end - start >= WIDE and (found := _HARD.search(text, end - 2, end + 2)):
            yield found.span()
        start = end + 1


def _without(text: str, gaps: list[tuple[int, int]]) -> Joined | None:
    if not gaps:
        return None
    pieces, starts, befores = [], [], []
    at = length = 0
    for start, end in (*gaps, (len(text), len(text))):
        starts.append(length)
        befores.append(at)
        pieces.append(text[at:start])
        length += start - at
        at = end
    return Joined("".join(pieces), tuple(starts), tuple(befores))
