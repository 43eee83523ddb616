"""
Secrets among many texts: the same verdicts as `redact.find`, for far less where there are none.

Each pattern has a cue that a text must hold. All cues are looked for at once by RE2
(https://github.com/google/re2), in time linear in the text; only what holds one is read again,
pattern by pattern.
"""

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.redaction import line_joins, redact
from store.redaction.labelled_secrets import NAMED
from store.redaction.redact import Secret
from store.redaction.secret_values import PIECE
from store.redaction.token_patterns import ISSUED

# most texts hold a dash, a dot or a colon, so what their patterns ask for at least is looked for
_STRICTER = (
    r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27}",  # of Discord
    rf"[A-Za-z0-9]{{{PIECE}}}[-_.~:|]",
    rf"[-_.~:|][A-Za-z0-9]{{{PIECE}}}",
)


def _any(parts: Iterable[str]) -> str:
    return "|".join(sorted(set(parts)))


_ISSUED = _any((*_STRICTER, *(re.escape(one.cue) for one in ISSUED if len(one.cue) > 1)))
_LONG = rf"\S{{{line_joins.LONG}}}"
# cues of lower-cased text: RE2 folds case as Unicode does, but the dotted capital I lowers to two
_NAMED = _any(re.escape(one.cue) for one in NAMED) + "|cookie|\u0130"

# what splits a cue, and what writes it in wide letters: all that hold one are read
_SPLIT = rf"[{line_joins.UNSEEN}]|{line_joins.CONTINUED}|[" + "\uff01-\uff5e]"


def find_in_all(texts: pa.Array) -> Iterator[tuple[int, Secret]]:
    """Yield the place of a text, and a secret found in it, for all secrets of texts."""
    issued = pc.and_(
        pc.match_substring_regex(texts, _ISSUED), pc.match_substring_regex(texts, _LONG)
    )
    named = pc.match_substring_regex(texts, _NAMED, ignore_case=True)
    split = pc.match_substring_regex(texts, _SPLIT)
    suspects = pc.fill_null(pc.or_(pc.or_(issued, named), split), False)
    for place in np.flatnonzero(suspects.to_numpy(zero_copy_only=False)).tolist():
        for secret in redact.find(texts[place].as_py()):
            yield place, secret
