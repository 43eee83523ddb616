"""Similarly spelt words match each other, at a lower weight than the word itself."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.tenant import tenant
from store.index import segments, similar_terms
from store.index.postings import PostingsIndex, index
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

NOW = 1_800_000_000_000_000
WORDS = st.text("abc", min_size=1, max_size=12)


def opened(*documents: str) -> PostingsIndex:
    return PostingsIndex.open(index(document.split() for document in documents))


def share_of(one: str, other: str) -> float:
    """Return the share by definition: twice the common trigrams by all of both words, squared."""
    first, second = (
        {padded[at : at + 3] for at in range(len(padded) - 2)}
        for padded in (f"^^{word}$" for word in (one, other))
    )
    return (2 * len(first & second) / (len(first) + len(second))) ** 2


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ("formatt", "format"),  # the stem of formatter
        ("rechnungsnummern", "rechnungsnummer"),
        ("sprawdzenie", "sprawdzeniem"),
        ("timeout", "time"),
        ("kuberntes", "kubernetes"),  # misspelt
        ("обновления", "обновлениями"),
        ("कारयकरताओ", "कारयकरता"),
    ],
)
def test_a_word_nobody_holds_finds_one_that_is_written_like_it(asked: str, held: str):
    postings_index = opened(f"{held} other", "nothing here", "nor here")
    exact = postings_index.posting_list(held)
    documents, impacts = postings_index.posting_list(asked)
    assert documents.tolist() == exact[0].tolist() == [0]
    share = postings_index.known(asked).share
    assert similar_terms.LEAST <= share < 1.0
    assert impacts.tolist() == pytest.approx([share * float(exact[1][0])], rel=1e-5)
    assert postings_index.frequency(asked) == 1 and postings_index.scores([asked])[0] > 0


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ("for", "fore"),  # too short to tell
        ("capital", "capacities"),
        ("interna", "interpretation"),
        ("port5432", "port5433"),  # identifiers and numbers match exactly or not at all
        ("get_user", "get_users"),
        ("数据库里", "数据库的"),  # pairs of characters are already compared
    ],
)
def test_what_only_looks_alike_is_not_found(asked: str, held: str):
    postings_index = opened(held, "other", "words")
    assert postings_index.frequency(asked) == 0 and postings_index.idf(asked) is None
    assert not postings_index.scores([asked]).any() and postings_index.known(asked) is None


def test_a_word_that_is_held_also_finds_similar_ones_for_less():
    postings_index = opened("formatter", "formatters", *("other",) * 9)
    scores = postings_index.scores(["formatter"])
    assert 0 < scores[1] < scores[0] and not scores[2:].any()
    assert postings_index.scores(["formatter"], exact=True).nonzero()[0].tolist() == [0]
    assert postings_index.posting_list("formatter")[0].tolist() == [0]
    weights = postings_index.contains(["formatter"], np.arange(3))[0]
    assert weights[0] == 1.0 and similar_terms.LEAST <= weights[1] < 1.0 and weights[2] == 0.0


def test_a_word_that_many_hold_is_found_without_similar_ones():
    postings_index = opened(*("format",) * 9, "formatt", *("other",) * 20)
    assert postings_index.scores(["format"])[:9].all()
    assert postings_index.scores(["format"])[9] == 0.0


def test_a_held_word_of_syllables_that_most_words_have_stands_for_itself(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(similar_terms, "_SMALL", 8)
    postings_index = opened("kalomine", "kalomipu", "kalomira", "kalominepu")
    assert postings_index.contains(["kalomine"], np.arange(4))[0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert postings_index.contains(["kalomineka"], np.arange(4))[0].all()  # in no document


@given(st.lists(WORDS, max_size=12, unique=True), WORDS)
@settings(deadline=None)
def test_similar_words_are_those_of_the_definition(vocabulary: list[str], asked: str):
    postings_index = opened(*vocabulary)
    wanted = {
        place: share
        for place, word in enumerate(vocabulary)
        if min(len(word), len(asked)) >= similar_terms.MIN_LETTERS
        and (share := share_of(asked, word)) >= similar_terms.LEAST
    }
    if asked in vocabulary:
        wanted[vocabulary.index(asked)] = 1.0
    weights = postings_index.contains([asked], np.arange(len(vocabulary)))[0]
    assert {
        place: float(weights[place]) for place in weights.nonzero()[0].tolist()
    } == pytest.approx(wanted)


@given(st.lists(WORDS, max_size=12, unique=True), WORDS)
@settings(deadline=None)
def test_similar_words_are_the_same_however_many_segments_there_are(
    vocabulary: list[str], asked: str
):
    postings_index = opened(*vocabulary)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "BASE", 2)
        several = opened(*vocabulary)
    assert several.scores([asked]).tolist() == postings_index.scores([asked]).tolist()
    assert several.idf(asked) == postings_index.idf(asked)
    docs = np.arange(len(vocabulary))
    assert (
        several.contains([asked], docs).tolist() == postings_index.contains([asked], docs).tolist()
    )


@pytest.mark.parametrize("built", [True, False])
def test_another_form_of_a_word_is_recalled(tmp_path: Path, built: bool):
    place, model = tenant(tmp_path), LexicalEmbedder()
    notes = [
        "Formatted with ruff, never black",
        "Rechnungsnummern sind fortlaufend",
        "Tea at five",
        "The time out of the proxy is 30 s",
        "Weekly e-mail goes to the owners",
    ]
    with EventLog(place.log, create=True) as log:
        commands.record_batch(log, [Draft(content=note) for note in notes], NOW)
        if built:
            build.rebuild(place, log, model, NOW)
        reader = Reader(place, log, model)
        for question, wanted in (
            ("which formatter is it?", notes[0]),
            ("Rechnungsnummer?", notes[1]),
            ("timeout of the proxy", notes[3]),
            ("email", notes[4]),
        ):
            request = RecallRequest(query=question, min_confidence=0.0)
            payload, _ = answer(reader, request, Choices(), NOW)
            assert payload["hits"][0]["text"] == wanted
