"""
The identifiers of a question: what is written in it letter for letter and must be found so.
"""

import re
from collections.abc import Sequence

from store.text.mentions import Mention

MAX_IDENTIFIERS = 32
_KINDS = frozenset(("file", "symbol", "package", "error", "command", "url"))
_MORE = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]*(?![\w.])"  # flags
    r"|(?<![\w.])v?[0-9]+(?:\.[0-9]+)+(?:[-+.]?[A-Za-z][\w.]*)?(?!\w)"  # versions
    r"|(?<!\w)#[0-9]+(?!\w)"  # issues
    r"|(?<![\w-])[A-Z][A-Z0-9]+-[0-9]+(?!\w)"  # tickets
    r"|(?<![\w-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?!\w)"  # commits
)


def identifiers(text: str, mentions: Sequence[Mention]) -> tuple[str, ...]:
    """Return them as written, each once: the mentioned ones, then flags, versions and numbers."""
    named = [one.alias for one in mentions if one.kind in _KINDS]
    return tuple(dict.fromkeys([*named, *_MORE.findall(text)]))[:MAX_IDENTIFIERS]
