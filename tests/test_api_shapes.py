"""Every answer has the shape that the API's document declares, for memories of every kind."""

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from api_client import TOKEN, Api
from conftest import NOW, Built
from lookalikes import CORRECTIONS
from shapes import undeclared
from werkzeug.test import TestResponse

from serve.api import memories, memory_lists, recall
from serve.api.operation import Operation
from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.home.instants import moment
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    Applied,
    Made,
    Planned,
    Prompted,
    Recorded,
    Revised,
    SessionTold,
    Staled,
)
from store.log.events import Event

LATER = NOW + 100_000_000
SEARCHES = [
    {"query": query, "min_confidence": 0, "explain": True, "top_k": 50}
    for query in ("cluster of billing", "what is the port", "where do we deploy to")
]
OPERATIONS = (
    *memories.OPERATIONS,
    *memories.CHANGE_OPERATIONS,
    *memory_lists.OPERATIONS,
    *recall.OPERATIONS,
    *memory_lists.EXPORT_OPERATIONS,
)


def job_made(id_: str, sources: tuple[str, ...], **fields: Any) -> Event:
    """Return the memory that a job made of some memories, as the job's plan would write it."""
    made = Made("reflect", "a-model", "0" * 64, 1_234, 0.002)
    body = Recorded(source_ids=sources, made=made, **fields)
    return Event(id_, NOW, body, id_, trust="agent")


@pytest.fixture
def rich(built: Built) -> Built:
    """Memories of every kind: some built, some only in the tail."""
    log = built.log
    region = "The {} cluster of billing runs in eu-central-1 and is resized by the platform team"
    said = {"context": "a deploy", "action": "asked twice", "result": "it held"}
    drafts = [
        Draft(id="d1", content=region.format("staging"), tags=("infra",)),
        Draft(id="d2", content=region.format("staging")),
        Draft(id="e1", content=CORRECTIONS[0][0], created_at=moment(NOW - 1_000_000)),
        Draft(id="e2", content=CORRECTIONS[0][1]),
        Draft(id="x1", content="The badge is red until noon", ttl_s=1),
        Draft(
            id="w1",
            content="Deploys need two approvals since the outage of March",
            kind="lesson",
            project="acme/web",
            session="s-1",
            agent="claude",
            source="cli",
            created_by="Anna",
            importance=0.9,
            score=0.7,
            parent_id="m01",
            insight_type="habit",
            chain="queue",
            status="open",
            progress=0.5,
            metadata={"pr": [12, {"by": "eva"}]},
            **said,
        ),
        Draft(id="k3", key="deploy.region", value="ap", content="We deploy to ap-south-1"),
    ]
    commands.record_batch(log, drafts, NOW)
    log.append(
        [
            job_made("i1", ("m04", "m15"), content="Tests and races go together", kind="insight"),
            job_made("i2", ("m01", "nobody"), content="One file is backed up", kind="insight"),
            job_made("i3", ("m02", "m03"), content="Git and pytest have options", kind="insight"),
            Event("plan1", NOW, Planned(job="reflect", watermark=1, steps=()), "plan1"),
            Event("done1", NOW, Applied(events=("i1",)), "plan1"),
            Event("stale1", NOW, Staled(reason="it was wrong"), "i3"),
            Event("ep1", NOW, Prompted(prompt="resize the staging cluster"), "ep1", session="s-1"),
            Event("ss1", NOW, SessionTold(stage="stopped", said="Done."), "ss1", session="s-1"),
        ]
    )
    built.rebuild()
    commands.supersede(log, "m03", "w1", NOW, "newer")
    commands.forget(log, "m01", NOW, "wrong")  # memories made of it fall with it
    commands.link(log, "w1", "m04", "derived", NOW)
    commands.revise(log, "w1", Revised(importance=0.8, reason="measured"), NOW)
    commands.rate(log, "w1", 1.0, NOW, "helped")
    return built


@pytest.fixture
def api(rich: Built) -> Iterator[Api]:
    opened = OpenTenants(Settings(rich.tenant.root.parents[1]))
    yield Api(create_app(opened, TOKEN, lambda: LATER).test_client())
    opened.close()


def operation(method: str, path: str) -> Operation:
    """Return the operation that answers a request."""
    bare = path.partition("?")[0]
    operations = [
        operation
        for operation in OPERATIONS
        if operation.method == method
        and re.fullmatch(re.sub(r"{\w+}", "[^/]+", operation.path), bare)
    ]
    return min(operations, key=lambda one: one.path.count("{"))


def checked(method: str, path: str, answer: TestResponse) -> tuple[str, int]:
    """Return the operation and status of an answer, after checking its shape."""
    of = operation(method, path)
    assert answer.status_code in of.answers, answer.text
    shape = of.answers[HTTPStatus(answer.status_code)]
    if shape is None:
        assert (answer.data, answer.content_type) == (b"", None)
    else:
        assert answer.mimetype == of.sends
        lines = answer.data.splitlines() if of.sends != "application/json" else [answer.data]
        for line in lines:
            assert undeclared(msgspec.json.decode(line), shape) == []
    return of.id, answer.status_code


