"""
Claims: the assertions in a text, parsed into their subjects and values.

"Update: the staging database moved to db-7 on Friday" is about the staging database, gives a host
and a day, and announces a change. `store.text.claim_pairs` compares the subjects and the values of
two claims. A claim is a sentence; questions make none. Cue words are known in the languages of the
prompt classifier, the rest needs no language.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from store.text import tokenizer
from store.text.claim_words import (
    COPULAS,
    DAYS,
    GENERIC,
    LABELS,
    MONTHS,
    NUMBER_WORDS,
    NUMBERED_NOUNS,
    PERIODS,
    PHRASES,
    RANKS,
    STATUSES,
    TWO_WORD_STATUSES,
    WHICH,
)

MOST = 12  # claims of a text
LONGEST = 400  # characters of one
LONGEST_KEY = 61  # characters before a colon
LOOKED_AT = 4_000  # characters of a text
_WORDS = 1 << 15  # words read last, with cached kinds
_FEWEST_LETTERS = 3

_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_END = re.compile(
    r"(?<=[.!?;\u3002\uff01\uff1f])[\"')\]]*\s+(?=\S)|(?<=[\u3002\uff01\uff1f])|\s+[\u2013\u2014]\s+"
    r"|\s*\n+\s*"
)
# questions typed without their mark, and lines of logs
_ASKS = re.compile(
    r"\W*(?:what|why|how|where|who|which|can|could|would|is there|are there|do we|does|did|was"
    r"|wie|warum|wieso|wo|wer|welche\w?|kannst|gibt es|qué|cómo|por qué|dónde|quién|puedes"
    r"|comment|pourquoi|où|quel\w*|peux-tu|est-ce|come|perché|dove|quale|como|onde|hoe|waarom"
    r"|waar|wat|как|почему|где|что|什么|怎么|なぜ|どう)\b(?!['\u2019:])",
    re.IGNORECASE,
)
_LOGGED = re.compile(
    r"^\s*at \S+\(|^\w*(?:Error|Exception|Warning|Traceback|ANR)\b|\b\w+(?:Error|Exception)\b[: ]"
    r"|panicked at|^\s*(?:\[?\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d)|^\s*[+-]{3} |^\s*[|$>] "
    r"|\b0x[0-9a-f]{4,}|\(\d{1,6}\.\d{1,3}m?s\)$"
    # parts of programs, of JSON, of addresses; a file and the lines that an editor marked in it
    r"|^\d{1,6} {0,8}\||^[\"'][\w$.-]{1,80}[\"']: |^\W{0,3}https?://\S{1,2000}$"
    r"|^@[^()\n]{1,200} \(\d{1,6}(?:-\d{1,6})?\)$"
)
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|z\.b|etc|vs|dr|mr|mrs|ms|no|nr|st|ca|approx)\.$", re.I)
_OPENING_TWO = WHICH.union(status.split()[0] for status in TWO_WORD_STATUSES)
_TOKEN = re.compile(
    r"[\"'\u201c\u201d\u2018\u2019\u00ab\u00bb`]|[$\u20ac\u00a3\u00a5]?\d[\d.,:/]*\d%?[A-Za-zµ]*"
    r"|[$\u20ac\u00a3\u00a5]?\d%?[A-Za-zµ]*|[#@~/.-]{0,2}[^\W\d_][\w]*"
    r"(?:[-._/:@+#'\u2019\\]+\w+)*(?:\+\+|#)?|[:,]"
)
_KEY = re.compile(rf"\s*([^\s:.!?][^:.!?\n]{{1,{LONGEST_KEY - 1}}}):\s+(?=\S)")
# "based on the survey: ..." names no slot
_SOURCE = re.compile(
    r"(?:based on|according to|per|laut|gemäß|según|selon|d'après|segundo|secondo|volgens)\b", re.I
)
# the speaker: "[VP] Ann (Sales):", "Ann (CTO):", "Intern Bo:", "per the CEO, ..."
_ITEM = r"\s{0,9}(?:[^\W\d_]{1,30} \w{1,2}:\s{0,9})?"
_NAME = r"[A-Z][\w.'-]{0,30}(?: [\w.'-]{1,30}){0,3}"
_SPEAKERS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_ITEM}\[([^\]]{{2,40}})\]\s{{0,9}}(?:{_NAME}\s{{0,9}}(?:\([^)]{{0,60}}\)\s{{0,9}})?"
        r":\s{1,9})?",
        rf"{_ITEM}{_NAME}\s{{0,9}}\(([^)]{{2,40}})\)\s{{0,9}}:\s{{1,9}}",
        rf"{_ITEM}((?:[\w-]{{1,30}} ){{0,3}}[\w-]{{1,30}}(?= [A-Z]\w{{1,30}}:)|[\w-]{{1,30}})"
        r"(?: [A-Z]\w{1,30})?:\s{1,9}(?=\S{1,60} \S{1,60} \S)",
        r"\s{0,9}(?:[Aa]s )?(?:[Pp]er|[Ll]aut|[Ss]elon|[Ss]egún) (?:the |our )?"
        r"([\w-]{1,30}(?: [\w-]{1,30}){0,3}),\s{1,9}",
    )
)
_DECIDES = re.compile(
    r"\s*(?:the |our )?((?:[\w-]+ ){0,3}?[\w-]+) (?:has |have )?(?:decided|agreed|approved|wants"
    r"|says|said|directed|mandated|ruled|overruled|announced|estimate[sd]|recommends)\b",
    re.IGNORECASE,
)
# the unchanged part, before the changing one: "keep the place, but ..."
_KEPT = re.compile(
    r"\s*(?:(?:please )?(?:keep|leave|don't (?:touch|change)|do not (?:touch|change)|behalte|lass"
    r"|garde[rz]?|deja|mantén|houd)\b[^.;:]{1,60}?|(?:the )?same [^.;:,]{1,40}"
    r"|(?:the|our|die|der|das|le|la|el) [^.;:,]{1,40}? (?:stays?|remains?|bleib(?:t|en)|restent?"
    r"|reste|queda)\b[^.;:,]{0,20})"
    r"(?:,\s*(?:(?:but|and|just|only|aber|mais|pero)\s+)?|\s(?:but|aber|mais|pero)\s+)(?=\S+ \S)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\s+(?:(?:v|version|rev|no\.?|#)\s*)?\d{1,2}$", re.I)


CUES = tuple(PHRASES)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
# phrases by their first word, or by its first letters where more may follow: the rest, and the bit
_Phrases = dict[str, list[tuple[tuple[str, ...], int]]]
_PHRASES: _Phrases = {}
_PREFIXES: _Phrases = {}
_UNSPACED: list[tuple[str, int]] = []  # of scripts that write no spaces
for _place, _listed in enumerate(PHRASES.values()):
    for _phrase in _listed.split("|"):
        _first, *_rest = _phrase.split()
        if _CJK.search(_first):
            _UNSPACED.append((_first, 1 << _place))
        elif _first.endswith("*"):
            _PREFIXES.setdefault(_first[:-1], []).append((tuple(_rest), 1 << _place))
        else:
            _PHRASES.setdefault(_first, []).append((tuple(_rest), 1 << _place))
# words that announce a change, and are no part of a claim's subject
_ANNOUNCE = ("label", "recant", "instead", "moved", "now", "back", "also", "detail", "past")
_ANNOUNCING = frozenset(
    word
    for cue in _ANNOUNCE
    for phrase in PHRASES[cue].split("|")
    if len(word_list := phrase.split()) == 1 and (word := word_list[0])
)
_PREFIX_LENGTHS = sorted({len(_prefix) for _prefix in _PREFIXES})

_TIME = re.compile(r"\d{1,2}(?::\d{2})?(?:am|pm|h|uhr)|\d{1,2}:\d{2}(?::\d{2})?", re.I)
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}(?:st|nd|rd|th)"
)
_MONEY = re.compile(
    r"[$\u20ac\u00a3\u00a5]\d[\d.,]*[kKmMbB]?\w*|\d[\d.,]*(?:usd|eur|gbp|k?\u20ac)", re.I
)
_PERCENT = re.compile(r"\d[\d.,]*%")
_VERSION = re.compile(r"v?\d+\.\d+(?:\.\w+)*|v\d+", re.I)
_NUMBER = re.compile(r"\d[\d.,]*[a-zµ]{0,4}", re.I)
_ID = re.compile(r"#\d+|[A-Z]{2,}[-_]\d+|[A-Z]+\d{3,}")
_HOST = re.compile(
    r"(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:/\S*)?|localhost(?::\d+)?|[\w-]+@[\w.-]+", re.I
)
_PATH = re.compile(r"[~.]{0,2}/[\w./-]+|[\w.-]+/[\w./-]+|[\w-]+\.[a-z]{1,5}")
_IDENT = re.compile(
    r"\w*[a-z][A-Z]\w*|\w+_\w+|[a-z]+\d[\w-]*|--?[a-z][\w-]*|[\w]+(?:::|\.)\w+[\w.:]*", re.ASCII
)
_BRAND = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")  # GlobeTrain, though a class may be named so
_HYPHENED = re.compile(r"[^\W\d_]+(?:-[^\W_]+)+")

# kinds of tokens, by their places in the features of a pair
WORD, NUMBER, MONEY, PERCENT, VERSION, DATE, TIME, ID, HOST, PATH, IDENT, NAME, STATUS = range(13)
_VALUES = frozenset(range(1, 13))

_LEADS = re.compile(
    r"\s*(?:(?:ok(?:ay)?|so|and|but|well|hm+|oh|ah|hi|hello|hey|yeah|yes|no|please|also|btw"
    r"|by the way|und|aber|y|pero|et|mais|oh by the way|anyway)[\s,:!.-]+)+",
    re.IGNORECASE,
)


NO_RANK = -1


class Token(msgspec.Struct, frozen=True):
    """A word or value of a claim: `text` is folded, `term` its stem, "" for a function word."""

    text: str
    term: str
    kind: int


class Claim(msgspec.Struct, frozen=True):
    """An assertion. `key` are the terms before its colon; `cues` are bits by the order of `CUES`;
    `terms` are its content words, values included; `quoted` is its quoted text.
    """

    text: str
    tokens: tuple[Token, ...]
    cues: int
    key: tuple[str, ...]
    terms: frozenset[str]
    values: tuple[tuple[int, str, str, str], ...]  # kind, value, the content words around it
    quoted: str
    rank: int  # of its decider, NO_RANK if none is named
    body: str  # without its announcement, key and speaker

    def has(self, cue: str) -> bool:
        return _has_cue(self.cues, cue)

    @property
    def words(self) -> int:
        return len(self.tokens)


def _has_cue(cues: int, cue: str) -> bool:
    return bool(cues >> CUES.index(cue) & 1)


def has_any_cue(text: str, wanted: Iterable[str]) -> bool:
    """Return True if a claim of this text has one of some cues; it is not parsed for that."""
    cues = _cues(_folded(text))
    return any(_has_cue(cues, cue) for cue in wanted)


def claim_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of a text's claims, in order, at most MOST: the first ones."""
    text = text[:LOOKED_AT]
    spans: list[tuple[int, int]] = []
    start = 0
    fences = [match.span() for match in _FENCE.finditer(text)]
    for end, after_fence in (*fences, (len(text), len(text))):
        for stop in _END.finditer(text, start, end):
            if not _ABBREVIATION.search(text, max(start, stop.start() - 8), stop.start()):
                spans += _trimmed(text, start, stop.start())
                start = stop.end()
        spans += _trimmed(text, start, end)
        start = after_fence
    return spans[:MOST]


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    words = text[start:end]
    inner = words.strip()
    if sum(map(str.isalnum, inner)) < _FEWEST_LETTERS or inner.endswith(("?", "\uff1f", ":")):
        return
    if _ASKS.match(inner) or _LOGGED.search(inner):
        return
    first = start + words.index(inner[0])
    yield first, min(first + len(inner), first + LONGEST)


