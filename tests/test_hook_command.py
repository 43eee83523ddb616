"""`mnemolog hook`: an event answered from the disk, by a process that ends afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import Built

from serve.cli import main
from store.home.tenant import Tenant
from store.log.event_log import EventLog


def event(name: str = "UserPromptSubmit", **fields: object) -> dict[str, Any]:
    base = {"session_id": "s1", "cwd": "/", "prompt": "where do we deploy to?"}
    return base | {"hook_event_name": name} | fields


def hook(sent: object, *words: str, host: str = "claude-code") -> Result:
    given = sent if isinstance(sent, bytes) else json.dumps(sent)
    return CliRunner().invoke(main, ["hook", host, *words], input=given)


def kinds(tenant: Tenant) -> list[str]:
    with EventLog(tenant.log) as log:
        return [event.kind for event in log.read()]


def test_its_events_are_in_the_log_when_it_ends(built: Built):
    before = len(kinds(built.tenant))
    assert hook(event()).exit_code == 0
    assert "prompted" in kinds(built.tenant)[before:]


def test_an_event_of_no_use_is_answered_by_nothing_at_all(built: Built):
    assert hook(event("Notification")).stdout == ""
    assert hook(event("Notification"), "--json").stdout == "null\n"


def test_a_model_that_takes_long_to_load_is_not_asked(
    built: Built, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MNEMOLOG_EMBEDDER", "litellm:nobody/nothing")
    assert hook(event()).exit_code == 0
    assert "prompted" in kinds(built.tenant)


def test_a_host_there_is_not_is_named_with_those_there_are(built: Built):
    result = hook(event(), host="emacs")
    assert result.exit_code == 3
    assert "claude-code" in result.stderr


@pytest.mark.parametrize("sent", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_an_invalid_event_is_refused(built: Built, sent: bytes):
    assert hook(sent).exit_code == 2


def test_without_a_log_no_home_is_created(home: Path):
    assert hook(event()).exit_code == 3
    assert not home.exists()
