"""
patterns: every regular expression of ours takes time linear in the size of its worst texts, and at
most 50 ms for 100 kB.

Some only ever get a truncated text, or a sentence: those must meet the limit at that size. Time is
this thread's own; a slow match is measured again, as other work on the machine can make nothing
faster, together with the time to find the words of an ordinary text: the limit is for a processor
that needs `PACE_S` for them, and grows with a slower one.
"""

import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture.bait import Bait, baits
from torture.outcome import Outcome, Scale
from torture.regexes import Regex, found, modules, uses

from pipelines.jobs.distill import fixes
from pipelines.jobs.facts import statements
from serve.hooks import earlier_turns
from serve.recall import analysis
from store.agents import authorship, prompt_classifier, tool_calls
from store.memories import episode
from store.redaction.labelled_secrets import NAMED
from store.redaction.redact import find
from store.redaction.token_patterns import ISSUED
from store.text import claims, hazards

SIZE = 100_000
LONGEST_S = 0.05
PACE_S = 0.0025
NOISE = 2  # times the duration without other load: other processes share the CPU caches
MOST_RATIO = 3.0  # for twice the text, at both doublings: 2 is linear, 4 quadratic
LEAST_S = 0.003  # a shorter time is too noisy for a ratio
TRIES = 5
HANGS_S = 5.0
TAILS = ("", "a", "A1", "0", "=", " ", "\n", '"', "a1B2c3D4e5", ":", '="a', "\\")

# characters of the longest text that a module passes to its expressions
CAPPED: Mapping[str, int] = {
    "pipelines.jobs.facts.": statements.MAX_SENTENCE,
    "pipelines.jobs.facts.statements._SENTENCE": statements.MAX_TEXT,
    "serve.recall.analysis.": analysis.MAX_QUERY,
    "serve.recall.classification.": analysis.MAX_QUERY,
    "store.agents.prompt_classifier.": prompt_classifier.MAX_PROMPT,
    "store.agents.prompt_classifier._COMMAND": prompt_classifier.LOOKED_AT,
    "store.agents.authorship._SHAPES": authorship.SHAPED,
    "store.agents.tool_calls._TELLING": tool_calls.MAX_LINE,
    "store.text.hazards.": hazards.LOOKED_AT,
    "store.text.claims.": claims.LONGEST,
    "store.text.claims._NUMBERED": claims.LONGEST_KEY,
    "store.text.claims._FENCE": claims.LOOKED_AT,
    "store.text.claims._END": claims.LOOKED_AT,
    "pipelines.jobs.distill.fixes.HEADLINES": fixes.WIDEST,
    "serve.hooks.earlier_turns._ASIDE": earlier_turns.OPENING,
    "serve.hooks.earlier_turns._BACK": earlier_turns.OPENING,
    "serve.hooks.earlier_turns._LEFT_OPEN": episode.MAX_SAID,
    "serve.hooks.earlier_turns._NONE_OPEN": episode.MAX_SAID,
    "serve.hooks.earlier_turns._TITLE": episode.MAX_SAID,
}
# methods used with patterns in a tuple or a dictionary: the source does not call these by name
HELD: Mapping[str, set[str]] = {
    "pipelines.jobs.facts.rules.RULES": {"match"},
    "pipelines.jobs.distill.fixes.HEADLINES": {"search"},
    "store.agents.authorship._SHAPES": {"match"},
    "store.agents.efforts._WORDS": {"match"},
    "store.agents.tool_calls._TELLING": {"search"},
    "store.redaction.bare_tokens._VALUE": {"match"},
    "store.text.claims._DATE": {"fullmatch"},
    "store.text.claims._MONEY": {"fullmatch"},
    "store.text.claims._PERCENT": {"fullmatch"},
    "store.text.claims._PATH": {"fullmatch"},
    "store.text.claims._TIME": {"fullmatch"},
    "store.text.corrections._KINDS": {"fullmatch"},
}


