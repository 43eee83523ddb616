"""GET /v1/export: the same output as the command's, sent while others ask and write."""

import json
from pathlib import Path

import pytest
from api_client import OURS, TOKEN, Api
from click.testing import CliRunner
from conftest import NOW, Built

from serve.api.operation import EXPORTS
from serve.app import create_app
from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.importers import jsonl
from store.log import commands
from store.log.commands import Draft
from store.maintenance.export import export


@pytest.fixture
def api(built_tenants: OpenTenants) -> Api:
    return Api(create_app(built_tenants, TOKEN, lambda: NOW + 1_000_000).test_client())


@pytest.mark.parametrize("asked", ["", "?all_states=true", "?project=acme/web"])
def test_http_export_equals_the_commands_output(api: Api, built: Built, asked: str):
    answer = api.get(f"/v1/export{asked}")
    choices = {"all_states": "all" in asked, "project": "acme/web" if "acme" in asked else None}
    assert (answer.status_code, answer.mimetype) == (200, "application/x-ndjson")
    expected = list(export(built.log, NOW + 1_000_000, **choices))
    assert answer.data.splitlines() == expected != []
    words = ["export", *(["--all-states"] if choices["all_states"] else [])]
    words += ["--project", "acme/web"] if choices["project"] else []
    written = CliRunner().invoke(main, words).output.splitlines()
    told = [json.loads(line)["id"] for line in written]
    assert told == [json.loads(line)["id"] for line in expected]


def test_an_export_can_be_imported(api: Api, tmp_path: Path):
    file = tmp_path / "memories.jsonl"
    file.write_bytes(api.get("/v1/export?all_states=true").data)
    drafts = {draft.id: draft for draft in jsonl.drafts(file, project=None)}
    assert drafts["m13"].context == "asked by the SRE team"
    assert "m06" not in drafts  # forgotten


def test_the_server_answers_others_during_an_export(api: Api, built: Built):
    many = [Draft(id=f"x{n}", content=f"note {n} about tides " + "sea " * 200) for n in range(400)]
    commands.record_batch(built.log, many, NOW)
    answer = api.client.get("/v1/export", headers=OURS, buffered=False)
    chunks = answer.iter_encoded()
    sent = next(chunks)
    api.ok("POST", "/v1/memories", {"id": "later", "content": "the deploy runs at noon"})
    assert api.ok("POST", "/v1/recall", {"query": "where does the deploy run"})["hits"]
    rest = b"".join(chunks)
    assert rest and len((sent + rest).splitlines()) == len(list(export(built.log, NOW))) - 1
    assert b'"later"' not in sent + rest


def test_who_does_not_read_an_export_takes_no_other_thread(api: Api):
    for _ in range(EXPORTS + 1):  # a place is freed after a whole answer or a HEAD request
        assert api.get("/v1/export").data
        asked = api.send("HEAD", "/v1/export")
        assert asked.status_code == 200
        asked.close()
    unread = [api.client.get("/v1/export", headers=OURS, buffered=False) for _ in range(EXPORTS)]
    assert api.problem("GET", "/v1/export") == (503, "not_ready")
    unread[0].close()
    assert api.get("/v1/export").status_code == 200
    unread[1].close()


def test_an_empty_memory_exports_nothing(api: Api):
    answer = api.get("/v1/export?project=acme/nothing")
    assert (answer.status_code, answer.data) == (200, b"")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("project=../x", (400, "invalid_name")),
        ("all_states=maybe", (400, "invalid_input")),
        ("state=active", (400, "invalid_input")),
        ("tenant=nobody", (404, "not_found")),
    ],
)
def test_an_invalid_export_request_is_refused(api: Api, query: str, expected: tuple[int, str]):
    assert api.problem("GET", f"/v1/export?{query}") == expected


def test_an_unreadable_log_is_an_error_and_not_a_cut_off_export(api: Api, built: Built, tamper):
    tamper(built.log.path, "UPDATE events SET body = '{}' WHERE seq = 3")
    assert api.problem("GET", "/v1/export") == (500, "log_corrupt")
