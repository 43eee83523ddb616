"""The client for programs covers exactly the fields that the API's operations declare."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import mnemolog
import msgspec
import pytest
from mnemolog import errors, resources, wire
from mnemolog.connection import Answer, TenantConnection, _query_pairs

from serve.api.blueprint import OPERATIONS
from serve.api.operation import Operation
from serve.reader import memory_json
from serve.recall.request import RecallRequest
from serve.server.problems import TITLES
from store.home import tokens
from store.home.config import load
from store.ingest import queue_file
from store.log import event_kinds
from store.log.commands import Draft
from store.plans import proposals
from store.text.mentions import EntityKind

FOLDER = Path(mnemolog.__file__).parent
# operations without a call of their own, with the reason; a new operation needs either
LEFT_OUT = {
    "getOpenApi": "for tools that read the document",
    "listLessons": "the dashboard's and the command line's",
    "getDigest": "the dashboard's and the command line's",
    "searchMemories": "a recall by another address",
    "listFacts": "asked with `client.ask`",
    "listConflicts": "asked with `client.ask`",
    "listGoals": "asked with `client.ask`",
    "getNeighbourhood": "asked with `client.ask`",
    "listEntities": "asked with `client.ask`",
    "getReadiness": "for what watches over servers",
    "getMetrics": "for what watches over servers",
}
ANY = "a/b c"  # for path parameters


class Heard:
    """A connection that records requests and answers none."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any, Any, Any, bool]] = []

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Any = None,
        body: Any = None,
        headers: Any = None,
        is_safe: bool = False,
    ) -> Answer:
        self.asked.append((method, path, query, body, headers, is_safe))
        raise Stop

    def lines(self, path: str, query: Any = None) -> Iterator[bytes]:
        self.asked.append(("GET", path, query, None, None, True))
        raise Stop


class Stop(Exception):
    """Ends a call after its request is recorded; the answer does not matter."""


FIELDS: dict[str, Any] = {
    name: {"tags": ["deploy"], "source_ids": ["x"], "metadata": {"a": 1}}.get(name, name)
    for name in wire.Fields.__annotations__
} | {
    "kind": "fact",
    "trust": "user",
    "tier": "auto",
    "status": "open",
    "importance": 0.5,
    "score": 0.5,
    "progress": 0.5,
    "pinned": True,
    "ttl_s": 60,
    "created_at": "2026-11-20T13:00:00Z",
    "key": "deploy.region",
}
CHANGES = {
    name: (FIELDS | {"content": "Words", "reason": "because"})[name]
    for name in wire.Changes.__annotations__
}
QUESTION: dict[str, Any] = {name: ["words"] for name in wire.Question.__annotations__} | {
    "project": "acme/web",
    "top_k": 3,
    "mode": "lexical",
    "profile": "wal",
    "kinds": ["fact"],
    "tiers": ["auto"],
    "trusts": ["user"],
    "tags": ["deploy"],
    "since": "2026-11-20T13:00:00Z",
    "until": "2026-11-21T13:00:00Z",
    "active_only": False,
    "cold": True,
    "as_of": 12,
    "known_at": 12,
    "min_confidence": 0.5,
    "min_score": 0.5,
    "explain": True,
    "touch": False,
    "for_agents": True,
}
FILTERS: dict[str, Any] = {name: ["words"] for name in wire.Filters.__annotations__} | {
    "project": "acme/web",
    "kind": ["fact", "lesson"],
    "tier": ["auto"],
    "trust": ["user"],
    "tag": ["deploy"],
    "state": "any",
    "pinned": True,
    "for_agents": True,
    "key": "deploy.region",
    "text": "words",
    "known_at": datetime(2026, 11, 20, tzinfo=UTC),
    "since": datetime(2026, 11, 20, tzinfo=UTC),
    "until": datetime(2026, 11, 21, tzinfo=UTC),
    "sort": "-importance",
}
NEWEST = "2026-11-20T13:08:56Z"
WHY = {"reason": "because"}