def test_every_answer_is_of_its_declared_shape(api: Api, rich: Built):
    note = {"content": "the deploy runs at noon"}
    recalled = api.ok("POST", "/v1/recall", {"query": "billing"})["recall"]
    ids = [event.subject for event in rich.log.read() if event.kind in ("recorded", "prompted")]
    asked: list[tuple[str, str, object]] = [
        *(("GET", f"/v1/memories/{id_}", None) for id_ in ids),
        *(("GET", f"/v1/memories/{id_}/history", None) for id_ in ids),
        *(("GET", f"/v1/memories/{id_}/lineage", None) for id_ in ("i1", "i2", "m04", "w1")),
        ("GET", "/v1/keys/deploy.region/history", None),
        ("GET", "/v1/memories?state=any&limit=200", None),
        ("GET", "/v1/memories?limit=2", None),
        ("GET", "/v1/memories?state=expired", None),
        *(("POST", "/v1/recall", body) for body in SEARCHES),
        *(("POST", "/v1/memories/search", body) for body in SEARCHES),
        ("POST", "/v1/recall", SEARCHES[0] | {"active_only": False}),
        ("POST", "/v1/recall", SEARCHES[0] | {"cold": True}),
        ("POST", "/v1/recall", SEARCHES[0] | {"as_of": 40}),
        ("POST", "/v1/recall", SEARCHES[0] | {"known_at": 40}),
        ("GET", "/v1/memories?state=any&known_at=40", None),
        ("POST", "/v1/recall", {"query": "hello"}),
        ("POST", "/v1/recall", {"query": "resize the cluster", "kinds": ["episode"]}),
        ("POST", "/v1/recall", {"query": "insight of tests and races", "kinds": ["insight"]}),
        ("POST", "/v1/rate", {"id": recalled, "verdict": 1}),
        ("GET", "/v1/export?all_states=true", None),
        ("POST", "/v1/memories", {"id": "n1"} | note),
        ("POST", "/v1/memories", {"id": "n1"} | note),
        ("POST", "/v1/memories/batch", {"memories": [note, note | {"id": "n2"}]}),
        ("PATCH", "/v1/memories/n1", {"pinned": True, "tags": ["x"], "metadata": {"n": 10**30}}),
        ("POST", "/v1/memories/n1/archive", {"reason": "old"}),
        ("POST", "/v1/memories/n1/restore", {}),
        ("POST", "/v1/memories/n1/supersede", {"by": "n2"}),
        ("POST", "/v1/memories/n1/links", {"target": "n2", "relation": "cause"}),
        ("DELETE", "/v1/memories/n1", None),
    ]
    met = {checked(one[0], one[1], api.send(*one)) for one in asked}
    tag = api.get("/v1/memories/n2").headers["ETag"]
    known = api.get("/v1/memories/n2", If_None_Match=tag)
    met.add(checked("GET", "/v1/memories/n2", known))
    link = ("POST", "/v1/memories/n2/links", {"target": "w1", "relation": "support"})
    for _ in range(2):
        met.add(checked(*link[:2], api.send(*link, Idempotency_Key="k")))
    declared = {(operation.id, status) for operation in OPERATIONS for status in operation.answers}
    assert met == declared


def test_the_memories_asked_for_are_of_every_sort(api: Api):
    """The memories that the test above looks at have all optional fields."""
    whole = {id_: api.ok("GET", f"/v1/memories/{id_}") for id_ in ("w1", "i1", "i2", "i3", "m04")}
    assert whole["i1"]["made"].keys() == {
        "job",
        "model",
        "prompt_sha256",
        "tokens",
        "cost_usd",
        "plan",
    }
    assert whole["i2"]["state"] == whole["i3"]["state"] == "stale"
    assert whole["i2"]["stale_because"] == ["its source m01 is forgotten"]
    assert whole["i3"]["stale_because"][0] == "it was wrong"
    assert {source["state"] for source in whole["i2"]["sources"]} == {"forgotten", "unknown"}
    assert whole["m04"]["made_of_it"] and len(whole["m04"]["edges"]) == 2
    assert {event["event"] for event in whole["w1"]["history"]} >= {"recorded", "revised", "rated"}
    kinds = {
        duplicate["kind"]
        for id_ in ("d1", "d2", "e1", "e2")
        for duplicate in api.ok("GET", f"/v1/memories/{id_}")["duplicates"]
    }
    assert kinds == {"exact", "update"}
    states = {
        memory.get("state")
        for memory in api.ok("GET", "/v1/memories?state=any&limit=200")["memories"]
    }
    assert states >= {None, "expired", "archived", "superseded", "forgotten", "stale"}
    hits = [hit for body in SEARCHES for hit in api.ok("POST", "/v1/recall", body)["hits"]]
    marks = {name for hit in hits for name in hit}
    assert marks >= {"copies", "conflicts_with", "history"}


def test_the_document_tells_every_answer_by_a_shape_it_has(api: Api):
    document = api.ok("GET", "/v1/openapi.json")
    shapes = set(document["components"]["schemas"])
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named <= shapes
    for operation in OPERATIONS:
        told = document["paths"][operation.path][operation.method.lower()]["responses"]
        assert {str(int(status)) for status in operation.answers} <= told.keys()


def test_the_shape_check_finds_undeclared_fields():
    """The check itself can fail."""

    class Inner(msgspec.Struct):
        a: int

    class Outer(msgspec.Struct):
        many: tuple[Inner, ...]
        one: Inner | None = None

    value = {"many": [{"a": 1}, {"a": 1, "b": 2}], "one": {"a": 1, "c": 3}, "d": 4}
    assert undeclared(value, Outer) == ["$.many[1].b", "$.one.c", "$.d"]
    with pytest.raises(msgspec.ValidationError):
        undeclared({"many": [{}]}, Outer)
