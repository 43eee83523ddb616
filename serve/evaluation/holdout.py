"""
Hold-out: the effect of the memory, from sessions without memories and sessions with them.

While the setting `holdout` is above 0, each new session is drawn by its id, and the log keeps the
draw. The difference between the two arms is estimated session by session: each is weighted by the
probability of its draw, with the arm's earlier results as the model (AIPW without covariates). The
intervals hold at all sizes at once, so daily looks and optional stopping are valid: Waudby-Smith,
Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and asymptotic confidence
sequences", https://arxiv.org/abs/2103.06476. For few sessions they are approximate, so none is
given below FEWEST in each arm.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from serve.evaluation.drift import find_verdicts
from store.agents.prompt_classifier import CORRECTS, corrects
from store.home.instants import HOUR
from store.log import log_queries
from store.log.event_kinds import Acted, Body, Outcome, Prompted, Recalled, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event

Values = npt.NDArray[np.float64]

ALPHA = 0.05  # how likely an interval ever leaves the true difference out, at most
FEWEST = 8  # sessions in each arm
_TUNED_TO = 100  # sessions at which intervals are tightest
_MOST_SESSIONS = 100_000  # more would take too long to be of use
_IDLE_US = 6 * HOUR  # a session that was silent for so long has ended
_GREEN = ("test", "build")
_NUMBER = re.compile(r"\d+")

MEASURES: Mapping[str, str] = {
    "failures": "commands that failed",
    "known_failures": "failures seen before in another session",
    "corrections": "corrections by you",
    "turns": "turns",
    "turns_to_green": "turns up to the first passing test or build",
}


class Session(msgspec.Struct, frozen=True):
    """A drawn session that has ended; `share` is the hold-out setting at its draw."""

    share: float
    is_held_out: bool
    values: Mapping[str, float]  # by the names of MEASURES


class Difference(msgspec.Struct, frozen=True):
    """A measure's means per session in the two arms, and told minus held out with its interval.

    `needed` is about the number of sessions that a difference of this size takes to show; None if
    it shows already, or never would.
    """

    measure: str
    told: float
    held_out: float
    difference: float
    low: float | None
    high: float | None
    needed: int | None

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "too few to tell"
        return "fewer where told" if self.high < 0 else "more where told"


class KindCount(msgspec.Struct, frozen=True):
    """The number of memories of a kind injected in the told arm, and their outcomes."""

    kind: str
    told: int
    helped: int
    harmed: int


class Comparison(msgspec.Struct, frozen=True):
    """The two arms; `under_way` are sessions that were drawn and have not ended."""

    told: int
    held_out: int
    under_way: int
    differences: tuple[Difference, ...]
    kinds: tuple[KindCount, ...]


def compare(log: EventLog, now: int, kind_of: Callable[[str], str | None]) -> Comparison:
    """Return the arms up to a moment, microseconds UTC; `kind_of` gives the kind of a memory."""
    rows = log_queries.bodies_between(log, "session", 0, now + 1, '"drawn":')
    draws = [
        (session, body)
        for _, session, _, body in reversed(rows)
        if session and isinstance(body, SessionTold) and body.drawn is not None
    ]
    # when each failure was seen first, microseconds UTC
    first_failures = {
        _mark(body): at
        for at, _, _, body in log_queries.bodies_between(
            log, "action", 0, now + 1, '"passed":false'
        )
        if isinstance(body, Acted) and _has_failed(body)
    }
    told_events: list[Event] = []
    ended: list[Session] = []
    under_way = 0
    for session, draw in dict(draws).items():
        events = log.session_events(session)
        last = events[-1]
        is_closed = isinstance(last.body, SessionTold) and last.body.stage == "ended"
        if not is_closed and now - last.at <= _IDLE_US:
            under_way += 1
        elif any(isinstance(event.body, Prompted) for event in events):
            assert draw.drawn is not None
            ended.append(Session(draw.drawn, draw.is_held_out, _values(events, first_failures)))
            told_events += [] if draw.is_held_out else events
    silent = sum(other.is_held_out for other in ended)
    return Comparison(
        len(ended) - silent,
        silent,
        under_way,
        tuple(difference(name, ended) for name in MEASURES) if ended else (),
        _count_kinds(log, told_events, kind_of),
    )


def difference(measure: str, sessions: Sequence[Session]) -> Difference:
    """Return a measure's difference between the arms of some sessions, the first drawn first."""
    values = np.array([session.values[measure] for session in sessions])
    silent = np.array([session.is_held_out for session in sessions])
    shares = np.array([session.share for session in sessions])
    few = int(min(silent.sum(), (~silent).sum()))
    told, held_out = _mean(values[~silent]), _mean(values[silent])
    if few < FEWEST:
        return Difference(measure, told, held_out, told - held_out, None, None, None)
    told_before, held_out_before = _mean_before(values, ~silent), _mean_before(values, silent)
    scores = told_before - held_out_before
    scores += np.where(silent, 0.0, (values - told_before) / (1.0 - shares))
    scores -= np.where(silent, (values - held_out_before) / shares, 0.0)
    centre = float(scores.mean())
    sizes = np.geomspace(len(values), _MOST_SESSIONS, 256)
    # a few alike sessions in the smaller arm are no sign that the next ones are
    pooled = values.var() * (1.0 / (shares * (1.0 - shares))).mean()
    halves = math.sqrt(max(scores.var(), pooled)) * _half_width(sizes)
    half, needed = float(halves[0]), None
    if half >= abs(centre) > 0 and (is_enough := halves < abs(centre)).any():
        needed = math.ceil(sizes[is_enough.argmax()]) - len(values)
    return Difference(measure, told, held_out, centre, centre - half, centre + half, needed)


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else 0.0


