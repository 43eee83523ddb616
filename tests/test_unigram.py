"""The unigram tokenizer splits text as the package tokenizers does."""

import random

import pytest

from store.embedders.unigram import SPACE, Unigram

PIECES = ["<s>", "</s>", "<unk>", SPACE, "a", "b", "c", "ab", "bc", f"{SPACE}a", f"{SPACE}ab", "é"]
SCORES = [0.0, 0.0, 0.0, -2.0, -3.0, -3.5, -4.0, -4.2, -5.0, -2.7, -3.1, -6.0]
UNKNOWN = 2


def encode(text: str, most: int = 100) -> list[str]:
    return [PIECES[number] for number in Unigram(PIECES, SCORES, UNKNOWN).encode(text, most)]


def test_the_likeliest_pieces_are_chosen():
    assert encode("abc a") == [f"{SPACE}ab", "c", f"{SPACE}a"]


def test_neighbours_that_no_piece_covers_are_one_unknown_token():
    assert encode("axyz") == [f"{SPACE}a", "<unk>"]


def test_the_models_own_signs_in_a_text_are_no_signs():
    assert "<s>" not in encode("<s> a")


def test_only_so_many_pieces_come_back():
    assert encode("ab ab ab ab", most=2) == [f"{SPACE}ab"] * 2


def test_a_letter_with_its_accent_apart_is_the_letter_with_it():
    assert encode("e\u0301") == [SPACE, "é"]


def test_characters_are_replaced_first():
    replaced = Unigram(PIECES, SCORES, UNKNOWN, {ord("\t"): " ", ord("z"): ""})
    assert replaced.encode("a\tazb", 9) == Unigram(PIECES, SCORES, UNKNOWN).encode("a ab", 9)


def test_it_agrees_with_the_package_tokenizers():
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `onnx` is not installed")
    judge = tokenizers.Tokenizer(
        tokenizers.models.Unigram(list(zip(PIECES, SCORES, strict=True)), UNKNOWN, False)
    )
    judge.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    ours, chance = Unigram(PIECES, SCORES, UNKNOWN), random.Random(1)
    for _ in range(500):
        words = ["".join(chance.choices("abcé", k=chance.randint(1, 9))) for _ in range(4)]
        text = " ".join(words)
        assert ours.encode(text, 100) == judge.encode(text).ids
