"""
A tenant's token walks every route and every tool, and learns nothing of another tenant.

Every operation of the API, every route beside it, every tool, resource, prompt and completion of
MCP and every hook is called with every id and name of another tenant in every parameter; in a home
that has that tenant, and in one that never had it. The answers are the same, so nothing can be
read, listed, counted or inferred. A parameter that the walk does not know fails it: a new route has
to be added here.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hosts_told import RECORDED, in_session, reworded
from mcp_client import message
from two_tenants import MARKERS, MINE, NOBODYS, OWNERS, QUERY, THEIRS, World, masked, world
from werkzeug.test import TestResponse

from serve.api.blueprint import OPERATIONS
from serve.api.operation import Operation
from serve.server.request_guard import is_for_programs
from store.home import tenant as tenants
from store.home import tokens

NAMED = f"{THEIRS}/shop"

# values of parameters that name nothing of a tenant
PLAIN: dict[str, Any] = {
    **dict.fromkeys(("action", "context", "result", "reason", "source", "value"), "some words"),
    "active_only": False,
    "cold": True,
    "for_agents": False,
    "explain": True,
    "touch": False,
    "pinned": True,
    "importance": 0.5,
    "score": 0.5,
    "progress": 0.5,
    "min_confidence": 0.0,
    "ttl_s": 60,
    "kind": "fact",
    "tier": "wal",
    "status": "open",
    "relation": "support",
    "trust": "agent",
    "kinds": ["fact"],
    "tiers": ["wal"],
    "trusts": ["agent"],
    "sessions": ["s1"],
    "state": None,
    "steps": None,  # needs an existing plan
    "sort": None,
    "category": None,
    "insight_type": None,
    "mode": "lexical",
    "profile": "recall",
    "verdict": 1.0,
    "silent": False,
    "limit": 100,
    "since": "2020-01-01",
    "until": "2030-01-01",
    "created_at": "2023-01-01T00:00:00Z",
    "top_k": 50,
    "as_of": 10,
    "known_at": "10",
    "per_minute": 10,
    "created_by": "somebody",
    "name": "ci",
    "scopes": ["read"],
    "metadata": {"a": 1},
    "made": {"job": "consolidate"},
    "author": "typed",
    "turns": [{"role": "user", "content": "I always say so"}],
    "speaker": "Anna",
    "due": "2027-01-01",
    "all_states": True,
    "all": True,
    "hops": 2,
    "min_score": 0.0,
}


@dataclass
class Walk:
    """The requests of one walk and their answers."""

    world: World
    there: dict[str, list[Any]]
    token: str
    answers: list[tuple[str, str]] = field(default_factory=list)
    told: dict[str, set[str]] = field(default_factory=dict)  # by title of the request
    sent: set[str] = field(default_factory=set)  # the other tenant's ids that were sent
    spared: set[str] = field(default_factory=set)  # operations to leave out

    def ask(self, title: str, method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = self.world.send(method, path, body, token=self.token, **headers)
        request = f"{method} {path} {json.dumps(body)} {headers}"
        text = masked(answer)
        assert answer.status_code < 500 or answer.json["code"] == "not_ready", request
        if self.token == self.world.token:
            self._check(request, answer)
        self.answers.append((request, text))
        self.told.setdefault(title, set()).add(text)
        return answer

    def _check(self, request: str, answer: TestResponse) -> None:
        text = f"{answer.text}{answer.headers}"
        assert MARKERS[THEIRS] not in text, (request, text)
        assert MARKERS[NOBODYS] not in text, (request, text)
        self.sent |= {id_ for id_ in self.world.ids if id_ in request}
        assert not [id_ for id_ in self.world.ids - self.sent if id_ in text], (request, text)

    def values(self, name: str) -> list[Any]:
        """Return the values to try for a named parameter; raise for an unknown name."""
        theirs: dict[str, list[Any]] = {
            **dict.fromkeys(("id", "target", "by", "parent_id"), self.there["id"]),
            "memory": self.there["id"],
            "source_ids": [[id_] for id_ in self.there["id"][:2]],
            "cursor": self.there["cursor"],
            "tenant": [THEIRS],
            "project": [NAMED],
            "key": [f"{THEIRS}.region"],
            "session": [f"{THEIRS}-session"],
            "agent": [f"{THEIRS}-agent"],
            "chain": [f"{THEIRS}-chain"],
            "entity": ["src/vault.py", f"src/{THEIRS}.py"],
            "prefix": ["src/", f"src/{THEIRS}"],
            "tag": [f"{THEIRS}-tag"],
            "tags": [[f"{THEIRS}-tag"]],
            **{name: [QUERY] for name in ("query", "text", "topic", "content")},
            "memories": [[{"content": f"one of many, {n}"}] for n in range(2)],
        }
        if name in theirs:
            return theirs[name]
        assert name in PLAIN, f"say in this test what {name!r} may be, of another tenant's"
        return [] if PLAIN[name] is None else [PLAIN[name]]


# The API


def walk_api(walk: Walk) -> None:
    # reads first, then changes of one resource, and creations last
    for operation in sorted(OPERATIONS, key=lambda of: (of.method != "GET", "{" not in of.path)):
        if operation.id in walk.spared:
            continue
        paths = list(_paths(walk, operation))
        for path in paths:
            for body in _arguments(walk, operation.body)[:1]:
                for query in _arguments(walk, operation.query)[:1]:
                    _ask(walk, operation, path, query, body)
        for body in _arguments(walk, operation.body):
            for query in _arguments(walk, operation.query):
                _ask(walk, operation, paths[0], query, body)


def _ask(walk: Walk, operation: Operation, path: str, query: Any, body: Any) -> None:
    query = {"limit": 100} | query if "limit" in operation.query.__struct_fields__ else query
    search = f"?{urlencode(query or {}, doseq=True)}" if query else ""
    walk.ask(operation.id, operation.method, path + search, body)
    for name in operation.headers:
        value = {"If-Match": '"1"', "If-None-Match": '"1"', "Idempotency-Key": '"k1"'}[name]
        walk.ask(operation.id, operation.method, path + search, body, **{name: value})


def _paths(walk: Walk, operation: Operation) -> Iterator[str]:
    names = re.findall(r"{(\w+)}", operation.path)
    if not names:
        yield operation.path
        return
    *outer, last = names
    ids = [*walk.values(last), *([MINE] if last == "tenant" else [])]
    tenants_ = [THEIRS, MINE] if outer else [None]
    for tenant in tenants_:
        for value in ids:
            path = operation.path.replace(f"{{{last}}}", quote(str(value), safe=""))
            yield path.replace("{tenant}", str(tenant))


def _arguments(walk: Walk, of: Any) -> list[Any]:
    """Return bodies or queries: the required fields, then with each value of each other field."""
    if of is None:
        return [None]
    fields = {field.encode_name: field for field in msgspec.structs.fields(of)}
    tried = {name: walk.values(name) for name in fields}
    least = {name: tried[name][0] for name, field in fields.items() if field.required}
    if "tenant" in fields:
        least["tenant"] = THEIRS
    if of.__name__ == "NewJob":
        least["memories"] = tried["memories"][0]
    arguments = [least]
    for name, values in tried.items():
        arguments += [least | {name: value} for value in values if least.get(name) != value]
    return arguments


# MCP

MAKING = ("remember", "remember_batch", "goals")  # last, because they create the ids they are given


def walk_mcp(walk: Walk, between: Callable[[Walk], None] = lambda walk: None) -> None:
    rpc = _rpc(walk)
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        rpc(method, method)
    rpc("initialize", "initialize", protocolVersion="2025-06-18")
    tools = rpc("tools/list", "tools/list").json["result"]["tools"]
    for id_ in ("shared", "unheard-of", *walk.there["id"]):
        rpc("resources/read", "resources/read", uri=f"memory://{id_}")
    for prompt in rpc("prompts/list", "prompts/list").json["result"]["prompts"]:
        _prompt(walk, rpc, prompt)
    listed = rpc("resources/templates/list", "resources/templates/list").json["result"]
    for template in listed["resourceTemplates"]:
        ref = {"type": "ref/resource", "uri": template["uriTemplate"]}
        for name in re.findall(r"{(\w+)}", template["uriTemplate"]):
            _complete(walk, rpc, ref, name)
    _tools(walk, [tool for tool in tools if tool["name"] not in MAKING])
    between(walk)
    _tools(walk, [tool for tool in tools if tool["name"] in MAKING])


def _tools(walk: Walk, tools: list[dict[str, Any]]) -> None:
    rpc = _rpc(walk)
    for tool in tools:
        for arguments in _given(walk, tool["inputSchema"]):
            rpc(f"tool {tool['name']}", "tools/call", name=tool["name"], arguments=arguments)


def _rpc(walk: Walk) -> Callable[..., Any]:
    def rpc(title: str, method: str, **params: object) -> Any:
        answer = walk.ask(title, "POST", "/mcp", message(method, params))
        assert answer.status_code == 200, answer.text
        return answer

    return rpc


def _prompt(walk: Walk, rpc: Callable[..., Any], prompt: dict[str, Any]) -> None:
    name = prompt["name"]
    rpc(f"prompt {name}", "prompts/get", name=name, arguments={})
    for argument in prompt["arguments"]:
        for value in walk.values(argument["name"]):
            arguments = {argument["name"]: value}
            rpc(f"prompt {name}", "prompts/get", name=name, arguments=arguments)
        _complete(walk, rpc, {"type": "ref/prompt", "name": name}, argument["name"])


def _complete(walk: Walk, rpc: Callable[..., Any], ref: dict[str, str], name: str) -> None:
    values = [str(value) for value in walk.values(name)]
    for beginning in ("", "b", "s", THEIRS, *values, *(id_[:4] for id_ in values)):
        argument = {"name": name, "value": beginning}
        rpc(f"completion {name}", "completion/complete", ref=ref, argument=argument)


def _given(walk: Walk, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of a tool: the required ones, then with each of the others."""
    tried = {
        name: schema["properties"][name].get("enum") or walk.values(name)
        for name in schema["properties"]
    }
    least = {name: tried[name][0] for name in schema.get("required", ())}
    yield least
    for name, values in tried.items():
        yield from (least | {name: value} for value in values)


