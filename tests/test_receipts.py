"""Receipts are found page by page, warm or archived, and each records how its recall ended."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient
from plain_receipt import plain_receipt

from serve import version
from serve.app import create_app
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.analysis import Question
from serve.recall.recall import recall
from serve.recall.request import RecallRequest, answer, code, digest, receipt_hits
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Match, Profiles, Settings, Wal
from store.home.errors import NotFound
from store.home.tenant import Tenant
from store.log import commands, compaction, erasing, receipts
from store.log.commands import Draft
from store.log.event_kinds import Hit, Judged, Outcome, Prompted, Rated, Recalled, Undone
from store.log.event_log import EventLog
from store.log.events import Event, encode
from store.log.receipts import Wanted, page

NOW = 1_790_000_000_000_000
SECOND = 1_000_000
DAY = 86_400 * SECOND
OURS = {"Host": "127.0.0.1", "Authorization": "Bearer owner"}


def receipt(number: int, *hits: str, at: int | None = None, **envelope: Any) -> Event:
    ranked = tuple(Hit(id_, 1.0 - rank / 10, 0.9) for rank, id_ in enumerate(hits))
    body = plain_receipt(query=f"question {number}", hits=ranked, dropped={"bar": 2}, took_us=1_500)
    id_ = f"r{number:03}"
    return Event(id_, NOW + number * SECOND if at is None else at, body, id_, **envelope)


@pytest.fixture
def recalls(log: EventLog) -> EventLog:
    """Twenty recalls: every fifth was silent, every fourth returned `a` second."""
    commands.record_batch(log, [Draft(id=id_, content=f"memory {id_}") for id_ in "ab"], NOW)
    log.append(
        [
            receipt(
                number,
                *() if number % 5 == 0 else ("b", "a") if number % 4 == 0 else ("b",),
                project="acme/web" if number % 2 else None,
                session=f"s{number % 3}",
            )
            for number in range(20)
        ]
    )
    return log


def receipt_numbers(log: EventLog, limit: int = 100, most: int = 8_000, **wanted: Any) -> list[int]:
    """Return the numbers of all matching receipts, read in pages of `limit`."""
    place, numbers = None, []
    while True:
        page_ = page(log, Wanted(**wanted), limit, place, most)
        assert len(page_.receipts) <= limit
        numbers += [int(event.id[1:]) for event in page_.receipts]
        if page_.last is None:
            return numbers
        place = page_.last


FILTERS: dict[str, tuple[dict[str, Any], Any]] = {
    "all": ({}, lambda number: True),
    "since": ({"since": NOW + 5 * SECOND}, lambda number: number >= 5),
    "until": ({"until": NOW + 5 * SECOND}, lambda number: number < 5),
    "project": ({"project": "acme/web"}, lambda number: number % 2),
    "session": ({"session": "s1"}, lambda number: number % 3 == 1),
    "memory": ({"memories": ("a",)}, lambda number: number % 4 == 0 and number % 5),
    "either": ({"memories": ("a", "nobody")}, lambda number: number % 4 == 0 and number % 5),
    "silent": ({"silent": True}, lambda number: number % 5 == 0),
    "spoken": ({"silent": False}, lambda number: number % 5),
    "several": (
        {"silent": False, "session": "s0", "project": "acme/web"},
        lambda number: number % 5 and number % 3 == 0 and number % 2,
    ),
}


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("name", FILTERS)
def test_pages_have_the_receipts_that_pass_newest_first(recalls: EventLog, name: str, limit: int):
    wanted, passes = FILTERS[name]
    assert receipt_numbers(recalls, limit, **wanted) == [
        number for number in range(19, -1, -1) if passes(number)
    ]


@pytest.mark.parametrize("name", FILTERS)
def test_archived_receipts_are_found_too(
    recalls: EventLog, name: str, monkeypatch: pytest.MonkeyPatch
):
    wanted, passes = FILTERS[name]
    monkeypatch.setattr(compaction, "LEAST", 1)
    compaction.compact(recalls, recalls.head(), NOW + 400 * DAY)
    assert recalls.segments()
    recalls.append([receipt(20, "b", "a", session="s0", project="acme/web")])
    numbers = [number for number in range(19, -1, -1) if passes(number)]
    assert [number for number in receipt_numbers(recalls, 2, **wanted) if number < 20] == numbers


def test_a_page_reads_a_bounded_number_and_returns_where_to_continue(
    recalls: EventLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receipts, "_STEP", 4)
    first = page(recalls, Wanted(silent=True), 10, most=8)
    assert [event.id for event in first.receipts] == ["r015"]
    assert (first.looked_at, first.last is not None) == (8, True)
    assert receipt_numbers(recalls, 10, most=8, silent=True) == [15, 10, 5, 0]
    assert receipt_numbers(recalls, 1, most=8, memories=("a",)) == [16, 12, 8, 4]


def test_receipts_of_the_same_time_are_listed_exactly_once(log: EventLog):
    log.append([receipt(number, at=NOW) for number in range(7)])
    assert receipt_numbers(log, 2) == [6, 5, 4, 3, 2, 1, 0]


def test_new_receipts_do_not_shift_pages(recalls: EventLog):
    first = page(recalls, Wanted(), 5)
    recalls.append([receipt(30, "b")])
    second = page(recalls, Wanted(), 5, first.last)
    assert [event.id for event in second.receipts] == ["r014", "r013", "r012", "r011", "r010"]


def test_query_text_is_not_mistaken_for_hits(log: EventLog):
    event = receipt(1)
    body = event.body
    assert isinstance(body, Recalled)
    quoted = msgspec.structs.replace(body, query='"id":"a","score" and "hits":[]')
    log.append([Event("q1", NOW, quoted, "q1")])
    assert page(log, Wanted(memories=("a",)), 5).receipts == ()


def test_only_a_recall_is_found_as_a_receipt(recalls: EventLog):
    assert receipts.find(recalls, "r003").id == "r003"
    for id_ in ("a", "nobody"):
        with pytest.raises(NotFound):
            receipts.find(recalls, id_)


@pytest.fixture
def client(recalls: EventLog) -> Iterator[FlaskClient]:
    opened = OpenTenants(Settings(recalls.path.parent.parent.parent))
    yield create_app(opened, "owner", lambda: NOW + DAY, hook_deadline_s=30.0).test_client()
    opened.close()


def get_json(client: FlaskClient, path: str) -> Any:
    return client.get(f"/v1/receipts{path}", headers=OURS)


def test_over_http_pages_follow_their_cursor(client: FlaskClient):
    first = get_json(client, "?limit=3&memory=a").json
    assert [receipt["id"] for receipt in first["receipts"]] == ["r016", "r012", "r008"]
    assert first["receipts"][0]["as_hit"] == {"rank": 2, "score": 0.9, "confidence": 0.9}
    second = get_json(client, f"?limit=3&memory=a&cursor={first['next']}").json
    assert ([receipt["id"] for receipt in second["receipts"]], second["next"]) == (["r004"], None)


@pytest.mark.parametrize("query", ["memory=b&cursor={}", "cursor=bm8", "cursor=%ff", "cursor="])
def test_a_cursor_of_another_list_is_refused(client: FlaskClient, query: str):
    cursor = get_json(client, "?limit=1&memory=a").json["next"]
    answer = get_json(client, "?" + query.format(cursor))
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor")


def test_over_http_an_answer_just_given_has_its_receipt(client: FlaskClient):
    body = {"query": "memory a"}
    recall = client.post("/v1/recall", json=body, headers=OURS).json["recall"]
    assert get_json(client, "?limit=1").json["receipts"][0]["id"] == recall
    assert get_json(client, f"/{recall}").json["query"] == "memory a"


def test_a_receipt_shows_its_ratings_and_the_outcome_of_its_turn(
    recalls: EventLog, client: FlaskClient
):
    log, later = recalls, NOW + 16 * SECOND
    commands.rate(log, "r016", 1.0, later + 1, "it was that")
    commands.rate(log, "a", -1.0, later + 2)
    log.append([Event("w1", later, Rated(verdict=1.0), "b", trust="web")])
    commands.rate(log, "b", 1.0, later + 2 * DAY)
    log.append(
        [Event("j1", later + 3, Judged(verdicts={"a": 0.5}, evidence={"a": "used"}), "r016")]
    )
    log.append([Event("j2", later + 4, Judged(verdicts={"a": -0.5}), "r016")])
    log.append([Event("u1", later + 5, Undone(events=("j2",)), "p1")])
    log.append(
        [
            Event(
                "o1",
                later + 6,
                Outcome(effort="test", passed=True, before=False),
                "o1",
                session="s1",
            ),
            Event("p2", later + 7, Prompted(prompt="next"), "p2", session="s1"),
            Event("o2", later + 8, Outcome(effort="test", passed=False), "o2", session="s1"),
        ]
    )
    commands.forget(log, "b", later + 9)
    payload = get_json(client, "/r016").json
    assert [
        (rating["of"], rating["verdict"], rating["reason"]) for rating in payload["ratings"]
    ] == [
        ("r016", 1.0, "it was that"),
        ("a", -1.0, None),
    ]
    assert payload["judged"]["verdicts"] == [{"id": "a", "verdict": 0.5, "evidence": "used"}]
    assert [
        (outcome["effort"], outcome["passed"], outcome["before"]) for outcome in payload["outcomes"]
    ] == [("test", True, False)]
    assert [(hit["id"], hit["memory"]["text"]) for hit in payload["hits"]] == [
        ("b", ""),
        ("a", "memory a"),
    ]
    assert payload["dropped"] == {"bar": 2} and payload["took_ms"] == 1.5


SECRET = "gh" + "p_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize("way", ["recall", "search", "mcp", "hook"])
def test_secrets_in_a_query_are_in_no_receipt(home: Path, log: EventLog, way: str):
    query = f"why does {SECRET} fail on the deploy host"
    payload = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": query}
    params = {"name": "recall", "arguments": {"query": query}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    path, body = {
        "recall": ("/v1/recall", {"query": query}),
        "search": ("/v1/memories/search", {"query": query}),
        "mcp": ("/mcp", call),
        "hook": ("/v1/hooks/claude-code", payload),
    }[way]
    commands.record(log, Draft(content="the deploy host fails at noon"), NOW)
    opened = OpenTenants(Settings(home))
    try:
        client = create_app(opened, "owner", lambda: NOW, hook_deadline_s=30.0).test_client()
        answer = client.post(path, json=body, headers=OURS | {"MCP-Protocol-Version": "2025-06-18"})
        assert answer.status_code in (200, 204), answer.text
        opened.get("default").notes.write()
        bodies = [
            encode(event.body)
            for event in log.read()
            if isinstance(event.body, Recalled | Prompted)
        ]
        assert bodies and not any(SECRET in body for body in bodies)
        assert "[redacted:github-token:" in bodies[0]
        for page_ in ("/v1/receipts", "/v1/receipts?limit=1"):
            assert SECRET not in client.get(page_, headers=OURS).text
    finally:
        opened.close()


# The basis of an answer: enough to repeat the recall


EMBEDDER = LexicalEmbedder()
CHOICES = Choices()


def ask(
    tenant: Tenant, log: EventLog, request: RecallRequest, choices: Choices = CHOICES
) -> Recalled:
    reader = Reader(tenant, log, EMBEDDER)
    _, receipt_ = answer(reader, request, choices, NOW + DAY)
    assert receipt_ is not None
    log.append([receipt_])
    (event,) = log.events_for(receipt_.id)
    assert isinstance(event.body, Recalled)
    return event.body


def asked_again(tenant: Tenant, log: EventLog, receipt: Recalled) -> str:
    """Return the digest of the answer to a receipt's recall, repeated."""
    basis = receipt.basis
    assert basis is not None
    profile = basis.profile or "balanced"
    profiles = Profiles()
    if basis.weights:
        chosen = type(getattr(profiles, profile))(*basis.weights)
        profiles = msgspec.structs.replace(profiles, **{profile: chosen})
    usual = Choices()
    those = Filter(
        now=NOW + DAY,
        project="" if basis.no_project else None,
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in basis.narrowed.items()
        },
    )
    question = Question(
        receipt.query,
        those,
        basis.top_k or usual.top_k,
        mode=receipt.mode,
        fusion=basis.fusion or usual.fusion,
        profile=profile,
        profiles=profiles,
        min_confidence=basis.min_confidence or 0.0,
        min_score=basis.min_score or 0.0,
    )
    reader = Reader(tenant, log, EMBEDDER)
    hits = reader.answer(lambda view: recall(view, question)).hits
    return digest(msgspec.json.encode(receipt_hits(hits)))


