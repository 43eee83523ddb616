"""Words that begin alike stand for a word that no memory holds."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.tenant import tenant
from store.index import segments
from store.index.postings import KIN_SHARE, PostingsIndex, index
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

NOW = 1_800_000_000_000_000
WORDS = st.text("abc", min_size=1, max_size=12)


def opened(*documents: str) -> PostingsIndex:
    return PostingsIndex.open(index(one.split() for one in documents))


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ("formatt", "format"),  # what stemming leaves of formatter
        ("rechnungsnummern", "rechnungsnummer"),
        ("sprawdzenie", "sprawdzeniem"),
    ],
)
def test_a_word_nobody_holds_finds_one_that_begins_like_it(asked: str, held: str):
    found = opened(f"{held} other", "nothing here", "nor here")
    exact = found.posting_list(held)
    documents, impacts = found.posting_list(asked)
    assert documents.tolist() == exact[0].tolist() == [0]
    assert impacts.tolist() == pytest.approx([KIN_SHARE * float(exact[1][0])])
    assert found.frequency(asked) == 1 and found.scores([asked])[0] > 0


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ("form", "format"),  # too short to tell
        ("format", "formaldehyde"),
        ("interna", "internationalization"),
        ("port5432", "port5433"),  # identifiers and numbers are meant as written
        ("get_user", "get_users"),
    ],
)
def test_what_only_looks_alike_is_no_kin(asked: str, held: str):
    found = opened(held, "other", "words")
    assert found.frequency(asked) == 0 and found.idf(asked) is None
    assert not found.scores([asked]).any()


def test_a_word_that_is_held_has_no_kin():
    found = opened("formatter", "formatters", "other")
    assert found.posting_list("formatter")[0].tolist() == [0]


@given(st.lists(WORDS, max_size=12, unique=True), WORDS)
def test_kin_are_those_of_the_longest_shared_beginning(vocabulary: list[str], asked: str):
    documents, _ = opened(*vocabulary).posting_list(asked)
    wanted: list[str] = []
    for beginning in segments.prefixes(asked):
        wanted = [
            word
            for word in vocabulary
            if word.startswith(beginning)
            and len(word) <= len(beginning) + segments.MAX_ENDING
            and len(beginning) >= max(segments.MIN_PREFIX, len(word) - segments.MAX_ENDING)
        ]
        if wanted:
            break
    wanted = [asked] if asked in vocabulary else wanted
    assert {vocabulary[place] for place in documents} <= set(wanted)
    assert len(documents) == min(len(wanted), segments.MAX_TERMS)


@given(st.lists(WORDS, max_size=12, unique=True), WORDS)
def test_kin_are_the_same_however_many_segments_there_are(vocabulary: list[str], asked: str):
    one = opened(*vocabulary)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "BASE", 2)
        several = opened(*vocabulary)
    assert several.posting_list(asked)[0].tolist() == one.posting_list(asked)[0].tolist()
    assert several.posting_list(asked)[1].tolist() == one.posting_list(asked)[1].tolist()
    assert several.idf(asked) == one.idf(asked)


@pytest.mark.parametrize("built", [True, False])
def test_another_form_of_a_word_is_recalled(tmp_path: Path, built: bool):
    place, model = tenant(tmp_path), LexicalEmbedder()
    notes = ["Formatted with ruff, never black", "Rechnungsnummern sind fortlaufend", "Tea at five"]
    with EventLog(place.log, create=True) as log:
        commands.record_batch(log, [Draft(content=one) for one in notes], NOW)
        if built:
            build.rebuild(place, log, model, NOW)
        reader = Reader(place, log, model)
        for question, wanted in (
            ("which formatter is it?", notes[0]),
            ("Rechnungsnummer?", notes[1]),
        ):
            request = RecallRequest(query=question)
            found, _ = answer(reader, model, request, Choices(), NOW)
            assert [hit["text"] for hit in found["hits"]] == [wanted]