# Hooks, and every route beside the API


def walk_hooks(walk: Walk) -> None:
    for host, payloads in RECORDED.items():
        for payload in payloads:
            body = in_session(reworded(payload, QUERY), f"{THEIRS}-session")
            walk.ask(f"hook {host}", "POST", f"/v1/hooks/{host}?tenant={THEIRS}", body)


def walk_the_rest(walk: Walk) -> None:
    """Request every route outside the API, MCP and hooks, with the other tenant in its path."""
    for rule in walk.world.client.application.url_map.iter_rules():
        blueprint = rule.endpoint.partition(".")[0]
        if blueprint in ("api", "mcp", "hooks"):
            continue
        path = str(rule)
        for part in re.findall(r"<[^>]+>", path):
            name = part.strip("<>").rpartition(":")[2].rstrip("_")
            parameters = {"digest": "x", "name": "app.css", "host": "codex"}
            value = parameters.get(name) or str(walk.values(name)[0])
            path = path.replace(part, quote(value, safe=""))
        for method in sorted((rule.methods or set()) - {"OPTIONS"}):
            answer = walk.ask(f"route {rule}", method, path, {} if method == "POST" else None)
            is_open = rule.rule in ("/login", "/favicon.ico") or rule.rule.startswith("/static/")
            if is_for_programs(path):
                assert answer.status_code in (403, 404, 405), (path, answer.text)
            elif not is_open:
                assert answer.status_code in (303, 401), (path, answer.text)


