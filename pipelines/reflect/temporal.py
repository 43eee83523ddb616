"""
Patterns in time: the same error on several days, and its rhythm.

An error comes back where it is named on DAYS days or more. Files that are changed and commands that
are run often are what work looks like, and no insight. A rhythm (a weekday, the days after a
release) is only told where chance gives as much of it in less than CHANCE of all cases: the
binomial tail of its days, each likely as the project's own days of writing are, over all that was
tried (Bonferroni).
"""

from collections.abc import Iterator, Sequence
from math import comb

from pipelines.reflect import words
from pipelines.reflect.finding import Finding, day, span
from pipelines.reflect.material import Material, Name
from store.memories.memory import Memory

DAYS = 3
CHANCE = 0.01
MOST_SOURCES = 24  # of one pattern, the newest
_AFTER_RELEASE = 2  # days that count as after it
_EVERYWHERE = 0.2  # the share of memories from which on a name is what the project is about
_AT_LEAST = 20  # memories of a project before one can say what is everywhere

_WEEKDAYS = "Thursday Friday Saturday Sunday Monday Tuesday Wednesday".split()  # 1970 began on one


def patterns(material: Material) -> Iterator[Finding]:
    """Yield what comes back in a project, each with the memories that tell of it."""
    found = [
        (name, some) for name, some in _named(material) if len({day(one) for one in some}) >= DAYS
    ]
    active = {day(one) for one in material.memories}
    after = _after_releases(material, active)
    for name, some in found:
        days = sorted({day(one) for one in some})
        rhythm = _rhythm(days, sorted(active), after, tried=8 * len(found))
        sources = tuple(sorted(some, key=lambda one: (one.created_at, one.id))[-MOST_SOURCES:])
        says = f"comes back on {len(days)} days, {span(some)}"
        yield Finding(
            insight_type="temporal",
            project=material.project,
            sources=sources,
            topic=(name.name,),
            says=says + (f"; {rhythm}" if rhythm else ""),
            why=f"{name.kind} {name.name} on {len(days)} days",
            strength=len(days) ** 0.5,
            evidence={"days": len(days), "memories": len(some)},
        )


def _named(material: Material) -> Iterator[tuple[Name, list[Memory]]]:
    """Yield what may come back and the memories that tell of it, of equal texts only the first."""
    count = len(material.memories)
    for number, places in material.naming().items():
        name = material.names[number]
        if name.kind != "error" or (count >= _AT_LEAST and len(places) > _EVERYWHERE * count):
            continue
        some = [material.memories[place] for place in places]
        yield name, list({one.text_hash: one for one in reversed(some)}.values())


def _after_releases(material: Material, active: set[int]) -> set[int]:
    """Return those of the active days that are a release's or just after one."""
    released = {day(one) for one in material.memories if words.is_release(one.content)}
    return {
        one for one in active if any(one - ago in released for ago in range(_AFTER_RELEASE + 1))
    }


def _rhythm(days: Sequence[int], active: Sequence[int], after: set[int], tried: int) -> str:
    """Return in what rhythm days come that chance does not explain; "" where there is none."""
    found: list[tuple[float, str]] = []
    for weekday in sorted({one % 7 for one in days}):
        hits = sum(one % 7 == weekday for one in days)
        usual = sum(one % 7 == weekday for one in active) / len(active)
        found.append((tail(hits, len(days), usual), f"{hits} times on a {_WEEKDAYS[weekday]}"))
    hits = sum(one in after for one in days)
    usual = len(after) / len(active)
    found.append((tail(hits, len(days), usual), f"{hits} times at a release or just after one"))
    chance, says = min(found)
    return says if chance * tried < CHANCE else ""


def tail(hits: int, days: int, usual: float) -> float:
    """Return how likely chance alone gives so many hits or more: the binomial's upper tail."""
    return sum(
        comb(days, one) * usual**one * (1.0 - usual) ** (days - one)
        for one in range(hits, days + 1)
    )
