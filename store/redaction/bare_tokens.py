"""
Bare tokens: credentials of unknown issuers in prose, told from names by their letters.

A word is a token if its letters, digits and changes of case look drawn at random. `_COMMON` and
`_WEIGHTS` were fitted to words of code, changelogs and agents' transcripts, and to drawn values.
Only a word among others counts: a value on its own is a field, often an id, and two ids must never
become one. Digests, UUIDs, ULIDs, paths and words that a preceding word calls an id stay.
"""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import product, repeat
from operator import add, mul
from string import ascii_lowercase

from store.redaction.secret_values import (
    FILE_ENDING,
    ID_WORDS,
    LONGEST_PREFIX,
    SEPARATOR,
    UUID,
    is_random,
)

_CORE = 16  # characters without words and digests
_VALUE = re.compile(  # a word, in quotes or brackets perhaps; longer ones are data
    r"[\"'`(<\[{*|\\]{0,6}([A-Za-z0-9][A-Za-z0-9_+/=.~-]{18,126}[A-Za-z0-9_+/=~-])"
    r"[\"'`)>\]}*|.,;:!?\\]{0,6}(?!\S)"
)
_HEX_PIECE = re.compile(r"[gI]?[0-9a-f]{7,}|[0-9A-F]{7,}|[0-9]+")
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|[0-9a-hjkmnp-tv-z]{26}")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+){2,}")
_PREFIX_WORD = re.compile(r"(?:[A-Za-z]?[a-z]*[0-9]{0,2}|[A-Z]+)(?<!\w{11})")
_AN_ID = re.compile(
    r"(?:\bids?|_id|uu?id|commits?|sha-?[0-9]{0,3}|md5|hash|digest|rev|revision|refs?|session"
    r"|checksum|integrity|etag|nonce|trace|span|request|run|build|job|fingerprint|cursor|version"
    r"|image|layer|pod|branch|tag|thread|message|event|object|signature|cache)"
    r"[\"'`)]{0,2}(?:\s{1,3}(?:is|was|of))?\s{0,3}[:=#]?\s{0,3}[\"'`(<\[]{0,3}$",
    re.IGNORECASE,
)
_BEFORE = 40  # characters before a word that may call it an id
_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

# how common each two letters are next to each other, aa to zz: 5 + log of the ratio to chance
_COMMON = (
    "667666535356674537675544436666666354354354355353334366666636536544753546544343"
    "666676436344435434545333436677665343366745577645565366666633633533633544423343"
    "535464345334456435544333336433634363334354243443333266655563334667753567354535"
    "433343233333333323433333324444634353433433334333324263457443723633642365543343"
    "643463336334636733535333336366656353444465236765343254663553434677662755645333"
    "635464455245456536465333533332323332233223233353323264657453634555643566553352"
    "545474456355545544676443536464853673454365377553446345555443633656353656332533"
    "534363425333433333333333334343533453333443344333333343434433323443353345343333"
    "4343333343334435235433323343335233432333333333333333"
)
_PAIRS = {
    first + second: int(digit) - 5
    for (first, second), digit in zip(product(ascii_lowercase, repeat=2), _COMMON, strict=True)
}
# of the sum of `_PAIRS`, of runs of one class, characters, digits, characters where the
# letters have one case, and pieces; all in tens; then the constant
_WEIGHTS = (-2.4, 6.49, -2.37, -0.3, 1.59, -6.64, -1.47)

VERSION = f"{_WEIGHTS} {_COMMON}"
# for RE2: matches every text with a bare token
HAS_BARE = r"[A-Za-z0-9][A-Za-z0-9_+/=.~-]{19}"


def find_bare_tokens(text: str, starts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each bare token of `text`, of the words that begin at `starts`."""
    if len(text.split(maxsplit=1)) < 2:
        return
    for word_start in starts:
        match = _VALUE.match(text, word_start)
        if match is not None and is_bare_token(match[1]):
            start, end = match.span(1)
            if _AN_ID.search(text[max(0, start - _BEFORE) : start]) is None:
                yield start, end


def is_bare_token(value: str) -> bool:
    """Return True if a word looks drawn at random, and is not a name, an id or a digest."""
    if FILE_ENDING.search(value) or UUID.search(value) or _ULID.fullmatch(value):
        return False
    if _CONSTANT.fullmatch(value) or not is_random(value):
        return False
    pieces = SEPARATOR.split(value)
    start = 0
    while start < len(pieces) - 1 and _PREFIX_WORD.fullmatch(pieces[start]):
        start += 1
    if sum(map(len, pieces[:start])) > LONGEST_PREFIX:  # a slug of many words
        return False
    if any(piece.lower() in ID_WORDS for piece in pieces[: start + 1]):
        return False
    pieces = [piece for piece in pieces[start:] if _HEX_PIECE.fullmatch(piece) is None]
    core = "".join(pieces)
    is_alphabet = sorted(core) == list(core)
    return len(core) >= _CORE and not is_alphabet and _score(core, pieces) > 0


def _score(core: str, pieces: list[str]) -> float:
    """Return the log of the odds that a word was drawn at random."""
    common = 0
    for piece in pieces:
        letters = piece.lower()
        common += sum(map(_PAIRS.get, map(add, letters, letters[1:]), repeat(0)))
    runs = sum(len(_RUN.findall(piece)) for piece in pieces)
    digits = sum(map(str.isdigit, core))
    has_one_case = core in (core.upper(), core.lower())
    features = (common, runs, len(core), digits, len(core) * has_one_case, len(pieces))
    return math.fsum(map(mul, _WEIGHTS, features)) / 10 + _WEIGHTS[-1]
