"""
Hints: words of a question that may be an entity's name though nothing marks them as one.

"why do we use redis" names a package as surely as an import does, once some memory has imported it.
Whether one has, the entities tell: a hint that none is called by means nothing.
"""

import re

from store.text.mentions import Mention
from store.text.tokenizer import STOP_WORDS

MAX_HINTS = 24
_WORD = re.compile(r"[^\W\d_][\w-]{2,63}")


def hints(text: str) -> tuple[Mention, ...]:
    """Return the words of three letters and more that are no stop words, in order, each once.

    Their kind is a guess; entities are looked up by name whatever their kind.
    """
    words = dict.fromkeys(word.rstrip("-").casefold() for word in _WORD.findall(text))
    chosen = [word for word in words if word not in STOP_WORDS][:MAX_HINTS]
    return tuple(Mention("symbol", word, word) for word in chosen)
