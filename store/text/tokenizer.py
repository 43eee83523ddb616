"""
The tokenizer and the content hash, the same for index and query.

Prose words are folded and stemmed. Identifiers (paths, dotted and scoped names, camelCase,
snake_case, flags, versions, error codes) are kept whole and exact, and are also split into words,
so that `loginHandler` is found by "login handlers"; two words joined by a hyphen are also one, so
that "e-mail" is found by "email". Scripts written without spaces give overlapping pairs of
characters, the alphabets of South-East Asia runs of three. Invariants: a text is tokenized one
white-space chunk at a time, so the terms of `a + " " + b` are those of `a` and then those of `b`;
and any change to the terms of a text raises `TOKENIZER_VERSION`.

Stemming is Snowball's, https://snowballstem.org; character pairs for Chinese, Japanese and
Korean follow Lucene's CJKBigramFilter.
"""

import hashlib
import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import Stemmer

TOKENIZER_VERSION = 2

LONGEST_TERM = 128  # longer terms are skipped; the parts of a longer identifier are kept
_LONGEST_UNIT = 1024  # characters; longer ones are data, read for their words only
_LONGEST_REMEMBERED = 64  # characters; longer chunks seldom come again


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, with repeats; none for only stop words or signs."""
    every: list[str] = []
    for chunk in text.split():
        every += _remembered(chunk) if len(chunk) <= _LONGEST_REMEMBERED else _chunk_terms(chunk)
    return every


def normalize(text: str) -> str:
    """Return `text` NFKC-normalised, without case, accents and invisible characters.

    White space is collapsed to single spaces. Cyrillic short i stays a letter, io becomes ie.
    """
    return " ".join(_fold(_fold(text).casefold()).split())


def is_word(term: str) -> bool:
    """Return True if a term is a plain word: letters alone, in scripts that write words apart."""
    return _WORD.fullmatch(term) is not None


def text_hash(text: str) -> bytes:
    """Return 16 bytes of BLAKE2b of `text`, NFC-normalised and stripped."""
    canonical = unicodedata.normalize("NFC", text).strip()
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def filing_hash(name: str) -> int:
    """Return the 64-bit hash of a term or a name; two may share one."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class _Stemmers(threading.local):
    """One pair of stemmers a thread: a PyStemmer object must not be used by two at once."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english", 0)  # no cache: chunks are cached
        self.russian = Stemmer.Stemmer("russian", 0)


_stemmers = _Stemmers()

# Letters that Unicode does not decompose; the typographic apostrophe; the Arabic filler.
_FOLDED = str.maketrans(
    {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "\u0131": "i"}
    | {
        "þ": "th",
        "Þ": "Th",
        "æ": "ae",
        "Æ": "Ae",
        "œ": "oe",
        "Œ": "Oe",
        "\u2019": "'",
        "\u0640": "",
    }
)
_KEPT_MARKS = "\u3099\u309a"  # the voicing of kana: が is not か
_BREVE = "\u0306"
_DROPPED = frozenset({"Mn", "Me", "Cf"})


def _fold(text: str) -> str:
    """Return `text` NFKC-normalised, without accents and invisible characters; case stays."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    letters: list[str] = []
    for character in unicodedata.normalize("NFKD", text):
        if unicodedata.category(character) not in _DROPPED or character in _KEPT_MARKS:
            letters.append(character)
        elif character == _BREVE and letters and letters[-1] in "иИ":
            letters.append(character)
    return unicodedata.normalize("NFKC", "".join(letters)).translate(_FOLDED)


# Marks that take space and belong to the word: the vowels of Indic scripts.
_VOWELS = "".join(c for c in map(chr, range(0x0900, 0x1D00)) if unicodedata.category(c) == "Mc")
_LETTER = rf"[\w{_VOWELS}]"
_CJK = (
    r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\u1100-\u11ff\uac00-\ud7ff\U00020000-\U0003ffff"
)
_SOUTH_EAST_ASIAN = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_SCRIPT_RUN = re.compile(
    rf"(?P<cjk>[{_CJK}]+)|(?P<sea>[{_SOUTH_EAST_ASIAN}]+)|[^{_CJK}{_SOUTH_EAST_ASIAN}]+"
)

_RUN = {"cjk": 2, "sea": 3}  # letters of a term

# A unit is a word or an identifier: the parts joined by a sign, with its opening and closing signs.
_UNIT = re.compile(
    rf"(?P<mark>(?<![\w-])--(?=\w)|(?<![\w.])~?[/\\](?=\w)|(?<!\w)[@#](?=\w)|(?<![\w.])~?/?\.(?=\w))?"
    rf"(?P<body>{_LETTER}+(?:[-._/:\\@'+#~]{{1,3}}{_LETTER}+)*)"
    r"(?P<end>\+\+(?!\w)|\#(?!\w))?"
)
_VERSION = re.compile(r"[vV]?([0-9]+(?:\.[0-9]+)+)(?:[-+.]?([A-Za-z][\w.+-]*))?")
_JOINTS = tuple(map(re.compile, (r"[/\\]+", "@+", "#+", ":+", r"\.+", r"[-+~]+")))
_HEX_GROUPS = re.compile(r"[0-9a-fA-F-]{20,}")  # a UUID, a digest
_PLAIN = re.compile(rf"{_LETTER}+")
_WORD = re.compile(rf"(?:(?![{_CJK}{_SOUTH_EAST_ASIAN}])(?:[^\W\d_]|[{_VOWELS}]))+")
_CONTRACTION = re.compile(r"([A-Za-z]+)'(?:s|ll|ve|re|m|d)", re.IGNORECASE)
_HAS_HUMPS = re.compile(r"[_0-9]|[a-z][A-Z]|[A-Z]{2}(?!s\b)[a-z]")
_HUMP = re.compile(
    rf"[0-9]+|[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|(?:(?![_0-9A-Za-z]){_LETTER})+"
)
_CYRILLIC = re.compile(r"[\u0400-\u04ff]+")


