"""
Classifier: a prompt's intent, and its sentences that say something lasting.

One linear model over hashed n-grams (`features`), fitted by `make fit` on the labelled lines in
tests/data/prompts, written for many kinds of people in eleven languages. Lines that people did
type, in sessions they publish, look different: one sentence in sixteen lasts, and most sentences
that sound like rules are requests of the day. So two models judge lasting sentences, one fitted on
written lines and one on such sessions (tests/data/lives), and the more a sentence looks written,
the more the first one counts (`_mixed`). docs/prompts.md has the accuracy on lines and lives that
neither saw. Weights are bytes with a scale for each class.
"""

import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from store.log.event_kinds import Intent

# Features of a prompt or of one of its sentences: character n-grams, words and context.
#
# Each feature is hashed into one of `BUCKETS`; within a group (characters, words, context) every
# different one weighs the same, so that a long text counts no more than a short one. The hashing
# trick needs no vocabulary: Weinberger et al., ICML 2009, https://arxiv.org/abs/0902.2206.

BITS = 16
BUCKETS = 1 << BITS
MOST_CHARACTERS = 600  # of a sentence; the rest adds nothing about its kind
MOST_SENTENCES = 40

Ids = npt.NDArray[np.uint32]
Features = tuple[Ids, npt.NDArray[np.float32]]

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r'["\u201c\u201e\u00ab][^"\u201d\u201c\u00bb\n]{8,400}["\u201d\u201c\u00bb]')
_DIGIT = re.compile(r"\d")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=\S)|(?<=[\u3002\uff01\uff1f])|\n+")
# Thai, kana, Han and Hangul: a run of them is a clause and no word, or ends in the telling part, so
# each letter stands for a word, and pairs and edges of letters for the words and endings of other
# scripts
_LETTERS = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_TOKEN = re.compile(rf"[{_LETTERS}]|[^\W_{_LETTERS}]+(?:'\w+)?|[^\w\s]")
_LONGEST_BEFORE = 300  # characters: the end of the agent's words
_EDGE = 3  # words at the beginning and at the end
_CHARACTERS, _WORDS, _EDGES, _SHAPE, _AROUND, _BEFORE = 1.0, 1.0, 0.5, 0.5, 0.35, 0.3


class Sentence(msgspec.Struct, frozen=True):
    """A sentence of a prompt: where it begins and ends, and its place among the others."""

    start: int
    end: int
    place: int
    of: int


def sentences(text: str) -> list[Sentence]:
    """Return the sentences of a prompt but for those in code blocks, in order, MOST_SENTENCES."""
    spans: list[tuple[int, int]] = []
    start = 0
    fences = [(match.start(), match.end()) for match in _FENCE.finditer(text)]
    for begin, end in [*fences, (len(text), len(text))]:
        at = start
        for stop in _END.finditer(text, start, begin):
            spans.append((at, stop.start()))
            at = stop.end()
        spans.append((at, begin))
        start = end
    spans = [span for span in spans if text[slice(*span)].strip()][:MOST_SENTENCES]
    return [Sentence(*span, place, len(spans)) for place, span in enumerate(spans)]


def sentence_features(text: str, sentence: Sentence, before: str = "") -> Features:
    """Return the features of a sentence of a prompt; `before` is the agent's preceding message."""
    words = text[sentence.start : sentence.end]
    groups = [*_text_groups(words), (_shape(text, words, sentence, before), _SHAPE)]
    if sentence.of > 1:
        around = _normalize(text[: 4 * MOST_CHARACTERS])
        groups.append((_words(_TOKEN.findall(around), 4, 1), _AROUND))
    return _join_groups([*groups, *_before_groups(before)])


def prompt_features(text: str, before: str = "") -> Features:
    """Return the features of a whole prompt."""
    whole = Sentence(0, len(text), 0, 1)
    return _join_groups(
        [*_text_groups(text), (_shape(text, text, whole, before), _SHAPE), *_before_groups(before)]
    )


def _text_groups(text: str) -> Iterator[tuple[Ids, float]]:
    plain = _normalize(_QUOTED.sub(" \u25a3 ", text))
    words = _TOKEN.findall(plain)
    yield _characters(plain), _CHARACTERS
    yield _words(words, 1, 2), _WORDS
    edges = [f"^{' '.join(words[:n])}" for n in range(1, _EDGE + 1)]
    edges += [f"{' '.join(words[-n:])}$" for n in range(1, _EDGE + 1)]
    yield _hash(edges, 77), _EDGES


