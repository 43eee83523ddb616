"""
Strict duplicates: two texts are duplicates if and only if their statements are equal.

Strict: all words and all marks, in order, except meaningless variation: case, white space,
markdown, punctuation, articles and the plain "is" of an English text, the order of a list that has
none. A number, a name, a path, a negation, a unit, a quantifier more or less makes another
statement. So equal statements are found by a hash among any number of texts, and equality is
transitive.

Two statements that differ in one value may be a correction: see `corrections`.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain

import msgspec

# Words and marks: the tokens that carry a text's meaning.
#
# Variation without meaning is removed: case, white space, markdown, quotes, punctuation, the two
# forms of a contraction. Tokens that distinguish two facts are kept to the letter, as marks:
# numbers, versions, dates, paths, identifiers, flags, signs, units after a number, code blocks, and
# the question mark. Letters keep their accents: "señal" is no "senal".

MARK = "\x00"  # begins a mark, which is compared letter by letter
BULLET = "\x01"  # begins a line of a list without an order
STOP, COMMA, COLON = ".", ",", ":"  # between the parts of a text; no word is one of these
SEPARATORS = frozenset({STOP, COMMA, COLON, BULLET})

# a code block is one chunk: the substitute for its white space is in no other text
_CODE = "\ue000"
_NO_SPACE = {ord("\n"): "\ue001", ord(" "): "\ue002", ord("\t"): "\ue003"}
_LONGEST_CHUNK = 64  # characters of a cached chunk; longer ones seldom come again
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


def statement_tokens(text: str) -> list[str]:
    """Return the words, marks and separators of a text, in order; none for an empty one."""
    tokens: list[str] = []
    for line in _plain(text).split("\n"):
        chunks = line.split()
        parts = [_known.get(chunk) for chunk in chunks]
        if None in parts:
            tokens += _in_their_place(chunks)
        else:
            tokens += chain.from_iterable(parts)  # type: ignore[arg-type]  # None is not there
        if tokens and tokens[-1] != STOP:
            tokens.append(STOP)
    return tokens


def _in_their_place(chunks: Sequence[str]) -> Iterator[str]:
    """Yield the tokens of a line's chunks; a chunk may depend on the one before it."""
    last = STOP
    for chunk in chunks:
        if last[0] == MARK and _is_number(last):
            tokens = _after_number(chunk)
        elif chunk == "A" and last != STOP:
            tokens = (MARK + chunk,)  # plan A; an article only where a sentence begins
        else:
            tokens = _lookup_tokens(chunk)
        yield from tokens
        if tokens:
            last = tokens[-1]


# the tokens of chunks with the same meaning in any place: no number, and no "A"
_known: dict[str, tuple[str, ...]] = {}
_MOST_KNOWN = 1 << 16  # words are Zipfian


def _lookup_tokens(chunk: str) -> tuple[str, ...]:
    if (tokens := _known.get(chunk)) is not None:
        return tokens
    tokens = _of_chunk(chunk)
    if len(chunk) <= _LONGEST_CHUNK and chunk != "A" and not any(map(_is_number, tokens)):
        if len(_known) == _MOST_KNOWN:
            _known.clear()
        _known[chunk] = tokens
    return tokens


def is_mark(token: str) -> bool:
    """Return True if a token is a mark."""
    return token.startswith(MARK)


def _plain(text: str) -> str:
    """Return a text without its markdown; a code block becomes one chunk."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_TYPOGRAPHIC)
    if not _HAS_MARKDOWN.search(text):
        return text
    text = _FENCE.sub(_code_chunk, text)
    text = _POINT.sub(f"\n{BULLET} ", _HEADING.sub("", text))
    text = _TASK.sub(lambda task: "\u2610" if task[1] == " " else "\u2611", text)
    text = _LINK.sub(r"\1 \2", text)
    text = _EMPHASIS.sub(r"\1", _STRONG.sub(r"\2", text))
    return text.replace("`", "")


def _code_chunk(block: re.Match[str]) -> str:
    lines = (line.rstrip() for line in block[2].strip("\n").split("\n"))
    return "\n" + _CODE + "\n".join(lines).translate(_NO_SPACE) + "\n"


def _is_number(token: str) -> bool:
    return token[0] == MARK and _NUMBER.fullmatch(token, 1) is not None


def _after_number(chunk: str) -> tuple[str, ...]:
    """Return the tokens of a number's suffix: a MB is eight times a Mb."""
    if chunk == "-":
        return (MARK + chunk,)
    tokens = _of_chunk(chunk)
    core = chunk.strip("\"'()[]{}.,;:!?")
    if _UNIT.fullmatch(core) and core.casefold() not in _NO_UNITS:
        return (MARK + core, *(token for token in tokens if token in SEPARATORS))
    return tokens


