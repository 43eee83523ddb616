"""
The parts of a compound question, by rules: whole questions in a row, a question after "and", the
two sides of a comparison. It is split only if each part is surely complete by itself.

Recall itself takes a question whole: on labelled questions a split brought no sure gain
(docs/recall.md). `mnemolog ask` shows the answer to each part.
"""

import re
from collections.abc import Sequence

from store.text.tokenizer import terms

MAX_PARTS = 4
_ASKS = "|".join(
    """who whom whose what when where why which how wer was wann wo warum wie qui quand où pourquoi
    comment quién qué cuándo dónde cómo""".split()
)
_SENTENCE = re.compile(r"(?<=[?？])\s+")
_AND_ASKS = re.compile(
    rf"(?:[,;]? (?:and|und|et|y|as well as) (?:also )?|; )(?=(?:{_ASKS})\b)", re.IGNORECASE
)
_FIRST_WORD = re.compile(rf"(?:[^?]*, )?(?:{_ASKS})\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|should|would|will|ist|sind|war|haben|"
    r"hat|wurde|est|sont|avons|a|es|son|fue|hemos)\b",
    re.IGNORECASE,
)
# pronouns that refer to the part before
_POINTS_BACK = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|that|those|these|er|ihm|ihr|"
    r"dies\w*|elle|ils|elles|ello)\b",
    re.IGNORECASE,
)
# the beginning of a comparison, and the word between its two sides
_COMPARISONS = (
    (re.compile(r"\bbetween (.+)", re.IGNORECASE), re.compile(r",? and ")),
    (
        re.compile(r"\b(?:first|last|earlier|later|sooner)[,:] (.+)", re.IGNORECASE),
        re.compile(r",? or "),
    ),
)
_ANOTHER = re.compile(r" (?:and|or) ")


def split_question(question: str) -> Sequence[str]:
    """Return the questions in a question, in their order, at most MAX_PARTS; a simple one alone."""
    whole = " ".join(question.split())
    for split in (_sentences, _sides, _clauses):
        parts = split(whole)
        if 1 < len(parts) <= MAX_PARTS and all(map(_says_enough, parts)):
            return parts
    return (whole,)


def _sentences(text: str) -> Sequence[str]:
    sentences = [part for part in _SENTENCE.split(text) if part]
    each_asks = all(sentence.endswith(("?", "？")) for sentence in sentences)
    return sentences if each_asks and not any(map(_POINTS_BACK.search, sentences[1:])) else ()


def _clauses(text: str) -> Sequence[str]:
    clauses = _AND_ASKS.split(text)
    stand_alone = all(_FIRST_WORD.match(clause) and _VERB.search(clause) for clause in clauses)
    return clauses if stand_alone and not any(map(_POINTS_BACK.search, clauses[1:])) else ()


def _sides(text: str) -> Sequence[str]:
    for begins, joint in _COMPARISONS:
        if match := begins.search(text):
            sides = joint.split(match[1].rstrip(" ?.!"))
            # of three things, which two are compared is a guess
            return () if len(sides) > 2 or any(map(_ANOTHER.search, sides)) else sides
    return ()


def _says_enough(part: str) -> bool:
    return sum(not term.isdigit() for term in terms(part)) > 1