@pytest.fixture(scope="module")
def with_them(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("with"), MINE, NOBODYS, THEIRS) as world_:
        yield world_


@pytest.fixture(scope="module")
def without_them(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("without"), MINE) as world_:
        yield world_


def walked(walked_world: World, there: dict[str, list[Any]], token: str = "") -> Walk:
    walk = Walk(walked_world, there, token or walked_world.token)
    walk_the_rest(walk)
    walk_hooks(walk)
    walk_mcp(walk, walk_api)
    return walk


def everything(world: World, name: str) -> object:
    """Return all data of a tenant: events, jobs, tokens, and its JSON files' names."""
    opened = world.opened.get(name)
    return (
        [msgspec.json.encode(event) for event in opened.log.read()],
        world.opened.ingest.queue(opened.tenant).list_jobs(),
        tokens.every(world.home, name),
        sorted(path.name for path in opened.tenant.root.rglob("*.json")),
    )


def test_a_token_learns_nothing_of_another_tenant_and_changes_nothing(
    with_them: World, without_them: World
):
    before = {name: everything(with_them, name) for name in (THEIRS, NOBODYS)}
    walk = walked(with_them, with_them.there)
    other = walked(without_them, with_them.there)
    assert len(walk.answers) == len(other.answers) > 1_000
    for (request, text), (same, answer) in zip(walk.answers, other.answers, strict=True):
        assert request == same
        assert text == answer, request
    assert {name: everything(with_them, name) for name in (THEIRS, NOBODYS)} == before
    assert {tenant.name for tenant in tenants.list_tenants(with_them.home)} == {
        MINE,
        NOBODYS,
        THEIRS,
    }
    assert {tenant.name for tenant in tenants.list_tenants(without_them.home)} == {MINE, NOBODYS}


# operations whose answers hold no data of a tenant, or only counts
TELLS_NOTHING = {"getHealth", "getReadiness", "getOpenApi", "getMetrics", "getTenantStats"}
TELLS_NOTHING |= {"listJobs", "getJob"}


