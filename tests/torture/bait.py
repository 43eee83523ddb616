"""
bait: the worst texts for a regular expression, derived from its own parse tree.

A backtracking matcher is slow where a repeat can be entered at many places or divided in many ways
and then fails: so each repeat's own characters many times, after its prefix and before a character
that cannot follow; and whole matches, and matches with a wrong character, side by side.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from re import _constants as codes
from re import _parser as parser
from typing import Any

VARIANTS = 4  # of the letters chosen for a class or a branch
UNFIT = "\x00"  # hardly any pattern matches it
COMMON = ("a", " ", "\n", "0", '"', "/", ".", "-", "a ", "a.", "Aa1_", "\t\n", "=", "\\", "{[(<")
_CATEGORIES = {
    codes.CATEGORY_DIGIT: "0173",
    codes.CATEGORY_SPACE: " \n\t ",
    codes.CATEGORY_WORD: "a1_Z",
    codes.CATEGORY_NOT_DIGIT: "a -/",
    codes.CATEGORY_NOT_SPACE: "a-1/",
    codes.CATEGORY_NOT_WORD: " -./",
}
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_MOST = 20  # a pattern's repeats with a lower bound than this cost nothing

Tree = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Bait:
    """A text of any length: `before`, `again` as often as it fits, `behind`."""

    before: str
    again: str
    behind: str = ""

    def text(self, size: int) -> str:
        room = size - len(self.before) - len(self.behind)
        return self.before + (self.again * (room // len(self.again) + 1))[:room] + self.behind


def baits(pattern: re.Pattern[Any], most: int) -> list[Bait]:
    """Return up to `most` different baits for a pattern, its own before the common ones."""
    own = _turns([list(_of(pattern, variant)) for variant in range(VARIANTS)])
    every = dict.fromkeys((*own, *(Bait("", again) for again in COMMON)))
    fit = [bait for bait in every if bait.again]
    first = fit[: max(0, most - len(COMMON) // 3)]
    return [*first, *(bait for bait in fit[len(first) :] if bait.before == "")][:most]


def _turns(several: Sequence[Sequence[Bait]]) -> Iterator[Bait]:
    """Yield the first of each, then the second of each and so on."""
    for ones in zip_longest(*several):
        yield from (bait for bait in ones if bait is not None)


def _of(pattern: re.Pattern[Any], variant: int) -> Iterator[Bait]:
    tree = _parsed(pattern.pattern, pattern.flags)
    pumps = list(_pumps(tree, "", variant))
    for before, again in pumps:
        yield Bait(before, again, UNFIT)
        yield Bait("", before + again)
        yield Bait("", again, UNFIT)
    whole = _sample(tree, variant)
    yield Bait("", whole)
    yield Bait("", whole[:-1])
    yield Bait("", whole[:-1] + UNFIT)
    yield Bait("", whole + " ")
    yield Bait("", whole + "\n")
    for literal in dict.fromkeys(whole):
        yield Bait("", literal)


@cache
def _parsed(pattern: str | bytes, flags: int) -> Tree:
    return parser.parse(pattern, flags & ~re.DEBUG)


def _pumps(tree: Tree, before: str, variant: int) -> Iterator[tuple[str, str]]:
    """Yield the prefix of each long repeat of a pattern, and its repeated text."""
    text = before
    for op, argument in tree:
        for inner in _inner(op, argument):
            yield from _pumps(inner, text, variant)
        if op in _REPEATS and argument[1] >= _MOST:
            yield text, _sample(argument[2], variant) + _sample(argument[2], variant + 1)
            yield text, _sample(argument[2], variant)
        text += _sample([(op, argument)], variant)


def _inner(op: Any, argument: Any) -> Iterator[Tree]:
    if op in _REPEATS:
        yield argument[2]
    elif op is codes.BRANCH:
        yield from argument[1]
    elif op is codes.SUBPATTERN:
        yield argument[-1]
    elif op is codes.ATOMIC_GROUP:
        yield argument
    elif op is codes.ASSERT:
        yield argument[1]


def _sample(tree: Tree, variant: int) -> str:
    """Return a text that a tree nearly always matches: lookarounds are skipped."""
    return "".join(_piece(op, argument, variant) for op, argument in tree)


def _piece(op: Any, argument: Any, variant: int) -> str:
    if op is codes.LITERAL:
        return chr(argument)
    if op is codes.NOT_LITERAL:
        return _other({chr(argument)}, variant)
    if op is codes.ANY:
        return "a ./"[variant % 4]
    if op is codes.IN:
        return _one_of(argument, variant)
    if op is codes.BRANCH:
        return _sample(argument[1][variant * 5 % len(argument[1])], variant)
    if op is codes.SUBPATTERN:
        return _sample(argument[-1], variant)
    if op is codes.ATOMIC_GROUP:
        return _sample(argument, variant)
    if op in _REPEATS:
        least, most, inner = argument
        return _sample(inner, variant) * min(max(least, 1), most, 200)
    return ""  # anchors, lookarounds, references


def _one_of(tree: Tree, variant: int) -> str:
    if tree[0][0] is codes.NEGATE:
        return _other({letter for code in tree[1:] for letter in _letters(code)}, variant)
    letters = [letter for code in tree for letter in _letters(code)]
    return letters[variant * 7 % len(letters)] if letters else ""


def _letters(code: tuple[Any, Any]) -> str:
    op, argument = code
    if op is codes.LITERAL:
        return chr(argument)
    if op is codes.RANGE:
        low, high = argument
        return "".join(map(chr, sorted({low, (low + high) // 2, high})))
    return _CATEGORIES.get(argument, "")


def _other(not_these: set[str], variant: int) -> str:
    """Return a character that is not among some."""
    fit = [letter for letter in "a ./-1\t\n\"'Zé中" if letter not in not_these]
    return fit[variant % len(fit)] if fit else UNFIT