def claims(text: str) -> list[Claim]:
    """Return the claims of a text, in order."""
    return [parse(text[start:end]) for start, end in claim_spans(text)]


@lru_cache(maxsize=4_096)
def parse(text: str) -> Claim:
    """Return a parsed claim."""
    body, key = text, ""
    cues = _cues(_folded(text))
    lead = _LEADS.match(body)
    if lead is not None and lead.end() < len(body):
        body = body[lead.end() :]
    rank, start = _speaker(body)
    body = body[start:]
    match = _KEY.match(body)
    while match is not None and "://" not in match[0]:
        if _key_terms(match[1]) and not _SOURCE.match(match[1]):
            key = match[1]
            break
        body = body[match.end() :]  # "Update: ..." names no slot
        match = _KEY.match(body)
    if (unchanged := _KEPT.match(body)) is not None:
        body = body[unchanged.end() :]
    quoted = " ".join(
        other[1]
        for other in re.finditer(
            r"[\"'\u201c\u201e\u2018\u00ab]([^\"'\u201d\u2019\u00bb]{6,})[\"'\u201d\u201c\u2019\u00bb]",
            text,
        )
    )
    tokens = tuple(_tokens(body))
    slot = _key_terms(key)
    terms = frozenset((*slot, *(token.term for token in tokens if token.term)))
    values = tuple(_values(tokens))
    plain = " ".join(body[match.end() :].split() if key and match else body.split())
    return Claim(text, tokens, cues, slot, terms, values, quoted, rank, plain.casefold())