_NO_UNITS = frozenset(
    "a an and are as at but by for in is it of on or so the to und et y o и".split()
)


def _of_chunk(chunk: str) -> tuple[str, ...]:
    """Return the tokens of the text between two spaces."""
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
        # "[]" and "{}" are values, "." is a folder; any other lone sign means nothing
        is_value = chunk == "." or (len(chunk.strip(",;:!?")) > 1 and chunk != "...")
        return (MARK + chunk,) if is_value else tuple(_of_end(after))
    return *_of_core(core), *_of_end(after)


def _opens(core: str) -> bool:
    return any(core.count(opening) > core.count(closing) for opening, closing in ("()", "[]", "{}"))


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
    elif ending := next((ending for ending in _ENDINGS if word.endswith(ending)), None):
        yield word[: -len(ending)]
        yield _ENDINGS[ending]
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
# words about a day: the same words on another day are about another
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


class Statement(msgspec.Struct, frozen=True):
    """`says` must be equal in duplicates; `frame` has a gap for each mark, in `said` order.

    In a text that corrects another, `said` is the valid value: "5433" in "5433, not 5432".
    `is_relative`: its times are relative to the day it was written.
    """

    says: tuple[str, ...]
    said: tuple[str, ...]
    is_relative: bool

    @property
    def key(self) -> int:
        """The 64 bits shared by all equal statements; 0 for an empty one."""
        return _hash(self.says)

    @property
    def frame(self) -> int:
        """The 64 bits of all but the marks; 0 without a mark or with hardly a word besides."""
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


class CorrectedText(msgspec.Struct, frozen=True):
    """A text without its correcting words; `denied` are the values that it calls wrong.

    `is_labelled`: it calls itself a correction.
    """

    text: str
    denied: tuple[str, ...]
    is_labelled: bool


_LABEL = re.compile(
    r"\s*(?:correction|corrected|update[d]?|actually|erratum|edit|korrektur|berichtigung|"
    r"rectificati(?:on|f)|corrección|actualización|исправление|更正|訂正)\s*[:,\uff1a\u2013\u2014-]\s*",
    re.IGNORECASE,
)
_VALUE = r"(?P<denied>[^\s,;:()!?]+(?: [^\s,;:()!?]+){0,3}?)"
_END = r"(?=[.!]?$|[,;]|[.!] )"
# "5433, not 5432"; "instead of MySQL"; "(was 5432)"
_DENIAL = re.compile(
    r"(?:,? (?:no longer|instead of|rather than|nicht mehr|statt|anstatt|au lieu de|en vez de|"
    r"en lugar de|вместо)|(?:, | and | but )(?:not?|nicht|et non|y no|а не)) "
    rf"{_VALUE}{_END}|"
    r" \((?:not|was|previously|formerly|nicht|vorher|früher|avant|antes) "
    r"(?P<in_brackets>[^()]{1,60})\)",
    re.IGNORECASE | re.MULTILINE,
)
# "moved the queue from Redis to Postgres"
_CHANGE = re.compile(
    r"(?<=\s)(?P<verb>(?:chang|mov|switch|migrat|rais|lower|renam|bump|upgrad|increas|reduc)\w*"
    rf"(?: [^.;,]{{1,60}}?)??) from {_VALUE}(?= to \S)",
    re.IGNORECASE,
)


