"""
Findings of `reflect`: patterns in several memories, by similarity, by time and by cause.

Clusters are memories of more than one day or session about the same thing. Two memories are as
similar as their vectors, plus half of the remaining distance if they name the same rare entities.
Average linkage groups them in blocks of BLOCK memories that follow one another in time: n^2 numbers
and steps for each block, so BLOCK * n in all. Memories of different blocks never meet.
"""

from bisect import bisect_left
from collections import Counter
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
_LEAST_TERMS = 2  # shared: with fewer, the topic is unclear
_RAREST = 1_024  # entities compared, the rarest of those in several memories
_TOO_COMMON = 0.1  # a name in this share of memories joins nothing

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


def find_clusters(inputs: Inputs, vectors: Vectors, calibration: Calibration) -> Iterator[Finding]:
    """Yield the good clusters of a project's memories; `vectors` are unit, [memories, width]."""
    usual = generated_text.DocumentFrequencies.of(inputs.memories)
    knows = calibration.knows_meaning
    for start in range(0, len(inputs.memories), BLOCK):
        first: dict[bytes, int] = {}  # of equal texts: copies are no agreement
        for place in range(start, min(start + BLOCK, len(inputs.memories))):
            first.setdefault(inputs.memories[place].text_hash, place)
        places = np.array(list(first.values()), np.int64)
        cosines = vectors[places] @ vectors[places].T
        near = np.minimum(calibration.evidence(cosines), 1.0) if knows else cosines
        alike = (near + (1.0 - near) * 0.5 * _overlap(inputs, places)).astype(np.float32)
        least = LEAST if knows else LEAST_LETTERS
        for group in average_linkage(alike.copy(), least, LARGEST):
            finding = _cluster(inputs, places[group], alike[np.ix_(group, group)], usual)
            if finding is not None:
                yield finding


def _overlap(inputs: Inputs, places: Places) -> Vectors:
    """Return the share of common names of each two memories, [places, places]; a rare name weighs
    more.
    """
    counts = Counter(name for place in places.tolist() for name in inputs.named[place])
    most = max(3.0, _TOO_COMMON * len(places))
    rare = sorted((count, name) for name, count in counts.items() if 2 <= count <= most)[:_RAREST]
    column = {name: (at, np.log1p(len(places) / count)) for at, (count, name) in enumerate(rare)}
    mentions = np.zeros((len(places), len(rare)), np.float32)
    for row, place in enumerate(places.tolist()):
        for name in inputs.named[place]:
            if name in column:
                at, weight = column[name]
                mentions[row, at] = np.sqrt(weight)
    both = mentions @ mentions.T
    own = both.diagonal()
    either = own[:, None] + own[None, :] - both
    share: Vectors = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    return share


def _cluster(
    inputs: Inputs, places: Places, alike: Vectors, usual: generated_text.DocumentFrequencies
) -> Finding | None:
    """Return a group as a finding; None where it is too small, of one session, or has no topic.

    The member that is most like the others comes first.
    """
    members = [inputs.memories[place] for place in places.tolist()]
    sessions = {memory.session for memory in members if memory.session is not None}
    days = len({day(member) for member in members})
    if len(members) < SMALLEST or (len(sessions) < 2 and days < 2):
        return None
    topic = generated_text.topic(members, usual, TERMS)
    if len(topic) < _LEAST_TERMS:
        return None
    others = alike.sum(axis=1) - alike.diagonal()
    order = np.argsort(-others, kind="stable")
    cohesion = float(others.sum() / (len(members) * (len(members) - 1)))
    sources = tuple(members[at] for at in order.tolist())
    return Finding(
        insight_type="cluster",
        project=inputs.project,
        sources=sources,
        topic=tuple(topic),
        says=f"{len(members)} notes, {span(members)}",
        why=f"{len(members)} memories of {plural(days, 'day')} are alike to {cohesion:.2f}",
        strength=cohesion * np.log1p(len(members)),
        evidence={"cohesion": round(cohesion, 3), "days": days},
    )


# Average linkage: groups whose members are similar on average, each pair counting the same.
#
# The nearest-neighbour chain finds the pairs to merge in n^2 steps and n^2 numbers. Its groups are
# those of merging the most similar pair over and over, since average linkage never makes two groups
# more similar than either was to its own merge partner.
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
    """Merge one group into another: the similarities are the means of all pairs."""
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
    groups = [group for group in np.split(order, starts[1:]) if len(group) > 1]
    return sorted(groups, key=lambda group: int(group[0]))


