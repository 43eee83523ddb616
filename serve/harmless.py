"""
Harmless: text of memories without what moves a cursor, turns a line around or cannot be seen.

It comes from anywhere: an escape sequence must not set a terminal's title, and no invisible letter
may make two texts look alike on a page.
"""

import unicodedata

_BAD = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def harmless(text: str) -> str:
    """Return text without control, turning and invisible characters; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return "".join(one for one in text if one in "\n\t" or unicodedata.category(one) not in _BAD)
