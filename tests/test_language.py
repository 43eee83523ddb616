"""The language of a question, if its words make it plain."""

import pytest

from serve.recall.classification import language


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "where is the config of the server"),
        ("en", "when is Ana's son's birthday"),
        ("de", "wo liegt die Konfiguration des Servers"),
        ("nl", "waar staat de configuratie van het systeem"),
        ("fr", "où est la configuration du serveur"),
        ("es", "dónde está la configuración del servidor"),
        ("pt", "onde está a configuração do servidor"),
        ("it", "dove si trova la configurazione del server"),
        ("sv", "var ligger inställningen för servern"),
        ("pl", "gdzie jest konfiguracja serwera"),
        ("tr", "sunucu ayarı nerede ve nasıl değişir"),
        ("ru", "где лежит настройка сервера"),
        ("uk", "де лежить конфігурація сервера"),
        ("ar", "أين إعداد الخادم"),
        ("fa", "پیکربندی سرور کجاست"),
        ("he", "איפה ההגדרה של השרת"),
        ("hi", "सर्वर की सेटिंग कहाँ है"),
        ("el", "πού είναι η ρύθμιση"),
        ("th", "การตั้งค่าอยู่ที่ไหน"),
        ("zh", "服务器的配置在哪里"),
        ("ja", "サーバーの設定はどこですか"),
        ("ko", "서버 설정은 어디에 있나요"),
    ],
)
def test_plain_questions(code: str, text: str):
    assert language(text) == code


@pytest.mark.parametrize("text", ["", "42", "Postgres migration", "src/the/of.py", "is.the.of()"])
def test_names_and_identifiers_have_no_language(text: str):
    assert language(text) is None


def test_code_in_a_question_does_not_change_its_language():
    assert language("warum wirft die Funktion `what_is_the_value()` einen Fehler") == "de"


def test_a_name_in_another_script_does_not_change_the_language():
    assert language("who wrote the parser for Москва and 東京") == "en"
    assert language("PostgresとRedisの設定") == "ja"


def test_a_letter_of_one_language_counts_as_a_word():
    assert language("Größe Straße") == "de"