# Time: an error recurs if it is named on DAYS days or more. Files that change often and commands
# that run often are ordinary work. A rhythm (a weekday, the days after a release) is reported only
# if its probability by chance is below CHANCE: the binomial tail of its days, each as likely as the
# project's own days of writing, corrected for all rhythms tried (Bonferroni).

DAYS = 3
CHANCE = 0.01
MOST_SOURCES = 24  # of one pattern, the newest
_AFTER_RELEASE = 2  # days that count as after it
_EVERYWHERE = 0.2  # a name in this share of memories is the project's own subject
_AT_LEAST = 20  # memories of a project before `_EVERYWHERE` applies

_WEEKDAYS = "Thursday Friday Saturday Sunday Monday Tuesday Wednesday".split()  # 1970 began on one


def recurring_errors(inputs: Inputs) -> Iterator[Finding]:
    """Yield the errors that come back in a project, each with the memories that name it."""
    recurring = [
        (name, memories)
        for name, memories in _error_memories(inputs)
        if len({day(memory) for memory in memories}) >= DAYS
    ]
    active = {day(memory) for memory in inputs.memories}
    releases = {
        day(memory) for memory in inputs.memories if generated_text.is_release(memory.content)
    }
    near_release = {
        date for date in active if releases.intersection(range(date - _AFTER_RELEASE, date + 1))
    }
    for name, memories in recurring:
        days = sorted({day(memory) for memory in memories})
        rhythm = _rhythm(days, sorted(active), near_release, tried=8 * len(recurring))
        sources = tuple(
            sorted(memories, key=lambda memory: (memory.created_at, memory.id))[-MOST_SOURCES:]
        )
        says = f"comes back on {len(days)} days, {span(memories)}"
        yield Finding(
            insight_type="temporal",
            project=inputs.project,
            sources=sources,
            topic=(name.name,),
            says=says + (f"; {rhythm}" if rhythm else ""),
            why=f"{name.kind} {name.name} on {len(days)} days",
            strength=len(days) ** 0.5,
            evidence={"days": len(days), "memories": len(memories)},
        )


def _error_memories(inputs: Inputs) -> Iterator[tuple[Name, list[Memory]]]:
    """Yield the errors that may recur and their memories, of equal texts only the first."""
    count = len(inputs.memories)
    for number, places in inputs.places_by_name().items():
        name = inputs.names[number]
        if name.kind != "error" or (count >= _AT_LEAST and len(places) > _EVERYWHERE * count):
            continue
        memories = [inputs.memories[place] for place in places]
        yield name, list({memory.text_hash: memory for memory in reversed(memories)}.values())


def _rhythm(days: Sequence[int], active: Sequence[int], near_release: set[int], tried: int) -> str:
    """Return the rhythm of days that chance does not explain; "" without any."""
    rhythms: list[tuple[float, str]] = []
    for weekday in sorted({date % 7 for date in days}):
        hits = sum(date % 7 == weekday for date in days)
        usual = sum(date % 7 == weekday for date in active) / len(active)
        chance = binomial_tail(hits, len(days), usual)
        rhythms.append((chance, f"{hits} times on a {_WEEKDAYS[weekday]}"))
    hits = sum(date in near_release for date in days)
    chance = binomial_tail(hits, len(days), len(near_release) / len(active))
    rhythms.append((chance, f"{hits} times at a release or just after one"))
    chance, text = min(rhythms)
    return text if chance * tried < CHANCE else ""


def binomial_tail(hits: int, days: int, usual: float) -> float:
    """Return the probability of so many hits or more by chance: the binomial's upper tail."""
    return sum(
        comb(days, count) * usual**count * (1.0 - usual) ** (days - count)
        for count in range(hits, days + 1)
    )


# Causes. A chain follows `parent_id` and the edges cause, support and derived, from the first cause
# to its result: an edge's target is its source's cause or support, or derives from it. A fix
# belongs to the newest failure before it, of FORGET days at most, that names the same error or two
# other names in common.

