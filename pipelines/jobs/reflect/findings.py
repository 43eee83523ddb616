"""
Findings of `reflect`: what several memories show together, by similarity, by time and by cause.

Clusters are memories of more than one day or session about the same thing. Two memories are as
similar as their vectors, plus half of the remaining distance if they name the same rare entities.
Average linkage groups them in blocks of BLOCK memories that follow one another in time: n^2 numbers
and steps for each block, so BLOCK * n in all. Memories of different blocks never meet.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import comb

import numpy as np
import numpy.typing as npt

from pipelines.jobs.reflect import generated_text
from pipelines.jobs.reflect.inputs import Finding, Inputs, Name, day, span
from store.embedders.model_facts import Calibration
from store.memories.memory import Edge, Memory
from store.text.excerpt import plural

BLOCK = 4_096  # memories linked together
SMALLEST, LARGEST = 3, 24  # memories of a cluster
LEAST = 0.5  # the mean similarity of a model's vectors: as of related texts
LEAST_LETTERS = 0.42  # cosines of hashed letters: below it groups were about nothing in common
TERMS = 6  # of a topic
_LEAST_TERMS = 2  # shared: else nobody can say what it is about
_RAREST = 1_024  # entities that are looked at, the rarest of those that several name
_TOO_COMMON = 0.1  # the share of memories from which on a name joins nothing

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


def find_clusters(
    material: Inputs, vectors: Vectors, calibration: Calibration
) -> Iterator[Finding]:
    """Yield the good clusters of a project's memories; `vectors` are unit, [memories, width]."""
    usual = generated_text.DocumentFrequencies.of(material.memories)
    knows = calibration.knows_meaning
    for start in range(0, len(material.memories), BLOCK):
        places = _first_of_each_text(material, range(start, start + BLOCK))
        cosines = vectors[places] @ vectors[places].T
        near = np.minimum(calibration.evidence(cosines), 1.0) if knows else cosines
        alike = near + (1.0 - near) * 0.5 * _overlap(material, places)
        whole = alike.astype(np.float32)
        for some in average_linkage(
            alike.astype(np.float32), LEAST if knows else LEAST_LETTERS, LARGEST
        ):
            found = _cluster(material, places[some], whole[np.ix_(some, some)], usual)
            if found is not None:
                yield found


def _first_of_each_text(material: Inputs, block: range) -> Places:
    """Return the places of a block, of equal texts only the first: copies are no agreement."""
    first: dict[bytes, int] = {}
    for place in block[: max(0, len(material.memories) - block.start)]:
        first.setdefault(material.memories[place].text_hash, place)
    return np.array(list(first.values()), np.int64)


def _overlap(material: Inputs, places: Places) -> Vectors:
    """Return which share of the names of two memories both mention, the rare ones counting more."""
    held: dict[int, int] = {}
    for place in places.tolist():
        for name in material.named[place]:
            held[name] = held.get(name, 0) + 1
    most = max(3.0, _TOO_COMMON * len(places))
    rare = sorted((count, name) for name, count in held.items() if 2 <= count <= most)[:_RAREST]
    column = {name: (at, np.log1p(len(places) / count)) for at, (count, name) in enumerate(rare)}
    mentions = np.zeros((len(places), len(rare)), np.float32)
    for row, place in enumerate(places.tolist()):
        for name in material.named[place]:
            if name in column:
                at, weight = column[name]
                mentions[row, at] = np.sqrt(weight)
    both = mentions @ mentions.T
    own = both.diagonal()
    either = own[:, None] + own[None, :] - both
    share: Vectors = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    return share


def _cluster(
    material: Inputs, places: Places, alike: Vectors, usual: generated_text.DocumentFrequencies
) -> Finding | None:
    """Return a group as a finding; None where it is too small, of one sitting, or about nothing.

    The member that is most like the others comes first.
    """
    members = [material.memories[place] for place in places.tolist()]
    if len(members) < SMALLEST or not _is_of_several(members):
        return None
    topic = generated_text.topic(members, usual, TERMS)
    if len(topic) < _LEAST_TERMS:
        return None
    others = alike.sum(axis=1) - alike.diagonal()
    order = np.argsort(-others, kind="stable")
    cohesion = float(others.sum() / (len(members) * (len(members) - 1)))
    days = len({day(member) for member in members})
    sources = tuple(members[at] for at in order.tolist())
    return Finding(
        insight_type="cluster",
        project=material.project,
        sources=sources,
        topic=tuple(topic),
        says=f"{len(members)} notes, {span(members)}",
        why=f"{len(members)} memories of {plural(days, 'day')} are alike to {cohesion:.2f}",
        strength=cohesion * np.log1p(len(members)),
        evidence={"cohesion": round(cohesion, 3), "days": days},
    )


def _is_of_several(members: list[Memory]) -> bool:
    sessions = {memory.session for memory in members if memory.session is not None}
    return len(sessions) > 1 or len({day(memory) for memory in members}) > 1


# Average linkage: groups whose members are similar on average, each pair counting the same.
#
# The nearest-neighbour chain finds the pairs to merge in n^2 steps and n^2 numbers. Its groups are
# those of merging the most similar pair over and over, since average linkage never makes two groups
# more similar than either was to what it was merged with.
#
# Murtagh 1983, https://doi.org/10.1093/comjnl/26.4.354; the update is Lance and Williams 1967.

