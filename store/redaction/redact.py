"""
Secrets out, before anything reaches the disk.

`redact` leaves the kind of a secret and four hex digits of its hash, so that two mentions of
one credential can be recognised as the same. What must stay true: redacting twice changes
nothing, nothing is found in a redacted text, and a text without a secret is the same object.
"""

import hashlib
import re
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from threading import Lock
from typing import TypeAlias

from store.redaction import line_joins, token_patterns
from store.redaction.labelled_secrets import NAMED
from store.redaction.line_joins import Joined
from store.redaction.secret_values import is_mixed, is_placeholder
from store.redaction.token_patterns import BLOCKS, ISSUED, WORDS, Pattern

JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None

_REDACTED = re.compile(r"\[redacted:[a-z0-9-]{3,24}:[0-9a-f]{4}\]")
_SECRET_NAME = re.compile(
    r"(?:passw(?:or)?d|passphrase|passcode|pwd|secret|token|api[-_ ]?key|authorization|cookie"
    r"|(?:access|secret|private|account|auth|signing|encryption|master)[-_ ]?key|credentials?)$",
    re.IGNORECASE,
)
_SHORTEST_NAMED = 6
_Groups: TypeAlias = tuple[tuple[str, list[tuple[str, list[tuple[int, Pattern]]]]], ...]


def _grouped(patterns: Sequence[Pattern]) -> _Groups:
    """Return the cues of patterns by what some share, for which a text is searched first, and of
    each cue its patterns with their places.
    """
    of_cue: dict[str, list[tuple[int, Pattern]]] = {}
    for place, pattern in enumerate(patterns):
        of_cue.setdefault(pattern.cue, []).append((place, pattern))
    groups: dict[str, list[tuple[str, list[tuple[int, Pattern]]]]] = {}
    for cue, its in of_cue.items():
        groups.setdefault(next((root for root in _ROOTS if root in cue), cue), []).append(
            (cue, its)
        )
    return tuple(groups.items())


def _version() -> str:
    shapes = [(one.kind, one.cue, one.expression) for one in (*ISSUED, *NAMED)]
    return hashlib.sha256(repr(shapes).encode()).hexdigest()[:8]


VERSION = _version()  # of the patterns: what was built with others is built anew
_ROOTS = ("pass", "auth", "key", "token", "secret", "sess", "login")
_BLOCK_CUES, _WORD_CUES, _NAMED_CUES = _grouped(BLOCKS), _grouped(WORDS), _grouped(NAMED)


@dataclass(frozen=True)
class Secret:
    kind: str
    start: int
    end: int


def find(text: str) -> list[Secret]:
    """Return the secrets of `text` in order, not overlapping; the more specific kind wins.

    One that is split, by what nobody sees or at the end of a line, is found as a whole.
    """
    is_word = text.isalnum()
    if is_word and len(text) < line_joins.LONG:
        return []
    if "[redacted:" in text:
        text = _REDACTED.sub(_blank, text)
    if not text.isascii():
        text = line_joins.fold_wide_forms(text)
    found, cued = _in(text)
    if (whole := line_joins.join_continuations(text)) is not None:
        found = _widened(found, whole, _in(whole.text)[0])
    if cued and (whole := line_joins.join_wraps(text)) is not None:
        found = _widened(found, whole, _unwrapped(cued, found, whole))
    return found


def redact(text: str) -> str:
    """Return `text` with each secret replaced by `[redacted:<kind>:<4 hex of its sha256>]`."""
    if len(text) < _LONG:
        return _redacted(text)
    # a long text is redacted as it is written, and soon again as it is read
    with _looking_up:
        if text in _clean:
            return text
    found = _redacted(text)
    if found == text:
        with _looking_up:
            _clean[text] = None
            while len(_clean) > _KNOWN:
                del _clean[next(iter(_clean))]
    return found


_LONG, _KNOWN = 4_096, 64  # characters; texts
_clean: dict[str, None] = {}  # the last long texts without a secret
_looking_up = Lock()


def _redacted(text: str) -> str:
    # Taking one secret out can uncover another, so until none is left. Each round
    # shortens what is not a placeholder, hence it ends.
    while secrets := find(text):
        pieces, end = [], 0
        for secret in secrets:
            pieces += [
                text[end : secret.start],
                _label(secret.kind, text[secret.start : secret.end]),
            ]
            end = secret.end
        text = "".join([*pieces, text[end:]])
    return text