def _speaker(body: str) -> tuple[int, int]:
    """Return the rank of the speaker, and the place where the statement begins."""
    for pattern in _SPEAKERS:
        match = pattern.match(body)
        if match is not None and (rank := _rank(match[1])) != NO_RANK and match.end() < len(body):
            return rank, match.end()
    match = _DECIDES.match(body)
    return (NO_RANK if match is None else _rank(match[1])), 0


def _rank(role: str) -> int:
    plain = role.casefold().replace("managing director", "ceo")
    ranks = (RANKS.get(word, NO_RANK) for word in re.findall(r"[\w-]+", plain))
    return max(ranks, default=NO_RANK)


def _folded(text: str) -> str:
    return text.casefold().replace("\u2019", "'")


def _cues(folded: str) -> int:
    cues = 0
    words = _WORD.findall(folded)
    for place, word in enumerate(words):
        for rest, bit in _phrases(word):
            if not rest or _follows(words, place + 1, rest):
                cues |= bit
    if not folded.isascii():
        for phrase, bit in _UNSPACED:
            if phrase in folded:
                cues |= bit
    return cues


@lru_cache(maxsize=_WORDS)
def _phrases(word: str) -> tuple[tuple[Sequence[str], int], ...]:
    """Return the phrases that begin with a word: the words that must follow, the cue's bit."""
    phrases = [*_PHRASES.get(word, ())]
    for length in _PREFIX_LENGTHS:
        if length > len(word):
            break
        phrases += _PREFIXES.get(word[:length], ())
    return tuple(phrases)


