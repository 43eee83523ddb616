"""`mnemolog tenants` and `mnemolog tokens`, with and without a server that has them open."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from background import served
from click.testing import CliRunner, Result

from serve.app import create_app
from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.home import tenant as tenants
from store.home import tokens
from store.home.config import Settings
from store.home.errors import LogClosed
from store.home.http_access import owner_token
from store.home.registry import Server, register, sole
from store.log import integrity
from store.log.event_log import EventLog


def run(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(main, words, input=typed)


def run_json(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def team(home: Path) -> None:
    for name in ("default", "team"):
        EventLog(tenants.tenant(home, name).log, create=True).close()


@pytest.fixture
def server(home: Path) -> Iterator[OpenTenants]:
    """A server of the home, in threads of this process."""
    settings = Settings(home)
    opened = OpenTenants(settings)
    app = create_app(opened, owner_token(settings))
    with (
        sole(settings),
        served(app) as port,
        register(settings, Server(os.getpid(), port, 0, "instance")),
    ):
        yield opened
    opened.close()


def test_tenants_are_listed_and_made_once(home: Path):
    assert run_json("tenants", "create", "fresh") == {"tenant": "fresh", "new": True}
    assert run_json("tenants", "create", "fresh") == {"tenant": "fresh", "new": False}
    names = [tenant["tenant"] for tenant in run_json("tenants")["tenants"]]
    assert names == ["default", "fresh", "team"]
    assert run_json("tenants", "list") == run_json("tenants")
    assert "default *" in run("tenants").stdout


def test_stats_are_told_in_words_and_as_json():
    run("--tenant", "team", "record", "the tide comes at noon")
    assert run_json("tenants", "stats", "team")["memories"] == {"fact": {"active": 1}}
    assert run_json("tenants", "stats")["tenant"] == "default"
    assert "fact: 1 active" in run("tenants", "stats", "team").stdout


def test_a_token_is_printed_alone_and_once(home: Path):
    words = ("tokens", "create", "--tenant", "team", "--scope", "read", "--expires", "90d")
    result = run(*words, "--name", "ci")
    text = result.stdout.strip()
    (token,) = tokens.every(home)
    assert tokens.find_active(text, (token,), token.created_at) == token
    assert token.expires_at is not None
    assert token.expires_at - token.created_at == 90 * 86_400_000_000
    listed = run("tokens", "list").stdout
    assert token.id in listed and "ci" in listed and text not in listed


def test_a_token_is_revoked_twice_alike(home: Path):
    token = run_json("tokens", "create", "--tenant", "team", "--scope", "admin")
    first, again = (run_json("tokens", "revoke", token["id"]) for _ in range(2))
    assert first == again and first["state"] == "revoked"
    assert run_json("tokens", "list", "--tenant", "default") == {"tokens": []}
    assert tokens.find_active(token["token"], tokens.every(home), 0) is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("tokens", "create", "--scope", "read", "--tenant", "nobody"), 3, "no tenant"),
        (("tokens", "create", "--tenant", "team"), 2, "--scope"),
        (("tokens", "create", "--scope", "root"), 2, "root"),
        (("tokens", "create", "--scope", "read", "--expires", "soon"), 2, "a duration"),
        (("tokens", "create", "--scope", "read", "--expires", "99999999w"), 2, "ttl_s"),
        (("tokens", "list", "--tenant", "nobody"), 3, "no tenant"),
        (("tokens", "revoke", "nobody"), 3, "no token"),
        (("tenants", "create", "../x"), 2, "no tenant's name"),
        (("tenants", "stats", "nobody"), 3, "no tenant"),
        (("tenants", "delete", "nobody", "--yes"), 3, "no tenant"),
        (("tenants", "delete", "default", "--yes"), 2, "default tenant"),
        (("tenants", "delete", "team", "--json"), 2, "--yes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], code: int, said: str):
    result = run(*words)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_a_tenant_is_deleted_after_a_yes(home: Path):
    assert run("tenants", "delete", "team", typed="n\n").exit_code == 130
    assert tenants.tenant(home, "team").exists
    assert run("tenants", "delete", "team", typed="y\n").exit_code == 0
    assert not tenants.tenant(home, "team").root.exists()
    assert [path.name[:5] for path in (home / "deleted").iterdir()] == ["team-"]


def test_a_server_that_has_it_open_puts_it_away(home: Path, server: OpenTenants):
    events = server.get("team").log
    token = run_json("tokens", "create", "--tenant", "team", "--scope", "read")
    deleted = run_json("tenants", "delete", "team", "--yes")
    assert (deleted["tenant"], deleted["tokens"]) == ("team", 1)
    with EventLog(Path(deleted["kept_in"]) / "log.sqlite") as kept_log:
        assert integrity.problems(kept_log) == []
    assert run_json("tokens", "revoke", token["id"])["state"] == "revoked"
    with pytest.raises(LogClosed):
        events.head()


def test_what_the_server_refuses_is_said(home: Path, server: OpenTenants):
    result = run("tenants", "delete", "default", "--yes")
    assert (result.exit_code, "default tenant" in result.output) == (2, True)
