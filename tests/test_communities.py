"""Communities: nodes joined more than by chance, always the same for the same graph."""

import numpy as np
import pytest

from serve.reports.communities import Graph, Ints, communities, largest_communities, levels


def graph(edges: list[tuple[int, int]], count: int) -> Graph:
    source, target = np.array(edges, np.int64).reshape(-1, 2).T
    return Graph(source, target, np.ones(len(edges)), np.zeros(count))


def cliques(count: int, size: int) -> tuple[Graph, Ints]:
    """Return a ring of cliques, each joined to the next by one edge, and each node's clique."""
    edges = [
        (clique * size + a, clique * size + b)
        for clique in range(count)
        for a in range(size)
        for b in range(a + 1, size)
    ]
    bridges = [sorted((clique * size, (clique + 1) % count * size + 1)) for clique in range(count)]
    return graph([*edges, *map(tuple, bridges)], count * size), np.arange(count * size) // size


def test_communities_are_the_cliques_of_a_ring():
    ring, clique = cliques(8, 6)
    labels = communities(ring)
    assert len({*zip(labels.tolist(), clique.tolist(), strict=True)}) == 8
    assert labels.max() == 7


def test_modularity_is_that_of_the_definition():
    ring, clique = cliques(5, 4)
    share = 2 * 6 / (2 * 6 * 5 + 2 * 5)  # of a clique's own edges, at both ends
    assert ring.merge(clique).modularity == pytest.approx(5 * share - 5 * (1 / 5) ** 2)


def test_levels_gain_and_end():
    ring, _ = cliques(30, 4)
    worth = [ring.modularity, *(graph.modularity for graph, _ in levels(ring))]
    assert worth == sorted(worth) and len(worth) > 1


def test_merging_keeps_the_weight():
    ring, clique = cliques(5, 4)
    merged = ring.merge(clique)
    assert merged.degree.sum() == pytest.approx(ring.degree.sum())


def test_the_largest_community_is_the_first_and_equal_ones_are_in_order():
    sizes = (3, 5, 3)
    starts = np.cumsum((0, *sizes))
    edges = [
        (int(start) + a, int(start) + b)
        for start, size in zip(starts, sizes, strict=False)
        for a in range(size)
        for b in range(a + 1, size)
    ]
    assert largest_communities(graph(edges, 11)).tolist() == [1] * 3 + [0] * 5 + [2] * 3


def test_nodes_without_edges_are_communities_of_their_own():
    assert largest_communities(graph([], 3)).tolist() == [0, 1, 2]
    assert largest_communities(graph([], 0)).tolist() == []