def test_the_owner_reaches_all_of_it_by_the_same_walk(tmp_path_factory: pytest.TempPathFactory):
    """The requests reveal the data to the owner: equal answers are not due to weak requests."""
    by_request: dict[str, set[str]] = {}
    for walks in ((walk_hooks, walk_api), (walk_mcp,)):  # if one forgets it, the other finds it
        with world(tmp_path_factory.mktemp("owner"), NOBODYS, MINE, THEIRS) as world_:
            walk = Walk(world_, world_.there, OWNERS, told=by_request, spared={"deleteTenant"})
            for walk_ in walks:
                walk_(walk)
    succeeded = {request for request, answers in by_request.items() if any(map(is_done, answers))}
    # no job is dead, and no thread runs
    assert by_request.keys() - succeeded == {"requeueJob", "getReadiness"}
    assert any(text.startswith("409") for text in by_request["requeueJob"])
    leaked = {request for request, answers in by_request.items() if MARKERS[THEIRS] in str(answers)}
    reading = {
        operation.id for operation in OPERATIONS if operation.scope == "read"
    } - TELLS_NOTHING
    reading |= {"resources/read", "prompt brief", "completion topic", "completion project"}
    reading |= {f"tool {name}" for name in ("recall", "recent", "get_memory", "project_overview")}
    assert reading <= leaked | {"listTenants", "getTenant"}
    assert THEIRS in str(by_request["listTenants"]) and THEIRS in str(by_request["getTenant"])


def is_done(answer: str) -> bool:
    return (
        answer.startswith("2")
        and '"isError":true' not in answer
        and '"error":{"code"' not in answer
    )


def test_keys_and_tokens_of_another_tenant_open_nothing_of_this_one(with_them: World):
    (token,), (key,) = with_them.there["token"], with_them.there["hook"]
    response = with_them.send("POST", "/v1/recall", {"query": QUERY, "tenant": MINE}, token=token)
    assert MARKERS[MINE] not in response.text and MARKERS[THEIRS] in response.text
    for path in ("/v1/memories", "/v1/tenants", "/metrics", f"/v1/tenants/{MINE}/tokens"):
        assert MARKERS[MINE] not in with_them.send("GET", path, token=token).text
        assert with_them.send("GET", path, token=key).status_code == 401
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": QUERY}
    for tenant in (MINE, NOBODYS, ""):
        answer = with_them.send("POST", f"/v1/hooks/claude-code?tenant={tenant}", event, token=key)
        assert answer.status_code == 401
    answer = with_them.send("POST", f"/v1/hooks/claude-code?tenant={THEIRS}", event, token=key)
    assert answer.status_code in (200, 204)


@pytest.mark.parametrize("name", [THEIRS, NOBODYS, "unheard-of", "UPPER", "x" * 300, "a%00b"])
def test_every_name_but_ones_own_is_answered_alike(with_them: World, name: str):
    for method, path, body in (
        ("GET", "/v1/tenants/{}", None),
        ("GET", "/v1/tenants/{}/stats", None),
        ("GET", "/v1/tenants/{}/tokens", None),
        ("POST", "/v1/tenants/{}/tokens", {"scopes": ["read"]}),
        ("DELETE", "/v1/tenants/{}/tokens/" + with_them.there["id"][0], None),
    ):
        answers = [
            with_them.send(method, path.format(named), body).json
            for named in (name, "nobody-at-all")
        ]
        for answer in answers:
            assert (answer.pop("status"), answer.pop("code")) == (404, "not_found")
            assert answer.pop("detail").startswith("no tenant '")
            del answer["instance"]
        assert answers[0] == answers[1]


def test_a_cursor_of_another_tenant_is_no_place_in_this_one(with_them: World):
    for cursor in with_them.there["cursor"]:
        for path in ("memories", "receipts"):
            answer = with_them.send("GET", f"/v1/{path}?limit=1&cursor={cursor}")
            assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor")


def test_an_entity_tag_of_another_tenant_says_nothing_of_this_one(with_them: World):
    def tag(id_: str, tenant: str) -> str:
        options = {"token": OWNERS, "X_Mnemolog_Tenant": tenant}
        path = f"/v1/memories/{id_}?tenant={tenant}"
        return with_them.send("GET", path, **options).headers["ETag"]

    theirs, path = tag("shared", THEIRS), f"/v1/memories/shared?tenant={MINE}"
    assert theirs != tag("shared", MINE)  # for an id that both have
    mine = with_them.send("GET", path)
    assert with_them.send("GET", path, If_None_Match=theirs).text == mine.text
    # a memory that the walk cannot have written here
    note = {"content": "told to them alone", "id": "theirs-alone", "tenant": THEIRS}
    assert with_them.send("POST", "/v1/memories", note, token=OWNERS).status_code == 201
    for tag_ in (tag("theirs-alone", THEIRS), theirs, "*"):
        unknown = f"/v1/memories/theirs-alone?tenant={MINE}"
        answer = with_them.send("GET", unknown, If_None_Match=tag_)
        assert answer.status_code == 404 and "ETag" not in answer.headers