def _before_groups(before: str) -> Iterator[tuple[Ids, float]]:
    if before:
        text = _normalize(before)[-_LONGEST_BEFORE:]
        yield _words(_TOKEN.findall(text), 5, 1), _BEFORE


def _normalize(text: str) -> str:
    """Return a text in folded case, its code, numbers and white space each as one sign."""
    folded = unicodedata.normalize("NFKC", text[: 2 * MOST_CHARACTERS]).casefold()
    folded = _FENCE.sub(" \u2592 ", folded.replace("\u2019", "'"))
    return " ".join(_DIGIT.sub("0", folded).split())[:MOST_CHARACTERS]


def _shape(text: str, words: str, sentence: Sentence, before: str) -> Ids:
    """Return the features of a sentence's shape: a question, its length, place and surroundings."""
    quotes = text.count('"', 0, sentence.start) + text.count("\u201c", 0, sentence.start)
    symbols = sum(not (letter.isalnum() or letter.isspace()) for letter in words)
    place = "only" if sentence.of == 1 else "first" if sentence.place == 0 else "middle"
    start = words.lstrip()[:1]
    names = [
        "asks" if words.rstrip().endswith(("?", "\uff1f")) else "tells",
        "last" if place == "middle" and sentence.place == sentence.of - 1 else place,
        f"length {min(6, max(len(words), 4).bit_length() - 3)}",
        f"of {min(sentence.of, 5)}",
        "answers" if before.rstrip().endswith("?") else "follows" if before else "begins",
        f"symbols {min(5, 20 * symbols // max(1, len(words)))}",
        *(["within quotes"] if (quotes - text.count("\u201d", 0, sentence.start)) % 2 else []),
        *(["code"] if "```" in text else []),
        *([f"starts {start}"] if start in "><\"'|#-*+([{@$" and start else []),
        *(["text asks"] if text.rstrip().endswith("?") else []),
    ]
    return _hash(names, 0xA5)


def _characters(text: str) -> Ids:
    """Return the hashes of a text's n-grams of one to five characters."""
    codes = np.frombuffer(f" {text} ".encode("utf-32-le", "surrogatepass"), np.uint32)
    rolled, hashes = codes, []
    for n in range(1, 6):
        if n > 1:
            if len(codes) < n:
                break
            rolled = (rolled[:-1] * np.uint32(0x01000193)) ^ codes[n - 1 :]
        mixed = (rolled ^ np.uint32(n * 0x9E3779B1 & 0xFFFFFFFF)) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        hashes.append(mixed >> np.uint32(32 - BITS))
    return np.concatenate(hashes)


def _words(words: list[str], salt: int, longest: int) -> Ids:
    """Return the hashes of runs of one word up to `longest`."""
    runs = list(words)
    for n in range(2, longest + 1):
        runs += [" ".join(words[at : at + n]) for at in range(len(words) - n + 1)]
    return _hash(runs, salt)


def _hash(texts: Iterable[str], salt: int) -> Ids:
    hashes = [zlib.crc32(text.encode("utf-8", "surrogatepass"), salt) for text in texts]
    mixed = np.array(hashes, np.uint32) * np.uint32(0x9E3779B1)
    return mixed >> np.uint32(32 - BITS)


def _join_groups(groups: Iterable[tuple[Ids, float]]) -> Features:
    ids, values = [np.empty(0, np.uint32)], [np.empty(0, np.float32)]
    for group, weight in groups:
        if len(group):
            different = np.unique(group)
            ids.append(different)
            values.append(np.full(len(different), weight / np.sqrt(len(different)), np.float32))
    return np.concatenate(ids), np.concatenate(values)


WEIGHTS = Path(__file__).with_name("weights.npz")
MAX_PROMPT = 6_000  # characters; a longer one is a pasted document, not the user's own words

Lasting = Literal["rule", "preference", "decision", "fact"]
WANTS = ("work", "general", "small_talk", "control", "recap")
LASTS: tuple[Lasting, ...] = ("rule", "preference", "decision", "fact")

Values = npt.NDArray[np.float32]


class Wants(NamedTuple):
    """The probabilities of a prompt's kinds; they add up to 1.

    `work` is about this project; `general` is a question or chore that no project can help with;
    `control` steers the agent at this moment; `recap` asks for the work done or left open.
    """

    work: float
    general: float
    small_talk: float
    control: float
    recap: float


class Said(msgspec.Struct, frozen=True):
    """A sentence of a prompt: the probability that it lasts, and its likeliest kind of LASTS."""

    text: str
    start: int
    end: int
    lasts: float
    kind: Lasting


