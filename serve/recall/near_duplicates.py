"""
Comparison of two memories: duplicates, or equal but for a value.

Folding two different memories loses information, so the test is strict: the same words in the same
order, at most a tenth of them inserted, and exactly the same marks: numbers, identifiers,
versions, paths, negations, and the small words that reverse a sentence (before, until, only).
"The port is 5432" and "the port is now 5433" are equal but for a value: both are kept, and the
older is marked as doubtful. A replaced word (Postgres for MySQL, staging for production) may be
either, and counts as neither, unless the newer text states that it corrects the older:
"Correction: we deploy from staging", "MySQL, not Postgres".
"""

import re
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from operator import itemgetter
from typing import Literal, NamedTuple

import msgspec

from serve.recall.classification import COMMON_TERMS
from store.log.event_kinds import EPISODE
from store.memories.memory import Memory
from store.text import tokenizer
from store.text.mentions import speaker_name
from store.text.strict_duplicates import CorrectedText, read_correction

Likeness = Literal["same", "other_value"]

LONGEST = 4_000  # characters; a longer text is like another only where both are equal
_SAME = 0.9  # the share of the longer text's words that the shorter one must have
_SAME_BUT = 0.75
_LONGEST_VALUE = 3  # words
_SAME_ABOUT = 0.75  # of the words of a sentence that a text corrects
_SIGNATURE = 2_047  # the last of its bits
_SLACK = 4  # of the words' beginnings: in a short text a few stop words are half of it
# past events stay true, whatever happens later
_HAPPENED = frozenset({"activity", "milestone"})
_LONGEST_CORRECTION = 400  # characters: in a longer text "not X" is beside the point
_NO_STATEMENTS = _HAPPENED | {EPISODE}

_UNIT = re.compile(r"[0-9A-Za-z_./:\\@#~%$€£+-]+|!=|[<>]=?|[?\uff1f\u061f]")
_IS_VALUE = re.compile(r"[0-9]|\w[_./:\\@#]+\w|[a-z][A-Z]|^--?\w|^[/@#~.]\w|^[<>!?\uff1f\u061f]")
_IS_NUMBER = re.compile(r"[vV$€£-]?[0-9]")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_ANY_WORD = re.compile(r"\w+")
_beginning = itemgetter(slice(6))  # of a word
# ASCII characters outside words become spaces; twice as fast as the pattern
_SPACED = "".join(c.lower() if _ANY_WORD.match(c) else " " for c in map(chr, range(128)))
_SENTENCE_END = re.compile(r"[.;!?]\s+|\n+")
_NOT = "not"
_NEGATIONS = frozenset(
    """
    no not never none cannot without neither nor
    nicht nie niemals kein keine keinen keiner ohne
    non ne pas jamais aucun aucune sans
    nunca jamás jamas sin nadie ningún ninguna
    não nao nem sem nenhum mai senza nessun nessuna
    niet nooit geen zonder
    не нет ни никогда без нельзя
    """.split()
)
_TURNS = frozenset(
    """
    before after until unless if only or except instead than must may should could would can was
    were had off out over under above below less more least most first last all any some few
    """.split()
)


class Gist(msgspec.Struct, frozen=True):
    """A text's words, which may differ a little, and its marks, which may not."""

    words: tuple[str, ...]
    marks: tuple[str, ...]
    begins_with_mark: bool


@lru_cache(maxsize=4_096)
def gist(text: str) -> Gist:
    """Return the words and marks of a text, each in order."""
    parts = [part for chunk in text.split() for part in _parts(chunk)]
    return Gist(
        tuple([part for part, is_mark in parts if not is_mark]),
        tuple([part for part, is_mark in parts if is_mark]),
        bool(parts) and parts[0][1],
    )


@lru_cache(maxsize=16_384)  # words are Zipfian
def _parts(chunk: str) -> tuple[tuple[str, bool], ...]:
    """Return the parts of a chunk without white space, and of each whether it is a mark."""
    found: list[tuple[str, bool]] = []
    end = 0
    for unit in _UNIT.finditer(chunk):
        value = unit[0].lstrip(".:").rstrip(".:/\\-")
        if _IS_VALUE.search(value):
            found += _plain_parts(chunk[end : unit.start()])
            found.append((value.casefold(), True))
            end = unit.end()
    return (*found, *_plain_parts(chunk[end:]))


def _plain_parts(chunk: str) -> tuple[tuple[str, bool], ...]:
    match = _WORD.search(chunk)
    word = match[0].casefold().replace("\u2019", "'") if match else ""
    if word in _NEGATIONS or word.endswith("n't"):
        return ((_NOT, True),)
    if word in _TURNS:
        return ((word, True),)
    return tuple([(term, False) for term in tokenizer.terms(chunk)])


