"""Lineage both ways: sources, models and costs above, derived memories and recalls below."""

from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from dashboard_page import application, browser
from plain_receipt import plain_receipt

from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.home.instants import new_id
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Acted, Hit, Made, Recorded
from store.log.events import Event

NOW = 1_790_000_000_000_000


def made_of(id_: str, sources: tuple[str, ...], prompt: str) -> Event:
    origin = Made("distill", "a-model", prompt * 64, 1_200, 0.002)
    body = Recorded(content=f"What {id_} teaches", kind="lesson", source_ids=sources, made=origin)
    return Event(id_, NOW, body, id_, trust="agent")


def recalled(query: str, *ids: str) -> Event:
    id_ = new_id(NOW)
    hits = tuple(Hit(other, 1.0, 0.9) for other in ids)
    return Event(id_, NOW, plain_receipt(query=query, hits=hits), id_)


@pytest.fixture
def lived(built):
    """An action and a note of it; a lesson from both, a rule from that; three recalls."""
    act = Event("act1", NOW, Acted(tool="Bash", command="make"), "act1", None, "s-1", "codex")
    built.log.append([act])
    commands.record(built.log, Draft(id="note", content="The build fails without a lock"), NOW)
    built.log.append([made_of("lesson", ("act1", "note"), "a")])
    built.rebuild()
    built.log.append([made_of("rule", ("lesson",), "b")])
    built.log.append([recalled("q1", "m01", "note"), recalled("q2", "rule"), recalled("q3", "m02")])
    built.log.append([recalled("q4", "note", "rule")])
    return built


def lineage(home, id_: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["--home", str(home), "lineage", id_, "--json"])
    assert result.exit_code == 0, result.output
    payload: dict[str, Any] = msgspec.json.decode(result.stdout)
    return payload


def test_from_a_rule_to_its_source_events_models_and_cost(lived, home):
    payload = lineage(home, "rule")
    assert [(source["id"], source["of"]) for source in payload["sources"]] == [
        ("lesson", "rule"),
        ("act1", "lesson"),
        ("note", "lesson"),
    ]
    event = payload["sources"][1]
    assert (event["event"], event["session"], event["agent"]) == ("action", "s-1", "codex")
    assert payload["made"]["prompt_sha256"] == "b" * 64 and payload["made"]["model"] == "a-model"
    assert (payload["tokens"], payload["cost_usd"]) == (2_400, 0.004)
    assert payload["recalls"]["returned_it"] == 2


def test_from_a_source_to_every_recall_it_took_part_in(lived, home):
    payload = lineage(home, "note")
    assert [memory["id"] for memory in payload["made_of_it"]] == ["lesson", "rule"]
    recalls = payload["recalls"]
    assert (recalls["returned_it"], recalls["returned_what_was_made_of_it"]) == (2, 1)
    assert [
        (recall["query"], recall["memory"], recall["rank"]) for recall in recalls["newest"]
    ] == [
        ("q4", "note", 1),
        ("q2", "rule", 1),
        ("q1", "note", 2),
    ]


def test_an_event_of_a_session_has_a_lineage(lived, home):
    payload = lineage(home, "act1")
    assert (payload["event"], payload["session"]) == ("action", "s-1")
    assert [memory["id"] for memory in payload["made_of_it"]] == ["lesson", "rule"]
    assert [recall["query"] for recall in payload["recalls"]["newest"]] == ["q4", "q2"]


def test_the_command_prints_each_step_with_its_cost(lived, home):
    text = CliRunner().invoke(main, ["--home", str(home), "lineage", "lesson"]).stdout
    assert "by distill, a-model, 1,200 tokens, $0.0020, prompt aaaaaaaaaaaa" in text
    assert "made of\n  act1  action" in text and "made of it\n  rule" in text
    assert "recalls that returned it: 0; only what was made of it: 2" in text


def test_the_memory_page_counts_the_recalls_and_lists_them(lived, home):
    opened = OpenTenants(Settings(home))
    owner = browser(application(opened))
    page = owner.get("/t/default/memory/note").text
    assert "2 returned it, 1 only what was made of it" in page
    assert "through=1" in page
    listed = owner.get("/t/default/recalls?memory=note&through=1").text
    assert [query in listed for query in (">q1", ">q2", ">q3", ">q4")] == [True, True, False, True]
    assert ">q2" not in owner.get("/t/default/recalls?memory=note").text
    assert "It took part" not in owner.get("/t/default/memory/m01").text
    opened.close()
