"""Where a walk from the entities asked about often stands."""

import numpy as np
import numpy.typing as npt
import pytest

from serve.recall import neighbours
from serve.recall.neighbours import neighbourhood, pagerank

# entity -> the memories that mention it
MENTIONED = {0: [0, 1], 1: [1, 2], 2: [2, 3], 3: [4, 5], 4: [0, 2, 3, 6]}


def run(mentioned: dict[int, list[int]]) -> tuple[npt.NDArray[np.int64], ...]:
    """Return offsets, counts and documents as an index holds them."""
    counts = np.array([len(docs) for docs in mentioned.values()])
    documents = np.array([doc for docs in mentioned.values() for doc in docs], np.int64)
    return np.concatenate([[0], np.cumsum(counts)[:-1]]), counts, documents


def solved(mentioned: dict[int, list[int]], seeds: list[int]) -> npt.NDArray[np.float64]:
    """Return the exact visits of each memory, [memories], from the linear system."""
    documents = max(doc for docs in mentioned.values() for doc in docs) + 1
    holds = np.zeros((len(mentioned), documents))
    for entity, docs in mentioned.items():
        holds[entity, docs] = 1.0
    out = holds / holds.sum(axis=1, keepdims=True)
    back = (holds / np.maximum(holds.sum(axis=0), 1.0)).T
    start = np.zeros(len(mentioned))
    start[seeds] = 1.0 / holds.sum(axis=1)[seeds]
    start /= start.sum()
    damping = neighbours.DAMPING
    at = np.linalg.solve(np.eye(len(start)) - damping * (out @ back).T, (1 - damping) * start)
    visits: npt.NDArray[np.float64] = at @ out
    return visits


@pytest.mark.parametrize("seeds", [[0, 2], [0, 4], [3], [0, 1, 2, 3, 4]])
def test_the_walk_is_the_solution_of_its_linear_system(seeds: list[int]):
    graph = neighbourhood(*run(MENTIONED), np.array(seeds))
    docs, visits = pagerank(*graph, np.array(seeds))
    exact = solved(MENTIONED, seeds)
    assert visits == pytest.approx(exact[docs], abs=2.0**-neighbours.STEPS)
    assert visits.sum() == pytest.approx(1.0)


def test_the_memory_between_two_entities_beats_those_of_one():
    docs, visits = pagerank(*neighbourhood(*run(MENTIONED), np.array([0, 2])), np.array([0, 2]))
    of = dict(zip(docs.tolist(), visits.tolist(), strict=True))
    # memory 2 holds the entities 1 and 4, each of which shares a memory with 0 or 2
    assert of[2] > of[1] > of[6]
    assert 4 not in of  # nothing leads there


def test_unknown_seeds_give_nothing():
    nothing = np.empty(0, np.int64)
    docs, visits = pagerank(nothing, nothing, np.array([7]))
    assert len(docs) == len(visits) == 0


def test_the_graph_is_bounded_and_drops_the_most_common_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(neighbours, "MAX_MENTIONS", 6)
    entities, _ = neighbourhood(*run(MENTIONED), np.array([0, 2]))
    assert sorted(set(entities.tolist())) == [0, 1, 2]


def test_of_a_common_entity_the_newest_memories_are_walked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(neighbours, "MAX_DOCUMENTS", 2)
    entities, documents = neighbourhood(*run(MENTIONED), np.array([4]))
    assert documents[entities == 4].tolist() == [3, 6]
