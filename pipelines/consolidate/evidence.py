"""
Evidence: what a model may not overrule, and what its words are checked against.

Two texts that differ in a number, name, identifier or negation never say the same, whatever a model
says. What it writes in their place must hold every word of both that carries something, and none
besides.
"""

import re

from store.text import tokenizer
from store.text.strict_duplicates import FUNCTION, statement

_NAME = re.compile(r"(?<![\w-])[^\W\d_a-z][\w-]*")
_NOT = frozenset(
    """
    no not never none nobody nothing neither nor without cannot
    nicht nie niemals kein keine keinen ohne ne pas jamais aucun sans nunca sin nadie no
    non mai senza не нет ни никогда без
    """.split()
)
# what bounds a sentence: one more, or one less, and it says something else
_BOUNDS = frozenset(
    """
    all any some every each both most least more less few many before after until since during if
    when while must may should can could would was were did had will always often sometimes first
    last next over under above below about or but two three four five six seven eight nine ten
    half twice once only except unless but nur sauf
    """.split()
)


def differ_in_fact(one: str, other: str) -> bool:
    """Return whether two texts differ in what tells facts apart.

    So do two of the same words in another order: it says who does what to whom.
    """
    return _marks_differ(one, other) or sorted(tokenizer.terms(one)) == sorted(
        tokenizer.terms(other)
    )


def _marks_differ(one: str, other: str) -> bool:
    a, b = statement(one), statement(other)
    if set(a.marks) - {"?"} != set(b.marks) - {"?"} or ("?" in a.marks) != ("?" in b.marks):
        return True
    x, y = frozenset(a.said), frozenset(b.said)
    if (x & _BOUNDS) != (y & _BOUNDS) or x.isdisjoint(_NOT) != y.isdisjoint(_NOT):
        return True
    return not (_names(one) <= y and _names(other) <= x)


def why_not(successor: str, one: str, other: str) -> str | None:
    """Return what is wrong with a text in the place of two that say the same; None for nothing."""
    if len(successor) > len(one) + len(other):
        return "it is longer than both"
    if _marks_differ(successor, one) or _marks_differ(successor, other):
        return "it lost or invented a number, a name or a negation"
    said, first, second = (frozenset(tokenizer.terms(each)) for each in (successor, one, other))
    if invented := said - first - second:
        return f"neither says {', '.join(sorted(invented)[:3])}"
    if lost := (first | second) - said:
        return f"it does not say {', '.join(sorted(lost)[:3])}"
    return None


def _names(said: str) -> frozenset[str]:
    """Return the words written with a capital, casefolded, but for those that name nothing."""
    parts = (part for found in _NAME.findall(said) for part in found.casefold().split("-"))
    return frozenset(part for part in parts if part and part not in FUNCTION)
