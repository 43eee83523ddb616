"""
Clusters: memories of more than one day or session that are about the same thing.

Two memories are alike as far as their vectors say, and half of the rest of the way where they name
the same rare entities. Groups are found by average linkage in blocks of BLOCK memories that follow
one another in time: n^2 numbers of memory and time for each block, and n / BLOCK of them, so that
of n memories it costs n * BLOCK. Memories of two blocks never meet.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pipelines.reflect import words
from pipelines.reflect.finding import Finding, day, span
from pipelines.reflect.linkage import groups
from pipelines.reflect.material import Material
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


def clusters(material: Material, vectors: Vectors, calibration: Calibration) -> Iterator[Finding]:
    """Yield the good clusters of a project's memories; `vectors` are unit, [memories, width]."""
    usual = words.Usual.of(material.memories)
    knows = calibration.knows_meaning
    for start in range(0, len(material.memories), BLOCK):
        places = _first_of_each_text(material, range(start, start + BLOCK))
        cosines = vectors[places] @ vectors[places].T
        near = np.minimum(calibration.evidence(cosines), 1.0) if knows else cosines
        alike = near + (1.0 - near) * 0.5 * _overlap(material, places)
        whole = alike.astype(np.float32)
        for some in groups(alike.astype(np.float32), LEAST if knows else LEAST_LETTERS, LARGEST):
            found = _finding(material, places[some], whole[np.ix_(some, some)], usual)
            if found is not None:
                yield found


def _first_of_each_text(material: Material, block: range) -> Places:
    """Return the places of a block, of equal texts only the first: copies are no agreement."""
    first: dict[bytes, int] = {}
    for place in block[: max(0, len(material.memories) - block.start)]:
        first.setdefault(material.memories[place].text_hash, place)
    return np.array(list(first.values()), np.int64)


def _overlap(material: Material, places: Places) -> Vectors:
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


def _finding(
    material: Material, places: Places, alike: Vectors, usual: words.Usual
) -> Finding | None:
    """Return what a group is about; None where it is too small, of one sitting, or about nothing.

    The member that is most like the others comes first.
    """
    members = [material.memories[place] for place in places.tolist()]
    if len(members) < SMALLEST or not _is_of_several(members):
        return None
    topic = words.topic(members, usual, TERMS)
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
