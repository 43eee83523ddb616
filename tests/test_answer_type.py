"""The type of answer that a question asks for."""

import pytest

from serve.recall.classification import answer_type


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("when", "When did we switch to Postgres?"),
        ("when", "what day does the sale begin"),
        ("when", "In which month's report was it"),
        ("who", "Who approved the schema?"),
        ("who", "In the retro, whose idea was it"),
        ("where", "Can you tell me where the config lives?"),
        ("where", "When I run the tests I get an error, where does it come from?"),
        ("how_many", "How many endpoints has the API?"),
        ("how_long", "how long does a build take"),
        ("why", "why is the queue slow"),
        ("why", "How come the cache is empty"),
        ("how", "how do I run one test"),
        ("what", "what is the bar"),
        ("code", "which command starts the dev server"),
        ("code", "What environment variable turns it off?"),
        ("yes_no", "Did we decide to use redis?"),
        ("yes_no", "is there a test which covers the login"),
        ("list", "list all decisions about caching"),
        ("list", "Show me every flag of the importer"),
        (None, "Postgres migration"),
        (None, ""),
    ],
)
def test_english(kind: str | None, text: str):
    assert answer_type(text, "en") == kind


@pytest.mark.parametrize(
    ("language", "kind", "text"),
    [
        ("de", "when", "Wann haben wir das eingeführt?"),
        ("de", "how_many", "wie viele Tests gibt es"),
        ("de", "how_long", "Wie lange dauert es"),
        ("de", "what", "Was war der Grund?"),
        ("fr", "why", "Pourquoi le serveur est-il lent ?"),
        ("fr", "how_many", "combien de tests"),
        ("es", "where", "¿Dónde está el archivo?"),
        ("es", "why", "¿Por qué falla la prueba?"),
    ],
)
def test_other_languages(language: str, kind: str, text: str):
    assert answer_type(text, language) == kind


def test_a_language_without_a_table_is_read_as_english():
    assert answer_type("why not", "nl") == answer_type("why not", None) == "why"
