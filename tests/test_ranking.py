"""The ranking functions, against plain sorts, the papers' arithmetic and second implementations."""

import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.recall import neighbours
from serve.recall.scoring import (
    LETTERS,
    MEANING,
    K,
    Model,
    Ranking,
    confidence,
    coverage,
    reciprocal_rank,
    weighted_sum,
)
from store.index import top_k as top_k_module
from store.index.top_k import top_k

SCORES = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 9, width=32)  # with many ties and with few
UNITS = st.floats(0, 1)


@st.composite
def rankings(draw: st.DrawFn) -> list[Ranking]:
    """Draw up to four channels over twenty documents, each best first and without repeats."""
    drawn = []
    for docs in draw(st.lists(st.lists(st.integers(0, 19), unique=True), max_size=4)):
        scores = sorted(draw(st.lists(SCORES, min_size=len(docs), max_size=len(docs))))[::-1]
        drawn.append(ranking(docs, scores, draw(st.sampled_from([0.5, 1.0]))))
    return drawn


def ranking(docs: list[int], scores: list[float] | None = None, weight: float = 1.0) -> Ranking:
    filled = scores if scores is not None else [float(len(docs) - n) for n in range(len(docs))]
    return Ranking(np.array(docs, np.int64), np.array(filled, np.float32), weight)


@given(st.lists(st.tuples(SCORES, st.booleans()), max_size=80), st.integers(1, 90), SCORES)
def test_best_is_the_head_of_a_plain_sort(pairs: list[tuple[float, bool]], k: int, above: float):
    scores = np.array([score for score, _ in pairs], np.float32)
    mask = np.array([passes for _, passes in pairs], np.bool_)
    passing = [doc for doc in range(len(pairs)) if mask[doc] and scores[doc] > np.float32(above)]
    expected = sorted(passing, key=lambda doc: (-scores[doc], -doc))[:k]
    assert top_k(scores, mask, k, above=above).tolist() == expected


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 5_000),
    levels=st.sampled_from([1, 2, 3, 50, 1_000_000]),  # few levels make many ties
    passing=st.sampled_from([None, 0.01, 0.3, 0.7, 1.0]),
    k=st.integers(1, 8),
)
def test_best_of_many_is_the_head_of_a_plain_sort(
    seed: int, size: int, levels: int, passing: float | None, k: int
):
    chosen = np.random.default_rng(seed)
    scores = (chosen.integers(0, levels + 1, size) / levels).astype(np.float32)
    scores[: size // 3] *= chosen.random()  # older scores differ from the newer ones
    mask = None if passing is None else chosen.random(size) < passing
    docs = np.flatnonzero((scores > 0.25) & (True if mask is None else mask))
    expected = docs[np.lexsort((-docs, -scores[docs]))][:k]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k_module, "_MANY", 1)
        assert top_k(scores, mask, k, above=0.25).tolist() == expected.tolist()


@pytest.mark.parametrize("passing", [None, 0.9, 0.3])
@pytest.mark.parametrize("levels", [3, 1_000_000])
def test_best_of_hundreds_of_thousands_is_the_head_of_a_plain_sort(
    passing: float | None, levels: int
):
    chosen = np.random.default_rng(5)
    scores = (chosen.integers(0, levels, 300_001) / levels).astype(np.float32)
    mask = None if passing is None else chosen.random(len(scores)) < passing
    docs = np.flatnonzero((scores > 0.25) & (True if mask is None else mask))
    expected = docs[np.lexsort((-docs, -scores[docs]))][:200]
    assert top_k(scores, mask, 200, above=0.25).tolist() == expected.tolist()


BLOCK = 128  # documents in a block when there are as many as below


def test_blocks_whose_best_are_all_hidden_hide_nothing_else():
    scores = np.ones(200 * BLOCK, np.float32)
    scores[::BLOCK] = 2.0
    assert top_k(scores, scores < 2.0, 3).tolist() == [len(scores) - n for n in (1, 2, 3)]


def test_ties_beside_a_hidden_document_keep_the_newer_first():
    scores, mask = np.ones(200 * BLOCK, np.float32), np.ones(200 * BLOCK, np.bool_)
    scores[0], mask[0] = 2.0, False  # its block is searched first
    mask[195 * BLOCK :] = False  # the newest blocks are searched for nothing
    assert top_k(scores, mask, 1).tolist() == [195 * BLOCK - 1]


