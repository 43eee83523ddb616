"""A tenant's token: its storage, permissions, rate limit and expiry."""

import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient
from mcp_client import message
from new_tenants import new_tenants
from werkzeug.test import TestResponse

from serve.app import create_app
from serve.mcp_server.protocol import OUT_OF_SCOPE
from serve.server import process
from serve.server.callers import BURST_S, OWNER, Caller, Callers, Rates, hook_key
from serve.server.open_tenants import OpenTenants
from store.home import tokens
from store.home.config import Settings
from store.home.errors import ConfigError, Conflict, InvalidInput, NotFound
from store.home.files import replace_file
from store.home.registry import Server
from store.home.tokens import Scope, Token, Wanted
from store.redaction.redact import redact

NOW = 1_800_000_000_000_000
OWNERS = "the-owner's-token"
DAY_S = 86_400
ALL: tuple[Scope, ...] = ("read", "write", "admin")


def make_token(
    home: Path, *scopes: Scope, tenant: str = "team", **wanted: Any
) -> tuple[Token, str]:
    return tokens.make(home, tenant, Wanted(scopes=scopes or ALL, **wanted), NOW)


# Storage


def test_only_a_hash_is_kept_of_it(home: Path):
    token, text = make_token(home)
    written = (home / "tokens.json").read_text()
    assert text.startswith(f"mnemo_{token.id}_") and len(text) > 50
    assert text not in written and text.split("_", 2)[2] not in written
    assert tokens.every(home) == (token,)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_secret_pasted_as_its_name_is_not_kept(home: Path):
    _, secret = make_token(home)
    token, _ = make_token(home, name=f"ci {secret}")
    assert token.name.startswith("ci ")
    assert secret.encode() not in (home / "tokens.json").read_bytes()


