"""hostile_texts: random hostile texts, and notes in many scripts."""

import random
from collections.abc import Callable, Iterator

SCRIPTS = {
    "latin": (0x61, 0x7A),
    "accents": (0xE0, 0xFF),
    "greek": (0x3B1, 0x3C9),
    "cyrillic": (0x430, 0x44F),
    "hebrew": (0x5D0, 0x5EA),
    "arabic": (0x628, 0x64A),
    "devanagari": (0x905, 0x939),
    "thai": (0xE01, 0xE2E),
    "hangul": (0xAC00, 0xAF00),
    "kana": (0x3042, 0x3093),
    "han": (0x4E00, 0x5200),
    "gothic": (0x10330, 0x1034A),
}
VERBS = "uses keeps sends drops reads writes builds tests locks moves".split()
SQL = (
    "'; DROP TABLE events; --", '" OR 1=1 --', "x' UNION SELECT body FROM events", "NEAR(a b, 3)",
    'a AND NOT "b', "col:val*", "^start", "(a OR b) AND", "a* b*", "{a b} : c", "' || x'00'",
)  # fmt: skip
PATHS = (
    "../../etc/passwd",
    "src/a.py:12:3",
    "C:\\Windows\\x.dll",
    "a/b/c.d.e",
    "~/.ssh/id",
    "//h/x",
)
NAMES = (
    "loginHandler",
    "HTTP_503",
    "v1.2.3-rc.1+b",
    "foo::bar<T>",
    "@scope/pkg",
    "#123",
    "a-b_c.d",
)
MARKUP = ("<script>alert(1)</script>", "{{7*7}}", "${jndi:ldap://x}", "%s%n%x", "[a](b)", "`code`")
DATES = (
    "yesterday", "last week", "vor drei Tagen", "hier", "2026-11-22", "22.11.2026", "11/22/26",
    "Q3 2025", "in 10 years", "99999-99-99", "2026-02-30", "the day before yesterday", "上周",
    "вчера", "32 December", "0000-00-00T00:00:00Z", "9999-12-31", "-1 days ago", "3 centuries ago",
    "between May and the 9th of Octember", "1e9 weeks ago", "99999999999999999 days ago",
)  # fmt: skip
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u202d\u2066\u2069\u061c\u180e"
EMOJI = "👩\u200d👩\u200d👧\u200d👦 🏳\ufe0f\u200d🌈 👍🏽 🇩🇪 e\u0301 "
BAIT = (
    "a" * 50 + "!",
    "((((((",
    "a.a.a.a.",
    "x" * 40 + "@",
    "==",
    "--a" * 20,
    "\\" * 30,
    "a_" * 40,
)


REPEATED = 1 / 30  # of the texts are repeated


def notes(count: int, chance: random.Random) -> Iterator[str]:
    """Yield notes of words that follow Zipf, in all scripts, with a name or a number."""
    words = {script: [_word(chance, *ends) for _ in range(400)] for script, ends in SCRIPTS.items()}
    for number in range(count):
        script = chance.choice(list(words))
        words_ = [_zipf(chance, words[script]) for _ in range(chance.randrange(4, 16))]
        words_.insert(1, chance.choice(VERBS))
        words_.append(
            chance.choice(("src/part{}.py", "handle_{}", "v1.{}", "{}")).format(number % 90)
        )
        yield " ".join(words_)


def _word(chance: random.Random, low: int, high: int) -> str:
    return "".join(chr(chance.randint(low, high)) for _ in range(chance.randrange(2, 9)))


def _zipf(chance: random.Random, words: list[str]) -> str:
    return words[min(int(chance.paretovariate(1.0)) - 1, len(words) - 1)]


def hostile(
    chance: random.Random,
    *,
    longest: int = 65_536,
    known: list[str] | None = None,
    repeats: bool = True,
) -> str:
    """Return a text of one or several kinds; unless `repeats` is False, one in thirty is repeated,
    up to `longest`.

    Parts of the texts in `known` are used too.
    """
    pieces = [chance.choice(_KINDS)(chance) for _ in range(chance.choice((1, 1, 2, 3, 6)))]
    if known and chance.random() < 0.4:
        text = chance.choice(known)
        start = chance.randrange(len(text))
        pieces.append(text[start : start + chance.randrange(1, 60)])
    chance.shuffle(pieces)
    text = chance.choice((" ", "", "\n", ", ", "\x00")).join(pieces) or "?"
    if repeats and chance.random() < REPEATED:
        text = (text * (longest // len(text) + 1))[: chance.randrange(1, longest + 1)]
    return text[:longest]


def _any(low: int, high: int) -> Callable[[random.Random], str]:
    def drawn(chance: random.Random) -> str:
        return "".join(chr(chance.randint(low, high)) for _ in range(chance.randrange(1, 40)))

    return drawn


def _one_of(*texts: str) -> Callable[[random.Random], str]:
    return lambda chance: chance.choice(texts)


def _script(chance: random.Random) -> str:
    return _word(chance, *chance.choice(list(SCRIPTS.values())))


def _numbers(chance: random.Random) -> str:
    return chance.choice(
        (
            str(chance.getrandbits(chance.randrange(1, 400))),
            "1e999",
            "-0.0",
            "0x" + "f" * 40,
            "٣٤٥",
            "½",
        )
    )


def _combining(chance: random.Random) -> str:
    mark = chance.choice("\u0301\u0308\u20dd\u0489\u05bc\u064b")
    return "a" + mark * chance.choice((1, 30, 2_000))


def _unseen(chance: random.Random) -> str:
    return chance.choice(INVISIBLE).join("password of the vault")


def _repeated(chance: random.Random) -> str:
    return chance.choice((*BAIT, *INVISIBLE, " ", "a ", "[", "/", "?")) * chance.choice(
        (3, 50, 3_000)
    )


def _broken(chance: random.Random) -> str:
    return "".join(chance.choice("\ud800\udfff\udc80a ") for _ in range(chance.randrange(1, 6)))


_KINDS: tuple[Callable[[random.Random], str], ...] = (
    *(_any(*plane) for plane in ((0x20, 0x7E), (0, 0x1F), (0xA0, 0x2FFF), (0x1F300, 0x1FAFF))),
    *(_any(*plane) for plane in ((0xE000, 0xF8FF), (0x20000, 0x2A6DF), (0xE0000, 0x10FFFF))),
    _one_of(*SQL), _one_of(*PATHS), _one_of(*NAMES), _one_of(*MARKUP), _one_of(*DATES),
    _one_of(*BAIT), _one_of(EMOJI), _one_of("what is", "why does", "wer hat", "何", "не", "¿qué"),
    _script, _script, _numbers, _combining, _unseen, _repeated, _broken,
)  # fmt: skip
