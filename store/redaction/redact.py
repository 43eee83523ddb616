"""
Redaction of secrets, before anything reaches the disk.

`redact` leaves the kind of a secret and four hex digits of its hash, so that two mentions of one
credential can be recognised as the same. Invariants: redacting twice changes nothing, nothing is
found in a redacted text, and a text without a secret is the same object.

A secret is also found if something splits it. Mail breaks a line with `=` (RFC 2045, 6.7), a shell
with a backslash, a terminal at its width, and pasted text brings invisible characters; so a text is
searched as it is and without those gaps (`Joined`).

`find_in_all` gives the verdicts of `find` for many texts, at far less cost if few contain a secret:
the literal cues of all patterns are searched at once by RE2 (https://github.com/google/re2), in
time linear in the text, and only a text with a cue is searched pattern by pattern.

Only the standard library is needed, except for `find_in_all`: a hook client redacts the events it
spools, and runs without any other.
"""

import hashlib
import re
from bisect import bisect, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from store.redaction import bare_tokens, token_patterns
from store.redaction.labelled_secrets import NAMED
from store.redaction.secret_values import PIECE, is_mixed, is_placeholder
from store.redaction.token_patterns import BLOCKS, ISSUED, WORDS, Pattern

if TYPE_CHECKING:
    import pyarrow as pa

# soft hyphen, joiners and marks of width nought, of direction, of variation; they are no part of
# any word: the rest reads the same without them
UNSEEN = (
    "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff"
)
CONTINUED = r"=\r?\n|\\\r?\n"
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")  # an id of ours, common in events
WIDE = 60  # characters: a shorter line was not broken at the width of a window
LONG = 20  # characters without white space in the shortest credential known by itself

