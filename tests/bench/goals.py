"""The goals: the promised bound at each size, and whether this run met it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import builds
import dense
import hooks
import lexical
import numpy as np
import pmb
import service
import soak
from figure import OURS, Figure
from table import shown, times

Figures = Mapping[tuple[str, str, int], Figure]  # by (what, who, size)


@dataclass(frozen=True)
class Goal:
    """A bound at a size; `found` returns the measured value and its text, None if unmeasured."""

    text: str
    size: int
    found: Callable[[Figures, int], tuple[float, str] | None]
    bound: float
    is_least: bool = False  # else the bound is a maximum


def ratio(title: str, who: str) -> Callable[[Figures, int], tuple[float, str] | None]:
    """Return a function for a rival's figure as a multiple of ours."""

    def found(figures: Figures, size: int) -> tuple[float, str] | None:
        ours, theirs = figures.get((title, OURS, size)), figures.get((title, who, size))
        if ours is None or theirs is None:
            return None
        value = theirs.value / ours.value
        return value, times(value)

    return found


def value(title: str) -> Callable[[Figures, int], tuple[float, str] | None]:
    def found(figures: Figures, size: int) -> tuple[float, str] | None:
        figure = figures.get((title, OURS, size))
        return None if figure is None else (figure.value, shown(figure.value, figure.unit))

    return found


def growth(title: str, since: int) -> Callable[[Figures, int], tuple[float, str] | None]:
    """Return a function for the growth since a smaller size, per tenfold of the memories."""

    def found(figures: Figures, size: int) -> tuple[float, str] | None:
        before, now = figures.get((title, OURS, since)), figures.get((title, OURS, size))
        if before is None or now is None:
            return None
        tenfold = (now.value / before.value) ** (1 / np.log10(size / since))
        return tenfold, times(tenfold)

    return found


def lead(figures: Figures, size: int) -> tuple[float, str] | None:
    """Return the fastest index's time as a multiple of ours, 0 if any index finds more."""
    ours = figures.get((dense.NEAREST, OURS, size))
    figures_ = ((who, figures.get((dense.NEAREST, who, size))) for who in dense.RIVALS)
    indexes = [
        share for who, share in figures_ if dense.RIVALS[who] is not None and share is not None
    ]
    if ours is None or not indexes:
        return None
    fastest = min(indexes, key=lambda figure: figure.value)
    finds_more = max(indexes, key=lambda figure: figure.recall or 0.0)
    ahead = fastest.value / ours.value
    text = (
        f"{times(ahead)} ({fastest.who}), recall {ours.recall:.3f} "
        f"against up to {finds_more.recall:.3f} ({finds_more.who})"
    )
    is_behind = (finds_more.recall or 0.0) > (ours.recall or 0.0) + 0.001
    return (0.0 if is_behind else ahead), text


_FTS5, _LANCE, _FLAT = "SQLite FTS5, OR", "LanceDB full text", "LanceDB flat"
_LEXICAL_CPU, _AUTO_CPU = f"{service.LEXICAL}, CPU", f"{service.AUTO}, CPU"
_FRESH_CPU, _ANONYMOUS = f"{service.FRESH}, CPU", f"{service.ANONYMOUS}, after recalls"
_WRONG = f"{soak.PROBLEMS}, count"
_OF_PMB = (1_000, 10_000)
_MILLION = 1_000_000


def _hybrid(title: str, model: str) -> str:
    return f"{pmb.hybrid(title, model)}, CPU"


def _at_least(
    text: str, title: str, who: str, bounds: Mapping[int, float] | Sequence[int], n: float = 0
) -> Iterator[Goal]:
    """Yield a goal on a ratio for each size; sizes without bounds of their own share `n`."""
    by_size = bounds if isinstance(bounds, Mapping) else dict.fromkeys(bounds, n)
    for size, bound in by_size.items():
        yield Goal(text, size, ratio(title, who), bound, is_least=True)