SHORTEST, LONGEST = 3, 8  # memories of a chain
FORGET = 30  # days
_NAMES = 2  # other than errors, that a fix and its failure must share
_COMMON = 0.1  # a name in this share of memories is no evidence
_FEW = 20  # memories; up to so many no name counts as common

_RELATIONS = frozenset({"cause", "support", "derived"})
_FIXES = frozenset({"bugfix", "lesson"})
_TELLING = frozenset({"file", "symbol", "package", "command", "url"})


def causal_chains(inputs: Inputs, edges: Sequence[Edge]) -> Iterator[Finding]:
    """Yield the longest chain from each memory that follows from no other."""
    by_id = {memory.id: memory for memory in inputs.memories}
    followers = _followers(by_id, edges)
    effects = {id_ for ids in followers.values() for id_ in ids}
    usual = generated_text.DocumentFrequencies.of(inputs.memories)
    for first in followers:
        if first in effects:
            continue
        chain = [by_id[id_] for id_ in _longest_chain(first, followers, ())]
        if len(chain) >= SHORTEST:
            topic = generated_text.topic(chain, usual, 3) or [span(chain)]
            yield Finding(
                insight_type="causal",
                project=inputs.project,
                sources=tuple(chain),
                topic=tuple(topic),
                says=f"what led to what in {len(chain)} steps, {span(chain)}",
                why=f"{len(chain)} memories follow from one another",
                strength=len(chain) ** 0.5,
                is_in_order=True,
                evidence={"steps": len(chain)},
            )


def _followers(by_id: Mapping[str, Memory], edges: Sequence[Edge]) -> dict[str, list[str]]:
    """Return each memory's direct consequences, in order of time."""
    pairs = {
        (memory.parent_id, memory.id)
        for memory in by_id.values()
        if memory.parent_id is not None and memory.parent_id in by_id
    }
    pairs |= {
        (edge.source, edge.target) if edge.relation == "derived" else (edge.target, edge.source)
        for edge in edges
        if edge.relation in _RELATIONS and edge.source in by_id and edge.target in by_id
    }
    followers: dict[str, list[str]] = {}
    for before, after in sorted(pairs, key=lambda pair: (by_id[pair[1]].created_at, pair)):
        if before != after:
            followers.setdefault(before, []).append(after)
    return followers


def _longest_chain(
    first: str, followers: Mapping[str, Sequence[str]], before: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the longest chain from a memory on, LONGEST at most, without cycles."""
    chain = (*before, first)
    if len(chain) == LONGEST:
        return chain
    longer = [
        _longest_chain(id_, followers, chain)
        for id_ in followers.get(first, ())[:3]
        if id_ not in chain
    ]
    return max(longer, key=len, default=chain)


def failures_with_fixes(inputs: Inputs) -> Iterator[Finding]:
    """Yield each fix with the failure that it followed."""
    common = max(len(inputs.memories) * _COMMON, 3.0)
    is_few = len(inputs.memories) < _FEW
    rare = {
        number
        for number, places in inputs.places_by_name().items()
        if is_few or len(places) <= common
    }
    failures = [
        place
        for place, memory in enumerate(inputs.memories)
        if memory.kind not in _FIXES
        and inputs.named[place]
        and generated_text.is_failure(memory.content)
    ]
    for place, fix in enumerate(inputs.memories):
        if fix.kind not in _FIXES:
            continue
        named = inputs.named[place] & rare
        for earlier in reversed(failures[: bisect_left(failures, place)] if named else ()):
            failure = inputs.memories[earlier]
            if day(fix) - day(failure) > FORGET:
                break
            both = [inputs.names[number] for number in named & inputs.named[earlier]]
            errors = [name.name for name in both if name.kind == "error"]
            others = [name.name for name in both if name.kind in _TELLING]
            if errors or len(others) >= _NAMES:
                yield _failure_and_fix(inputs.project, failure, fix, errors or others)
                break


def _failure_and_fix(
    project: str | None, failure: Memory, fix: Memory, names: list[str]
) -> Finding:
    topic = tuple(sorted(names)[:3])
    days = day(fix) - day(failure)
    return Finding(
        insight_type="causal",
        project=project,
        sources=(failure, fix),
        topic=topic,
        says=f"it failed, and this fixed it {f'{days} days later' if days else 'the same day'}",
        why=f"both name {', '.join(topic)}",
        strength=1.0,
        is_in_order=True,
        evidence={"days": days},
    )
