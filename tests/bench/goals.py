"""The goals: what was promised at which size, and whether this run kept it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import dense
import lexical
import pmb
import service
from figure import OURS, Figure
from table import shown, times

Figures = Mapping[tuple[str, str, int], Figure]  # by what, whose, size


@dataclass(frozen=True)
class Goal:
    """A bound at a size. `found` gives what was measured and how to show it."""

    text: str
    size: int
    found: Callable[[Figures, int], tuple[float, str] | None]
    bound: float
    is_least: bool = False  # else it is the most


def ratio(what: str, who: str) -> Callable[[Figures, int], tuple[float, str] | None]:
    """How many times ours a rival needs."""

    def found(figures: Figures, size: int) -> tuple[float, str] | None:
        ours, theirs = figures.get((what, OURS, size)), figures.get((what, who, size))
        if ours is None or theirs is None:
            return None
        value = theirs.value / ours.value
        return value, times(value)

    return found


def value(what: str) -> Callable[[Figures, int], tuple[float, str] | None]:
    def found(figures: Figures, size: int) -> tuple[float, str] | None:
        one = figures.get((what, OURS, size))
        return None if one is None else (one.value, shown(one.value, one.unit))

    return found


def growth(what: str, since: int) -> Callable[[Figures, int], tuple[float, str] | None]:
    """How many times what it was at a smaller size."""

    def found(figures: Figures, size: int) -> tuple[float, str] | None:
        before, now = figures.get((what, OURS, since)), figures.get((what, OURS, size))
        if before is None or now is None:
            return None
        return now.value / before.value, times(now.value / before.value)

    return found


def lead(figures: Figures, size: int) -> tuple[float, str] | None:
    """How many times ours the fastest index needs; 0 where any index finds more than ours."""
    ours = figures.get((dense.NEAREST, OURS, size))
    known = ((who, figures.get((dense.NEAREST, who, size))) for who in dense.RIVALS)
    indexes = [one for who, one in known if dense.RIVALS[who] is not None and one is not None]
    if ours is None or not indexes:
        return None
    fastest = min(indexes, key=lambda one: one.value)
    finds_more = max(indexes, key=lambda one: one.recall or 0.0)
    ahead = fastest.value / ours.value
    text = (
        f"{times(ahead)} ({fastest.who}), recall {ours.recall:.3f} "
        f"against up to {finds_more.recall:.3f} ({finds_more.who})"
    )
    is_behind = (finds_more.recall or 0.0) > (ours.recall or 0.0) + 0.001
    return (0.0 if is_behind else ahead), text


_FTS5, _LANCE, _FLAT = "SQLite FTS5, OR", "LanceDB full text", "LanceDB flat"
_LEXICAL_CPU, _AUTO_CPU = f"{service.LEXICAL}, CPU", f"{service.AUTO}, CPU"

GOALS = (
    *(
        Goal(
            "BM25 against rank_bm25, same scores",
            size,
            ratio(lexical.QUESTION, lexical.REFERENCE),
            n,
            True,
        )
        for size, n in ((10_000, 300), (100_000, 1_000), (1_000_000, 1_000))
    ),
    *(
        Goal("BM25 against FTS5, OR, common words", size, ratio(lexical.QUESTION, _FTS5), n, True)
        for size, n in ((10_000, 25), (100_000, 100), (1_000_000, 250))
    ),
    *(
        Goal("BM25 against LanceDB full text", size, ratio(lexical.QUESTION, _LANCE), n, True)
        for size, n in ((10_000, 10), (100_000, 10), (1_000_000, 3))
    ),
    *(
        Goal("vectors against LanceDB's flat scan", size, ratio(dense.NEAREST, _FLAT), 20, True)
        for size in (10_000, 100_000, 1_000_000)
    ),
    *(
        Goal(
            "recall over HTTP against PMB, words alone",
            size,
            ratio(_LEXICAL_CPU, pmb.WHO),
            50,
            True,
        )
        for size in (1_000, 10_000)
    ),
    *(
        Goal("vectors against LanceDB's fastest index, none finding more", size, lead, 1, True)
        for size in (10_000, 100_000)
    ),
    Goal("recall over HTTP, lexical, server's CPU ms", 100_000, value(_LEXICAL_CPU), 2),
    Goal("recall over HTTP, auto, server's CPU ms", 100_000, value(_AUTO_CPU), 5),
    Goal("server's anonymous memory, MiB", 100_000, value("server's anonymous memory, now"), 80),
    Goal("recall over HTTP, lexical, p50 ms", 1_000_000, value(f"{service.LEXICAL}, p50"), 5),
    Goal("recall over HTTP, auto, p50 ms", 1_000_000, value(f"{service.AUTO}, p50"), 12),
    Goal("full build, s", 1_000_000, value(f"{service.BUILD}, wall"), 150),
    Goal("full build, peak MiB", 1_000_000, value(f"{service.BUILD}, peak memory"), 2_000),
    Goal("build of 1,000 new memories, s", 1_000_000, value(f"{service.REFRESH}, wall"), 3),
    Goal("server ready, s", 1_000_000, value(f"{service.READY}, wall"), 0.5),
    Goal("server's anonymous memory, MiB", 1_000_000, value("server's anonymous memory, now"), 250),
    *(
        Goal(f"{what}: ten times the memories, times the CPU", size, growth(what, size // 10), 4)
        for what in (_LEXICAL_CPU, _AUTO_CPU)
        for size in (100_000, 1_000_000)
    ),
)


def markdown(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS) -> str:
    """Return a table of the goals at the sizes measured; the others are named in a line below."""
    known = {(one.what, one.who, one.size): one for one in figures}
    heads = ["| goal | memories | bound | measured | |", "|---|---|---|---|---|"]
    lines: list[str] = []
    unknown: dict[str, list[str]] = {}
    for goal in goals:
        found = goal.found(known, goal.size)
        bound = f"{'at least' if goal.is_least else 'at most'} {goal.bound:,g}"
        if found is None:
            unknown.setdefault(goal.text, []).append(f"{goal.size:,}")
            continue
        measured, text = found
        kept = measured >= goal.bound if goal.is_least else measured <= goal.bound
        mark = "met" if kept else "**missed**"
        lines.append(f"| {goal.text} | {goal.size:,} | {bound} | {text} | {mark} |")
    if lines:
        lines = heads + lines
    if unknown:
        named = "; ".join(f"{text} at {', '.join(sizes)}" for text, sizes in unknown.items())
        lines += ["", f"Goals at sizes this run did not measure: {named}."]
    return "\n".join(lines)