RATIOS = (
    *_at_least(
        "BM25 against rank_bm25, same scores",
        lexical.QUESTION,
        lexical.REFERENCE,
        {10_000: 300, 100_000: 1_000, _MILLION: 1_000},
    ),
    *_at_least(
        "BM25 against rank_bm25, same scores, each by itself",
        lexical.ALONE,
        lexical.REFERENCE,
        {10_000: 300, 100_000: 1_000, _MILLION: 1_000},
    ),
    *_at_least(
        "BM25 against FTS5, OR, common words",
        lexical.QUESTION,
        _FTS5,
        {10_000: 25, 100_000: 100, _MILLION: 250},
    ),
    *_at_least(
        "BM25 against LanceDB full text",
        lexical.QUESTION,
        _LANCE,
        {10_000: 10, 100_000: 10, _MILLION: 3},
    ),
    *_at_least(
        "vectors against LanceDB's flat scan", dense.NEAREST, _FLAT, (10_000, 100_000, _MILLION), 20
    ),
    *_at_least(
        "vectors against LanceDB's flat scan, each by itself",
        dense.ALONE,
        _FLAT,
        (10_000, 100_000, _MILLION),
        20,
    ),
    *(
        Goal("vectors against LanceDB's fastest index, none finding more", size, lead, 1, True)
        for size in (10_000, 100_000)
    ),
    *_at_least(
        "recall over HTTP against PMB, words alone", _LEXICAL_CPU, pmb.WORDS_ALONE, _OF_PMB, 50
    ),
    *_at_least(
        "recall over HTTP against PMB, hybrid with MiniLM",
        _hybrid(pmb.RECALL, pmb.MINILM),
        pmb.WHO,
        _OF_PMB,
        8,
    ),
    *_at_least(
        "recall over HTTP against PMB, hybrid with a static table",
        _hybrid(pmb.RECALL, pmb.STATIC),
        pmb.WHO,
        _OF_PMB,
        50,
    ),
    *_at_least(
        "recall right after a write against PMB, words alone",
        _FRESH_CPU,
        pmb.WORDS_ALONE,
        _OF_PMB,
        500,
    ),
    *_at_least(
        "recall right after a write against PMB, hybrid with MiniLM",
        _hybrid(service.FRESH, pmb.MINILM),
        pmb.WHO,
        _OF_PMB,
        500,
    ),
)

BUDGETS = (
    Goal("recall over HTTP, lexical, server's CPU ms", 100_000, value(_LEXICAL_CPU), 2),
    Goal("recall over HTTP, hybrid, server's CPU ms", 100_000, value(_AUTO_CPU), 5),
    Goal(f"{hooks.BEYOND}, CPU ms", 100_000, value(f"{hooks.BEYOND}, CPU"), 4),
    Goal(f"{hooks.BEYOND}, p50 ms", 10_000, value(f"{hooks.BEYOND}, p50"), 40),
    Goal(f"{hooks.PROMPT}, p50 ms", 10_000, value(f"{hooks.PROMPT}, p50"), 10),
    Goal(f"{hooks.ACTION}, p50 ms", 10_000, value(f"{hooks.ACTION}, p50"), 5),
    Goal("build of 50,000 new memories, CPU s", _MILLION, value(f"{builds.MANY}, CPU"), 4),
    Goal("server's anonymous memory, MiB", 100_000, value(_ANONYMOUS), 80),
    *(
        Goal("errors and wrong answers while builds publish", size, value(_WRONG), 0)
        for size in (1_000, 10_000, 100_000, _MILLION)
    ),
    Goal("recall over HTTP, lexical, p50 ms", _MILLION, value(f"{service.LEXICAL}, p50"), 5),
    Goal("recall over HTTP, hybrid, p50 ms", _MILLION, value(f"{service.AUTO}, p50"), 12),
    Goal("full build, wall s", _MILLION, value(f"{builds.FULL}, wall"), 150),
    *(
        Goal(f"full build, MiB {kind}", _MILLION, value(f"{builds.FULL}, {kind}"), 2_000)
        for kind in builds.HELD
    ),
    Goal("build of 1,000 new memories, wall s", _MILLION, value(f"{builds.NEW}, wall"), 3),
    Goal("quick build of 1,000 new memories, wall s", _MILLION, value(f"{builds.QUICK}, wall"), 3),
    Goal("server ready, wall s", _MILLION, value(f"{service.READY}, wall"), 0.5),
    Goal("server's anonymous memory, MiB", _MILLION, value(_ANONYMOUS), 250),
    *(
        Goal(
            f"{measured}, {measure}: ten times the memories, since {since:,}",
            size,
            growth(f"{measured}, {measure}", since),
            4,
        )
        for measured in (service.LEXICAL, service.AUTO)
        for measure in ("CPU", "p50")
        for since, size in ((10_000, 100_000), (100_000, _MILLION), (10_000, _MILLION))
    ),
)
GOALS = RATIOS + BUDGETS


def markdown(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS) -> str:
    """Return a table of the goals at the sizes measured; the others are named in a line below."""
    by_goal = {(figure.what, figure.who, figure.size): figure for figure in figures}
    heads = ["| goal | memories | bound | measured | |", "|---|---|---|---|---|"]
    lines: list[str] = []
    unknown: dict[str, list[str]] = {}
    for goal in goals:
        value_ = goal.found(by_goal, goal.size)
        bound = f"{'at least' if goal.is_least else 'at most'} {goal.bound:,g}"
        if value_ is None:
            unknown.setdefault(goal.text, []).append(f"{goal.size:,}")
            continue
        measured, text = value_
        is_met = measured >= goal.bound if goal.is_least else measured <= goal.bound
        mark = "met" if is_met else "**missed**"
        lines.append(f"| {goal.text} | {goal.size:,} | {bound} | {text} | {mark} |")
    if lines:
        lines = heads + lines
    if unknown:
        named = "; ".join(f"{text} at {', '.join(sizes)}" for text, sizes in unknown.items())
        lines += ["", f"Goals at sizes this run did not measure: {named}."]
    return "\n".join(lines)
