"""Every door refuses oversized input for a memory, names the limit, and writes nothing."""

import json
from pathlib import Path

import mcp_client
import pytest
from api_client import NOW, TOKEN, Api
from click.testing import CliRunner
from mcp_client import message

from serve.app import create_app
from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.home.errors import InvalidInput
from store.importers import jsonl
from store.log import commands
from store.log.event_log import EventLog
from store.log.events import Event

TAGS = [f"tag{number}" for number in range(101)]
TOO_MANY = "a memory may have 100 tags, not 101"


@pytest.fixture
def api(home: Path, log: EventLog):
    opened = OpenTenants(Settings(home))
    yield Api(create_app(opened, TOKEN, lambda: NOW).test_client())
    opened.close()


def test_over_http_it_is_a_bad_request(api: Api, log: EventLog):
    body = {"content": "we use SQLite", "tags": TAGS}
    for path, sent in (("/v1/memories", body), ("/v1/memories/batch", {"memories": [body]})):
        answer = api.post(path, sent)
        assert answer.status_code == 400 and TOO_MANY in answer.json["detail"]
    assert log.head() == 0


def test_a_tool_of_mcp_says_so(api: Api, log: EventLog):
    arguments = {"content": "we use SQLite", "tags": TAGS}
    sent = message("tools/call", {"name": "remember", "arguments": arguments})
    answer = mcp_client.send(api.client, sent).json["result"]
    assert answer["isError"] and "length <= 50 - at `$.tags`" in answer["content"][0]["text"]
    assert log.head() == 0


def test_the_command_line_says_so(log: EventLog):
    words = [word for tag in TAGS for word in ("--tag", tag)]
    result = CliRunner().invoke(main, ["record", "we use SQLite", *words])
    assert result.exit_code == 2 and TOO_MANY in result.output
    assert log.head() == 0


def test_an_import_counts_it_as_refused_and_goes_on(log: EventLog, tmp_path: Path):
    lines = [{"content": "we use SQLite", "tags": TAGS}, {"content": "we use WAL mode"}]
    source = tmp_path / "notes.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)))
    refused: list[str] = []
    counts = commands.import_drafts(
        log, jsonl.drafts(source, project=None), NOW, on_refused=refused.append
    )
    assert (counts.added, counts.refused) == (1, 1) and TOO_MANY in refused[0]


def test_ingest_says_of_which_item(api: Api, log: EventLog):
    sent = [{"content": "we use WAL mode"}, {"content": "we use SQLite", "tags": TAGS}]
    answer = api.post("/v1/ingest", {"memories": sent})
    assert answer.status_code == 400
    assert answer.json["detail"].startswith(f"memories[1]: {TOO_MANY}")
    assert log.head() == 0


def test_a_hook_cannot_write_a_session_of_any_length(log: EventLog):
    from store.log.event_kinds import Prompted

    event = Event("p", NOW, Prompted(prompt="why"), "p", session="s" * 5_000)
    with pytest.raises(InvalidInput, match="session may have 1024 bytes, not 5000"):
        log.append([event])
    assert log.head() == 0
