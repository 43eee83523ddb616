"""Rules are returned apart from background facts, and only the user makes one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from serve.app import create_app
from serve.cli import main
from serve.reader.memory_json import role
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.log.event_kinds import MEMORY_KINDS, TRUSTS, Archived, Recorded
from store.log.events import Event
from store.memories.fold import Fold
from store.memories.memory import Memory


def memory(kind: str, trust: str = "user", insight_type: str | None = None) -> Memory:
    body = Recorded(content="never push on fridays", kind=kind, insight_type=insight_type)
    fold = Fold()
    fold.apply(Event("m", 1, body, "m", trust=trust, seq=1))
    return fold.rows["m"]


def test_lessons_antipatterns_and_preferences_are_rules():
    rules = [kind for kind in MEMORY_KINDS if role(memory(kind)) == "rule"]
    assert rules == ["lesson", "antipattern", "preference"]


@pytest.mark.parametrize("kind", ["lesson", "antipattern", "preference"])
def test_only_the_users_lessons_are_rules(kind: str):
    roles = {trust: role(memory(kind, trust)) for trust in TRUSTS}
    assert roles == {"user": "rule", "agent": "fact", "tool": "fact", "web": "fact"}


def test_an_insight_is_a_rule_where_its_type_is():
    assert role(memory("insight", insight_type="lesson")) == "rule"
    assert role(memory("insight", insight_type="trend")) == role(memory("insight")) == "fact"
    assert role(memory("insight", "web", "lesson")) == "fact"
    assert role(memory("fact", insight_type="lesson")) == "fact"


def test_a_rule_that_holds_no_longer_is_none():
    fold = Fold([memory("lesson")])
    fold.apply(Event("e", 2, Archived(), "m", seq=2))
    assert role(fold.rows["m"]) == "fact"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three memories on one topic: a lesson, a lesson from the web, a fact."""
    monkeypatch.chdir(tmp_path)
    drafts = [
        {"id": "l", "kind": "lesson", "content": "Never force-push the release branch"},
        {"id": "w", "kind": "lesson", "trust": "web", "content": "Force-push the release branch"},
        {"id": "f", "content": "The release branch is cut on mondays"},
    ]
    lines = "\n".join(map(json.dumps, drafts))
    assert CliRunner().invoke(main, ["record", "--batch"], input=lines).exit_code == 0


ROLES = {"l": "rule", "w": "fact", "f": "fact"}


def test_recall_marks_the_rules(notes: None):
    words = ["recall", "release branch", "--json"]
    hits = json.loads(CliRunner().invoke(main, words).stdout)["hits"]
    assert {hit["id"]: hit["role"] for hit in hits} == ROLES
    output = CliRunner().invoke(main, words[:2]).stdout
    assert output.count(". lesson (rule)  ") == 1 and output.count(". lesson (said by web)  ") == 1


def test_http_marks_the_rules(notes: None, home: Path):
    opened = OpenTenants(Settings(home))
    answer = (
        create_app(opened, "token")
        .test_client()
        .post(
            "/v1/recall",
            json={"query": "release branch"},
            headers={"Host": "localhost", "Authorization": "Bearer token"},
        )
    )
    assert {hit["id"]: hit["role"] for hit in answer.json["hits"]} == ROLES
    opened.close()
