"""
Clusters: memories of more than one day or session about the same thing.

Two memories are as similar as their vectors, plus half of the remaining distance if they name the
same rare entities. Average linkage groups them in blocks of BLOCK memories that follow one another
in time: n^2 numbers and steps for each block, so BLOCK * n in all. Memories of different blocks
never meet.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pipelines.jobs.reflect import generated_text
from pipelines.jobs.reflect.inputs import Finding, Inputs, day, span
from store.embedders.model_facts import Calibration
from store.memories.memory import Memory

BLOCK = 4_096  # memories linked together
SMALLEST, LARGEST = 3, 24  # memories of a cluster
LEAST = 0.5  # the mean similarity of a model's vectors: as of related texts
LEAST_LETTERS = 0.42  # cosines of hashed letters: below it groups were about nothing in common
TERMS = 6  # of a topic
_LEAST_TERMS = 2  # shared: else nobody can say what it is about
_NAMES = 1_024  # entities that are looked at, the rarest of those that several name
_COMMON = 0.1  # the share of memories from which on a name joins nothing

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
    most = max(3.0, _COMMON * len(places))
    rare = sorted((count, name) for name, count in held.items() if 2 <= count <= most)[:_NAMES]
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
    """Return what a group is about; None where it is too small, of one sitting, or about nothing.

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
    days = len({day(one) for one in members})
    sources = tuple(members[at] for at in order.tolist())
    return Finding(
        insight_type="cluster",
        project=material.project,
        sources=sources,
        topic=tuple(topic),
        says=f"{len(members)} notes, {span(members)}",
        why=f"{len(members)} memories of {days} days are alike to {cohesion:.2f}",
        strength=cohesion * np.log1p(len(members)),
        evidence={"cohesion": round(cohesion, 3), "days": days},
    )


def _is_of_several(members: list[Memory]) -> bool:
    sessions = {one.session for one in members if one.session is not None}
    return len(sessions) > 1 or len({day(one) for one in members}) > 1


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
    found = [some for some in np.split(order, starts[1:]) if len(some) > 1]
    return sorted(found, key=lambda some: int(some[0]))