# every denial has one of these as a word by itself, or a bracket: searching them costs a tenth
_DENYING = frozenset(
    "not no longer instead rather nicht statt anstatt lieu vez lugar вместо non не".split()
)


_LONGEST_CORRECTION = 2_000  # characters: a longer text is more than a correction


def read_correction(text: str) -> CorrectedText:
    """Return a text without its correcting words; a long one unchanged."""
    if len(text) > _LONGEST_CORRECTION:
        return CorrectedText(text, (), False)
    label = _LABEL.match(text)
    plain = text[label.end() :] if label else text
    folded = plain.casefold()
    may_deny = " (" in folded or not _DENYING.isdisjoint(folded.split())
    matches = list(_DENIAL.finditer(plain)) if may_deny else []
    if " from " in folded:
        matches += _CHANGE.finditer(plain)
    denied = [match["denied"] or match.groupdict()["in_brackets"] for match in matches]
    if denied:
        plain = _CHANGE.sub(r"\g<verb>", _DENIAL.sub("", plain))
    return CorrectedText(plain, tuple(value.rstrip(".") for value in denied), label is not None)


def statement(text: str) -> Statement:
    """Return the statement of a text."""
    tokens = statement_tokens(text)
    plain = read_correction(text)
    corrected = tokens if plain.text == text else statement_tokens(plain.text)
    words = frozenset(tokens)
    is_english = not words.isdisjoint(_ENGLISH) or (text.isascii() and words.isdisjoint(_FOREIGN))
    weighed = is_english and not words.isdisjoint(_WEIGHED)
    without_articles = list(_without_articles(tokens)) if weighed else tokens
    if words.isdisjoint(JOINTS):
        settled = [token for token in without_articles if token not in SEPARATORS]
    else:
        settled = order_lists(without_articles)
    if weighed:
        settled = [token for token in settled if token not in _IS]
    return Statement(tuple(settled), tuple(corrected), not words.isdisjoint(RELATIVE))


def _without_articles(tokens: list[str]) -> Iterator[str]:
    """Yield the tokens without empty words; an "is" that opens a sentence is a question's and
    stays.
    """
    for place, token in enumerate(tokens):
        if token not in _WEIGHED:
            yield token
        elif token in _IS:
            opens = place == 0 or tokens[place - 1] == STOP
            yield MARK + token if opens else token
        elif token == "a":
            after = tokens[place + 1] if place + 1 < len(tokens) else STOP
            if after in FUNCTION or after in SEPARATORS or is_mark(after):
                yield token


def timeless(of: Statement) -> list[str]:
    """Return the tokens of a statement without commas, colons and "now"; the last is a STOP."""
    return [token for token in of.said if token not in _PASSED_OVER]


def differences(older: Statement, newer: Statement) -> list[tuple[int, str, str]]:
    """Return the differences of two statements of one frame: the place in `timeless`, the marks.

    Empty for two frames.
    """
    before, after = timeless(older), timeless(newer)
    if len(before) != len(after):
        return []
    pairs = enumerate(zip(before, after, strict=True))
    differing = [(place, a, b) for place, (a, b) in pairs if a != b]
    if not all(is_mark(a) and is_mark(b) for _, a, b in differing):
        return []
    return [(place, a[1:], b[1:]) for place, a, b in differing]


def _hash(tokens: Sequence[str]) -> int:
    if not tokens:
        return 0
    data = "\x1f".join(tokens).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


# Lists without an order: "ruff, mypy and pytest" equals "pytest, ruff and mypy".
#
# Most enumerations have an order that matters: steps, priorities, sequences. So a list is sorted
# only if it ends its sentence, follows a word that gathers things, and no word near it mentions an
# order; points of a markdown list if no word of the text does.

