"""The tokenizer's guarantees for prose, code and the scripts of the world."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.text.tokenizer import LONGEST_TERM, normalize, terms, text_hash

ANY_TEXT = st.text() | st.text(st.characters())  # the second also draws surrogates
CODE = st.text("aBz_-./:\\@#'+~ 019é文かक่и\u0306\u00ad", max_size=40)


def shared(first: str, second: str) -> set[str]:
    return set(terms(first)) & set(terms(second))


def test_prose_is_stemmed_and_stop_words_are_dropped():
    assert terms("What were the login handlers doing?") == ["login", "handler"]


def test_repeats_are_kept_in_order():
    assert terms("cache, then index, then cache") == ["cach", "index", "cach"]


@pytest.mark.parametrize("text", ["", "  \n", "what is the", "?! -- … ***", "\u200b\u00ad"])
def test_text_that_says_nothing_has_no_terms(text: str):
    assert terms(text) == []


def test_negation_survives_in_either_spelling():
    assert terms("it doesn't work") == terms("it does not work") == ["not", "work"]
    assert "never" in terms("never push to main")


@pytest.mark.parametrize("text", ["user's", "user\u2019s", "Users", "USER"])
def test_case_possessive_and_plural_are_one_word(text: str):
    assert terms(text) == ["user"]


def test_acronyms_lose_their_plural():
    assert terms("APIs and URLs") == ["api", "url"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loginHandler", ["loginhandler", "login", "handler"]),
        ("LoginHandlers", ["loginhandlers", "login", "handler"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("userIDs", ["userids", "user", "id"]),
        ("max_retry_count", ["max_retry_count", "max", "retri", "count"]),
        ("__init__", ["__init__", "init"]),
        ("is_it_on", ["is_it_on"]),
        ("read-only", ["read-only", "readon", "read"]),
        ("os.path.join", ["os.path.join", "os", "path", "join"]),
        ("src/auth/login.py", ["src/auth/login.py", "src", "auth", "login.py", "login", "py"]),
        ("./src/x.py", ["src/x.py", "src", "x.py", "x", "py"]),
        ("/etc/hosts", ["/etc/hosts", "etc/hosts", "etc", "host"]),
        ("C:\\Temp\\x", ["c:\\temp\\x", "c", "temp", "x"]),
        ("login.py:42", ["login.py:42", "login.py", "login", "py", "42"]),
        ("Foo::bar", ["foo::bar", "foo", "bar"]),
        ("E0308", ["e0308", "0308"]),
        ("ERR_CONNECTION_REFUSED", ["err_connection_refused", "err", "connect", "refus"]),
        ("TS2345", ["ts2345", "ts", "2345"]),
        ("HTTP 404", ["http", "404"]),
        ("1.2.3", ["1.2.3"]),
        ("v1.2.3", ["v1.2.3", "1.2.3"]),
        ("1.2.3-rc.1", ["1.2.3-rc.1", "1.2.3", "rc.1", "rc", "1"]),
        ("jo@ex.org", ["jo@ex.org", "jo", "ex.org", "ex", "org"]),
        ("@scope/pkg", ["@scope/pkg", "scope/pkg", "scope", "pkg"]),
        ("C++", ["c++"]),
        ("C#", ["c#"]),
        (".NET", [".net", "net"]),
        ("--no-verify", ["--no-verify", "no-verify", "noverifi", "no", "verifi"]),
        ("#123", ["#123", "123"]),
        ("org/repo#7", ["org/repo#7", "org", "repo#7", "repo", "#7", "7"]),
        ("go and r, c", ["go", "r", "c"]),
    ],
)
def test_identifiers_are_kept_whole_and_split(text: str, expected: list[str]):
    assert terms(text) == expected


@pytest.mark.parametrize("before", ["", "(", "`", '"', "see:", "**", "["])
@pytest.mark.parametrize("after", ["", ".", ",", ")", "`", '"', ":", "?", "**", "!"])
def test_signs_around_an_identifier_do_not_matter(before: str, after: str):
    assert "src/auth/login.py" in terms(f"{before} src/auth/login.py{after}")


def test_words_find_the_identifier_made_of_them():
    assert shared("login handlers", "loginHandler") == {"login", "handler"}
    assert shared("utf-8", "utf8") == {"utf"}


def test_a_digest_is_one_term():
    assert terms("3f2a9c81b0d4e5f6") == ["3f2a9c81b0d4e5f6"]
    assert terms("550e8400-e29b-41d4-a716-446655440000") == ["550e8400-e29b-41d4-a716-446655440000"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naïve Straße Øresund", ["naiv", "strass", "oresund"]),
        ("Ἀθῆναι ΣΟΦΟΣ", ["αθηναι", "σοφοσ"]),
        ("ёлка и йод", ["елк", "и", "йод"]),
        ("домами", ["дом"]),
        ("数据库", ["数据", "据库"]),
        ("使用Python", ["使用", "python"]),
        ("文", ["文"]),
        ("がか", ["がか"]),
        ("데이터", ["데이", "이터"]),
        ("ไทย", ["ไทย"]),
        ("العَرَبِيَّة", ["العربية"]),
        ("שָׁלוֹם", ["שלום"]),
        ("नाम", ["नाम"]),
        ("ﬁle", ["file"]),
        ("Ｆｕｌｌ", ["full"]),
    ],
)
def test_every_script_has_terms(text: str, expected: list[str]):
    assert terms(text) == expected
    assert terms(unicodedata.normalize("NFD", text)) == expected


def test_terms_that_are_too_long_are_skipped_and_their_parts_kept():
    assert terms("x" * (LONGEST_TERM + 1)) == []
    assert terms("/".join(["login"] * 60)) == ["login"]


def test_a_mebibyte_is_tokenized():
    assert len(terms("word " * 200_000)) == 200_000
    assert len(terms("文" * (1 << 20))) == (1 << 20) - 1


def test_threads_get_the_same_terms():
    texts = [f"running{i} handlers Running{i}Handlers домами{i} retries" for i in range(300)]
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(terms, texts * 4))
    assert parallel == [terms(text) for text in texts] * 4


def test_normalize_folds_case_accents_and_spaces():
    assert normalize("  Café\n\tÉCOLE  Ёж йод ") == "cafe ecole еж йод"


@given(ANY_TEXT | CODE)
def test_normalizing_twice_changes_nothing(text: str):
    assert normalize(normalize(text)) == normalize(text)


@given(ANY_TEXT | CODE)
def test_terms_are_never_empty_nor_spaced_and_always_the_same(text: str):
    words = terms(text)
    assert all(term and not any(map(str.isspace, term)) for term in words)
    assert all(len(term) <= LONGEST_TERM for term in words)
    assert terms(text) == words


@given(ANY_TEXT | CODE, ANY_TEXT | CODE, st.sampled_from(" \n\t\u3000"))
def test_terms_of_joined_texts_are_their_terms_joined(first: str, second: str, space: str):
    assert terms(first + space + second) == terms(first) + terms(second)


@given(st.from_regex(r"[(\"]?[A-Za-z]{1,12}[.,;:!?)\"]{0,2}", fullmatch=True))
def test_a_plain_word_is_read_as_one_that_must_be_folded_first(chunk: str):
    soft_hyphen = "\u00ad"  # folding drops it
    assert terms(chunk) == terms(chunk + soft_hyphen)


def test_hash_ignores_composition_and_outer_space():
    assert text_hash(" caf\u00e9\n") == text_hash("cafe\u0301")
    assert text_hash("Cafe") != text_hash("cafe")
    assert len(text_hash("")) == 16


@given(ANY_TEXT)
def test_any_text_has_a_hash(text: str):
    assert text_hash(text) == text_hash(unicodedata.normalize("NFD", text))
