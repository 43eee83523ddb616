"""
Words and marks: a text as the tokens that carry what it says.

What a person may write either way without saying anything else is taken away: case, white space,
markdown, quotes, punctuation, the two forms of a contraction. What tells two facts apart is kept to
the letter, as a mark: numbers, versions, dates, paths, identifiers, flags, signs, units after a
number, code blocks, and the question mark. Letters keep their accents: "señal" is no "senal".
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain

MARK = "\x00"  # begins a mark, which is compared letter by letter
BULLET = "\x01"  # begins a line of a list without an order
STOP, COMMA, COLON = ".", ",", ":"  # between the parts of a text; no word is one of these
SEPARATORS = frozenset({STOP, COMMA, COLON, BULLET})

# a code block is one chunk: what stands for its white space stands in no other text
_CODE = "\ue000"
_NO_SPACE = {ord("\n"): "\ue001", ord(" "): "\ue002", ord("\t"): "\ue003"}
_LONGEST = 64  # characters of a chunk that is remembered; longer ones seldom come again
_TYPOGRAPHIC = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00ab": '"', "\u00bb": '"'}
    | {"\u2013": " - ", "\u2014": " - ", "\u2026": ". ", "\u00a0": " ", "\u200b": "", "\ufeff": ""}
    | {"\u3002": ". ", "\u3001": ", ", "\uff0c": ", ", "\uff01": "! ", "\uff1f": "? "}
    | {"\uff1a": ": ", "\uff1b": "; ", "\u061f": "? ", "\u060c": ", ", "\u2022": "*"}
)
_HAS_MARKDOWN = re.compile(r"[*_`#>\n\]]")
_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}|>)[ \t]+", re.MULTILINE)
_POINT = re.compile(r"^[ \t]*[-*+][ \t]+", re.MULTILINE)
_TASK = re.compile(rf"(?<={BULLET} )\[([ xX])\](?= )")  # to do, or done
_STRONG = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])")
_EMPHASIS = re.compile(r"(?<![\w_/.])_(?=[^\s_])([^_\n]*[^\s_])_(?![\w_/.(])")
_LINK = re.compile(r"\[([^\[\]\n]+)\]\(([^()\s]+)\)")

_CHUNK = re.compile(r"""([\[({"']*)(.*?)([\])}"',.;:!?]*)""", re.DOTALL)
_WORDS = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_CAMEL = re.compile(r"[a-z]+[A-Z]")
_NUMBER = re.compile(r"[-+~<>=≈$€£¥]*\d[\d.,:/_]*")
_UNIT = re.compile(r"[^\W\d_]{1,3}")
# in capitals they are names: no pronouns, and C is no c
_CAPITAL_NAMES = frozenset({"US", "IT", "WHO", *"BCDFGHJKLMNPQRSTVWXZ"})
_SHORT = {"can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not"}
_ENDINGS = {"'re": "are", "'ll": "will", "'ve": "have", "'m": "am"}
_WITH_IS = frozenset("it that there here what he she who where how".split())
_SAME_WORD = {"&": "and", "whilst": "while", "till": "until"}


def tokens(text: str) -> list[str]:
    """Return the words, marks and separators of a text, in order; none for an empty one."""
    found: list[str] = []
    for line in _plain(text).split("\n"):
        chunks = line.split()
        parts = [_known.get(chunk) for chunk in chunks]
        if None in parts:
            found += _in_their_place(chunks)
        else:
            found += chain.from_iterable(parts)  # type: ignore[arg-type]  # None is not there
        if found and found[-1] != STOP:
            found.append(STOP)
    return found


def _in_their_place(chunks: Sequence[str]) -> Iterator[str]:
    """Yield the tokens of a line's chunks, of which one may depend on the one before it."""
    last = STOP
    for chunk in chunks:
        if last[0] == MARK and _is_number(last):
            tokens = _after_number(chunk)
        elif chunk == "A" and last != STOP:
            tokens = (MARK + chunk,)  # plan A; an article only where a sentence begins
        else:
            tokens = _remembered(chunk)
        yield from tokens
        if tokens:
            last = tokens[-1]


# the tokens of chunks that mean the same wherever they stand: no number, and no "A"
_known: dict[str, tuple[str, ...]] = {}
_MOST_KNOWN = 1 << 16  # words are Zipfian


def _remembered(chunk: str) -> tuple[str, ...]:
    if (tokens := _known.get(chunk)) is not None:
        return tokens
    tokens = _of_chunk(chunk)
    if len(chunk) <= _LONGEST and chunk != "A" and not any(map(_is_number, tokens)):
        if len(_known) == _MOST_KNOWN:
            _known.clear()
        _known[chunk] = tokens
    return tokens


def is_mark(token: str) -> bool:
    """Return whether a token is a mark."""
    return token.startswith(MARK)


def _plain(text: str) -> str:
    """Return a text without its markdown; a code block becomes one chunk."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_TYPOGRAPHIC)
    if not _HAS_MARKDOWN.search(text):
        return text
    text = _FENCE.sub(_fenced, text)
    text = _POINT.sub(f"\n{BULLET} ", _HEADING.sub("", text))
    text = _TASK.sub(lambda task: "\u2610" if task[1] == " " else "\u2611", text)
    text = _LINK.sub(r"\1 \2", text)
    text = _EMPHASIS.sub(r"\1", _STRONG.sub(r"\2", text))
    return text.replace("`", "")


def _fenced(block: re.Match[str]) -> str:
    lines = (line.rstrip() for line in block[2].strip("\n").split("\n"))
    return "\n" + _CODE + "\n".join(lines).translate(_NO_SPACE) + "\n"


def _is_number(token: str) -> bool:
    return token[0] == MARK and _NUMBER.fullmatch(token, 1) is not None


def _after_number(chunk: str) -> tuple[str, ...]:
    """Return the tokens of what follows a number: of MB and Mb one is eight times the other."""
    if chunk == "-":
        return (MARK + chunk,)
    found = _of_chunk(chunk)
    core = chunk.strip("\"'()[]{}.,;:!?")
    if _UNIT.fullmatch(core) and core.casefold() not in _NO_UNITS:
        return (MARK + core, *(token for token in found if token in SEPARATORS))
    return found


_NO_UNITS = frozenset(
    "a an and are as at but by for in is it of on or so the to und et y o и".split()
)


def _of_chunk(chunk: str) -> tuple[str, ...]:
    """Return the tokens of what stands between two spaces."""
    if chunk[0] == BULLET:
        return (BULLET,)
    if chunk[0] == _CODE:
        return MARK + chunk, STOP
    parts = _CHUNK.fullmatch(chunk)
    assert parts is not None  # every part may be empty
    _, core, after = parts.groups()
    while after and _opens(core) and after[0] in ")]}":
        core, after = core + after[0], after[1:]
    if not core:
        # "[]" and "{}" are values, "." is a folder; a sign that stands alone says nothing
        is_value = chunk == "." or (len(chunk.strip(",;:!?")) > 1 and chunk != "...")
        return (MARK + chunk,) if is_value else tuple(_of_end(after))
    return *_of_core(core), *_of_end(after)


def _opens(core: str) -> bool:
    return any(core.count(one) > core.count(other) for one, other in ("()", "[]", "{}"))


def _of_core(core: str) -> Iterator[str]:
    if core in ("", "-"):
        return
    if core in _SAME_WORD:
        yield _SAME_WORD[core]
    elif core in _CAPITAL_NAMES or _CAMEL.match(core) or not _WORDS.fullmatch(core):
        yield MARK + core
    else:
        for word in core.casefold().split("-"):
            yield from _of_word(word)


def _of_word(word: str) -> Iterator[str]:
    if "'" not in word and word not in _SHORT:
        yield _SAME_WORD.get(word, word)
    elif word in _SHORT:
        yield from _SHORT[word].split()
    elif word.endswith("n't"):
        yield word[:-3]
        yield "not"
    elif word.endswith("'s") and word[:-2] in _WITH_IS:
        yield word[:-2]
        yield "is"
    elif found := next((ending for ending in _ENDINGS if word.endswith(ending)), None):
        yield word[: -len(found)]
        yield _ENDINGS[found]
    else:
        yield word


def _of_end(signs: str) -> Iterator[str]:
    if "?" in signs:
        yield MARK + "?"
        yield STOP
    elif "." in signs or "!" in signs:
        yield STOP
    elif "," in signs or ";" in signs:
        yield COMMA
    elif ":" in signs:
        yield COLON