def _follows(words: Sequence[str], at: int, rest: Sequence[str]) -> bool:
    if at + len(rest) > len(words):
        return False
    return all(
        word.startswith(wanted[:-1]) if wanted.endswith("*") else word == wanted
        for word, wanted in zip(words[at:], rest, strict=False)
    )


def _key_terms(key: str) -> tuple[str, ...]:
    plain = _NUMBERED.sub("", key.replace("_", " "))
    return tuple(
        term
        for term in tokenizer.terms(plain)
        if term not in LABELS and term not in GENERIC and not term.isdigit()
    )[:6]


def _tokens(body: str) -> Iterator[Token]:
    parts = _TOKEN.findall(body)
    start_of_sentence, before = True, ""
    skip = -1
    for place, raw in enumerate(parts):
        if raw in "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb`:,":
            start_of_sentence = start_of_sentence or raw == ":"
            continue
        if place <= skip:
            continue
        folded, token = _token(raw, start_of_sentence)
        if folded in _OPENING_TWO and place + 1 < len(parts):
            following = parts[place + 1].casefold()
            phrase = f"{folded} {following}"
            is_status = phrase in TWO_WORD_STATUSES
            if is_status or (folded in WHICH and following in PERIODS):
                skip = place + 1
                yield Token(phrase, phrase, STATUS if is_status else DATE)
                start_of_sentence, before = False, folded
                continue
        is_name = before in NUMBERED_NOUNS and (token.kind == NUMBER or len(folded) == 1)
        if is_name and (token.kind != NUMBER or folded not in NUMBER_WORDS):
            folded = f"{before} {folded}"
            token = Token(folded, _term(folded, ID), ID)
        yield token
        start_of_sentence, before = False, folded