# every call, by its operation
CALLS: dict[str, tuple[Callable[[mnemolog.Client], Any], Any]] = {
    "recall": (lambda client: client.recall("deploys", **QUESTION), wire.Recalled),
    "rate": (lambda client: client.rate("b", 1.0, reason="because"), wire.Rated),
    "createMemory": (lambda client: client.record("Words", **FIELDS), wire.Acknowledged),
    "createMemories": (
        lambda client: client.record_batch([{"content": "Words", **FIELDS}]),
        wire.AllAcknowledged,
    ),
    "getMemory": (lambda client: client.memories.get(ANY, known_at="7d"), resources.WholeMemory),
    "reviseMemory": (
        lambda client: client.memories.patch(ANY, etag='"1"', **CHANGES),
        resources.WholeMemory,
    ),
    "forgetMemory": (lambda client: client.memories.forget(ANY, etag='"1"', **WHY), None),
    "restoreMemory": (lambda client: client.memories.restore(ANY, **WHY), resources.WholeMemory),
    "archiveMemory": (lambda client: client.memories.archive(ANY, **WHY), resources.WholeMemory),
    "supersedeMemory": (
        lambda client: client.memories.supersede(ANY, "b", **WHY),
        resources.WholeMemory,
    ),
    "linkMemory": (lambda client: client.memories.link(ANY, "b", "cause"), wire.DrawnEdge),
    "getHistory": (lambda client: client.memories.history(ANY), wire.HistoryOfMemory),
    "getLineage": (lambda client: client.memories.lineage(ANY), wire.Lineage),
    "getKeyHistory": (
        lambda client: client.memories.history_of_key(ANY, project="acme/web"),
        wire.HistoryOfKey,
    ),
    "getOverview": (
        lambda client: client.overview("deploys", project="acme/web", known_at=12),
        dict[str, Any],
    ),
    "listProposals": (
        lambda client: client.proposals.list(
            state="stale", category="plan", project="a/b", limit=3
        ),
        wire.Proposals,
    ),
    "getProposal": (lambda client: client.proposals.get(ANY), wire.Proposal),
    "acceptProposal": (lambda client: client.proposals.accept(ANY), wire.Proposal),
    "rejectProposal": (lambda client: client.proposals.reject(ANY, **WHY), wire.Proposal),
    "undoProposal": (lambda client: client.proposals.undo(ANY), wire.Proposal),
    "listMemories": (lambda client: client.memories.list(**FILTERS), wire.Memories),
    "ingest": (
        lambda client: client.ingest(
            [{"content": "Words"}],
            turns=[{"role": "user", "content": "Words", "at": QUESTION["since"], "speaker": "A"}],
            project="acme/web",
            session="s",
            agent="a",
        ),
        wire.JobInShort,
    ),
    "listJobs": (lambda client: client.jobs.list(state="dead"), wire.Jobs),
    "getJob": (lambda client: client.jobs.get(ANY), wire.WholeJob),
    "requeueJob": (lambda client: client.jobs.requeue(ANY), wire.JobInShort),
    "listReceipts": (
        lambda client: client.receipts.list(
            project="acme/web",
            since=datetime(2026, 11, 20, tzinfo=UTC),
            until=datetime(2026, 11, 21, tzinfo=UTC),
            session="s",
            memory="m",
            silent=True,
        ),
        wire.Receipts,
    ),
    "getReceipt": (lambda client: client.receipts.get(ANY), wire.Receipt),
    "exportMemories": (lambda client: client.export(project="acme/web", all_states=True), None),
    "listTenants": (lambda client: client.tenants.list(), wire.Tenants),
    "createTenant": (lambda client: client.tenants.create("acme"), wire.ShownTenant),
    "getTenant": (lambda client: client.tenants.get("acme"), wire.ShownTenant),
    "getTenantStats": (lambda client: client.tenants.stats("acme"), wire.TenantStats),
    "deleteTenant": (lambda client: client.tenants.delete("acme"), wire.Deleted),
    "listTokens": (lambda client: client.tenants.tokens("acme"), wire.Tokens),
    "createToken": (
        lambda client: client.tenants.create_token(
            "acme", ("read",), label="ci", ttl_s=60, per_minute=60
        ),
        wire.NewToken,
    ),
    "revokeToken": (lambda client: client.tenants.revoke_token("acme", "t"), wire.ShownToken),
    "getHealth": (lambda client: client.health(), wire.Health),
}
DECLARED = {operation.id: operation for operation in OPERATIONS}