def test_the_files_are_their_owners_alone(home: Path):
    mask = os.umask(0)  # the most permissive mask
    try:
        make_token(home)
    finally:
        os.umask(mask)
    for path in (home, *home.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_file_that_others_may_write_makes_nobody_known(home: Path):
    token, text = make_token(home)
    callers = Callers(Settings(home), OWNERS, lambda: NOW)
    (home / "tokens.json").chmod(0o644)
    assert callers.of(text, "/v1/recall", None) is None
    with pytest.raises(ConfigError, match="chmod 600"):
        tokens.every(home)
    (home / "tokens.json").chmod(0o600)
    caller = callers.of(text, "/v1/recall", None)
    assert caller is not None and caller.token_id == token.id


@pytest.mark.parametrize("content", [b"", b"{", b'{"tokens": 5}', b"\xff", b'{"tokens": [{}]}'])
def test_a_file_that_cannot_be_read_makes_only_the_owner_known(home: Path, content: bytes):
    _, text = make_token(home)
    (home / "tokens.json").write_bytes(content)
    callers = Callers(Settings(home), OWNERS, lambda: NOW)
    assert callers.of(text, "/v1/recall", None) is None
    assert callers.of(OWNERS, "/v1/recall", None) is OWNER


def test_many_who_make_and_revoke_at_once_lose_nothing(home: Path):
    texts: list[str] = []

    def work() -> None:
        for _ in range(5):
            live, text = make_token(home)
            gone_token, _ = make_token(home)
            tokens.revoke(home, gone_token.id, NOW)
            texts.append(text)
            assert tokens.find_active(text, tokens.every(home), NOW) == live

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = tokens.every(home)
    assert len(every) == 40
    assert len([token for token in every if token.state(NOW) == "active"]) == len(texts) == 20
    assert all(tokens.find_active(text, every, NOW) for text in texts)


def test_another_process_may_change_the_file(
    home: Path, child: Callable[..., Any], request: pytest.FixtureRequest
):
    callers = Callers(Settings(home), OWNERS, lambda: NOW)
    token, text = make_token(home)
    assert callers.of(text, "/v1/recall", None)
    code = (
        "import sys; from pathlib import Path; from store.home import tokens\n"
        "tokens.revoke(Path(sys.argv[1]), sys.argv[2], 5)"
    )
    process = child(code, home, token.id)
    process.communicate()
    assert process.returncode == 0
    assert callers.of(text, "/v1/recall", None) is None


def test_one_that_ended_long_ago_is_listed_no_more(home: Path):
    old, _ = make_token(home)
    short, _ = make_token(home, ttl_s=DAY_S)
    tokens.revoke(home, old.id, NOW)
    later = NOW + tokens.KEPT_US + DAY_S * 1_000_000
    tokens.make(home, "team", Wanted(scopes=("read",)), later)
    assert not {token.id for token in tokens.every(home)} & {old.id, short.id}


def test_a_text_of_ours_is_a_secret_that_no_memory_keeps(home: Path):
    _, text = make_token(home)
    assert text not in redact(f"the CI asks with {text} since May")


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[2J", "\u202eback"])
def test_a_name_is_one_line_that_shows(home: Path, name: str):
    with pytest.raises(InvalidInput):
        make_token(home, name=name)


# Permissions


@pytest.fixture
def callers(home: Path) -> Callers:
    return Callers(Settings(home), OWNERS, lambda: NOW)


def test_a_token_is_its_tenant_and_scopes(home: Path, callers: Callers):
    token, text = make_token(home, "read", name="ci", per_minute=7)
    caller = callers.of(text, "/v1/recall", None)
    assert caller == Caller("ci", "team", frozenset({"read"}), token.id, 7)
    assert not caller.is_owner and caller.tenant_for("other") == "team"


def test_what_is_nearly_a_token_opens_nothing(home: Path, callers: Callers):
    token, text = make_token(home)
    other, foreign = make_token(home, tenant="other")
    secret = text.split("_", 2)[2]
    wrong = [
        *("", "mnemo", "mnemo_", "mnemo__", f"mnemo_{token.id}", f"mnemo_{token.id}_"),
        *(text[:-1], text + "x", text.upper(), text.swapcase(), secret, text[1:], f" {text}"),
        *(f"mnemo_{other.id}_{secret}", f"mnemo_{token.id}_{foreign.split('_', 2)[2]}"),
        *(token.sha256, f"mnemo_{token.id}_{token.sha256}", f"x{text}", "mnemo_é_ü", "_" * 99),
    ]
    for sent in wrong:
        assert callers.of(sent, "/v1/recall", None) is None, sent


def test_one_that_is_revoked_is_dead_at_once(home: Path, callers: Callers):
    token, text = make_token(home)
    assert callers.of(text, "/v1/recall", None)
    first = tokens.revoke(home, token.id, NOW)
    assert callers.of(text, "/v1/recall", None) is None
    assert tokens.revoke(home, token.id, NOW + 5) == first


def test_one_that_has_expired_is_dead(home: Path):
    token, text = make_token(home, ttl_s=60)
    now = [NOW]
    callers = Callers(Settings(home), OWNERS, lambda: now[0])
    now[0] = NOW + 60_000_000 - 1
    assert callers.of(text, "/v1/recall", None)
    now[0] += 1
    assert callers.of(text, "/v1/recall", None) is None
    assert token.state(now[0]) == "expired"


def test_a_token_of_another_tenant_is_as_unknown_as_none(home: Path):
    token, _ = make_token(home)
    for tenant, id_ in (("other", token.id), ("team", "nobody")):
        with pytest.raises(NotFound, match="no token"):
            tokens.revoke(home, id_, NOW, tenant)


def test_a_revoked_token_takes_along_all_that_descend_from_it(home: Path, callers: Callers):
    first, _ = tokens.make(home, "team", Wanted(scopes=("admin",)), NOW)
    second, _ = tokens.make(home, "team", Wanted(scopes=("admin",)), NOW, first.id)
    third, text = tokens.make(home, "team", Wanted(scopes=("read",)), NOW, second.id)
    other, _ = tokens.make(home, "team", Wanted(scopes=("admin",)), NOW)
    assert callers.of(text, "/v1/recall", None) is not None
    tokens.revoke(home, first.id, NOW)
    assert callers.of(text, "/v1/recall", None) is None
    assert tokens.descendants(first.id, tokens.every(home)) == (
        *(token for token in tokens.every(home) if token.id in (second.id, third.id)),
    )
    states = {token.id: token.state(NOW) for token in tokens.every(home)}
    assert [states[token.id] for token in (first, second, third)] == ["revoked"] * 3
    assert states[other.id] == "active"


@pytest.mark.parametrize("is_listed", [True, False])
def test_what_an_earlier_version_left_open_of_a_revoked_maker_is_ended(home: Path, is_listed: bool):
    maker, _ = tokens.make(home, "team", Wanted(scopes=("admin",)), NOW)
    _, text = tokens.make(home, "team", Wanted(scopes=("read",)), NOW, maker.id)
    stored = msgspec.json.decode((home / "tokens.json").read_bytes())["tokens"]
    stored[0]["revoked_at"] = NOW
    listed = stored if is_listed else stored[1:]
    replace_file(home / "tokens.json", msgspec.json.encode({"tokens": listed}))
    assert tokens.find_active(text, tokens.every(home), NOW) is None


def test_all_of_a_tenant_are_revoked_together(home: Path):
    (mine, _), (others, _) = make_token(home), make_token(home, tenant="other")
    assert tokens.revoke_all(home, "team", NOW) == 1
    assert tokens.revoke_all(home, "team", NOW) == 0
    states = {token.id: token.state(NOW) for token in tokens.every(home)}
    assert states == {mine.id: "revoked", others.id: "active"}


def made_by(maker: Token, home: Path, **wanted: Any) -> Token:
    return tokens.make(home, "team", Wanted(scopes=ALL, **wanted), NOW, maker.id)[0]


def test_a_token_makes_none_that_outlives_it(home: Path):
    maker, _ = make_token(home, ttl_s=60)
    assert made_by(maker, home).expires_at == maker.expires_at
    shorter = made_by(maker, home, ttl_s=59)
    assert shorter.expires_at == NOW + 59_000_000
    with pytest.raises(InvalidInput, match="ttl_s"):
        made_by(maker, home, ttl_s=61)
    endless, _ = make_token(home)
    assert made_by(endless, home).expires_at is None


def test_a_token_that_was_revoked_meanwhile_makes_no_more(home: Path):
    # requested before its tenant was deleted, made after: it would open the next one of that name
    maker, _ = make_token(home)
    tokens.revoke_all(home, "team", NOW)
    with pytest.raises(Conflict, match="has ended"):
        made_by(maker, home)
    assert [token.state(NOW) for token in tokens.every(home)] == ["revoked"]


def test_a_token_makes_only_so_many_and_the_owner_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tokens, "MOST_OF_TOKENS", 3)
    maker, _ = make_token(home)
    first = made_by(maker, home)
    made_by(maker, home)
    tokens.revoke(home, first.id, NOW)  # it stays listed, so revoking makes no room
    with pytest.raises(Conflict, match="ask the owner"):
        made_by(maker, home)
    assert make_token(home)[0].state(NOW) == "active"


@pytest.mark.parametrize("named", [None, "", "team", "default"])
def test_a_hooks_key_is_never_the_owners(callers: Callers, named: str | None):
    key = hook_key(OWNERS, "codex", named)
    caller = callers.of(key, "/v1/hooks/codex", named)
    assert caller is not None and not caller.is_owner and not caller.may("admin")
    assert caller.tenant == (named or "default")
    assert callers.of(key, "/v1/recall", named) is None
    assert callers.of(key, "/v1/hooks/cursor", named) is None


def test_nobody_is_the_owner_by_accident():
    for name, tenant in (("ci", None), ("owner", ""), ("ci", "")):
        with pytest.raises(ValueError, match="owner"):
            Caller(name, tenant, frozenset({"read"}))
    with pytest.raises(ValueError, match="owner"):
        Caller("owner", None, frozenset({"read"}), token_id="abc")
    assert not Caller("owner", "team", frozenset(ALL)).is_owner


# Rate limit


def test_a_burst_is_answered_and_then_what_the_rate_allows():
    now = [0.0]
    rates = Rates(lambda: now[0])
    caller = Caller("ci", "team", frozenset({"read"}), "t1", per_minute=600)

    def answered(count: int) -> int:
        return sum(rates.wait_s(caller) == 0 for _ in range(count))

    assert answered(500) == 10 * BURST_S
    assert 0 < rates.wait_s(caller) <= 0.1
    now[0] += rates.wait_s(caller)
    assert answered(5) == 1
    now[0] += 60
    assert answered(5_000) == 10 * BURST_S
    in_a_minute = 0
    for _ in range(6_000):
        now[0] += 0.01
        in_a_minute += answered(1)
    assert in_a_minute == pytest.approx(600, abs=1)


def test_a_rare_token_may_ask_once_and_then_waits():
    now = [0.0]
    rates = Rates(lambda: now[0])
    caller = Caller("ci", "team", frozenset({"read"}), "t1", per_minute=1)
    assert rates.wait_s(caller) == 0
    assert rates.wait_s(caller) == pytest.approx(60)
    now[0] = 60.0
    assert rates.wait_s(caller) == 0


def test_each_has_a_bucket_of_its_own_and_the_owner_none():
    rates = Rates(lambda: 0.0)
    caller, two = (Caller("ci", "team", frozenset({"read"}), id_, 1) for id_ in ("t1", "t2"))
    for each in (caller, two):
        assert rates.wait_s(each) == 0 < rates.wait_s(each)
    assert all(rates.wait_s(OWNER) == 0 for _ in range(10_000))


# Over HTTP


@pytest.fixture
def opened(home: Path) -> Iterator[OpenTenants]:
    with new_tenants(home, "default", "team") as opened:
        yield opened


@pytest.fixture
def seconds() -> list[float]:
    return [0.0]


@pytest.fixture
def client(opened: OpenTenants, seconds: list[float]) -> FlaskClient:
    app = create_app(opened, OWNERS, lambda: NOW, lambda: seconds[0], hook_deadline_s=30.0)
    app.register_blueprint(process.control_blueprint(Server(1, 2, 3, "instance"), lambda: None))
    return app.test_client()


def ask(
    client: FlaskClient, text: str, method: str, path: str, body: object = None, **headers: str
) -> TestResponse:
    ours = {"Host": "127.0.0.1", "Authorization": f"Bearer {text}"} | headers
    data = None if body is None else json.dumps(body)
    return client.open(
        path, method=method, data=data, headers=ours, content_type="application/json"
    )


def test_whatever_is_named_a_tokens_tenant_is_meant(
    client: FlaskClient, opened: OpenTenants, home: Path
):
    _, text = make_token(home)
    for number, body in enumerate(({}, {"tenant": "default"}, {"tenant": "nobody"})):
        note = {"id": f"n{number}", "content": f"the tide comes at {number}"} | body
        assert ask(client, text, "POST", "/v1/memories?tenant=default", note).status_code == 400
        assert ask(client, text, "POST", "/v1/memories", note).status_code == 201
    call = {"name": "remember", "arguments": {"content": "said through MCP", "id": "n3"}}
    named = {"X-Mnemolog-Tenant": "default"}
    response = ask(client, text, "POST", "/mcp", message("tools/call", call), **named)
    assert "isError" not in response.json["result"]
    event = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s",
        "prompt": "the tide",
        "cwd": "",
    }
    hooked = ask(client, text, "POST", "/v1/hooks/claude-code?tenant=default", event)
    assert hooked.status_code in (200, 204)
    opened.get("team").notes.write()
    opened.get("default").notes.write()
    assert opened.get("default").log.head() == 0
    assert {"n0", "n1", "n2", "n3"} < {other.id for other in opened.get("team").log.read()}