class _Model:
    """The weights, [buckets, classes] each, and how telling each bucket is, [buckets]."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            scale = float(file["telling_scale"])
            self._telling: Values = file["telling"].astype(np.float32) / np.float32(scale)
            self._weights = file["weights"]
            self._scales = file["scales"].astype(np.float32)
            self._bias = file["bias"].astype(np.float32)

    def odds(self, features: Features) -> Values:
        """Return the log-odds of every class, [classes]."""
        ids, values = features
        values = values * self._telling[ids]
        length = float(np.sqrt((values * values).sum())) or 1.0
        summed = (values / np.float32(length)) @ self._weights[ids].astype(np.float32)
        odds: Values = summed * self._scales + self._bias
        return odds


@cache
def _model() -> _Model:
    return _Model(WEIGHTS)


def wants(prompt: str, before: str = "") -> Wants:
    """Return the likely kinds of a prompt; `before` is the agent's last message, where known."""
    odds = _model().odds(prompt_features(prompt, before))[: len(WANTS)]
    return Wants(*_shares(odds).tolist())


def corrects(prompt: str, before: str = "") -> float:
    """Return the probability that a prompt calls the agent's last or next action wrong."""
    return _probability(float(_model().odds(prompt_features(prompt, before))[len(WANTS)]))


def read(prompt: str, before: str = "") -> tuple[Said, ...]:
    """Return the sentences of a prompt in order; none of a pasted document."""
    if len(prompt) > MAX_PROMPT:
        return ()
    statements = []
    for sentence in sentences(prompt):
        odds = _model().odds(sentence_features(prompt, sentence, before))[len(WANTS) + 1 :]
        passes, *kinds, lived, written = odds.tolist()
        kind = LASTS[kinds.index(max(kinds))]
        text = prompt[sentence.start : sentence.end].strip()
        lasts = _mixed(float(np.logaddexp.reduce(kinds)) - passes, lived, written)
        statements.append(Said(text, sentence.start, sentence.end, lasts, kind))
    return tuple(statements)


def _mixed(line: float, lived: float, written: float) -> float:
    """Return the probability that a sentence lasts, from log-odds.

    `line` are those by the model of written lines, `lived` by that of sessions, and `written` are
    the log-odds that the sentence looks like a written line.
    """
    share = _probability(written)
    return _probability(share * line + (1.0 - share) * lived)


def _probability(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds))


def _shares(odds: Values) -> Values:
    """Return the softmax of log-odds."""
    raised = np.exp(odds - odds.max())
    shares: Values = raised / raised.sum()
    return shares


# A prompt's intent, which decides the memory's answer: nothing, the memories on its topic, or the
# work done before. The model decides; a host's own commands are known by their form.

LOOKED_AT = 2_000  # characters, from the beginning

# "/review", "/mcp__x", "!ls": addressed to the host, not to the agent; a path has a second slash
_COMMAND = re.compile(r"\s*(?:/[\w:.-]+(?=\s|\Z)|[!#])\s*(?P<rest>.*)", re.DOTALL)
_OWN_WORDS = 3  # from so many on, a slash command names its topic
_INTENTS: dict[str, Intent] = {
    "work": "work",
    "general": "general",
    "small_talk": "small_talk",
    "control": "command",
    "recap": "recap",
}
CORRECTS = 0.5  # from this likelihood on a prompt is taken for a correction


class Reading(msgspec.Struct, frozen=True):
    """A prompt's intent, and the probability of each kind; None if its form decides."""

    intent: Intent
    wants: Wants | None = None

    @property
    def is_idle(self) -> bool:
        """Return True if the prompt only talks to the agent, or steers it."""
        return self.intent in ("small_talk", "command")


def read_intent(prompt: str, before: str = "") -> Reading:
    """Return the intent of a prompt; `before` is the agent's last message.

    A prompt without words is small talk.
    """
    text = prompt[:LOOKED_AT].strip()
    if command := _COMMAND.match(text):
        text = command["rest"].strip()
        if len(text.split()) < _OWN_WORDS or prompt.lstrip().startswith("!"):
            return Reading("command")
    if not any(character.isalnum() for character in text):
        return Reading("small_talk")
    shares = wants(text, before)
    likeliest = max(zip(shares, Wants._fields, strict=True))[1]
    intent = _INTENTS[likeliest]
    if intent == "work" and corrects(text, before) >= CORRECTS:
        return Reading("correction", shares)
    return Reading(intent, shares)
