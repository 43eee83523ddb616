"""
Rules: the sentences of a prompt that hold beyond it, like "no, use pnpm" or "never push to main".

Plain patterns and no model: a rule that is missed costs little, because the prompt itself is kept;
a request taken for a rule would come back for ever. So what is in doubt is no rule.
"""

import re
from dataclasses import dataclass

from store.events import MemoryKind

MAX_PROMPT = (
    6_000  # characters; a longer one is a pasted document, and its rules are not the user's
)
MAX_RULE = 400
MIN_WORDS = 3

PREFERENCES = re.compile(
    r"^(?:always|never|prefer)\s+\w"
    r"|^(?:we|i|you|agents)(?: should| must)? (?:always|never)\b"
    r"|^(?:we|i) (?:(?:only|don't|do not) (?:use|want|do|commit|write)|use|prefer|avoid|stick to)\b"
    r"|^(?:i'd|i would) (?:prefer|rather)\b"
    r"|^i (?:like|want) (?:small|short|plain|one|my|every|all)\b"
    r"|^(?:use|prefer|keep|write|stick to)\b.{2,}(?:,? (?:not|never)|instead of|rather than)\b"
    r"|^(?:from now on|going forward|as a rule|in future|by convention|our convention)\b"
    r"|\b(?:from now on|going forward)[.!]?$",
    re.IGNORECASE,
)
FACTS = re.compile(r"^(?:remember|note|keep in mind|for the record|fyi)(?: that\b|\b[:,])", re.I)
LESSONS = re.compile(
    r"^(?:don't|do not|stop|avoid)\s+(?!know|think|see|understand|worry|mind|care|believe|recall"
    r"|you\b|we\b|they\b|here\b|now\b)\w"
    r"|^(?:that's|that is|this is) (?:wrong|not (?:right|what|how))\b"
    r"|^you (?:forgot|missed|broke|should have|shouldn't|must not|misread)\b",
    re.IGNORECASE,
)
CORRECTION = re.compile(r"^(?:no|nope|wrong|not quite|stop)\s*[,:;]\s*", re.IGNORECASE)

_PASSING = re.compile(
    r"^(?:(?:no|nope|wrong|stop)\s*[,:;]\s*)?(?:that|this|it|these|those|i meant)\b"
    r"|\b(?:that|this|it|these|those|again|back|there)[.!]*$"
    r"|\b(?:yet|for now|right now|just now|this time|today|for the moment)\b",
    re.IGNORECASE,
)
_BLAMES = re.compile(r"(?:that's|that is|this is|you)\b", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"^(?:(?:please|also|and|but|so|ok|okay|yes|well|actually|hm+)[,:]?\s+)+", re.IGNORECASE
)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LONE_NO = re.compile(r"^(no|nope|wrong|stop)[.!]\s+(?=\w)", re.IGNORECASE | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    kind: MemoryKind


def rules(prompt: str) -> list[Rule]:
    """Return the prompt's lasting sentences in order: preferences, lessons and noted facts."""
    if len(prompt) > MAX_PROMPT:
        return []
    found = ((sentence, _kind(sentence)) for sentence in sentences(prompt))
    return [Rule(sentence, kind) for sentence, kind in found if kind is not None]


def sentences(text: str) -> list[str]:
    """Return what a text says in its author's own words: no code, no quotes, no tables."""
    plain = _LONE_NO.sub(r"\1, ", _FENCE.sub("\n", text.replace("\u2019", "'")))
    lines = (line for line in _SENTENCE.split(plain) if not line.startswith((">", "+", "|")))
    return [bare for line in lines if (bare := _bare(line))]


def is_passing(sentence: str) -> bool:
    """Return whether a sentence speaks of this one thing, or of now, and so of nothing lasting."""
    return _PASSING.search(sentence) is not None


def only_blames(sentence: str) -> bool:
    """Return whether a sentence says that something is wrong and not what is right."""
    return _BLAMES.match(sentence) is not None and LESSONS.search(sentence) is not None


def _bare(sentence: str) -> str:
    return _BULLET.sub("", sentence).strip()


def _kind(sentence: str) -> MemoryKind | None:
    if sentence.endswith(("?", ":")) or len(sentence) > MAX_RULE:
        return None
    if len(sentence.split()) < MIN_WORDS:
        return None
    plain = _LEAD_IN.sub("", sentence)
    corrected = CORRECTION.sub("", plain)
    if PREFERENCES.search(_LEAD_IN.sub("", corrected)):
        return "preference"
    if FACTS.search(plain):
        return "fact"
    return "lesson" if corrected != plain or LESSONS.search(plain) else None