def test_a_folder_that_a_tokens_holder_names_is_not_looked_into(
    client: FlaskClient, opened: OpenTenants, home: Path, tmp_path: Path
):
    """A token's holder may use another machine; the owner's agents run on this one."""
    repository = tmp_path / "shop"
    (repository / ".git").mkdir(parents=True)
    (repository / ".git" / "config").write_text('[remote "origin"]\n url = git@x.org:acme/secret\n')
    (repository / ".mnemolog.toml").write_text("top_k = 3\n")
    _, text = make_token(home)
    call = message("tools/call", {"name": "remember", "arguments": {"content": "the tide comes"}})
    edit = {"file_path": str(repository / "src" / "a.py"), "new_string": "b"}
    used = {"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": edit}
    used |= {"session_id": "s", "cwd": str(repository / "src"), "tool_response": {}}
    projects, files = {}, {}
    for sent, tenant in ((text, "team"), (OWNERS, "default")):
        here = {"X-Mnemolog-Cwd": str(repository)}
        assert ask(client, sent, "POST", "/mcp", call, **here).status_code == 200
        ask(client, sent, "POST", f"/v1/hooks/claude-code?tenant={tenant}", used)
        opened.get(tenant).notes.write()
        events = list(opened.get(tenant).log.read())
        projects[tenant] = {event.kind: event.project for event in events}
        files[tenant] = [file for event in events for file in getattr(event.body, "files", ())]
    assert files == {"team": [edit["file_path"]], "default": ["src/a.py"]}
    assert projects["team"] == {"recorded": None, "action": None}
    assert projects["default"] == dict.fromkeys(("recorded", "action"), "x.org/acme/secret")


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        (("read",), {"read"}),
        (("write",), {"write"}),
        (("read", "write"), {"read", "write", "both", "hook"}),
        (("admin",), {"read", "write", "both", "hook", "admin"}),
    ],
)
def test_a_token_does_what_its_scopes_allow(
    client: FlaskClient, home: Path, scopes: tuple[Scope, ...], may: set[str]
):
    _, text = make_token(home, *scopes)
    requests = {
        "read": ("POST", "/v1/recall", {"query": "the tide"}),
        "write": ("POST", "/v1/memories", {"content": "the tide comes at noon"}),
        "both": ("PATCH", "/v1/memories/x", {"pinned": True}),  # its answer shows the memory
        "hook": ("POST", "/v1/hooks/claude-code", {}),
        "owner": ("GET", "/v1/server", None),
        "owner again": ("POST", "/v1/server/stop", {}),
    }
    for name, (method, path, body) in requests.items():
        answer = ask(client, text, method, path, body)
        if name in may:
            assert answer.status_code != HTTPStatus.FORBIDDEN, name
        else:
            assert (answer.status_code, answer.json["code"]) == (403, "out_of_scope"), name
    assert ask(client, OWNERS, "GET", "/v1/server").json["instance"] == "instance"