def asked_by(call: Callable[[mnemolog.Client], Any]) -> tuple[str, str, Any, Any, Any, bool]:
    client, recorder = mnemolog.Client("http://127.0.0.1:1", "token"), Heard()
    client._asking = TenantConnection(recorder, "acme")
    with pytest.raises(Stop):
        result = call(client)
        next(result)
    [request] = recorder.asked
    return request


def test_every_operation_has_its_call_or_a_reason_to_have_none():
    assert set(DECLARED) == set(CALLS) | set(LEFT_OUT)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_asks_what_its_operation_declares(name: str):
    declared, (call, _) = DECLARED[name], CALLS[name]
    method, path, query, body, headers, is_safe = asked_by(call)
    assert method == declared.method
    assert re.fullmatch(re.sub(r"{\w+}", "[^/ ]+", declared.path), path)
    assert decoded_query(declared, query or {}) is not None
    assert body is None or msgspec.convert(
        msgspec.json.decode(msgspec.json.encode(body)), declared.body
    )
    assert (body is None) == (declared.body is None)
    assert set(headers or {}) <= set(declared.headers)
    assert is_safe or method in ("GET", "PATCH") or "Idempotency-Key" not in declared.headers


def decoded_query(declared: Operation, query: dict[str, Any]) -> Any:
    """Return the parameters as the server reads them, repeatable ones as lists."""
    schema = msgspec.json.schema_components([declared.query])[1][declared.query.__name__]
    sent: dict[str, Any] = {}
    for name, value in [pair for key, part in query.items() for pair in _query_pairs(key, part)]:
        is_list = schema["properties"][name].get("type") == "array"
        sent[name] = [*sent.get(name, ()), value] if is_list else value
    return msgspec.convert(sent, declared.query, strict=False)


@pytest.mark.parametrize("name", [name for name, (_, shape) in CALLS.items() if shape])
def test_a_call_reads_what_its_operation_answers(name: str):
    declared: Operation = DECLARED[name]
    for sent in filter(None, declared.answers.values()):
        assert missing(CALLS[name][1], sent) == []


def missing(read: Any, sent: Any, where: str = "") -> list[str]:
    """Return the fields that only one of two shapes has, including nested ones.

    A shape that is read as a dict accepts every field; `etag` is a header and not compared.
    """
    if any(get_origin(part) is dict for part in parts_of(read)):
        return []
    reads, sends = structs_of(read), structs_of(sent)
    if len(reads) != 1 or len(sends) != 1:
        return [] if len(reads) == len(sends) else [where]
    ours, theirs = names_of(reads[0]), names_of(sends[0])
    ours.pop("etag", None)
    differing = [f"{where}.{name}" for name in ours.keys() ^ theirs.keys()]
    for name in ours.keys() & theirs.keys():
        differing += missing(ours[name], theirs[name], f"{where}.{name}")
    return differing


def parts_of(shape: Any) -> Iterator[Any]:
    yield shape
    for arg in get_args(shape):
        yield from parts_of(arg)


def structs_of(shape: Any) -> list[Any]:
    return [
        part
        for part in parts_of(shape)
        if isinstance(part, type) and issubclass(part, msgspec.Struct)
    ]


def names_of(struct: Any) -> dict[str, Any]:
    hints = get_type_hints(struct)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(struct)}


def test_a_field_that_only_one_side_has_is_found():
    class Sent(msgspec.Struct):
        edges: tuple[wire.DrawnEdge, ...]
        more: int

    class Read(msgspec.Struct):
        edges: tuple[wire.Edge, ...]

    assert sorted(missing(Read, Sent)) == [".edges.new", ".edges.seq", ".more"]


def test_what_a_memory_may_have_is_what_a_draft_may_have():
    names = set(wire.Draft.__annotations__)
    assert names == set(Draft.__struct_fields__) - {"made", "author"}  # set by jobs and endpoints


def test_what_a_question_may_have_is_what_a_recall_takes():
    assert set(wire.Question.__annotations__) == set(RecallRequest.__struct_fields__) - {
        "query",
        "tenant",
    }
    assert set(QUESTION) == set(wire.Question.__annotations__)


def test_what_may_be_changed_is_what_a_patch_takes():
    body = DECLARED["reviseMemory"].body
    assert set(wire.Changes.__annotations__) == set(body.__struct_fields__) - {"tenant"}


