"""
Who a question names, of those who said the memories; and the question without them.

A name says whose words are wanted, not what they are about: as a word it would find every turn in
which somebody is greeted by it.
"""

import re
from collections.abc import Mapping

_WORD = re.compile(r"@?[^\W\d_][\w-]*")
_POSSESSIVE = r"(?:['\u2019]s)?(?!\w)"


def named(asked: str, known: Mapping[str, set[str]]) -> tuple[frozenset[str], str]:
    """Return the names a question mentions, and the question without them.

    Only words with a capital or an @ are names: `mark it` is not Mark.
    """
    names: set[str] = set()
    written: list[str] = []
    for word in dict.fromkeys(_WORD.findall(asked)):
        if (word[0] == "@" or word[0].isupper()) and (
            owners := known.get(word.removeprefix("@").casefold())
        ):
            names |= owners
            written.append(re.escape(word))
    if not written:
        return frozenset(), asked
    rest = re.sub(rf"(?<!\w)(?:{'|'.join(written)}){_POSSESSIVE}", " ", asked)
    return frozenset(names), rest