READING = set("recall get_memory recent project_overview history why timeline".split())
WRITING = set("remember remember_batch update_memory forget feedback link".split())
BOTH = {"goals"}  # it also lists them


@pytest.mark.parametrize(
    ("scopes", "there"),
    [
        (("read",), READING),
        (("write",), WRITING),
        (("read", "write"), READING | WRITING | BOTH),
        (("admin",), READING | WRITING | BOTH),
    ],
)
def test_a_tool_that_a_token_may_not_use_is_not_there_for_it(
    client: FlaskClient, home: Path, scopes: tuple[Scope, ...], there: set[str]
):
    _, text = make_token(home, *scopes)

    def rpc(method: str, **params: object) -> Any:
        return ask(client, text, "POST", "/mcp", message(method, params)).json

    assert {tool["name"] for tool in rpc("tools/list")["result"]["tools"]} == there
    for name in READING | WRITING | BOTH:
        answer = rpc("tools/call", name=name, arguments={})
        if name in there:
            assert "error" not in answer
        else:
            assert answer["error"]["code"] == OUT_OF_SCOPE
            assert "scope" in answer["error"]["message"]


def test_a_token_that_may_only_write_is_told_nothing_that_is_kept(client: FlaskClient, home: Path):
    (_, writes), (_, reads) = make_token(home, "write"), make_token(home, "read", "write")
    for id_, kind in (("kept", "fact"), ("wanted", "goal"), ("new", "fact")):
        body = {"id": id_, "kind": kind, "content": f"the azurefox comes by {id_}"}
        assert ask(client, reads, "POST", "/v1/memories", body).status_code == 201
    memory = "/v1/memories/kept"
    sent = [
        ("PATCH", memory, {"pinned": True}),
        ("POST", f"{memory}/archive", {}),
        ("POST", f"{memory}/restore", {}),
        ("POST", f"{memory}/supersede", {"by": "new"}),
        ("POST", f"{memory}/links", {"target": "new", "relation": "cause"}),
        ("POST", "/v1/memories", {"id": "kept", "content": "another text"}),
        ("POST", "/v1/rate", {"id": "kept", "verdict": 1}),
        *(
            ("POST", "/mcp", message("tools/call", {"name": name, "arguments": {"id": "wanted"}}))
            for name in sorted(WRITING | BOTH)
        ),
        ("POST", "/mcp", message("tools/call", {"name": "goals", "arguments": {}})),
        ("DELETE", memory, None),
    ]
    for method, path, body in sent:
        assert "azurefox" not in ask(client, writes, method, path, body).text, (method, path)
    assert "azurefox" in ask(client, reads, "PATCH", "/v1/memories/new", {"pinned": True}).text


