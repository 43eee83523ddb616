"""A model knows a script if its vocabulary has words of it, not just letters."""

from pathlib import Path

import pytest
from test_token_table import write
from tiny_model import write_bert

from store.embedders.embedder import make_embedder
from store.embedders.lexical import LexicalEmbedder
from store.embedders.scripts import is_known, known_scripts

RUSSIAN = "Какую базу данных мы используем для счетов?"
CHINESE = "我们用哪个数据库?"
CYRILLIC_WORDS = [f"##{chr(1072 + i)}{chr(1072 + j)}" for i in range(20) for j in range(20)]


def test_hundreds_of_pieces_make_a_script_known_and_single_letters_do_not():
    assert known_scripts(["the", *CYRILLIC_WORDS]) == {"LATIN", "CYRILLIC"}
    assert known_scripts(["the", *map(chr, range(1072, 1104))]) == {"LATIN"}


def test_thousands_of_single_characters_make_han_known():
    assert "CJK" in known_scripts(map(chr, range(0x4E00, 0x4E00 + 3_000)))


def test_most_letters_decide():
    assert is_known(f"{RUSSIAN} SQL", {"CYRILLIC"})
    assert not is_known(RUSSIAN, {"LATIN"})
    assert is_known("Postgres heißt on the server 数据", {"LATIN"})


def test_a_text_without_letters_is_known():
    assert is_known("🙂 12:30 —", {"LATIN"}) and is_known("", {"LATIN"})


def test_only_the_first_letters_are_read():
    assert is_known(CHINESE * 1_000 + RUSSIAN * 10_000, {"CJK"})


@pytest.mark.parametrize("kind", ["onnx", "table"])
def test_a_folder_of_english_pieces_knows_no_other_script(tmp_path: Path, kind: str):
    pytest.importorskip("tokenizers", reason="the extra `onnx` is not installed")
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    if kind == "onnx":
        write_bert(tmp_path / "tiny")
    else:
        write(tmp_path / "tiny")
    model = make_embedder(f"{kind}:{tmp_path / 'tiny'}")
    assert model.knows("deploy key") and not model.knows(RUSSIAN) and not model.knows(CHINESE)


def test_pieces_of_bytes_are_read_as_the_letters_they_stand_for():
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `onnx` is not installed")
    from store.embedders.model_folder import vocabulary

    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces = [level.pre_tokenize_str(word.strip("#"))[0][0] for word in CYRILLIC_WORDS]
    reference = tokenizers.Tokenizer(
        tokenizers.models.BPE({piece: n for n, piece in enumerate(pieces)}, [])
    )
    reference.decoder = tokenizers.decoders.ByteLevel()
    assert "CYRILLIC" in known_scripts(vocabulary(reference))


def test_a_hashing_tokenizer_supports_every_script():
    assert LexicalEmbedder().knows(CHINESE)
