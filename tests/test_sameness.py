"""Duplicates are found; texts that differ in any distinguishing detail are never duplicates."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookalikes import CORRECTIONS, NO_CORRECTIONS, SAME, facts

from store.text.corrections import correction
from store.text.strict_duplicates import Statement, statement


def test_of_309_facts_that_look_alike_no_two_say_the_same():
    keys = Counter(statement(fact).key for fact in facts())
    assert len(keys) == 309


def test_of_309_facts_that_look_alike_none_corrects_another():
    framed: dict[int, list[Statement]] = {}
    for fact in map(statement, facts()):
        framed.setdefault(fact.frame, []).append(fact)
    pairs = [pair for group in framed.values() for pair in combinations(group, 2)]
    assert len(pairs) > 500  # these differ in marks alone
    assert [pair for pair in pairs if correction(*pair)] == []


@pytest.mark.parametrize(("one", "other"), SAME)
def test_texts_that_differ_only_in_form_are_duplicates(one: str, other: str):
    assert statement(one).says == statement(other).says


@pytest.mark.parametrize(("older", "newer", "was", "is_now"), CORRECTIONS)
def test_another_value_of_the_same_thing_is_a_correction(older, newer, was, is_now):
    assert correction(statement(older), statement(newer)) == (was, is_now)


@pytest.mark.parametrize(("older", "newer"), NO_CORRECTIONS)
def test_a_value_that_tells_two_things_apart_is_none(older: str, newer: str):
    assert statement(older).key != statement(newer).key
    assert correction(statement(older), statement(newer)) is None


@pytest.mark.parametrize("pair", CORRECTIONS)
def test_a_correction_shares_its_frame(pair: tuple[str, str, str, str]):
    older, newer = statement(pair[0]), statement(pair[1])
    assert older.frame == newer.frame != 0


def test_a_text_of_punctuation_has_no_content():
    assert [statement(text).key for text in ("", "  ", "...", "- !")] == [0, 0, 0, 0]


def test_code_is_compared_to_the_letter():
    fact = statement("Run\n```\nfor x in y:\n    stop\n```")
    assert fact.key != statement("Run\n```\nfor x in y:\nstop\n```").key
    assert fact.key == statement("run\n\n```py\nfor x in y:\n    stop  \n```\n").key


TEXTS = st.text("aA .,:;-*_`#\n5é'?(){}[]&", max_size=40)


@given(TEXTS)
def test_reading_a_text_twice_is_the_same(text: str):
    assert statement(text) == statement(text)


@given(TEXTS)
def test_case_and_space_change_no_plain_text(text: str):
    words = " ".join(word for word in text.split() if word.isalpha() and word.islower())
    shouted: Statement = statement(f"  {words.upper()}  !")
    assert shouted.says == statement(words).says or "A" in shouted.marks
