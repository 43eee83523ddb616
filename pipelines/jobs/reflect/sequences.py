"""
Findings in time: errors that recur and their rhythm; chains of cause; failures with their fix.

An error recurs if it is named on DAYS days or more. Files that change often and commands that run
often are ordinary work. A rhythm (a weekday, the days after a release) is reported only if chance
explains it in less than CHANCE of all cases: the binomial tail of its days, each as likely as the
project's own days of writing, over all that was tried (Bonferroni).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import comb

from pipelines.jobs.reflect import generated_text
from pipelines.jobs.reflect.inputs import Finding, Inputs, Name, day, span
from store.memories.memory import Edge, Memory

DAYS = 3
CHANCE = 0.01
MOST_SOURCES = 24  # of one pattern, the newest
_AFTER_RELEASE = 2  # days that count as after it
_EVERYWHERE = 0.2  # the share of memories from which on a name is what the project is about
_AT_LEAST = 20  # memories of a project before one can say what is everywhere

_WEEKDAYS = "Thursday Friday Saturday Sunday Monday Tuesday Wednesday".split()  # 1970 began on one


def recurring_errors(material: Inputs) -> Iterator[Finding]:
    """Yield what comes back in a project, each with the memories that tell of it."""
    found = [
        (name, some)
        for name, some in _error_memories(material)
        if len({day(one) for one in some}) >= DAYS
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


def _error_memories(material: Inputs) -> Iterator[tuple[Name, list[Memory]]]:
    """Yield what may come back and the memories that tell of it, of equal texts only the first."""
    count = len(material.memories)
    for number, places in material.naming().items():
        name = material.names[number]
        if name.kind != "error" or (count >= _AT_LEAST and len(places) > _EVERYWHERE * count):
            continue
        some = [material.memories[place] for place in places]
        yield name, list({one.text_hash: one for one in reversed(some)}.values())


def _after_releases(material: Inputs, active: set[int]) -> set[int]:
    """Return those of the active days that are a release's or just after one."""
    released = {day(one) for one in material.memories if generated_text.is_release(one.content)}
    return {
        one for one in active if any(one - ago in released for ago in range(_AFTER_RELEASE + 1))
    }


def _rhythm(days: Sequence[int], active: Sequence[int], after: set[int], tried: int) -> str:
    """Return in what rhythm days come that chance does not explain; "" where there is none."""
    found: list[tuple[float, str]] = []
    for weekday in sorted({one % 7 for one in days}):
        hits = sum(one % 7 == weekday for one in days)
        usual = sum(one % 7 == weekday for one in active) / len(active)
        found.append(
            (binomial_tail(hits, len(days), usual), f"{hits} times on a {_WEEKDAYS[weekday]}")
        )
    hits = sum(one in after for one in days)
    usual = len(after) / len(active)
    found.append(
        (binomial_tail(hits, len(days), usual), f"{hits} times at a release or just after one")
    )
    chance, says = min(found)
    return says if chance * tried < CHANCE else ""


def binomial_tail(hits: int, days: int, usual: float) -> float:
    """Return how likely chance alone gives so many hits or more: the binomial's upper tail."""
    return sum(
        comb(days, one) * usual**one * (1.0 - usual) ** (days - one)
        for one in range(hits, days + 1)
    )


# Causes. A chain follows `parent_id` and the edges cause, support and derived, from what was first
# to its result: an edge's target is its source's cause or support, or derives from it. A fix
# belongs to the newest failure before it, of FORGET days at most, that names the same error or two
# other names in common.

SHORTEST, LONGEST = 3, 8  # memories of a chain
FORGET = 30  # days
_NAMES = 2  # that are no error, before a fix and a failure are of one thing
_COMMON = 0.1  # the share of memories from which on a name tells nothing
_FEW = 20  # memories, of which none is common yet

_RELATIONS = frozenset({"cause", "support", "derived"})
_FIXES = frozenset({"bugfix", "lesson"})
_TELLING = frozenset({"file", "symbol", "package", "command", "url"})


def causal_chains(material: Inputs, edges: Sequence[Edge]) -> Iterator[Finding]:
    """Yield the longest way from each beginning to what came of it in the end."""
    known = {one.id: one for one in material.memories}
    after = _followers(material, known, edges)
    led_to = {id_ for some in after.values() for id_ in some}
    usual = generated_text.DocumentFrequencies.of(material.memories)
    for first in after:
        if first in led_to or first not in known:
            continue
        way = [known[id_] for id_ in _longest(first, after, ())]
        if len(way) >= SHORTEST:
            topic = generated_text.topic(way, usual, 3) or [span(way)]
            yield Finding(
                insight_type="causal",
                project=material.project,
                sources=tuple(way),
                topic=tuple(topic),
                says=f"what led to what in {len(way)} steps, {span(way)}",
                why=f"{len(way)} memories follow from one another",
                strength=len(way) ** 0.5,
                is_in_order=True,
                evidence={"steps": len(way)},
            )


def _followers(
    material: Inputs, known: Mapping[str, Memory], edges: Sequence[Edge]
) -> dict[str, list[str]]:
    """Return what directly came of each memory, in order of time."""
    pairs = [(one.parent_id, one.id) for one in material.memories if one.parent_id in known]
    pairs += [
        (one.source, one.target) if one.relation == "derived" else (one.target, one.source)
        for one in edges
        if one.relation in _RELATIONS and one.source in known and one.target in known
    ]
    found: dict[str, list[str]] = {}
    for before, after in sorted(set(pairs), key=lambda two: (known[two[1]].created_at, two)):
        if before != after and before is not None:
            found.setdefault(before, []).append(after)
    return found


def _longest(
    first: str, after: Mapping[str, Sequence[str]], before: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the longest way on from a memory, LONGEST at most; none goes round in a circle."""
    way = (*before, first)
    if len(way) == LONGEST:
        return way
    ways = [_longest(one, after, way) for one in after.get(first, ())[:3] if one not in way]
    return max(ways, key=len, default=way)


def failures_with_fixes(material: Inputs) -> Iterator[Finding]:
    """Yield each fix with the failure that it followed."""
    common = max(len(material.memories) * _COMMON, 3.0)
    is_few = len(material.memories) < _FEW
    rare = {number for number, some in material.naming().items() if is_few or len(some) <= common}
    failures = [
        place
        for place, one in enumerate(material.memories)
        if one.kind not in _FIXES
        and material.named[place]
        and generated_text.is_failure(one.content)
    ]
    for place, fix in enumerate(material.memories):
        if fix.kind not in _FIXES:
            continue
        named = material.named[place] & rare
        for earlier in reversed(failures[: bisect_left(failures, place)] if named else ()):
            failure = material.memories[earlier]
            if day(fix) - day(failure) > FORGET:
                break
            both = named & material.named[earlier]
            errors = [material.names[one] for one in both if material.names[one].kind == "error"]
            others = [material.names[one] for one in both if material.names[one].kind in _TELLING]
            if errors or len(others) >= _NAMES:
                yield _failure_and_fix(
                    material, failure, fix, [one.name for one in (errors or others)]
                )
                break


def _failure_and_fix(material: Inputs, failure: Memory, fix: Memory, names: list[str]) -> Finding:
    topic = tuple(sorted(names)[:3])
    days = day(fix) - day(failure)
    return Finding(
        insight_type="causal",
        project=material.project,
        sources=(failure, fix),
        topic=topic,
        says=f"it failed, and this fixed it {f'{days} days later' if days else 'the same day'}",
        why=f"both name {', '.join(topic)}",
        strength=1.0,
        is_in_order=True,
        evidence={"days": days},
    )