def test_of_equal_scores_the_newer_document_is_kept():
    scores = np.array([1, 2, 1, 1], np.float32)
    assert top_k(scores, np.ones(4, np.bool_), 3).tolist() == [1, 3, 2]


def test_documents_without_a_score_are_not_candidates():
    assert top_k(np.zeros(3, np.float32), np.ones(3, np.bool_), 3).tolist() == []


def test_top_k_of_no_documents_is_empty():
    assert top_k(np.empty(0, np.float32), np.empty(0, np.bool_), 5).tolist() == []


def test_two_rankings_that_agree_beat_one_first_place():
    docs, scores = reciprocal_rank([ranking([7, 3]), ranking([3, 9])])
    assert docs.tolist() == [3, 7, 9]
    assert scores.tolist() == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])


def test_a_channel_contributes_by_its_weight():
    docs, scores = reciprocal_rank([ranking([1], weight=0.5), ranking([4, 2])])
    assert docs.tolist() == [4, 2, 1]
    assert scores.tolist() == pytest.approx([1 / 61, 1 / 62, 0.5 / 61])


@given(rankings())
def test_reciprocal_rank_is_the_sum_the_paper_states(channels: list[Ranking]):
    expected: dict[int, float] = {}
    for channel in channels:
        for rank, doc in enumerate(channel.docs.tolist(), start=1):
            expected[doc] = expected.get(doc, 0.0) + channel.weight / (K + rank)
    docs, scores = reciprocal_rank(channels)
    assert docs.tolist() == sorted(expected, key=lambda doc: (-expected[doc], -doc))
    assert scores.tolist() == [expected[doc] for doc in docs.tolist()]


@given(rankings(), st.randoms())
def test_fusion_does_not_depend_on_the_order_of_channels(channels: list[Ranking], random):
    shuffled = random.sample(channels, len(channels))
    before, after = (
        dict(zip(*reciprocal_rank(some), strict=True)) for some in (channels, shuffled)
    )
    assert after == pytest.approx(before)


@pytest.mark.parametrize("channels", [[], [ranking([])], [ranking([]), ranking([])]])
def test_fusing_nothing_gives_two_empty_arrays(channels: list[Ranking]):
    docs, scores = reciprocal_rank(channels)
    assert docs.shape == scores.shape == (0,)


def test_weighted_sum_adds_the_evidence_by_its_weight():
    evidence = {"words": np.array([0.25, 1.0, 0.5]), "session": np.array([1.0, 0.0, 1.0])}
    docs, scores, order = weighted_sum(np.array([3, 5, 9]), evidence, {"words": 1, "session": 0.5})
    assert docs.tolist() == [9, 5, 3]  # of two equal scores the newer document comes first
    assert scores.tolist() == [1.0, 1.0, 0.75]
    assert order.tolist() == [2, 1, 0]


def test_weighted_sum_of_nothing_is_nothing():
    docs, scores, order = weighted_sum(np.empty(0, np.int64), {"words": np.empty(0)}, {"words": 1})
    assert docs.shape == scores.shape == order.shape == (0,)


def test_a_linked_score_counts_only_where_it_is_allowed():
    scores = np.array([1, 2, 3, 4], np.float32)
    links = np.array([3, -1, 1, 0], np.int32)
    allowed = np.array([False, True, True, True])
    assert neighbours.take_scores(scores, links, allowed).tolist() == [4, 0, 2, 0]
    assert neighbours.take_scores(scores, links[:0], allowed).tolist() == []


def test_neighbouring_turns_contribute_a_share_of_the_best_score():
    # the turn before the second scores most (8) and is a question: the second is its answer
    lent = neighbours.turn_shares(
        np.array([4.0, 1.0]), np.array([0.0, 8.0]), np.array([2.0, 0.0]), np.array([False, True])
    )
    assert lent["before"].tolist() == [0.0, 1.0]
    assert lent["after"].tolist() == [0.25, 0.0]
    assert lent["question"].tolist() == [0.0, 1.0]


def test_a_turn_that_did_not_ask_lends_no_question():
    lent = neighbours.turn_shares(np.ones(1), np.ones(1), np.ones(1), np.array([False]))
    assert lent["question"].tolist() == [0.0]


