"""
What led to what: chains of parents and reasoning edges, and failures with the fix that followed.

A chain follows `parent_id` and the edges cause, support and derived, each from what was first to
what came of it: an edge's target is its source's cause or support, or is derived from it. A fix
belongs to the newest failure before it, of FORGET days at most, that names the same error, or two
of the same other names.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from pipelines.reflect import words
from pipelines.reflect.finding import Finding, day, span
from pipelines.reflect.material import Material
from store.memories.memory import Edge, Memory

SHORTEST, LONGEST = 3, 8  # memories of a chain
FORGET = 30  # days
_NAMES = 2  # that are no error, before a fix and a failure are of one thing
_COMMON = 0.1  # the share of memories from which on a name tells nothing
_FEW = 20  # memories, of which none is common yet

_RELATIONS = frozenset({"cause", "support", "derived"})
_FIXES = frozenset({"bugfix", "lesson"})
_TELLING = frozenset({"file", "symbol", "package", "command", "url"})


def chains(material: Material, edges: Sequence[Edge]) -> Iterator[Finding]:
    """Yield the longest way from each beginning to what came of it in the end."""
    known = {one.id: one for one in material.memories}
    after = _followers(material, known, edges)
    led_to = {id_ for some in after.values() for id_ in some}
    usual = words.Usual.of(material.memories)
    for first in after:
        if first in led_to or first not in known:
            continue
        way = [known[id_] for id_ in _longest(first, after, ())]
        if len(way) >= SHORTEST:
            topic = words.topic(way, usual, 3) or [span(way)]
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
    material: Material, known: Mapping[str, Memory], edges: Sequence[Edge]
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


def fixes(material: Material) -> Iterator[Finding]:
    """Yield each fix with the failure that it followed."""
    common = max(len(material.memories) * _COMMON, 3.0)
    is_few = len(material.memories) < _FEW
    rare = {number for number, some in material.naming().items() if is_few or len(some) <= common}
    failures = [
        place
        for place, one in enumerate(material.memories)
        if one.kind not in _FIXES and material.named[place] and words.is_failure(one.content)
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
                yield _fixed(material, failure, fix, [one.name for one in (errors or others)])
                break


def _fixed(material: Material, failure: Memory, fix: Memory, names: list[str]) -> Finding:
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