def test_what_may_be_filtered_is_what_the_lists_take():
    paged = {"tenant", "limit", "cursor"}
    for name, filters in (("listMemories", wire.Filters), ("listReceipts", wire.ReceiptFilters)):
        assert set(filters.__annotations__) | paged == set(DECLARED[name].query.__struct_fields__)


def test_the_words_a_field_may_hold_are_the_logs():
    assert get_args(wire.Kind) == event_kinds.MEMORY_KINDS
    assert get_args(wire.RecordedKind) == event_kinds.RECORDED_KINDS
    for name in ("Tier", "Trust", "Relation", "GoalStatus"):
        assert get_args(getattr(wire, name)) == get_args(getattr(event_kinds, name))


WORDS = {
    "OneKind": event_kinds.MemoryKind,
    "OneTier": event_kinds.Tier,
    "OneTrust": event_kinds.Trust,
    "OneRelation": event_kinds.Relation,
    "OneStatus": event_kinds.GoalStatus,
    "OneScope": tokens.Scope,
    "OneCategory": proposals.Sort,
    "OneProposalState": proposals.State,
    "OneJobState": queue_file.State,
    "TokenState": tokens.State,
    "Role": memory_json.Role,
    "EntityKind": EntityKind,
    "Effort": event_kinds.Effort,
    "Judge": event_kinds.Judge,
    "Maker": event_kinds.Maker,
}


@pytest.mark.parametrize("name", WORDS)
def test_the_words_of_an_answer_are_the_servers(name: str):
    declared = msgspec.json.schema(getattr(wire, name))
    assert declared["enum"] == sorted(get_args(WORDS[name]))


def test_a_client_takes_a_word_that_a_later_server_adds():
    sent = {"id": "a", "text": "Words", "kind": "haiku", "project": None, "at": NEWEST}
    memory = msgspec.convert(sent, wire.ShownMemory)
    assert (memory.kind, memory.at) == ("haiku", datetime(2026, 11, 20, 13, 8, 56, tzinfo=UTC))


def test_every_code_is_an_error_of_its_own_sort():
    sorts = {code: errors.refusal(int(status)) for code, (status, _) in TITLES.items()}
    assert sorts["not_found"] is mnemolog.NotFound
    assert sorts["invalid_cursor"] is sorts["junk_text"] is mnemolog.Invalid
    assert sorts["id_conflict"] is sorts["idempotency_mismatch"] is mnemolog.Conflict
    assert sorts["changed_since"] is mnemolog.Changed
    assert sorts["too_many_requests"] is mnemolog.RateLimited
    assert sorts["log_busy"] is sorts["overloaded"] is mnemolog.Unavailable
    assert sorts["out_of_scope"] is mnemolog.Forbidden
    assert sorts["no_token"] is mnemolog.Unauthorized
    assert sorts["internal"] is sorts["log_full"] is mnemolog.Failed


def test_all_errors_are_exported():
    results = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, mnemolog.Error)
    }
    assert results | {"AsyncClient", "Client", "Draft"} == set(mnemolog.__all__)


@pytest.mark.parametrize("name", ["", "memories", "jobs", "receipts", "tenants", "proposals"])
def test_the_async_client_has_the_same_methods(name: str):
    client = mnemolog.Client("http://127.0.0.1:1", "token")
    awaited = mnemolog.AsyncClient("http://127.0.0.1:1", "token")
    ours, theirs = (getattr(client_, name) if name else client_ for client_ in (client, awaited))
    calls = {name for name in dir(ours) if not name.startswith("_")} - {"close"}
    assert calls == {name for name in dir(theirs) if not name.startswith("_")} - {"aclose"}


def test_it_imports_nothing_of_ours_and_nothing_heavy():
    tops = {
        name.partition(".")[0]
        for file in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert tops <= sys.stdlib_module_names | {"mnemolog", "msgspec"}


@pytest.mark.parametrize(
    "environ",
    [{}, {"MNEMOLOG_HOME": "/srv/m"}, {"XDG_DATA_HOME": "/srv/d"}, {"XDG_DATA_HOME": "relative"}],
)
def test_it_finds_the_home_that_the_settings_find(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    from mnemolog.connection import default_home

    monkeypatch.delenv("MNEMOLOG_HOME")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert default_home(environ) == load(environ=environ).home