def test_without_read_no_resource_prompt_or_completion_is_given(client: FlaskClient, home: Path):
    _, text = make_token(home, "write")
    for method in ("resources/list", "resources/read", "prompts/get", "completion/complete"):
        answer = ask(client, text, "POST", "/mcp", message(method, {"uri": "memory://x"}))
        assert answer.json["error"]["code"] == OUT_OF_SCOPE


def test_a_token_that_asks_too_often_is_told_when_to_come_back(
    client: FlaskClient, home: Path, seconds: list[float]
):
    _, text = make_token(home, per_minute=60)
    responses = [ask(client, text, "POST", "/v1/recall", {"query": "tide"}) for _ in range(12)]
    assert [answer.status_code for answer in responses] == [200] * 10 + [429] * 2
    assert responses[-1].json["code"] == "too_many_requests"
    wait_s = int(responses[-1].headers["Retry-After"])
    assert wait_s == 1
    assert ask(client, OWNERS, "GET", "/v1/server").status_code == 200
    seconds[0] += wait_s
    assert ask(client, text, "POST", "/v1/recall", {"query": "tide"}).status_code == 200
    for path in ("/mcp", "/v1/hooks/claude-code", "/v1/nothing"):
        assert ask(client, text, "POST", path, {}).status_code == 429


def test_a_401_says_how_to_ask(client: FlaskClient):
    bare = client.get("/v1/lessons", headers={"Host": "127.0.0.1"})
    wrong = ask(client, "mnemo_aaaaaaaaaaaa_b", "GET", "/v1/lessons")
    assert bare.headers["WWW-Authenticate"] == 'Bearer realm="mnemolog"'
    assert wrong.headers["WWW-Authenticate"] == 'Bearer realm="mnemolog", error="invalid_token"'