class Beginnings(NamedTuple):
    """The beginnings of a text's words, and a signature that bounds how many two texts share.

    Each beginning sets a bit of the signature, by its hash; `doubled` is how many found theirs set.
    """

    words: frozenset[str]
    signature: int
    doubled: int

    @classmethod
    def of(cls, words: Iterable[str]) -> "Beginnings":
        beginnings, signature = frozenset(map(_beginning, words)), 0
        for beginning in beginnings:
            signature |= 1 << (hash(beginning) & _SIGNATURE)
        return cls(beginnings, signature, len(beginnings) - signature.bit_count())


class Comparable(NamedTuple):
    """A memory with its precomputed values for comparisons."""

    memory: Memory
    said: str
    speaker: str | None
    beginnings: Beginnings
    may_be_replaced: bool  # it has a key, or was superseded
    corrected: CorrectedText | None  # None: it is too long to correct another, or no statement
    corrects: bool  # its text corrects another
    is_linked: bool  # either


def comparable(memory: Memory) -> Comparable:
    """Return a memory ready to be compared."""
    text = _full_text(memory)
    speaker = speaker_name(memory.created_by) if memory.created_by else None
    may_be_replaced = memory.key is not None or memory.superseded_by is not None
    beginnings, corrected = _read(text)
    if memory.kind in _NO_STATEMENTS:
        corrected = None
    corrects = corrected is not None and (corrected.is_labelled or bool(corrected.denied))
    return Comparable(
        memory,
        text,
        speaker,
        beginnings,
        may_be_replaced,
        corrected,
        corrects,
        is_linked=may_be_replaced or corrects,
    )


def near_candidates(memory: Comparable, others: Sequence[Comparable], signatures: int) -> list[int]:
    """Return the places of those others that share half of their words' beginnings with a memory,
    or a key, in order.

    Only these can be near duplicates: the test is cheap, and leaves none in nearly all cases.
    `signatures` combines those of all the others, or more: a memory that shares too few bits with
    it shares too few with each.
    """
    words, signature, doubled = memory.beginnings
    size, least = len(words), len(words) - _SLACK
    may_share = 2 * ((signature & signatures).bit_count() + doubled) >= least
    candidates = []
    for at, other in enumerate(others):
        if may_share:
            theirs, bits, others_doubled = other.beginnings
            others_size = len(theirs)
            needed = least if size > others_size else others_size - _SLACK
            # of those that both hold, no more found their bit set than of either
            both = doubled if doubled < others_doubled else others_doubled
            if (
                2 * size >= needed
                and 2 * others_size >= needed
                and 2 * ((signature & bits).bit_count() + both) >= needed
                and 2 * len(words & theirs) >= needed
            ):
                candidates.append(at)
                continue
        if (memory.is_linked or other.is_linked) and _are_linked(memory, other):
            candidates.append(at)
    return candidates


def _are_linked(memory: Comparable, other: Comparable) -> bool:
    """Return True if, by the log or by its text, either may have replaced the other."""
    return _is_replaced(memory, other) or _may_correct(memory, other) or _may_correct(other, memory)


def near_likeness(first: Comparable, second: Comparable) -> Likeness | None:
    """Return the likeness of two memories that are near candidates of each other."""
    memory, other = first.memory, second.memory
    if memory.text_hash == other.text_hash:
        return "same"
    if memory.project != other.project or first.speaker != second.speaker:
        return None
    is_linked = first.is_linked or second.is_linked
    if is_linked and _is_replaced(first, second):
        return "other_value"
    if max(len(first.said), len(second.said)) > LONGEST:
        return None
    if is_linked and (_corrects(first, second) or _corrects(second, first)):
        return "other_value"
    a, b = gist(first.said), gist(second.said)
    if a.marks == b.marks:
        return "same" if (a.words or a.marks) and _within(a.words, b.words, _SAME) else None
    if memory.kind in _HAPPENED or other.kind in _HAPPENED:
        return None
    return "other_value" if _is_other_value(a, b) else None


def _may_correct(memory: Comparable, other: Comparable) -> bool:
    """Return True if one text may correct another: a cheap test, false for nearly all pairs."""
    if memory.corrected is None or other.corrected is None or not memory.corrects:
        return False
    if memory.corrected.is_labelled:
        return len(memory.beginnings.words & other.beginnings.words) > 1
    text = other.said.casefold()
    return any(denied.casefold() in text for denied in memory.corrected.denied)


