"""
Fingerprints: marks of an erased text, for finding copies after it is gone.

A text is cut into runs of `RUN` words, one beginning every `RUN` words: a copy of twice as many of
its words in a row holds a whole run. A shorter text is one run; where words are short, as a letter
of Japanese or Chinese is one, a run has twice as many. Words that no other text uses are marks too:
of a tag, a name, a term of the index. Only hashes with a salt of their own are kept, so that the
file with the pending erasure quotes nothing.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain

import msgspec

RUN = 6  # consecutive words that identify a text
_SHORT = 12  # letters: fewer in a run identify little
LEAST_RUN = 10  # characters: a shorter text of two words may be anybody's
LEAST_WORD = 6

_ALONE = r"\u3040-\u30ff\u3400-\u9fff"  # kana and Han, which no space divides
_WORDS = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
# as JSON writes them, also JSON within JSON
_ESCAPED = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[\"/bfnrt])")


class Marks(msgspec.Struct, frozen=True):
    """The marks of some texts: hashes of their runs, of the runs' beginnings, of their words.

    `lengths` are those of the runs, in words; `short` counts the texts without any mark.
    """

    salt: bytes
    runs: frozenset[bytes] = frozenset()
    firsts: frozenset[bytes] = frozenset()
    words: frozenset[bytes] = frozenset()
    lengths: tuple[int, ...] = ()
    short: int = 0

    def __len__(self) -> int:
        return len(self.runs) + len(self.words)

    def __or__(self, other: "Marks") -> "Marks":
        """Return the marks of both, which have one salt."""
        assert self.salt == other.salt
        return Marks(
            self.salt,
            self.runs | other.runs,
            self.firsts | other.firsts,
            self.words | other.words,
            tuple(sorted({*self.lengths, *other.lengths})),
            self.short + other.short,
        )

    def without(self, runs: Iterable[bytes] = (), words: Iterable[bytes] = ()) -> "Marks":
        """Return the marks without some that other texts share."""
        return msgspec.structs.replace(
            self, runs=self.runs.difference(runs), words=self.words.difference(words)
        )


def of(texts: Iterable[str], salt: bytes) -> Marks:
    """Return the marks of texts; the same text twice counts once."""
    runs, firsts, words = set[bytes](), set[bytes](), set[bytes]()
    lengths, short = set[int](), 0
    for text in dict.fromkeys(texts):
        words_of_text = split(text)
        runs_of_text = [
            run for run in _cut(words_of_text) if len(run) > 1 and len(" ".join(run)) >= LEAST_RUN
        ]
        long = [word for word in words_of_text if len(word) >= LEAST_WORD]
        short += bool(words_of_text) and not runs_of_text and not long
        runs |= {_hash(" ".join(run), salt) for run in runs_of_text}
        firsts |= {_hash(run[0], salt) for run in runs_of_text}
        words |= {_hash(word, salt) for word in long}
        lengths |= {len(run) for run in runs_of_text}
    return Marks(
        salt,
        frozenset(runs),
        frozenset(firsts),
        frozenset(words),
        tuple(sorted(lengths)),
        short,
    )


def of_erase_request(texts: Iterable[str], salt: bytes) -> Marks:
    """Return the marks of texts in an erase request: each is one run of any length.

    A text without a letter or digit has none.
    """
    split_texts = [words for text in texts if (words := split(text))]
    return Marks(
        salt,
        frozenset(_hash(" ".join(words), salt) for words in split_texts),
        frozenset(_hash(words[0], salt) for words in split_texts),
        lengths=tuple(sorted({len(words) for words in split_texts})),
    )


def alone(words: frozenset[bytes], salt: bytes) -> Marks:
    """Return the marks of words by themselves, each a run of one."""
    return Marks(salt, words, words, lengths=(1,) if words else ())


def _cut(words: list[str]) -> Iterator[list[str]]:
    """Yield a text's runs; the last one ends with it."""
    at = 0
    while at < len(words):
        length = RUN if len("".join(words[at : at + RUN])) >= _SHORT else 2 * RUN
        yield words[at : at + length] if at + length <= len(words) else words[-length:]
        at += length


def split(text: str) -> list[str]:
    """Return a text's words in comparable form, from any case or escaping."""
    if "\\" in text:
        text = _ESCAPED.sub(_plain, text)
    return _WORDS.findall(text.casefold())


class Looker:
    """A finder of marks in texts. It caches the words it met: most are met again."""

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self._hashes = _Hashes(marks)

    def runs(self, text: str) -> set[bytes]:
        """The runs that a text holds."""
        return set(self._runs(split(text)))

    def words(self, text: str) -> set[bytes]:
        """The words of the marks that a text holds."""
        hashes, wanted = self._hashes, self.marks.words
        return {
            data for word in split(text) if (data := hashes[word]) is not None and data in wanted
        }

    def holds(self, text: str, *, words: bool = False) -> bool:
        """Return True if a text holds any run, or with `words` any word."""
        in_text = split(text)
        if next(self._runs(in_text), None) is not None:
            return True
        return words and any(self._hashes[word] in self.marks.words for word in in_text)

    def _runs(self, words: list[str]) -> Iterator[bytes]:
        hashes, firsts = self._hashes, self.marks.firsts
        for at, word in enumerate(words):
            if hashes[word] in firsts:
                for length in self.marks.lengths:
                    run = _hash(" ".join(words[at : at + length]), self.marks.salt)
                    if run in self.marks.runs:
                        yield run


class _Hashes(dict[str, bytes | None]):
    """The hash of each word that is a mark, or begins one; None for every other."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._salt, self._wanted = marks.salt, marks.firsts | marks.words

    def __missing__(self, word: str) -> bytes | None:
        if len(self) > _MOST_HASHES:
            self.clear()
        data = _hash(word, self._salt)
        self[word] = data if data in self._wanted else None
        return self[word]


_MOST_HASHES = 1 << 20


def leaves(value: object) -> Iterator[str]:
    """Yield every string of a JSON value, those of its keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from leaves(item)
    elif isinstance(value, list):
        yield from chain.from_iterable(map(leaves, value))


def _plain(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else " "


def _hash(text: str, salt: bytes) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt).digest()