def test_a_note_is_a_session_of_one_and_takes_a_part_of_what_is_around():
    scores, own = np.array([6.0, 3.0, 6.0, 0.0]), np.array([0.2, 0.2, 0.0, 1.0])
    shares = neighbours.session_shares(scores, own, np.array([True, True, False, False]))
    part = neighbours.UNANSWERED / (1.0 + neighbours.UNANSWERED)
    assert shares.tolist() == pytest.approx([1.0, 0.5, part, 1.0 - part])


def test_without_a_score_nothing_is_lent():
    none = np.zeros(2)
    lent = neighbours.turn_shares(none, none, none, np.array([True, True]))
    assert all(not values.any() for values in lent.values())
    assert not neighbours.session_shares(none, none, np.array([True, True])).any()
    assert neighbours.session_shares(np.empty(0), np.empty(0), np.empty(0, np.bool_)).shape == (0,)


def test_coverage_is_the_share_of_the_words_weight():
    matched = np.array([[True, False, True], [False, False, True]])
    assert coverage(matched, np.array([3.0, 1.0])).tolist() == [0.75, 0.0, 1.0]


@pytest.mark.parametrize("weights", [[], [0.0, 0.0]])
def test_a_query_that_weighs_nothing_is_covered_by_nothing(weights: list[float]):
    matched = np.ones((len(weights), 3), np.bool_)
    assert coverage(matched, np.array(weights)).tolist() == [0.0, 0.0, 0.0]


def test_coverage_and_confidence_of_no_candidates_are_empty():
    assert coverage(np.zeros((2, 0), np.bool_), np.ones(2)).shape == (0,)
    assert confidence(MEANING, np.empty(0), np.empty(0), np.empty(0, np.int64), 0.5).shape == (0,)


@pytest.mark.parametrize("model", [MEANING, LETTERS])
@given(
    near=st.tuples(UNITS, UNITS),
    covered=st.tuples(UNITS, UNITS),
    words=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    unknown=st.tuples(UNITS, UNITS),
)
def test_confidence_never_falls_with_more_evidence(
    model: Model,
    near: tuple[float, float],
    covered: tuple[float, float],
    words: tuple[int, int],
    unknown: tuple[float, float],
):
    rising = [np.array(sorted(values)) for values in (near, covered, words)]
    less, more = confidence(model, *rising, min(unknown) * 0.99)
    assert 0.0 <= less <= more <= 1.0
    foreign = confidence(model, *rising, max(unknown) * 0.99)
    assert (foreign <= confidence(model, *rising, min(unknown) * 0.99) + 1e-12).all()


def test_confidence_is_the_logistic_of_the_weighed_evidence():
    model = Model(1.0, 2.0, 3.0, -4.0, -5.0, near_alone=8.0, bias_alone=-4.0)
    sure = confidence(model, np.array([0.5]), np.array([1.0]), np.array([0.25]), 0.5)
    odds = 0.5 + 2 * math.log(2) + 3 * 0.25 - 4 * 0.5 - 5
    assert sure[0] == pytest.approx(1 / (1 + math.exp(-odds)))


def test_without_known_terms_only_the_vector_counts():
    model = Model(0.0, 9.0, 9.0, 0.0, 9.0, near_alone=8.0, bias_alone=-4.0)
    sure = confidence(model, np.array([0.5, 0.0]), np.ones(2), np.array([1, 1]), 1.0)
    assert sure.tolist() == pytest.approx([0.5, 1 / (1 + math.exp(4.0))])


@given(
    st.lists(st.integers(-3, 9), min_size=1, max_size=30),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_best_of_a_group_are_averaged(scores: list[int], count: int, chance: Random):
    cuts = sorted({0, len(scores), *(chance.randrange(len(scores)) for _ in range(3))})
    sizes = np.diff(np.asarray(cuts, np.int32))
    groups = neighbours.best_of_groups(np.asarray(scores, np.float32), sizes, count)
    wanted = [
        sum(sorted((max(score, 0) for score in scores[start:end]), reverse=True)[:count])
        for start, end in pairwise(cuts)
    ]
    assert groups.tolist() == pytest.approx([weight / count for weight in wanted])


def test_no_groups_have_no_best():
    none = np.empty(0, np.int32)
    assert neighbours.best_of_groups(np.empty(0, np.float32), none, 3).shape == (0,)
    assert neighbours.runs(none, none).tolist() == []


def test_runs_are_numbered_one_after_the_other():
    assert neighbours.runs(np.int32([7, 2, 4]), np.int32([9, 3, 4])).tolist() == [7, 8, 2]
