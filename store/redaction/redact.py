"""
Secrets out, before anything reaches the disk.

`redact` leaves the kind of a secret and four hex digits of its hash, so that two mentions of
one credential can be recognised as the same. What must stay true: redacting twice changes
nothing, nothing is found in a redacted text, and a text without a secret is the same object.
"""

import hashlib
import re
from bisect import bisect
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from store.redaction.patterns import ISSUED, NAMED, SHORTEST_ISSUED, Pattern, is_placeholder

JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None

_REDACTED = re.compile(r"\[redacted:[a-z0-9-]{3,24}:[0-9a-f]{4}\]")
_SECRET_NAME = re.compile(
    r"(?:passw(?:or)?d|passphrase|passcode|pwd|secret|token|api[-_ ]?key|authorization|cookie"
    r"|(?:access|secret|private|account|auth|signing|encryption|master)[-_ ]?key|credentials?)$",
    re.IGNORECASE,
)
_SHORTEST_NAMED = 6


@dataclass(frozen=True)
class Secret:
    kind: str
    start: int
    end: int


def find(text: str) -> list[Secret]:
    """Return the secrets of `text` in order, not overlapping; the more specific kind wins."""
    is_word = text.isalnum()
    if is_word and len(text) < SHORTEST_ISSUED:
        return []
    if "[redacted:" in text:
        text = _REDACTED.sub(_blank, text)
    found: list[Secret] = []
    if max(map(len, text.split()), default=0) >= SHORTEST_ISSUED:
        found += _matches(ISSUED, text, text)
    if not is_word:  # a name and its value have something between them
        found += _matches(NAMED, _lower(text), text)
    return _without_overlaps(found)


def redact(text: str) -> str:
    """Return `text` with each secret replaced by `[redacted:<kind>:<4 hex of its sha256>]`."""
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


def _matches(patterns: tuple[Pattern, ...], seen: str, text: str) -> list[Secret]:
    """Return what `patterns` match in `seen` and accept in `text`, which is as long."""
    found = []
    for pattern in [pattern for pattern in patterns if pattern.cue in seen]:
        for match in pattern.regex.finditer(seen):
            start, end = match.span(match.lastindex or 0)
            if pattern.is_secret(text[start:end]):
                found.append(Secret(pattern.kind, start, end))
    return found


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
