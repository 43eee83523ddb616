"""
Statement: what a text says, so that two texts say the same if and only if theirs are equal.

Strict: all words and all marks, in order, but for what says nothing: case, white space, markdown,
punctuation, articles and the plain "is" of an English text, the order of a list that has none. A
number, a name, a path, a negation, a unit, a quantifier more or less, and it is another statement.
So what says the same is found by a hash, among however many, and "says the same" is transitive.

Two that are alike but for one value may be a correction: see `correction`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from store.sameness import lists
from store.sameness.words import COLON, COMMA, MARK, SEPARATORS, STOP, is_mark, tokens

_EMPTY = frozenset({"a", "an", "the", "please", "that"})
_IS = frozenset({"is", "are"})
_WEIGHED = _EMPTY | _IS
# an article is one in an English text: "an" and "a" mean something elsewhere
_ENGLISH = frozenset(
    "the is are of with to not we use you this must should never always from by be has".split()
)
_FOREIGN = frozenset(
    "der das und ist nicht le la les des du de el los las y en que il di che een het van".split()
)
# words that no noun follows an article with: "plan a is" has no article
FUNCTION = frozenset(
    """
    a an the is are was were be been am i you he she it we they me him her us them my your his its
    our their this that these those of to in on at by for from with without and or but not no nor
    if then else when while because so as than into onto over under after before until since during
    do does did has have had can could may might must shall should will would there here which who
    what where why how also too very just only all any some each every both more most less least
    """.split()
)
NOW = frozenset({"now", "currently", "jetzt", "maintenant", "ahora", "сейчас", "теперь"})
_PASSED_OVER = NOW | {COMMA, COLON}
# what was so that day was said of that day: the same words on another day are about another
RELATIVE = frozenset(
    """
    today yesterday tomorrow tonight now currently ago recently lately earlier later last next
    morning afternoon evening monday tuesday wednesday thursday friday saturday sunday again
    heute gestern morgen jetzt neulich letzte letzten letzter letztes nächste nächsten vorhin
    montag dienstag mittwoch donnerstag freitag samstag sonntag wieder
    aujourd'hui hier demain maintenant dernier dernière prochain prochaine récemment
    hoy ayer mañana ahora anoche recientemente pasado pasada próximo próxima
    сегодня вчера завтра сейчас теперь недавно снова
    """.split()
)


@dataclass(frozen=True, slots=True)
class Statement:
    """`says` is what must be equal; `frame` the same with a gap for each mark, in `said` order.

    `is_relative`: it speaks of a time by the day it was said on.
    """

    says: tuple[str, ...]
    said: tuple[str, ...]
    is_relative: bool

    @property
    def key(self) -> int:
        """The 64 bits that all texts saying the same share; 0 for one that says nothing."""
        return _hash(self.says)

    @property
    def frame(self) -> int:
        """The 64 bits of all but the marks; 0 where it has no mark or hardly a word besides."""
        if MARK not in "".join(self.said):
            return 0
        framed = [MARK if is_mark(token) else token for token in timeless(self)]
        words = {token for token in framed if token != MARK and token not in SEPARATORS}
        if len(words) < 2 or words <= FUNCTION:
            return 0
        return _hash(framed)

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks, in order, as they are written."""
        return tuple(token[1:] for token in self.said if is_mark(token))


def statement(text: str) -> Statement:
    """Return what a text says."""
    said = tokens(text)
    words = frozenset(said)
    is_english = not words.isdisjoint(_ENGLISH) or (text.isascii() and words.isdisjoint(_FOREIGN))
    weighed = is_english and not words.isdisjoint(_WEIGHED)
    kept = list(_without_articles(said)) if weighed else said
    if words.isdisjoint(lists.JOINTS):
        settled = [token for token in kept if token not in SEPARATORS]
    else:
        settled = lists.settled(kept)
    if weighed:
        settled = [token for token in settled if token not in _IS]
    return Statement(tuple(settled), tuple(said), not words.isdisjoint(RELATIVE))


def _without_articles(said: list[str]) -> Iterator[str]:
    """Yield the tokens but for empty words; an "is" that opens a sentence asks."""
    for place, token in enumerate(said):
        if token not in _WEIGHED:
            yield token
        elif token in _IS:
            opens = place == 0 or said[place - 1] == STOP
            yield MARK + token if opens else token
        elif token == "a":
            after = said[place + 1] if place + 1 < len(said) else STOP
            if after in FUNCTION or after in SEPARATORS or is_mark(after):
                yield token


def timeless(one: Statement) -> list[str]:
    """Return the tokens of a statement without commas, colons and "now"; the last is a STOP."""
    return [token for token in one.said if token not in _PASSED_OVER]


def differences(one: Statement, other: Statement) -> list[tuple[int, str, str]]:
    """Return where two statements of one frame differ: the place in `timeless`, and the marks.

    None are returned of two frames.
    """
    ours, theirs = timeless(one), timeless(other)
    if len(ours) != len(theirs):
        return []
    pairs = enumerate(zip(ours, theirs, strict=True))
    found = [(place, a, b) for place, (a, b) in pairs if a != b]
    if not all(is_mark(a) and is_mark(b) for _, a, b in found):
        return []
    return [(place, a[1:], b[1:]) for place, a, b in found]


def _hash(said: Sequence[str]) -> int:
    if not said:
        return 0
    data = "\x1f".join(said).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
