"""A segmented index is the same for every history of updates, and reuses unchanged segments."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.index import bm25, postings, segments
from store.index.postings import PostingsIndex
from store.index.segments import Formula
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots.projection import Built, Part, digest

NOW = 1_800_000_000_000_000
BASE = 4

Document = tuple[str, ...] | None
DOCUMENT = st.none() | st.lists(st.sampled_from("abcdefgh"), max_size=9).map(tuple)
# the changes between two builds: changed documents and new ones
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 60), DOCUMENT), max_size=4),
        st.lists(DOCUMENT, max_size=2 * BASE + 3),
    ),
    min_size=1,
    max_size=5,
)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "BASE", BASE)
        patch.setattr(segments, "MOST", 4)
        patch.setattr(segments, "LEAST_SPREAD", 3)
        patch.setattr(postings, "SHORT", 5)
        yield


def built(
    documents: Sequence[Document], previous: Built | None = None, sizes: list[int] | None = None
) -> Built:
    """Return the index; append the numbers of the counted documents to `sizes`."""
    marks = [
        0 if document is None else crc32(repr(document).encode()) | 1 << 40
        for document in documents
    ]

    def counted(runs: Sequence[bm25.Numbers]) -> Iterator[segments.Counted]:
        for run in runs:
            some = [documents[row] or () for row in run]
            terms = pa.array([term for document in some for term in document], pa.string())
            if sizes is not None:
                sizes.extend(run.tolist())
            yield bm25.count_terms(terms, np.array([*map(len, some)]), run, lambda term: (term,))

    fingerprints = np.array(marks, np.uint64)
    tables = segments.update_segments(
        fingerprints, previous, counted, lambda name, table: Part.of(table), Formula()
    )
    return segments.segment_tables(tables)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_an_index_of_many_builds_is_that_of_one(steps):
    documents: list[Document] = []
    index = None
    for changes, added in steps:
        for place, document in changes:
            if place < len(documents):
                documents[place] = document
        documents += added
        index = built(documents, index)
        whole = built(documents)
        assert all(index[name].equals(whole[name]) for name in whole)
        assert digest(index) == digest(whole)


@settings(max_examples=100, deadline=None)
@given(st.lists(DOCUMENT, max_size=40), st.lists(st.sampled_from("abcdefghx"), max_size=5))
def test_segments_score_as_bm25okapi(documents, query):
    ours = PostingsIndex.open(built(documents))
    indexed = [document for document in documents if document is not None]
    if not any(indexed):
        assert not ours.scores(query).any()
        return
    reference = BM25Okapi(indexed, k1=bm25.K1, b=bm25.B, epsilon=bm25.EPSILON)
    reference.avgdl = bm25.round_impacts(reference.avgdl)
    wanted = np.zeros(len(documents))
    wanted[[document is not None for document in documents]] = reference.get_scores(query)
    np.testing.assert_allclose(ours.scores(query), wanted, atol=1e-4, rtol=1e-4)


@settings(max_examples=100, deadline=None)
@given(st.lists(DOCUMENT, max_size=40), st.lists(st.integers(0, 39)), st.permutations("abcdefghx"))
def test_what_holds_a_term_is_told_over_all_segments(documents, asked, terms):
    ours = PostingsIndex.open(built(documents))
    docs = np.array(sorted(row for row in asked if row < len(documents)), np.int64)
    wanted = [[term in (documents[row] or ()) for row in docs] for term in terms]
    assert ours.contains(terms, docs).tolist() == wanted


@pytest.mark.parametrize(
    ("documents", "sizes"),
    [
        (0, []),
        (3, [3]),
        (4, [4]),
        (11, [8, 3]),
        (29, [16, 8, 4, 1]),
        (32, [16, 16]),
        (91, [16, 16, 16, 16, 16, 8, 3]),
    ],
)
def test_segments_are_whole_ones_and_what_the_digits_of_the_rest_say(
    documents: int, sizes: list[int]
):
    covered = segments.ranges(documents)
    assert [end - first for first, end in covered] == sizes
    assert [first for first, _ in covered] == [0, *(end for _, end in covered)][: len(sizes)]


def test_only_new_and_changed_documents_are_looked_at():
    documents: list[Document] = [("a", f"w{number}") for number in range(22)]
    before = built(documents)
    documents[5] = ("a", "other")
    documents[7] = None
    documents += [("a", "new"), ("a", "newer")]
    reads: list[int] = []
    after = built(documents, before, reads)
    assert reads == [5, 22, 23]
    assert digest(after) == digest(built(documents))


def test_a_segment_without_a_change_is_the_previous_builds():
    documents: list[Document] = [("a", f"w{number % 7}") for number in range(30)]
    before = built(documents)
    documents[17] = ("b", "b")
    after = built([*documents, ("a", "new")], before)
    for name in ("words", "postings", "wide", "spread", "documents", "trigrams"):
        are_same = [
            old is new for old, new in zip(before.parts[name], after.parts[name], strict=True)
        ]
        assert are_same == [True, False, True, False]


def test_another_average_length_changes_all_impacts_and_no_list():
    documents: list[Document] = [("a", "b")] * 10
    before = built(documents)
    longer = [*documents, tuple("abcdefgh")]
    after = built(longer, before)
    assert after.parts["words"][0] is before.parts["words"][0]
    assert after.parts["postings"][0] is not before.parts["postings"][0]
    assert digest(after) == digest(built(longer))


def test_a_wide_word_gains_each_document_what_its_postings_say():
    documents: list[Document] = [("a", "b"), ("a", "a"), None, ("c",), ("a",)]
    ours = PostingsIndex.open(built(documents))
    places, gains = ours.posting_list("a"), np.zeros(5, np.float32)
    gains[places[0]] = places[1]
    first, last = ours.segments
    assert [first.first, last.first] == [0, 4]
    ((_, _, row),) = first.find(ours.hashes[[ours.find("a")]])
    assert first.spread[row].tolist() == gains[:4].tolist()
    np.testing.assert_allclose(ours.scores(["a"]), gains * np.float32(ours.idf("a")))


def test_fewer_documents_than_before_are_indexed_anew():
    documents: list[Document] = [("a", "b"), ("c",), ("d", "a"), None, ("b",)]
    assert digest(built(documents[:3], built(documents))) == digest(built(documents[:3]))


def test_more_occurrences_than_are_counted_count_as_the_most():
    many = bm25.count_terms(
        pa.array(["a"] * (bm25.MAX_BATCH_POSTINGS + 5)),
        np.array([bm25.MAX_BATCH_POSTINGS + 5]),
        np.array([0]),
        lambda term: (term,),
    )
    assert many[0].counts.tolist() == [bm25.MAX_BATCH_POSTINGS]
    assert many[1].tolist() == [bm25.MAX_BATCH_POSTINGS + 5]


def test_builds_over_a_growing_log_agree_with_one_from_nothing(tmp_path: Path):
    place, model = tenant(tmp_path), LexicalEmbedder()
    with EventLog(place.log, create=True) as log:
        for number in range(9):
            drafts = [
                Draft(id=f"m{number}-{part}", content=f"note {part} of day {number}", session="s")
                for part in range(number)
            ]
            commands.record_batch(log, drafts, NOW)
            if number > 3:
                commands.forget(log, f"m{number - 1}-0", NOW)
                commands.revise(log, f"m{number - 2}-1", Revised(content=f"word{number}"), NOW)
            manifest = build.rebuild(place, log, model, NOW)
            whole = build.digests(log, model, log.head())
            for name in ("postings", "sessions"):
                assert manifest.projections[name].digest == digest(whole[name])


def test_a_long_text_is_looked_at_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    place, model = tenant(tmp_path), LexicalEmbedder()
    with EventLog(place.log, create=True) as log:
        drafts = [Draft(content=f"word{number} " * number) for number in range(1, 9)]
        commands.record_batch(log, drafts, NOW)
        whole = build.digests(log, model, log.head())["postings"]
        monkeypatch.setattr(postings, "_BYTES", 100)
        assert digest(build.digests(log, model, log.head())["postings"]) == digest(whole)