# An ASCII word in one case or with a capital, and the signs of a sentence around it.
_PLAIN_CHUNK = re.compile(r"[(\"]?([A-Z]?[a-z]+|[A-Z]+)[.,;:!?)\"]*")


def _chunk_terms(chunk: str) -> tuple[str, ...]:
    if plain := _PLAIN_CHUNK.fullmatch(chunk):  # most are: the rest gives the same
        return tuple(_word(plain[1]))
    folded = _fold(chunk)
    if folded.isascii():
        return tuple(_unit_terms(folded))
    chunk_terms: list[str] = []
    for run in _SCRIPT_RUN.finditer(folded):
        chunk_terms += (
            _unit_terms(run[0]) if run.lastgroup is None else _runs(run[0], _RUN[run.lastgroup])
        )
    return tuple(chunk_terms)


_remembered = lru_cache(maxsize=1 << 15)(_chunk_terms)  # words are Zipfian


def _runs(run: str, length: int) -> Iterator[str]:
    """Yield the overlapping runs of `length` letters of `run`; fewer letters are one term."""
    letters = "".join(c for c in run if c.isalnum())
    if letters:
        for start in range(max(1, len(letters) - length + 1)):
            yield letters[start : start + length]


def _unit_terms(text: str) -> Iterator[str]:
    for unit in _UNIT.finditer(text):
        mark, body, end = unit["mark"], unit["body"], unit["end"]
        unit_terms: list[str] = []
        if mark or end:
            unit_terms.append(unit[0].casefold())
        if not (end and len(body) == 1):  # C++ and C# are not C
            unit_terms += _compound(body)
        # Once each: the folder and the file of `login/login.py` are one mention.
        yield from (term for term in dict.fromkeys(unit_terms) if 0 < len(term) <= LONGEST_TERM)


def _compound(body: str, level: int = 0) -> Iterator[str]:
    """Yield `body` whole and then its parts, split at its loosest joint first."""
    if len(body) > _LONGEST_UNIT:
        for part in _PLAIN.findall(body):
            yield from _name(part)
        return
    if _HEX_GROUPS.fullmatch(body):
        yield body.casefold()
        return
    if level == 0 and (version := _VERSION.fullmatch(body)):
        yield from (body.casefold(), version[1])
        if version[2]:
            yield from _compound(version[2], 1)
        return
    for deeper, joint in enumerate(_JOINTS[level:], start=level + 1):
        parts = [part for part in joint.split(body) if part]
        if len(parts) > 1:
            yield body.casefold()
            if len(parts) == 2 and joint is _JOINTS[-1] and all(map(str.isalpha, parts)):
                yield from _word("".join(parts))
            for place, part in enumerate(parts):
                if place and part.isdigit() and joint.pattern == "#+":
                    yield "#" + part
                yield from _compound(part, deeper)
            return
    yield from _apostrophes(body.strip("/\\@#:.-+~"))


def _apostrophes(body: str) -> Iterator[str]:
    if "'" not in body:
        yield from _name(body)
    elif body[-3:].lower() == "n't":
        yield "not"  # the rest is an auxiliary verb
    elif contraction := _CONTRACTION.fullmatch(body):
        yield from _name(contraction[1])
    else:
        for part in body.split("'"):
            yield from _name(part)


def _name(name: str) -> Iterator[str]:
    """Yield the term of a plain word; else `name` whole and then its words of two letters up."""
    if not _HAS_HUMPS.search(name):
        yield from _word(name)
        return
    yield name.casefold()
    humps = _HUMP.findall(name)
    if len(humps) > 4 and len(name) < 3 * len(humps):
        return  # a hash or an encoded blob, not words
    for hump in humps:
        if len(hump) > 1:
            yield from _word(hump)


def _word(word: str) -> Iterator[str]:
    word = word.casefold()
    if word in STOP_WORDS or len(word) > LONGEST_TERM:
        return
    if word.isascii():
        yield _stemmers.english.stemWord(word)
    elif _CYRILLIC.fullmatch(word):
        yield _stemmers.russian.stemWord(word)
    else:
        yield word


# English words that say nothing about a text's subject, question words among them.
#
# Question words are here because a memory answers a question without repeating it: leaving them
# out of index and query was worth six points of recall on LoCoMo. Negations (no, not, never) and
# the month of May are not here: they distinguish memories.

STOP_WORDS = frozenset(
    """
    a about above after again against ain all also although am among an and another any
    anybody anyone anything are aren as at be became because been before being below between both
    but by can cannot could couldn did didn do does doesn doing don done down during each either
    else ever every everybody everyone everything few for from further had hadn has hasn have
    haven having he hence her here hers herself him himself his how however i if in into is isn
    it its itself just least less let lets like ll lot many maybe me mightn more most much must
    mustn my myself needn neither nobody none nor now of off often on once one only onto or other
    others otherwise our ours ourselves out over own per perhaps please quite rather re really
    said same say says shall shan she should shouldn since so some somebody someone something
    sometimes somewhere still such than that thats the their theirs them themselves then there
    therefore these they thing things this those though through thus to together too toward
    towards under unless until up upon us ve very via was wasn we were weren what whatever whats
    when whenever where whereas whether which whichever while who whoever whom whose why will
    with within without won would wouldn yes yet you your yours yourself yourselves
    """.split()
)
