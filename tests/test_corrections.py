"""A corrected memory gives way to the newer one and is marked, without a key, built or not."""

from collections.abc import Callable
from typing import Any

import pytest
from command_line import run

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

Clock = Callable[[], int]
Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def say(log: EventLog, clock: Clock) -> Callable[..., str]:
    def record(text: str, **fields: Any) -> str:
        return commands.record(log, Draft(content=text, **fields), clock()).event.id

    return record


@pytest.fixture(params=["tail", "built"])
def ask(request: pytest.FixtureRequest, tenant: Tenant, log: EventLog, clock: Clock) -> Ask:
    """Return the answer of recall over HTTP, before a build and after one."""

    def run(query: str) -> list[dict[str, Any]]:
        if request.param != "tail":
            rebuild(tenant, log, LexicalEmbedder(), clock())
        reader = Reader(tenant, log, LexicalEmbedder())
        recall_request = RecallRequest(query=query, touch=False, min_confidence=0.0)
        hits: list[dict[str, Any]]
        hits = answer(reader, recall_request, Choices(), clock())[0]["hits"]
        return hits

    return run


CORRECTED = """
Our database port is 5432.
Correction: our database port is 5433, not 5432.
which database port do we use

The CI runs on Jenkins.
Correction: the CI runs on GitHub Actions, not Jenkins.
where does the CI run

The search index lives in Redis.
The search index lives in Postgres, not Redis.
where does the search index live

Deploys run from production.
Deploys run from staging (was production).
from where do deploys run

The upload limit is 20 MB.
The upload limit was raised from 20 MB to 50 MB.
what is the upload limit

Anna reviews the billing module.
Correction: Carla reviews the billing module.
who reviews the billing module

The retry count is 3.
Update: the retry count is 5
what is the retry count

Die Datenbank läuft auf Port 5432.
Korrektur: Die Datenbank läuft auf Port 5433, nicht 5432.
auf welchem Port läuft die Datenbank

La base écoute sur le port 5432.
Correction : la base écoute sur le port 5433, et non 5432.
sur quel port écoute la base

La base escucha en el puerto 5432.
Corrección: la base escucha en el puerto 5433, no 5432.
en qué puerto escucha la base
""".strip().split("\n\n")

BOTH_HOLD = """
The staging database port is 5432.
Correction: the billing queue port is 5433, not 5672.
which port

Never use git push --force on main.
Use --force-with-lease, not --force, on your branch.
force on main

The API is slow under load.
The dashboard is fast, not slow.
is the API slow

We do not use Redis.
The queue runs on Postgres, not Redis.
do we use Redis

The importer reads strings from a file.
The parser returns a list, but not strings.
strings
""".strip().split("\n\n")


@pytest.mark.parametrize("case", CORRECTED)
def test_a_correction_comes_first_and_the_older_value_names_it(say, ask: Ask, case: str):
    older, newer, query = case.split("\n")
    was, now = say(older), say(newer)
    say("The dashboard is checked by hand before a release.")
    first, second = ask(query)[:2]
    assert (first["id"], second["id"]) == (now, was)
    assert second["conflicts_with"] == now
    assert "conflicts_with" not in first


@pytest.mark.parametrize("case", BOTH_HOLD)
def test_a_denial_of_something_else_marks_nothing(say, ask: Ask, case: str):
    older, newer, query = case.split("\n")
    say(older)
    say(newer)
    assert not any("conflicts_with" in hit for hit in ask(query))


def test_the_newer_word_holds_even_where_the_older_is_the_correction(say, ask: Ask):
    early = say("Correction: our database port is 5433, not 5432.")
    late = say("Our database port is 5432.")
    hits = {hit["id"]: hit for hit in ask("which database port do we use")}
    assert hits[early]["conflicts_with"] == late


def test_many_values_are_a_series_and_no_conflict(say, ask: Ask):
    for number in range(5):
        say(f"Now question {number} of the quiz, in a code block.")
    assert not any("conflicts_with" in hit for hit in ask("the quiz in a code block"))


def test_conflicts_lists_a_correction_without_a_key(say):
    say("Our database port is 5432.")
    say("Correction: our database port is 5433, not 5432.")
    output = run("conflicts").output
    assert "5432 / 5433" in output
