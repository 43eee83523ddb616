"""A memory, or every memory of a recall, is rated; pending recalls are listed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask.testing import FlaskClient
from new_tenants import new_tenants
from plain_receipt import plain_receipt

from serve.app import create_app
from serve.cli import main
from serve.cli.group import Commands
from store.home import tenant as tenants
from store.home.errors import InvalidInput, NotFound
from store.home.instants import DAY
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Hit, Judged, Rated
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import pending

NOW = 1_800_000_000_000_000
HEADERS = {"Host": "127.0.0.1:7437", "Authorization": "Bearer token"}


def run(*words: str) -> Result:
    assert isinstance(main, Commands)
    return CliRunner().invoke(main, words)


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def recall(log: EventLog, id_: str, *ids: str, at: int = NOW) -> str:
    hits = tuple(Hit(other, 1.0, 0.5) for other in ids)
    log.append([Event(id_, at, plain_receipt(hits=hits), id_)])
    return id_


@pytest.fixture
def client(home: Path) -> Iterator[FlaskClient]:
    with new_tenants(home) as opened:
        yield create_app(opened, "token", lambda: NOW).test_client()


# Rating


@pytest.mark.parametrize(
    ("said", "value"), [("harmful", -1), ("useless", -0.5), ("useful", 0.5), ("-0.25", -0.25)]
)
def test_a_recall_is_rated_by_the_id_it_came_with(said: str, value: float):
    run("record", "Deploys leave from eu-west-1", "--id", "m1")
    recalled = answer("recall", "where do deploys leave from")
    rated = answer("rate", recalled["recall"][:20], said, "--reason", "so it is")
    assert (rated["id"], rated["verdict"], rated["recall"]) == (recalled["recall"], value, True)
    assert answer("rate", "m1", "decisive")["recall"] is False


@pytest.mark.parametrize(
    ("words", "code"), [(("m1", "meh"), 2), (("m1", "1.5"), 2), (("zz", "useful"), 3)]
)
def test_invalid_verdicts_and_unknown_memories_are_refused(words: tuple[str, str], code: int):
    run("record", "Deploys leave from eu-west-1", "--id", "m1")
    assert run("rate", *words).exit_code == code


def test_an_event_that_is_neither_memory_nor_recall_cannot_be_rated(log: EventLog):
    commands.record(log, Draft(id="m1", content="we use apsw"), NOW)
    rating = commands.rate(log, "m1", 1.0, NOW)
    with pytest.raises(NotFound, match="and no recall"):
        commands.rate(log, rating.id, 1.0, NOW)


def test_an_ambiguous_id_is_refused(log: EventLog):
    commands.record(log, Draft(id="ab1", content="we use apsw"), NOW)
    recall(log, "ab2", "ab1")
    assert commands.resolve_rated(log, "ab2") == "ab2"
    with pytest.raises(InvalidInput, match="ab1, ab2"):
        commands.resolve_rated(log, "ab")


def test_over_http_a_recall_just_answered_can_be_rated(client: FlaskClient):
    note = {"id": "m1", "content": "Deploys leave from eu-west-1"}
    client.post("/v1/memories", json=note, headers=HEADERS)
    answer = client.post("/v1/recall", json={"query": "deploys"}, headers=HEADERS).json
    rating = {"id": answer["recall"], "verdict": -1.0, "reason": "it moved"}
    assert client.post("/v1/rate", json=rating, headers=HEADERS).status_code == 201
    wrong = client.post("/v1/rate", json=rating | {"verdict": 2}, headers=HEADERS)
    assert wrong.status_code == 400
    quiet = {"query": "deploys", "touch": False}
    assert "recall" not in client.post("/v1/recall", json=quiet, headers=HEADERS).json


# Pending recalls


def test_a_recall_is_pending_until_it_or_a_hit_is_rated_or_judged(log: EventLog):
    for id_ in ("a", "b"):
        commands.record(log, Draft(id=id_, content=f"we use {id_}"), NOW)
    recall(log, "empty")
    for number, name in enumerate(("left", "rated", "brought", "judged")):
        recall(log, name, "b" if name == "brought" else "a", at=NOW + number)
    commands.rate(log, "rated", 1.0, NOW + 9)
    commands.rate(log, "b", 1.0, NOW + 9)
    log.append([Event("j", NOW + 9, Judged(verdicts={"a": 0.0}), "judged")])
    assert [event.id for event in pending(log, NOW, NOW + DAY)] == ["left"]


def test_ratings_by_a_tool_do_not_count(log: EventLog):
    commands.record(log, Draft(id="a", content="we use apsw"), NOW)
    recall(log, "r", "a")
    log.append([Event("t", NOW + 1, Rated(verdict=1.0), "r", trust="tool")])
    assert [event.id for event in pending(log, NOW, NOW + 1)] == ["r"]


def test_pending_lists_recalls_by_their_question():
    run("record", "Deploys leave from eu-west-1")
    recalled = answer("recall", "where do deploys leave from")
    assert [recall["id"] for recall in answer("pending")["recalls"]] == [recalled["recall"]]
    assert "where do deploys leave from" in run("pending").stdout
    answer("rate", recalled["recall"], "useful")
    assert "no recall is waiting" in run("pending").stdout


def test_a_dry_run_rates_nothing(home: Path):
    with EventLog(tenants.tenant(home).log, create=True) as log:
        commands.record(log, Draft(id="m1", content="We deploy to eu-west-1"), NOW)
        head = log.head()
        rating = answer("rate", "m1", "useful", "--dry-run")
        assert rating == {"id": "m1", "verdict": 0.5, "recall": False, "seq": None}
        assert "would rate the memory" in run("rate", "m1", "useful", "--dry-run").stdout
        assert log.head() == head