def redact_value(value: JSON) -> JSON:
    """Return `value` with the secrets taken out of every string and key in it.

    A string, or a list's string, under a key that names a secret goes whole, unless it is
    short, a placeholder or redacted already.
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


def _in(text: str) -> tuple[list[Secret], list[Pattern]]:
    """Return the secrets of a text, and the patterns whose credentials may go on over a line."""
    blocks = _cued(_BLOCK_CUES, text)
    found = _matches(blocks, text, text)
    words: list[Pattern] = []
    if (long := line_joins.long_words(text)) is not None:
        words = _cued(_WORD_CUES, long.text)
        for secret in _matches(words, long.text, long.text):
            start, end = long.before(secret.start, secret.end)
            found.append(Secret(secret.kind, start, end))
    if not text.isalnum():  # a name and its value have something between them
        lowered = _lower(text)
        found += _matches(_cued(_NAMED_CUES, lowered), lowered, text)
        found += [
            Secret(kind, start, end)
            for kind, start, end in token_patterns.container_secrets(lowered)
            if token_patterns.is_container_secret(kind, text[start:end])
        ]
    cued = [pattern for pattern in (*blocks, *words) if len(pattern.cue) > 1]
    return _without_overlaps(found), cued


def _unwrapped(cued: list[Pattern], found: list[Secret], whole: Joined) -> list[Secret]:
    """Return the issued secrets that go on over the end of a line, which may be its own.

    One that is found without the next line goes on there only if that looks like a part of it.
    """
    complete = {secret.start for secret in found}
    return [
        secret
        for secret in _without_overlaps(_matches(cued, whole.text, whole.text))
        if whole.before(secret.start, secret.end)[0] not in complete
        or is_mixed(whole.text[whole.first_gap(secret.start) : secret.end])
    ]


def _widened(found: list[Secret], whole: Joined, more: list[Secret]) -> list[Secret]:
    """Return secrets of a text, and those that are only whole in `whole`; those that overlap as
    one.
    """
    wide = []
    for secret in more:
        start, end = whole.before(secret.start, secret.end)
        if end - start > secret.end - secret.start:  # something was taken out within it
            wide.append(Secret(secret.kind, start, end))
    kept: list[Secret] = []
    for secret in sorted((*wide, *found), key=lambda one: one.start) if wide else found:
        if kept and secret.start < kept[-1].end:
            before = kept.pop()
            secret = replace(before, end=max(before.end, secret.end))
        kept.append(secret)
    return kept


def _matches(patterns: Sequence[Pattern], seen: str, text: str) -> list[Secret]:
    """Return what `patterns` match in `seen` and accept in `text`, which is as long."""
    found = []
    for pattern in patterns:
        for match in pattern.regex.finditer(seen):
            start, end = match.span(match.lastindex or 0)
            if pattern.is_secret(text[start:end]):
                found.append(Secret(pattern.kind, start, end))
    return found


def _cued(groups: _Groups, seen: str) -> list[Pattern]:
    """Return the patterns whose cue is in `seen`, in their order."""
    there: list[tuple[int, Pattern]] = []
    for root, cues in groups:
        if root in seen:
            for cue, patterns in cues:
                if cue in seen:
                    there += patterns
    return [pattern for _, pattern in sorted(there, key=itemgetter(0))]


def _lower(text: str) -> str:
    """Return `text` in lower case and of the same length."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return text.replace("\u0130", "i").lower()  # the one letter that grows


def _without_overlaps(found: list[Secret]) -> list[Secret]:
    """Return `found` by position; of secrets that overlap, those of the earlier pattern stay."""
    kept: list[Secret] = []
    for secret in found:
        place = bisect(kept, secret.start, key=lambda other: other.start)
        is_free_before = place == 0 or kept[place - 1].end <= secret.start
        is_free_after = place == len(kept) or secret.end <= kept[place].start
        if is_free_before and is_free_after:
            kept.insert(place, secret)
    return kept


def _blank(match: re.Match[str]) -> str:
    return "\x00" * len(match[0])


def _label(kind: str, secret: str) -> str:
    digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
    return f"[redacted:{kind}:{digest[:4]}]"