@pytest.mark.parametrize(
    ("asked", "choices"),
    [
        ({}, {}),
        ({"top_k": 1}, {"profile": "wal"}),
        ({"tags": ("api",), "min_score": 0.1}, {"fusion": "rrf"}),
        ({"kinds": ("decision",), "active_only": False}, {"min_confidence": 0.2}),
        ({"project": ""}, {"profile": "match", "profiles": Profiles(match=Match(recency=0.9))}),
        ({"trusts": ("user",), "sessions": ("s1",)}, {}),
        ({"profile": "wal", "cold": True}, {"top_k": 2, "profiles": Profiles(wal=Wal(0.9))}),
        ({"until": datetime.fromtimestamp((NOW + 3 * SECOND) / 1e6, UTC)}, {}),
    ],
)
def test_a_receipt_has_every_setting_that_decided_its_answer(
    tenant: Tenant, log: EventLog, asked: dict[str, Any], choices: dict[str, Any]
):
    for number, kind in enumerate(("decision", "fact", "lesson", "decision", "fact", "bugfix")):
        draft = Draft(
            content=f"the API limits callers to {number}00 requests a minute",
            kind=kind,
            tags=("api",) if number % 2 else (),
            session="s1" if number % 3 else None,
            project="acme/web" if number == 4 else None,
        )
        commands.record(log, draft, NOW + number * SECOND)
    request = RecallRequest(query="how many requests may callers of the API send?", **asked)
    receipt = ask(tenant, log, request, Choices(**choices))
    assert asked_again(tenant, log, receipt) == receipt.digest
    if asked:
        plain = ask(tenant, log, RecallRequest(query=request.query))
        assert receipt.digest != plain.digest


def test_a_receipt_under_default_settings_has_a_short_basis(tenant: Tenant, recalls: EventLog):
    receipt = ask(tenant, recalls, RecallRequest(query="memory a"))
    basis = {"version": version(), "embedder": EMBEDDER.model, "code": code(), "moment": NOW}
    assert receipt.basis and msgspec.to_builtins(receipt.basis) == basis


def test_a_long_query_is_marked_as_cut(tenant: Tenant, recalls: EventLog):
    receipt = ask(tenant, recalls, RecallRequest(query="memory a " * 300))
    assert receipt.basis and receipt.basis.cut and len(receipt.query) == 2_000


def test_an_erased_query_takes_its_tags_and_digest_along(tenant: Tenant, recalls: EventLog):
    ask(tenant, recalls, RecallRequest(query="what is written in memory b", tags=("secret-plan",)))
    (event,) = page(recalls, Wanted(), 1).receipts
    body = erasing.strip_texts(event.body)
    assert body == msgspec.structs.replace(event.body, query="", basis=None, digest=None)