_ANDS = frozenset("and und et y e и".split())
_ORS = frozenset("or oder ou o или".split())
_GATHERS = frozenset(
    """
    use uses using with support supports include includes including contain contains require
    requires need needs like are of in on for
    mit verwendet verwenden benutzt benutzen unterstützt braucht brauchen sind
    """.split()
)
JOINTS = _ANDS | _ORS | {BULLET}  # a text without one has no list
_ORDERED = frozenset(
    """
    then first second third next last finally before after order ordered ordering sequence step
    steps stage stages phase phases pipeline workflow process chain precedence priority priorities
    prefer prefers preferred hierarchy rank ranked sort sorts sorted respectively each from to
    ratio difference quotient minus divide divided subtract concatenate concatenation compare
    compared versus vs join joins map maps mapping convert converts
    between replace replaces swap run runs primary fallback
    not no never nor neither without except instead than but only
    erst zuerst dann danach zuletzt schritt schritte reihenfolge vor nach nicht nie niemals kein
    keine ohne statt nur jeweils
    puis ensuite avant après d'abord étapes ordre pas jamais sans
    luego después antes primero pasos orden nunca sin
    сначала затем потом после перед шаги порядок не без
    """.split()
)
_LONGEST_THING = 4  # words of one thing in a list


def order_lists(tokens: Sequence[str]) -> list[str]:
    """Return tokens with the things of each list without an order sorted; without separators."""
    result: list[str] = []
    points: list[tuple[str, ...]] = []
    is_free = _ORDERED.isdisjoint(tokens)
    for sentence, is_point in _sentences(tokens):
        ordered = tuple(_sort_list(sentence))
        if is_point and is_free:
            points.append(ordered)
            continue
        result += _flat(sorted(points))
        points.clear()
        result += ordered
    return result + _flat(sorted(points))


def _flat(parts: Sequence[Sequence[str]]) -> list[str]:
    return [token for part in parts for token in part]


def _sentences(tokens: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield the sentences, and of each whether it is the whole of a point of a list."""
    lines: list[str] = []
    is_point = False
    for token in tokens:
        if token == BULLET:
            is_point = True
        elif token == STOP:
            if lines:
                yield lines, is_point
                lines, is_point = [], False
        else:
            lines.append(token)
    if lines:
        yield lines, is_point


def _sort_list(sentence: Sequence[str]) -> list[str]:
    """Return a sentence without commas and colons, the list that ends it in order."""
    plain = [token for token in sentence if token not in (COMMA, COLON)]
    if _ANDS.isdisjoint(sentence) and _ORS.isdisjoint(sentence):
        return plain  # parts divided by commas alone may be anything
    if not _ORDERED.isdisjoint(sentence):
        return plain
    joints = [place for place, token in enumerate(sentence) if _is_joint(token)]
    head = next((at for at in range(joints[0] - 1, -1, -1) if _gathers(sentence, at)), None)
    if head is None:
        return plain
    things = _things(sentence[head + 1 :])
    is_or = not _ORS.isdisjoint(sentence)
    if is_or and not _ANDS.isdisjoint(sentence):
        return plain
    if not all(1 <= len(thing) <= _LONGEST_THING for thing in things) or not _are_free(things):
        return plain
    before = [token for token in sentence[: head + 1] if token not in (COMMA, COLON)]
    return [*before, "or" if is_or else "and", *_flat(sorted(things))]


def _is_joint(token: str) -> bool:
    return token == COMMA or token in _ANDS or token in _ORS


def _gathers(sentence: Sequence[str], at: int) -> bool:
    """Return True if things follow a place: "with ..." or "languages: ..."."""
    token = sentence[at]
    if token == COLON:
        return at > 0 and not is_mark(sentence[at - 1]) and sentence[at - 1].endswith("s")
    return token in _GATHERS


def _things(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the things between the joints; a comma before an "and" is one joint with it."""
    things: list[list[str]] = [[]]
    for token in tokens:
        if not _is_joint(token):
            things[-1].append(token)
        elif things[-1]:
            things.append([])
    return [tuple(thing) for thing in things]


def _are_free(things: Sequence[tuple[str, ...]]) -> bool:
    """Return True if things may stand in any order: two numbers may be a point or a range."""
    if any(COLON in thing or thing[0].endswith("ing") for thing in things):
        return False
    has_number = any(map(str.isdigit, "".join(token for thing in things for token in thing)))
    return len(things) > 2 or not has_number