Matrix = npt.NDArray[np.float32]
Members = npt.NDArray[np.int64]


def average_linkage(similarity: Matrix, least: float, most: int) -> list[Members]:
    """Return the groups of two or more, each ascending, the one with the smallest member first.

    `similarity` [n, n] is symmetric and is overwritten. Two groups are merged while the mean
    similarity between their members is `least` or more and they are `most` together or fewer.
    """
    count = len(similarity)
    np.fill_diagonal(similarity, -np.inf)
    sizes = np.ones(count, np.int64)
    parent = np.arange(count)
    chain: list[int] = []
    waiting = np.ones(count, np.bool_)  # may still be merged
    while chain or waiting.any():
        if not chain:
            chain.append(int(waiting.argmax()))
        last = chain[-1]
        row = np.where(waiting & (sizes + sizes[last] <= most), similarity[last], -np.inf)
        nearest = int(row.argmax())
        if len(chain) > 1 and row[chain[-2]] >= row[nearest]:
            nearest = chain[-2]  # of equals the one we came from, or the chain never ends
        if row[nearest] < least:
            waiting[last] = False
            chain.pop()
        elif len(chain) > 1 and nearest == chain[-2]:
            del chain[-2:]
            _merge(similarity, sizes, last, nearest)
            parent[nearest] = last
            waiting[nearest] = False
        else:
            chain.append(nearest)
    return _collect_groups(parent)


def _merge(similarity: Matrix, sizes: Members, into: int, other: int) -> None:
    """Let a group stand for itself and another: its similarities are the means of all pairs."""
    whole = sizes[into] + sizes[other]
    row = (similarity[into] * sizes[into] + similarity[other] * sizes[other]) / whole
    row[into] = -np.inf
    similarity[into], similarity[:, into] = row, row
    sizes[into] = whole


def _collect_groups(parent: Members) -> list[Members]:
    roots = parent.copy()
    while (roots != roots[roots]).any():
        roots = roots[roots]
    order = np.argsort(roots, kind="stable")
    starts = np.flatnonzero(np.diff(roots[order], prepend=-1))
    found = [part for part in np.split(order, starts[1:]) if len(part) > 1]
    return sorted(found, key=lambda some: int(some[0]))


# Time: an error recurs if it is named on DAYS days or more. Files that change often and commands
# that run often are ordinary work. A rhythm (a weekday, the days after a release) is reported only
# if chance explains it in less than CHANCE of all cases: the binomial tail of its days, each as
# likely as the project's own days of writing, over all that was tried (Bonferroni).

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
        if len({day(memory) for memory in some}) >= DAYS
    ]
    active = {day(memory) for memory in material.memories}
    after = _after_releases(material, active)
    for name, memories in found:
        days = sorted({day(memory) for memory in memories})
        rhythm = _rhythm(days, sorted(active), after, tried=8 * len(found))
        sources = tuple(
            sorted(memories, key=lambda memory: (memory.created_at, memory.id))[-MOST_SOURCES:]
        )
        says = f"comes back on {len(days)} days, {span(memories)}"
        yield Finding(
            insight_type="temporal",
            project=material.project,
            sources=sources,
            topic=(name.name,),
            says=says + (f"; {rhythm}" if rhythm else ""),
            why=f"{name.kind} {name.name} on {len(days)} days",
            strength=len(days) ** 0.5,
            evidence={"days": len(days), "memories": len(memories)},
        )


def _error_memories(material: Inputs) -> Iterator[tuple[Name, list[Memory]]]:
    """Yield what may come back and the memories that tell of it, of equal texts only the first."""
    count = len(material.memories)
    for number, places in material.places_by_name().items():
        name = material.names[number]
        if name.kind != "error" or (count >= _AT_LEAST and len(places) > _EVERYWHERE * count):
            continue
        memories = [material.memories[place] for place in places]
        yield name, list({memory.text_hash: memory for memory in reversed(memories)}.values())


def _after_releases(material: Inputs, active: set[int]) -> set[int]:
    """Return those of the active days that are a release's or just after one."""
    released = {
        day(memory) for memory in material.memories if generated_text.is_release(memory.content)
    }
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
    known = {memory.id: memory for memory in material.memories}
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
    """Return each memory's direct consequences, in order of time."""
    pairs = [
        (memory.parent_id, memory.id) for memory in material.memories if memory.parent_id in known
    ]
    pairs += [
        (edge.source, edge.target) if edge.relation == "derived" else (edge.target, edge.source)
        for edge in edges
        if edge.relation in _RELATIONS and edge.source in known and edge.target in known
    ]
    followers: dict[str, list[str]] = {}
    for before, after in sorted(set(pairs), key=lambda two: (known[two[1]].created_at, two)):
        if before != after and before is not None:
            followers.setdefault(before, []).append(after)
    return followers


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
    rare = {
        number
        for number, some in material.places_by_name().items()
        if is_few or len(some) <= common
    }
    failures = [
        place
        for place, memory in enumerate(material.memories)
        if memory.kind not in _FIXES
        and material.named[place]
        and generated_text.is_failure(memory.content)
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
                    material, failure, fix, [name.name for name in (errors or others)]
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