class _Hangs(Exception):
    """A match that does not end."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds for a quarter, half and all of a text."""

    quarter: float
    half: float
    whole: float
    pace: float  # the processor's time as a multiple of `PACE_S`

    @property
    def is_linear(self) -> bool:
        if self.whole < LEAST_S:
            return True
        return self.whole < MOST_RATIO * self.half or self.half < MOST_RATIO * self.quarter

    @property
    def is_fine(self) -> bool:
        return self.is_linear and self.whole <= LONGEST_S * NOISE * max(1.0, self.pace)

    def __str__(self) -> str:
        took = ", ".join(
            f"{seconds * 1e3:.1f}" for seconds in (self.quarter, self.half, self.whole)
        )
        return f"{took} ms at {self.pace:.1f} times the pace"


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcome for every expression, and for a control that is known to be quadratic."""
    every, untold = found()
    most = scale.of(10, 16)
    size = scale.of(SIZE // 20, SIZE)
    methods = uses(modules())
    texts, wrong, slowest = 0, [], (0.0, "")
    tested = set[tuple[object, ...]]()
    for regex in every:
        used, pattern = _methods(regex, methods), regex.pattern.pattern
        is_called = (regex.module, regex.name.split("[")[0]) in methods
        if (same := (pattern, _cap(regex.where), *sorted(used))) in tested:
            continue
        if not is_called and (pattern,) in tested:
            continue  # imported, and tested where it is called
        tested |= {same, (pattern,)}
        tried, slow, took = _worst(regex, used, most, size)
        texts += tried
        wrong += slow
        slowest = max(slowest, (took, regex.where))
    yield Outcome(
        "regular expressions against their own bait",
        texts,
        "texts",
        wrong,
        f"{len(every)} expressions, the slowest {slowest[0] * 1e3:.0f} ms: {slowest[1]}; "
        f"{len(untold)} made of what they are given were not tried",
        floor=10 * len(every),
    )
    tried, slow = _cues(size, scale.of(3, 1))
    yield Outcome("cues of a secret, over and over", tried, "texts", slow, floor=1000)
    control = Regex("control", "_QUADRATIC", re.compile(r"\s*x"))
    tried, slow, _ = _worst(control, {"search"}, most, size)
    yield Outcome("an expression known to be slow", tried, "texts", slow, is_control=True)


def _cues(size: int, every: int) -> tuple[int, list[str]]:
    """Return the number of texts full of cues that were searched for secrets, and the slow ones.

    Each cue gets every `every`th tail, and the next cue others.
    """
    cues = sorted({pattern.cue for pattern in ISSUED + NAMED})
    shares = [(cue, TAILS[number % every :: every]) for number, cue in enumerate(cues)]
    units = [cue + tail for cue, tails in shares for tail in tails if cue + tail]
    slow = list[str]()
    for unit in units:
        texts = [unit * max(1, part // len(unit)) for part in (size // 4, size // 2, size)]
        took = _timed(find, texts)
        if took is None:
            slow.append(f"find hangs on {unit!r}")
        elif not took.is_fine:
            slow.append(f"find takes {took} for {unit!r}")
    return len(units), slow


def _methods(regex: Regex, methods: Mapping[tuple[str, str], set[str]]) -> set[str]:
    """Return the methods a pattern is used with: in its module, else in any."""
    held_methods = next((used for name, used in HELD.items() if regex.where.startswith(name)), None)
    word = regex.name.split("[")[0]
    own = methods.get((regex.module, word)) or methods.get(("", word), {"finditer"})
    return held_methods or own


def _worst(regex: Regex, used: set[str], most: int, size: int) -> tuple[int, list[str], float]:
    """Return the number of texts, the slow ones, and the longest time in seconds."""
    size = min(size, _cap(regex.where))
    tried, slow, longest = 0, list[str](), 0.0
    for bait in baits(regex.pattern, most):
        tried += 1
        for method in sorted(used):
            took = _took(regex.pattern, method, bait, size)
            if took is None:
                return tried, [*slow, f"{regex.where}.{method} hangs on {bait!r:.100}"], HANGS_S
            longest = max(longest, took.whole)
            if not took.is_fine:
                slow.append(f"{regex.where}.{method} takes {took} for {bait!r:.100}")
    return tried, slow, longest


def _cap(where: str) -> int:
    """Return the maximum text size of an expression: from the longest matching name."""
    fit = [name for name in CAPPED if where.startswith(name)]
    return CAPPED[max(fit, key=len)] if fit else SIZE


def _took(pattern: re.Pattern[Any], method: str, bait: Bait, size: int) -> Timed | None:
    """Return the best times of a pattern on a text; None if it hangs."""
    sizes = (size // 4, size // 2, size)
    is_bytes = isinstance(pattern.pattern, bytes)
    texts = [
        text.encode("utf-8", "replace") if is_bytes else text for text in map(bait.text, sizes)
    ]
    act = _ACTS.get(method)
    if act is not None:
        return _timed(lambda text: act(pattern, text), texts)
    return _timed(getattr(pattern, method), texts)


def _timed(act: Callable[[Any], object], texts: Sequence[Any]) -> Timed | None:
    """Return the best times of a function on three texts; None if it hangs."""
    best = [float("inf")] * len(texts)
    try:
        with _at_most(HANGS_S):
            pace = 1.0
            for _ in range(TRIES):
                best = [
                    min(seconds, _seconds(act, text))
                    for seconds, text in zip(best, texts, strict=True)
                ]
                if (timed := Timed(*best, pace)).is_fine:
                    break
                pace = min(_seconds(_count_words, _ORDINARY) for _ in range(TRIES)) / PACE_S
    except _Hangs:
        return None
    return timed


_WORD = re.compile(r"\w+")
_ORDINARY = "the keeper lights 12 harbour lamps, as the tide comes in. " * (SIZE // 58)


def _count_words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


def _seconds(act: Callable[[Any], object], text: Any) -> float:
    began = time.thread_time()
    act(text)
    return time.thread_time() - began


_ACTS: Mapping[str, Callable[[re.Pattern[Any], Any], object]] = {
    "sub": lambda pattern, text: pattern.sub(text[:0], text),
    "subn": lambda pattern, text: pattern.subn(text[:0], text),
    "finditer": lambda pattern, text: sum(1 for _ in pattern.finditer(text)),
}


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise after so many seconds of this process's time: a matcher checks for signals."""

    def hang(*_: object) -> None:
        raise _Hangs

    before = signal.signal(signal.SIGVTALRM, hang)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