@lru_cache(maxsize=_WORDS)
def _token(raw: str, start_of_sentence: bool, /) -> tuple[str, Token]:
    """Return a word or value, folded, and its token if its neighbours do not change it."""
    folded = raw.casefold().strip(".,:;").replace("\u2019", "'")
    kind = _kind(raw, folded, start_of_sentence)
    return folded, Token(_plain_value(folded, kind), _term(folded, kind), kind)


def _kind(raw: str, folded: str, start_of_sentence: bool) -> int:
    bare = raw.strip(".,:;")
    if bare[:1].isdigit() or bare[:1] in "$\u20ac\u00a3\u00a5":
        for pattern, kind in (
            (_PERCENT, PERCENT),
            (_MONEY, MONEY),
            (_DATE, DATE),
            (_TIME, TIME),
            (re.compile(r"\d+\.\d+\.\w[\w.]*"), VERSION),
            (_NUMBER, NUMBER),
        ):
            if pattern.fullmatch(bare):
                return kind
        return IDENT
    if folded in NUMBER_WORDS and (start_of_sentence or raw[0].islower()):
        return NUMBER
    if (folded in MONTHS or folded in DAYS) and raw != "may":
        return DATE
    if folded in STATUSES:
        return STATUS
    if not bare.isalpha():
        for pattern, kind in (
            (_ID, ID),
            (_VERSION, VERSION),
            (_HOST, HOST),
            (_PATH, PATH),
            (_IDENT, IDENT),
        ):
            if pattern.fullmatch(bare):
                return kind
        if _HYPHENED.fullmatch(bare):
            return NAME if bare[0].isupper() and not start_of_sentence else WORD
        return IDENT if any(map(str.isdigit, bare)) or "_" in bare or "/" in bare else WORD
    if _BRAND.fullmatch(bare):
        return NAME
    if _IDENT.fullmatch(bare):
        return IDENT
    if bare[0].isupper() and (not start_of_sentence or (len(bare) > 1 and bare.isupper())):
        return NAME
    return WORD


def _plain_value(folded: str, kind: int) -> str:
    if kind == NUMBER:
        return NUMBER_WORDS.get(folded, folded.replace(",", ""))
    if kind == MONEY:
        return folded.replace(",", "")
    return folded


@lru_cache(maxsize=_WORDS)
def _term(folded: str, kind: int) -> str:
    if kind in (NUMBER, MONEY):
        return _plain_value(folded, kind)
    if kind == ID:
        return folded
    if kind in _VALUES:
        terms = tokenizer.terms(folded)
        return terms[0] if terms else folded
    if folded in GENERIC or folded in _ANNOUNCING:
        return ""
    terms = tokenizer.terms(folded)
    return terms[0] if terms and terms[0] not in GENERIC else ""


def _values(tokens: Sequence[Token]) -> Iterator[tuple[int, str, str, str]]:
    """Yield kind and text of each value, and the nearest content words before and after it."""
    for place, token in enumerate(tokens):
        if token.kind not in _VALUES:
            continue
        before = next(
            (
                other.term
                for other in reversed(tokens[max(0, place - 4) : place])
                if other.term and other.kind in (WORD, NAME, IDENT)
            ),
            "",
        )
        after = next(
            (
                other.term
                for other in tokens[place + 1 : place + 3]
                if other.term and other.kind in (WORD, NAME)
            ),
            "",
        )
        yield token.kind, token.text, before, after


def is_copula(token: Token) -> bool:
    """Return True if a token joins a sentence's subject and predicate."""
    return token.text in COPULAS


_CHANGES = ("label", "recant", "instead", "moved", "no_longer", "ends", "falsified", "back", "firm")


def announces(claim: Claim) -> bool:
    """Return True if a claim has words that announce a change."""
    return any(claim.has(cue) for cue in _CHANGES)


def tells_of_past(text: str) -> bool:
    """Return True if each claim of a text is about the past: "originally it was May 3"."""
    every = claims(text)
    return bool(every) and all(
        claim.has("past") and not any(claim.has(cue) for cue in ("now", "moved", "instead"))
        for claim in every
    )
