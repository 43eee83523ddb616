"""
The questions a compound question is made of, by rule; the built-in `store.extensions.Decomposer`.

Split is only what surely stands alone: whole questions in a row, a question after "and", and the
two things one compares in time ("between A and B", "which came first, A or B"). A part that points
back ("why did it fail") needs the other to be understood, and then nothing is split.
"""

import re
from collections.abc import Sequence

from store.text.tokenizer import terms

MAX_PARTS = 4
_ASKS = "|".join(
    """who whom whose what when where why which how wer was wann wo warum wie qui quand où pourquoi
    comment quién qué cuándo dónde cómo""".split()
)
_SENTENCE = re.compile(r"(?<=[?？]) ")
_AND_ASKS = re.compile(
    rf"(?:[,;]? (?:and|und|et|y|as well as) (?:also )?|; )(?=(?:{_ASKS})\b)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(rf"(?:[^?]*, )?(?:{_ASKS})\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|should|would|will|ist|sind|war|haben|"
    r"hat|wurde|est|sont|avons|a|es|son|fue|hemos)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|that|those|these|er|ihm|ihr|"
    r"dies\w*|elle|ils|elles|ello)\b",
    re.IGNORECASE,
)
# what begins a comparison in time, and the word between its two sides
_COMPARISONS = (
    (re.compile(r"\bbetween (.+)", re.IGNORECASE), re.compile(r",? and ")),
    (
        re.compile(r"\b(?:first|last|earlier|later|sooner)[,:] (.+)", re.IGNORECASE),
        re.compile(r",? or "),
    ),
)
_ANOTHER = re.compile(r" (?:and|or) ")


def parts(question: str) -> Sequence[str]:
    """Return the questions of a question, at most four; a simple one comes back alone."""
    whole = " ".join(question.split())
    for split in (_sentences, _compared, _joined):
        found = split(whole)
        if 1 < len(found) <= MAX_PARTS and all(map(_says_enough, found)):
            return found
    return (question,)


def _sentences(text: str) -> Sequence[str]:
    found = [one for one in _SENTENCE.split(text) if one]
    each_asks = all(one.endswith(("?", "？")) for one in found)
    return found if each_asks and not any(map(_POINTS_BACK.search, found[1:])) else ()


def _joined(text: str) -> Sequence[str]:
    found = _AND_ASKS.split(text)
    stand_alone = all(_FIRST_WORD.match(one) and _VERB.search(one) for one in found)
    return found if stand_alone and not any(map(_POINTS_BACK.search, found[1:])) else ()


def _compared(text: str) -> Sequence[str]:
    for begins, joint in _COMPARISONS:
        if match := begins.search(text):
            sides = joint.split(match[1].rstrip(" ?.!"))
            # of three things, which two are compared is a guess
            return () if len(sides) > 2 or any(map(_ANOTHER.search, sides)) else sides
    return ()


def _says_enough(part: str) -> bool:
    return sum(not term.isdigit() for term in terms(part)) > 1