def _corrects(memory: Comparable, other: Comparable) -> bool:
    return _may_correct(memory, other) and _is_corrected(other, memory)


def _is_corrected(other: Comparable, memory: Comparable) -> bool:
    """Return True if a correcting text corrects a sentence of another.

    They share a topic, and the other has the denied value; without a denied value, they differ
    in one place only.
    """
    if (corrected := memory.corrected) is None or other.corrected is None:
        return False
    says = set(tokenizer.terms(corrected.text))
    for sentence in _SENTENCE_END.split(other.said):
        claimed = tokenizer.terms(sentence)
        if _NOT in gist(sentence).marks:
            continue
        for denied in map(tokenizer.terms, corrected.denied):
            about = set(claimed) - set(denied)
            if denied and set(denied) <= set(claimed) and _is_about(about, says):
                return True
        if corrected.is_labelled and _is_one_place(claimed, tokenizer.terms(corrected.text)):
            return True
    return False


def _is_about(about: Set[str], says: Set[str]) -> bool:
    """Return True if a text has nearly all topic words of a sentence, and only a value more."""
    wanted = about - COMMON_TERMS or about
    shared = len(wanted & says)
    is_all = shared > 0 and shared >= _SAME_ABOUT * len(wanted)
    return is_all and len(says - COMMON_TERMS - wanted) <= _LONGEST_VALUE + shared


def _is_one_place(claimed: Sequence[str], says: Sequence[str]) -> bool:
    """Return True if two texts differ in one place and share the rest: most words, at least two."""
    shortest = min(len(claimed), len(says))
    pairs = list(zip(claimed, says, strict=False))
    before = next((at for at, (a, b) in enumerate(pairs) if a != b), shortest)
    rest = list(zip(claimed[before:][::-1], says[before:][::-1], strict=False))
    after = next((at for at, (a, b) in enumerate(rest) if a != b), len(rest))
    differ = max(len(claimed), len(says)) - before - after
    return shortest > before + after >= 2 and before + after >= differ


def names_one(asked: str, alike: Sequence[Memory]) -> bool:
    """Return True if a question names a value that some of the memories have and others lack.

    A newer note on test 13 is no better answer to "why does test 12 fail".
    """
    held = [frozenset(gist(_full_text(memory)).marks) for memory in alike]
    told_apart = frozenset[str]().union(*held) - held[0].intersection(*held[1:])
    return not (told_apart - _TURNS - {_NOT}).isdisjoint(gist(asked).marks)


@lru_cache(maxsize=4_096)
def _read(text: str) -> tuple[Beginnings, CorrectedText | None]:
    """Return the beginnings of a text's words, and its correction; None for a long text."""
    words = (
        text.translate(_SPACED).split() if text.isascii() else _ANY_WORD.findall(text.casefold())
    )
    corrected = read_correction(text) if len(text) <= _LONGEST_CORRECTION else None
    return Beginnings.of(words), corrected


def _full_text(memory: Memory) -> str:
    """Return the text of all fields of a memory but its tags, which only file it."""
    if not (memory.context or memory.action or memory.result):
        return memory.content
    fields = (memory.content, memory.context, memory.action, memory.result)
    return "\n".join(filter(None, fields))


def _is_replaced(memory: Comparable, other: Comparable) -> bool:
    """Return True if, by the log, either replaced the other."""
    if not (memory.may_be_replaced or other.may_be_replaced):
        return False
    a, b = memory.memory, other.memory
    same_key = a.key is not None and a.key == b.key
    return same_key or a.superseded_by == b.id or b.superseded_by == a.id


def _is_other_value(a: Gist, b: Gist) -> bool:
    """Return True if two texts with different marks give different values of the same thing."""
    ours, theirs = set(a.marks) - set(b.marks), set(b.marks) - set(a.marks)
    is_shared = bool(a.words or set(a.marks) & set(b.marks))
    is_swapped = bool(ours) == bool(theirs) or (ours | theirs) == {_NOT}
    if not (is_shared and is_swapped):
        return False
    # names at the start of both sentences are their topics: two functions, two files
    about = [one.marks[0] for one in (a, b) if one.begins_with_mark]
    if len(about) == 2 and about[0] != about[1] and not any(map(_IS_NUMBER.match, about)):
        return False
    return _within(a.words, b.words, _SAME_BUT)


def _within(one: Sequence[str], other: Sequence[str], share: float) -> bool:
    """Return True if the longer sequence is the shorter one with a few insertions.

    The shorter must have at least a `share` of the longer's length.
    """
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < share * len(longer):
        return False
    rest = iter(longer)
    for word in shorter:  # a generator for `all` costs a call a word
        if word not in rest:
            return False
    return True