def _mean_before(values: Values, is_in: npt.NDArray[np.bool_]) -> Values:
    """Return the mean of an arm's values before each session, [sessions]; 0 if it has none."""
    own = np.where(is_in, values, 0.0)
    counts: npt.NDArray[np.int64] = np.cumsum(is_in) - is_in
    before: Values = (np.cumsum(own) - own) / np.maximum(counts, 1)
    return before


def _half_width(counts: Values) -> Values:
    """Return half the width of the interval of a mean, for a standard deviation of 1, [counts]."""
    tuned = -2.0 * math.log(ALPHA)
    scaled = counts * (tuned + math.log(tuned + 1.0)) / _TUNED_TO
    half: Values = np.sqrt(
        2.0 * (scaled + 1.0) / (counts * scaled) * np.log(np.sqrt(scaled + 1.0) / ALPHA)
    )
    return half


def _values(events: Sequence[Event], first_failures: Mapping[str, int]) -> dict[str, float]:
    """Return the measures of a session; `first_failures` is when each failure was first seen."""
    prompts = [event for event in events if isinstance(event.body, Prompted)]
    failed = [
        event.body for event in events if isinstance(event.body, Acted) and _has_failed(event.body)
    ]
    start = events[0].at
    known = [act for act in failed if first_failures.get(_mark(act), start) < start]
    green = next((event for event in events if _is_green(event.body)), None)
    to_green = [event for event in prompts if green is None or event.seq < green.seq]
    return {
        "failures": len(failed),
        "known_failures": len(known),
        "corrections": _count_corrections(events),
        "turns": len(prompts),
        "turns_to_green": len(to_green),
    }


def _count_corrections(events: Sequence[Event]) -> int:
    """Return the number of prompts that correct the agent, by its last words before each."""
    count, text = 0, ""
    for event in events:
        match event.body:
            case SessionTold(stage="stopped", said=last):
                text = last or ""
            case Prompted(prompt=prompt):
                count += bool(prompt) and corrects(prompt, text) >= CORRECTS
            case _:
                pass
    return count


def _has_failed(act: Acted) -> bool:
    return act.doing == "run" and act.passed is False


def _is_green(body: Body) -> bool:
    return isinstance(body, Acted | Outcome) and body.effort in _GREEN and body.passed is True


def _mark(act: Acted) -> str:
    """Return the mark by which a failure is known again: its last line, without its numbers."""
    lines = (act.error or act.output or act.command or act.tool).strip().splitlines()
    return _NUMBER.sub("#", lines[-1].strip()) if lines else act.tool


def _count_kinds(
    log: EventLog, events: Sequence[Event], kind_of: Callable[[str], str | None]
) -> tuple[KindCount, ...]:
    """Return the kinds of the memories in answers to prompts, the most frequent first."""
    receipts = [
        event
        for event in events
        if isinstance(event.body, Recalled) and event.body.door == "prompt"
    ]
    verdicts = find_verdicts(log, receipts)
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("told", "helped", "harmed")}
    for receipt in receipts:
        assert isinstance(receipt.body, Recalled)
        for hit in receipt.body.hits:
            if (kind := kind_of(hit.id)) is None:
                continue
            counts["told"][kind] += 1
            if verdict := verdicts.get((receipt.id, hit.id), 0.0):
                counts["helped" if verdict > 0 else "harmed"][kind] += 1
    return tuple(
        KindCount(kind, count, counts["helped"][kind], counts["harmed"][kind])
        for kind, count in counts["told"].most_common()
    )
