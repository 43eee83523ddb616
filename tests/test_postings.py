"""The index scores exactly as rank_bm25's BM25Okapi, document by document."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from store.index import bm25, postings
from store.index.postings import PostingsIndex, index
from store.snapshots.projection import digest
from store.snapshots.snapshot import read
from store.text import tokenizer

WORDS = [f"w{number}" for number in range(12)]
CORPORA = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=30)
QUERIES = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=6)
PARAMETERS = st.sampled_from(
    [(0.9, 0.3, 0.25), (1.5, 0.75, 0.25), (2.0, 0.0, 0.0), (0.5, 0.9, 1.0)]
)


def okapi(documents: list[list[str]], **parameters: float) -> BM25Okapi:
    """Return the reference implementation with the average length that our impacts assume."""
    reference = BM25Okapi(documents, **parameters)
    reference.avgdl = bm25.round_impacts(reference.avgdl)
    return reference


def opened(documents: list[list[str] | None], **parameters: float) -> PostingsIndex:
    return PostingsIndex.open(index(documents, **parameters))


@settings(max_examples=200, deadline=None)
@given(CORPORA, QUERIES, PARAMETERS)
def test_scores_are_those_of_bm25okapi(documents, query, parameters):
    k1, b, epsilon = parameters
    if not any(documents):
        return  # BM25Okapi divides by the average length, here zero
    reference = okapi(documents, k1=k1, b=b, epsilon=epsilon).get_scores(query)
    scores = opened(documents, k1=k1, b=b, epsilon=epsilon).scores(query)
    np.testing.assert_allclose(scores, reference, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 50, 2_000])
def test_scores_agree_at_every_size(size: int):
    rng = np.random.default_rng(size)
    words = [f"t{number}" for number in range(3 * int(size**0.5) + 2)]
    chances = 1 / np.arange(1, len(words) + 1)
    documents = [
        [*rng.choice(words, rng.integers(1, 40), p=chances / chances.sum())] for _ in range(size)
    ]
    ours, reference = opened(documents, k1=1.5, b=0.75), okapi(documents)
    for query in ([words[0]], [*words[:3], words[0]], [words[-1], "unknown"], documents[0]):
        gap = np.abs(ours.scores(query) - reference.get_scores(query))
        assert gap.max() <= 1e-4 * (1 + np.abs(reference.get_scores(query)).max())


def test_a_term_of_most_documents_gets_the_floor():
    documents = [["the", "cat"], ["the", "dog"], ["the", "sun"], ["moon"]]
    ours, reference = opened(documents), okapi(documents, epsilon=bm25.EPSILON)
    plain = math.log(4 - 3 + 0.5) - math.log(3 + 0.5)
    assert plain < 0 < ours.idf("the")
    assert ours.idf("the") == pytest.approx(bm25.EPSILON * ours.average_idf)
    assert {word: ours.idf(word) for word in reference.idf} == pytest.approx(reference.idf)


def test_a_floor_may_itself_be_negative_and_least_idf_raises_it():
    ours = opened([["one"], ["one"]])
    assert ours.idf("one") < 0 and (ours.scores(["one"]) < 0).all()
    assert (ours.scores(["one"], least_idf=0.1) > 0).all()


def test_the_worked_example_of_the_formula():
    ours = opened([["a", "a", "b"], ["c"], ["c"], ["d"]], k1=1.2, b=0.75)
    idf = math.log(4 - 1 + 0.5) - math.log(1 + 0.5)
    impact = 2 * 2.2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 3 / bm25.round_impacts(1.5)))
    assert ours.scores(["a"])[0] == pytest.approx(idf * impact)


@given(st.floats(0.01, 1e6))
def test_an_average_is_rounded_to_a_step_of_an_octave(average: float):
    assert abs(math.log2(bm25.round_impacts(average) / average)) <= 0.5 / bm25.STEPS + 1e-9
    assert bm25.round_impacts(bm25.round_impacts(average)) == pytest.approx(
        bm25.round_impacts(average), rel=1e-12
    )


@settings(max_examples=100, deadline=None)
@given(CORPORA, QUERIES)
def test_rounding_moves_no_impact_by_more_than_the_step(documents, query):
    if not any(documents):
        return
    ours, exact = opened(documents), BM25Okapi(documents, k1=bm25.K1, b=bm25.B, epsilon=0.25)
    gap = np.abs(ours.scores(query) - exact.get_scores(query))
    most = 2 ** (0.5 / bm25.STEPS) - 1
    whole = sum(abs(exact.idf.get(term, 0.0)) * (bm25.K1 + 1) for term in query)
    assert (gap <= most * whole + 1e-5).all()


def test_scores_are_added_to_the_array_given():
    ours = opened([["a"], ["b"], ["a"]])
    out = np.full(5, 2.0, np.float32)
    assert ours.scores(["a"], out=out) is out
    assert out.tolist() == [*(ours.scores(["a"]) + 2.0), 2.0, 2.0]


def test_contains_works_for_any_rows():
    ours = opened([["format"], ["b"], ["format", "b"], None])
    docs = np.array([0, 1, 2, 2, 3])
    weights = ours.contains(["format", "formatt", "unknown"], docs)
    assert (weights > 0).tolist() == [[True, False, True, True, False]] * 2 + [[False] * 5]
    assert weights[0].max() == 1.0
    assert weights[1].max() == np.float32(ours.known("formatt").share) < 1.0
    assert ours.contains(["b", "a"], docs[:0]).shape == (2, 0)


def test_a_posting_list_is_a_terms_documents_ascending():
    ours = opened([["a"], ["b", "a", "a"], None, ["a"]])
    documents, impacts = ours.posting_list("a")
    assert documents.tolist() == [0, 1, 3] and (impacts > 0).all()
    assert ours.frequency("a") == 3
    assert impacts[0] == impacts[2] > 0


def test_an_unknown_term_has_an_empty_posting_list():
    ours = opened([["a"]])
    assert [len(part) for part in ours.posting_list("b")] == [0, 0]
    assert (ours.find("b"), ours.idf("b"), ours.frequency("b")) == (None, None, 0)
    assert ours.scores(["b", "b"]).tolist() == [0.0]


@pytest.mark.parametrize("documents", [[], [[]], [None], [[], None, []]])
def test_a_corpus_without_a_word_scores_nothing(documents: list):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = opened(documents)
    assert ours.rows == len(documents)
    assert ours.scores(["a"]).tolist() == [0.0] * len(documents)


@given(CORPORA, QUERIES)
@settings(max_examples=40, deadline=None)
def test_an_excluded_row_has_no_effect(documents, query):
    gaps = [of for document in documents for of in (None, document)]
    scores = opened(gaps).scores(query)
    assert (scores[::2] == 0).all()
    np.testing.assert_array_equal(scores[1::2], opened(documents).scores(query))


def test_order_of_words_in_a_document_changes_no_row():
    documents = [["a", "b", "a"], ["c", "b"]]
    assert digest(index(documents)) == digest(index([sorted(document) for document in documents]))


def test_forgotten_memories_are_not_in_the_index(built):
    ref = built.manifest.projections["postings"]
    ours = PostingsIndex.open(read(built.tenant.snapshots, ref, postings.POSTINGS_PROJECTION))
    assert not any(map(ours.has, tokenizer.terms("exponential backoff")))
    assert ours.lengths[6] == -1 and (np.delete(ours.lengths, 6) > 0).all()
    assert ours.size == ours.rows - 1
    assert int(ours.scores(tokenizer.terms("pyarrow wheel on alpine")).argmax()) == 9