_UNSEEN = re.compile(f"[{UNSEEN}]+")
_SOFT = re.compile(rf"(?:[{UNSEEN}]|{CONTINUED})+")
_LONG_WORD = re.compile(rf"\S{{{LONG},}}+\s?")
_DRAWN = re.compile(r"[0-9A-Z]")
_WIDE_FORM = re.compile("[\uff01-\uff5e]")
_HARD = re.compile(r"(?<=[\w+/=.~-])\r?\n(?=[\w+/=.~-])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Joined:
    """A text without its gaps; `starts` are the positions in it of the pieces between them,
    `befores` their positions in the original text.
    """

    text: str
    starts: tuple[int, ...]
    befores: tuple[int, ...]

    def before(self, start: int, end: int) -> tuple[int, int]:
        """Return the original span of a part of this text; `end` is after its last character."""
        return self._place(start), self._place(end - 1) + 1

    def piece_before(self, start: int) -> int:
        """Return where the piece with a position of this text begins in the original text."""
        return self.befores[bisect_right(self.starts, start) - 1]

    def first_gap(self, start: int) -> int:
        """Return the first position behind `start` where a gap was removed; else the end."""
        piece = bisect_right(self.starts, start)
        return self.starts[piece] if piece < len(self.starts) else len(self.text)

    def _place(self, at: int) -> int:
        piece = bisect_right(self.starts, at) - 1
        return self.befores[piece] + at - self.starts[piece]


def join_continuations(text: str) -> Joined | None:
    """Return a text without invisible characters and continued line ends; None if it has none."""
    has_unseen = not text.isascii() and _UNSEEN.search(text)
    if not has_unseen and "=\n" not in text and "\\\n" not in text and "\r\n" not in text:
        return None
    return _without(text, [match.span() for match in _SOFT.finditer(text)])


def join_wraps(text: str) -> Joined | None:
    """Return a text without line ends that look broken at a width; None if it has none."""
    if len(text) <= WIDE or "\n" not in text:
        return None
    gaps: list[tuple[int, int]] = []
    start = 0
    while (end := text.find("\n", start)) >= 0:
        if end - start >= WIDE and (match := _HARD.search(text, end - 2, end + 2)):
            gaps.append(match.span())
        start = end + 1
    return _without(text, gaps)


def long_words(text: str) -> Joined | None:
    """Return the words of a text of at least `LONG` characters that have a digit or a capital, as
    randomly drawn ones do; each with the character behind it, nothing else between them. None if it
    has none.
    """
    starts, befores, pieces = [], [], []
    length = 0
    for word in _LONG_WORD.finditer(text):
        if _DRAWN.search(word[0]) is None:
            continue
        starts.append(length)
        befores.append(word.start())
        pieces.append(word[0])
        length += len(word[0])
    return Joined("".join(pieces), tuple(starts), tuple(befores)) if pieces else None


def fold_wide_forms(text: str) -> str:
    """Return `text` with the wide forms of ASCII characters replaced, at the same length."""
    return _WIDE_FORM.sub(lambda match: chr(ord(match[0]) - 0xFEE0), text)


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


JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None

_REDACTED = re.compile(r"\[redacted:[a-z0-9-]{3,24}:[0-9a-f]{4}\]")
_SECRET_NAME = re.compile(
    r"(?:passw(?:or)?d|passphrase|passcode|pwd|secret|token|api[-_ ]?key|authorization|cookie"
    r"|(?:access|secret|private|account|auth|signing|encryption|master)[-_ ]?key|credentials?)$",
    re.IGNORECASE,
)
_SHORTEST_NAMED = 6
_Groups: TypeAlias = tuple[tuple[str, list[tuple[str, list[tuple[int, Pattern]]]]], ...]


def _by_root(patterns: Sequence[Pattern]) -> _Groups:
    """Return the cues of patterns grouped by a shared part, for which a text is searched first, and
    for each cue its patterns with their places.
    """
    of_cue: dict[str, list[tuple[int, Pattern]]] = {}
    for place, pattern in enumerate(patterns):
        of_cue.setdefault(pattern.cue, []).append((place, pattern))
    groups: dict[str, list[tuple[str, list[tuple[int, Pattern]]]]] = {}
    for cue, its in of_cue.items():
        root = next((root for root in _ROOTS if root in cue), cue)
        groups.setdefault(root, []).append((cue, its))
    return tuple(groups.items())


_SHAPES = [(pattern.kind, pattern.cue, pattern.expression) for pattern in (*ISSUED, *NAMED)]
# of the patterns: snapshots built with others are rebuilt
VERSION = hashlib.sha256(repr((_SHAPES, bare_tokens.VERSION)).encode()).hexdigest()[:8]
_ROOTS = ("pass", "auth", "key", "token", "secret", "sess", "login")
_BLOCK_CUES, _WORD_CUES, _NAMED_CUES = (
    _by_root(BLOCKS),
    _by_root(WORDS),
    _by_root(NAMED),
)


@dataclass(frozen=True)
class Secret:
    kind: str
    start: int
    end: int


def find(text: str) -> list[Secret]:
    """Return the secrets of `text` in order, not overlapping; the more specific kind wins.

    A secret split by invisible characters or at the end of a line is found as a whole.
    """
    is_word = text.isalnum()
    if is_word and (len(text) < LONG or _ULID.fullmatch(text)):
        return []
    if "[redacted:" in text:
        text = _REDACTED.sub(lambda match: "\x00" * len(match[0]), text)
    if not text.isascii():
        text = fold_wide_forms(text)
    secrets, cued = _scan(text)
    if (whole := join_continuations(text)) is not None:
        secrets = _merge_joined(secrets, whole, _scan(whole.text)[0])
    if cued and (whole := join_wraps(text)) is not None:
        secrets = _merge_joined(secrets, whole, _find_wrapped(cued, secrets, whole))
    return secrets


def redact(text: str) -> str:
    """Return `text` with each secret replaced by `[redacted:<kind>:<4 hex of its sha256>]`."""
    if len(text) < _CACHED_FROM:
        return _replace_secrets(text)
    # a long text is redacted when it is written, and soon again when it is read
    with _looking_up:
        if text in _clean_texts:
            return text
    redacted = _replace_secrets(text)
    if redacted == text:
        with _looking_up:
            _clean_texts[text] = None
            while len(_clean_texts) > _MOST_CACHED:
                del _clean_texts[next(iter(_clean_texts))]
    return redacted


_CACHED_FROM, _MOST_CACHED = 4_096, 64  # characters; texts
_clean_texts: dict[str, None] = {}  # the last long texts without a secret
_looking_up = Lock()


def _replace_secrets(text: str) -> str:
    # Removing one secret can uncover another, so repeat until none is left. Each round shortens the
    # text outside placeholders, hence it ends.
    while secrets := find(text):
        pieces, end = [], 0
        for secret in secrets:
            label = _label(secret.kind, text[secret.start : secret.end])
            pieces += [text[end : secret.start], label]
            end = secret.end
        text = "".join([*pieces, text[end:]])
    return text


def redact_value(value: JSON) -> JSON:
    """Return `value` with the secrets removed from every string and key in it.

    A string, or a list's string, under a key that names a secret goes whole, unless it is short, a
    placeholder or redacted already.
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redact_value(item) for item in value]
    if isinstance(value, dict):
        return {redact(key): _redact_under(key, item) for key, item in value.items()}
    return value


def _redact_under(key: str, value: JSON) -> JSON:
    if not _names_a_secret(key):
        return redact_value(value)
    if isinstance(value, list):
        return [_redact_under(key, item) for item in value]
    if not isinstance(value, str):
        return redact_value(value)
    if len(value) < _SHORTEST_NAMED or is_placeholder(value) or _REDACTED.fullmatch(value):
        return redact(value)
    return _label("named", value)


@lru_cache(1_024)  # keys are few and come again with every value
def _names_a_secret(key: str) -> bool:
    return _SECRET_NAME.search(key) is not None


def _scan(text: str) -> tuple[list[Secret], list[Pattern]]:
    """Return the secrets of a text, and the patterns whose credentials may go on over a line."""
    blocks = _patterns_in(_BLOCK_CUES, text)
    secrets = _matches(blocks, text, text)
    words: list[Pattern] = []
    settled = set[int]()  # the starts of the words with an issued secret
    if (long := long_words(text)) is not None:
        words = _patterns_in(_WORD_CUES, long.text)
        for secret in _matches(words, long.text, long.text):
            start, end = long.before(secret.start, secret.end)
            secrets.append(Secret(secret.kind, start, end))
            settled.add(long.piece_before(secret.start))
    if not text.isalnum():  # a name and its value have something between them
        lowered = text.lower()
        if len(lowered) != len(text):
            lowered = text.replace("\u0130", "i").lower()  # the one letter that grows
        secrets += _matches(_patterns_in(_NAMED_CUES, lowered), lowered, text)
        secrets += [
            Secret(kind, start, end)
            for kind, start, end in token_patterns.container_secrets(lowered)
            if token_patterns.is_container_secret(kind, text[start:end])
        ]
        if long is not None:  # last: any other kind is more specific
            others = (start for start in long.befores if start not in settled)
            spans = bare_tokens.find_bare_tokens(text, others)
            secrets += [Secret("token", start, end) for start, end in spans]
    cued = [pattern for pattern in (*blocks, *words) if len(pattern.cue) > 1]
    return _without_overlaps(secrets), cued


def _find_wrapped(cued: list[Pattern], secrets: list[Secret], whole: Joined) -> list[Secret]:
    """Return the issued secrets that continue past the end of a line, which may be just its end.

    A secret found without the next line continues there only if that looks like a part of it.
    """
    complete = {secret.start for secret in secrets}
    return [
        secret
        for secret in _without_overlaps(_matches(cued, whole.text, whole.text))
        if whole.before(secret.start, secret.end)[0] not in complete
        or is_mixed(whole.text[whole.first_gap(secret.start) : secret.end])
    ]


def _merge_joined(secrets: list[Secret], whole: Joined, more: list[Secret]) -> list[Secret]:
    """Return secrets of a text, and those that are only whole in `whole`; overlapping ones are
    merged.
    """
    wide = []
    for secret in more:
        start, end = whole.before(secret.start, secret.end)
        if end - start > secret.end - secret.start:  # a gap was removed within it
            wide.append(Secret(secret.kind, start, end))
    if wide:
        secrets = sorted((*wide, *secrets), key=lambda secret: secret.start)
    merged: list[Secret] = []
    for secret in secrets:
        if merged and secret.start < merged[-1].end:
            before = merged.pop()
            secret = replace(before, end=max(before.end, secret.end))
        merged.append(secret)
    return merged


def _matches(patterns: Sequence[Pattern], folded: str, text: str) -> list[Secret]:
    """Return the secrets that `patterns` match in `folded` and accept in `text`, as long as it."""
    secrets = []
    for pattern in patterns:
        for match in pattern.regex.finditer(folded):
            start, end = match.span(match.lastindex or 0)
            if pattern.is_secret(text[start:end]):
                secrets.append(Secret(pattern.kind, start, end))
    return secrets


def _patterns_in(groups: _Groups, text: str) -> list[Pattern]:
    """Return the patterns whose cue is in `text`, in their order."""
    cued: list[tuple[int, Pattern]] = []
    for root, cues in groups:
        if root in text:
            for cue, patterns in cues:
                if cue in text:
                    cued += patterns
    return [pattern for _, pattern in sorted(cued, key=itemgetter(0))]


def _without_overlaps(secrets: list[Secret]) -> list[Secret]:
    """Return `secrets` by position; of overlapping secrets, those of the earlier pattern stay."""
    apart: list[Secret] = []
    for secret in secrets:
        place = bisect(apart, secret.start, key=lambda other: other.start)
        is_free_before = place == 0 or apart[place - 1].end <= secret.start
        is_free_after = place == len(apart) or secret.end <= apart[place].start
        if is_free_before and is_free_after:
            apart.insert(place, secret)
    return apart


def _label(kind: str, secret: str) -> str:
    digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
    return f"[redacted:{kind}:{digest[:4]}]"


# most texts contain a dash, a dot or a colon, so the least that their patterns need is searched
_STRICTER = (
    r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27}",  # of Discord
    rf"[A-Za-z0-9]{{{PIECE}}}[-_.~:|]",
    rf"[-_.~:|][A-Za-z0-9]{{{PIECE}}}",
)


def _any(parts: Iterable[str]) -> str:
    return "|".join(sorted(set(parts)))


_HAS_ISSUED = _any(
    (*_STRICTER, *(re.escape(pattern.cue) for pattern in ISSUED if len(pattern.cue) > 1))
)
_HAS_LONG = rf"\S{{{LONG}}}"
# cues of lower-cased text: RE2 folds case as Unicode does, but the dotted capital I lowers to two
_HAS_NAMED = _any(re.escape(pattern.cue) for pattern in NAMED) + "|cookie|\u0130"

# characters that split a cue or write it in wide letters: all texts with one are searched
_HAS_SPLIT = rf"[{UNSEEN}]|{CONTINUED}|[" + "\uff01-\uff5e]"


def find_in_all(texts: "pa.Array") -> Iterator[tuple[int, Secret]]:
    """Yield each secret found in any of the texts, with the place of its text."""
    import numpy as np  # audits only: writers of memories load neither
    import pyarrow.compute as pc

    issued = pc.and_(
        pc.match_substring_regex(texts, _HAS_ISSUED), pc.match_substring_regex(texts, _HAS_LONG)
    )
    named = pc.match_substring_regex(texts, _HAS_NAMED, ignore_case=True)
    split = pc.match_substring_regex(texts, _HAS_SPLIT)
    bare = pc.match_substring_regex(texts, bare_tokens.HAS_BARE)
    suspects = pc.fill_null(pc.or_(pc.or_(issued, named), pc.or_(split, bare)), False)
    for place in np.flatnonzero(suspects.to_numpy(zero_copy_only=False)).tolist():
        for secret in find(texts[place].as_py()):
            yield place, secret
