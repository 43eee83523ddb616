"""Batches over HTTP, the worker behind them, readiness and metrics."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from background import until
from conftest import NOW
from flask.testing import FlaskClient
from machines import Laptop
from plain_receipt import plain_receipt
from shapes import undeclared
from test_app import TOKEN, code, get, post

from serve.api import ingest
from serve.app import create_app
from serve.server import ingest_worker as worker
from serve.server import open_tenants
from serve.server.ingest_worker import fact_reader
from serve.server.open_tenants import OpenTenants
from store.home import failures, tokens
from store.home import tenant as tenants_of
from store.home.config import Settings
from store.home.errors import LogBusy
from store.home.tenant import Tenant
from store.ingest import job_queue
from store.ingest.job_queue import Queue
from store.ingest.queue_file import MOST_ATTEMPTS
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import IMPORTANCE_BY_KIND
from store.plans import job_catalog

NOTES = [{"content": f"the tide of pier {number} comes at noon"} for number in range(3)]
Client = FlaskClient


@pytest.fixture
def tenants(home: Path, log: EventLog) -> Iterator[OpenTenants]:
    """Open tenants whose worker is idle: a test calls `ingest.turn`."""
    opened = OpenTenants(Settings(home))
    yield opened
    opened.close()


@pytest.fixture
def client(tenants: OpenTenants) -> Client:
    return create_app(tenants, TOKEN, lambda: NOW).test_client()


def accepted(client: Client, body: object, **headers: str) -> Any:
    answer = post(client, "/v1/ingest", body, **headers)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/v1/jobs/{answer.json['id']}"
    return answer.json


def job(client: Client, id_: str) -> Any:
    return get(client, f"/v1/jobs/{id_}").json


# The routes


def test_a_batch_is_accepted_and_then_recorded(client: Client, tenants: OpenTenants, log: EventLog):
    accepted_job = accepted(client, {"memories": NOTES, "project": "acme/web", "session": "s1"})
    assert (accepted_job["state"], accepted_job["items"], log.head()) == ("queued", 3, 0)
    assert tenants.ingest.turn()
    finished = job(client, accepted_job["id"])
    assert (finished["state"], finished["done"], finished["because"]) == ("done", 3, [])
    assert [event.id for event in log.read()] == finished["ids"]
    assert {(event.project, event.session) for event in log.read()} == {("acme/web", "s1")}
    answer = post(client, "/v1/recall", {"query": "the tide of pier 2"}).json
    assert answer["hits"][0]["id"] in finished["ids"]


def test_turns_become_memories_of_their_speakers(client: Client, tenants: OpenTenants):
    turns = [
        {"role": "user", "content": "where do we deploy?", "at": "2026-03-01T10:00:00Z"},
        {"role": "assistant", "content": "we deploy to eu-west-1", "speaker": "Claude"},
    ]
    accepted_job = accepted(client, {"turns": turns, "session": "s1", "project": "acme/web"})
    assert accepted_job["turns"] == 2
    tenants.ingest.turn()
    first, second = (
        get(client, f"/v1/memories/{id_}").json for id_ in job(client, accepted_job["id"])["ids"]
    )
    assert (first["kind"], first["session"]) == ("raw_turn", "s1")
    assert first["at"] == "2026-03-01T10:00:00Z"
    assert (second["trust"], second["created_by"]) == ("agent", "Claude")


def test_a_batch_of_nothing_is_done_at_once(client: Client, tenants: OpenTenants):
    accepted_job = accepted(client, {})
    tenants.ingest.turn()
    assert (job(client, accepted_job["id"])["state"], accepted_job["items"]) == ("done", 0)


def test_missing_importance_follows_the_kind(client: Client, tenants: OpenTenants):
    drafts = [{"content": "always rebase", "kind": "preference"}, {**NOTES[0], "importance": 0.9}]
    accepted_job = accepted(client, {"memories": drafts})
    tenants.ingest.turn()
    ids = job(client, accepted_job["id"])["ids"]
    importances = [get(client, f"/v1/memories/{id_}").json["importance"] for id_ in ids]
    assert importances == [IMPORTANCE_BY_KIND["preference"], 0.9]


def test_a_retry_under_one_key_is_the_same_job(client: Client, tenants: OpenTenants, log: EventLog):
    key = {"Idempotency-Key": '"k1"'}
    first = accepted(client, {"memories": NOTES}, **key)
    again = post(client, "/v1/ingest", {"memories": NOTES}, **key)
    assert (again.status_code, again.json["id"]) == (202, first["id"])
    assert again.headers["Idempotency-Replayed"] == "true"
    tenants.ingest.turn()
    assert accepted(client, {"memories": NOTES}, **key)["state"] == "done"
    assert not tenants.ingest.turn()
    assert log.head() == 3
    other = post(client, "/v1/ingest", {"memories": NOTES[:1]}, **key)
    assert code(other) == (422, "idempotency_mismatch")


def test_a_retry_after_the_job_was_forgotten_adds_nothing(
    client: Client, tenants: OpenTenants, tenant: Tenant, log: EventLog
):
    key = {"Idempotency-Key": "k1"}
    accepted(client, {"memories": NOTES}, **key)
    tenants.ingest.turn()
    tenants.ingest.queue(tenant).tidy(10**18)
    accepted(client, {"memories": NOTES}, **key)
    assert tenants.ingest.turn()
    assert log.head() == 3


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ([], (400, "invalid_input")),
        ({"memory": NOTES}, (400, "invalid_input")),
        ({"memories": [{"content": "a tide", "project": "../x"}]}, (400, "invalid_name")),
        ({"project": "../x"}, (400, "invalid_name")),
        ({"memories": [{"content": "a tide", "kind": "poem"}]}, (400, "invalid_input")),
        ({"turns": [{"role": "admin", "content": "a tide"}]}, (400, "invalid_input")),
        ({"memories": NOTES, "tenant": "nobody"}, (404, "not_found")),
        ({"memories": [{"content": "x"}] * 10_001}, (400, "invalid_input")),
    ],
)
def test_invalid_batches_are_refused_and_nothing_is_stored(
    client: Client, tenant: Tenant, body: object, refused: tuple[int, str]
):
    assert code(post(client, "/v1/ingest", body)) == refused
    assert not tenant.ingest.exists()


def test_a_full_queue_says_when_to_come_again(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_queue, "MOST_JOBS", 1)
    accepted(client, {"memories": NOTES})
    full = post(client, "/v1/ingest", {"memories": NOTES})
    assert code(full) == (503, "queue_full")
    assert int(full.headers["Retry-After"]) > 0


def test_dead_jobs_are_listed_and_requeued(
    client: Client, tenants: OpenTenants, tenant: Tenant, log: EventLog
):
    id_ = accepted(client, {"memories": NOTES})["id"]
    lively = accepted(client, {"memories": NOTES[:1]})
    bury(tenants.ingest.queue(tenant), id_)
    (dead,) = get(client, "/v1/jobs?state=dead").json["jobs"]
    assert (dead["id"], dead["attempts"], dead["error"]) == (id_, MOST_ATTEMPTS, "held")
    again = post(client, f"/v1/jobs/{id_}/requeue", {})
    assert (again.status_code, again.json["state"]) == (200, "queued")
    assert code(post(client, f"/v1/jobs/{lively['id']}/requeue", {})) == (409, "conflict")
    assert code(post(client, "/v1/jobs/nobody/requeue", {})) == (404, "not_found")
    while tenants.ingest.turn():
        pass
    assert log.head() == 4


def bury(queue: Queue, id_: str) -> None:
    """Let a job, the oldest, fail until it is dead."""
    now = NOW
    while queue.get(id_).state != "dead":
        lease = queue.lease("somebody", now)
        assert lease is not None and lease.job.id == id_
        queue.fail(lease, "held", now, 0.0)
        now += 1_000_000_000


def test_jobs_are_listed_page_by_page_and_new_ones_move_none(client: Client):
    ids = [accepted(client, {"memories": NOTES})["id"] for _ in range(5)]
    first = get(client, "/v1/jobs?limit=2").json
    accepted(client, {"memories": NOTES})
    second = get(client, f"/v1/jobs?limit=2&cursor={first['next']}").json
    third = get(client, f"/v1/jobs?limit=2&cursor={second['next']}").json
    listed = [job["id"] for page in (first, second, third) for job in page["jobs"]]
    assert listed == ids[::-1]
    assert third["next"] is None
    other = get(client, f"/v1/jobs?state=dead&cursor={first['next']}")
    assert code(other) == (400, "invalid_cursor")


# The worker


@pytest.fixture
def running(
    home: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., OpenTenants]]:
    """Start open tenants whose worker polls often."""
    monkeypatch.setattr(worker, "LOOK_S", 0.01)
    monkeypatch.setattr(open_tenants, "IDLE_S", 0.0)
    started: list[OpenTenants] = []

    def start(**options: Any) -> OpenTenants:
        started.append(OpenTenants(Settings(home), **options))
        started[-1].start()
        return started[-1]

    yield start
    for opened in started:
        opened.close()


def put(tenant: Tenant, *contents: str, kind: str = "fact") -> str:
    """Accept a batch as another process would."""
    from store.home.instants import new_id
    from store.ingest import batch
    from store.log.commands import Draft

    queue, id_ = Queue(tenant.ingest), new_id(NOW)
    queue.accept(
        id_, NOW, batch.make_batch(id_, NOW, [Draft(content=content) for content in contents])
    )
    queue.close()
    return id_


def test_queued_batches_are_recorded_even_for_idle_tenants(
    running: Callable[..., OpenTenants], home: Path
):
    other = tenants_of.tenant(home, "other")
    EventLog(other.log, create=True).close()
    put(other, "the tide comes at noon")
    opened = running()
    until(lambda: opened.ingest.queue(other).counts()["done"])
    with EventLog(other.log) as log:
        assert log.head() == 1


def test_a_failure_lands_in_the_job_and_the_tenants_failures_and_the_worker_goes_on(
    running: Callable[..., OpenTenants], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    broken, plain = [LogBusy("held by a test"), RuntimeError("a defect")], EventLog.append

    def append(self: EventLog, *arguments: Any) -> Any:
        if broken:
            raise broken.pop(0)
        return plain(self, *arguments)

    monkeypatch.setattr(EventLog, "append", append)
    first, second = put(tenant, "the tide comes at noon"), put(tenant, "the ebb comes at six")
    opened = running()
    queue = opened.ingest.queue(tenant)
    until(lambda: not broken)
    until(lambda: queue.get(second).error)
    assert queue.get(first).error == "LogBusy: held by a test"
    assert queue.get(second).error == "RuntimeError: a defect"
    assert [failure.what for failure in failures.every(tenant.root)] == ["ingest"]
    put(tenant, "the moon is full")
    until(lambda: not list(failures.every(tenant.root)))
    assert opened.is_alive


def test_closing_returns_unfinished_jobs_to_the_queue(
    tenants: OpenTenants, tenant: Tenant, log: EventLog
):
    id_ = put(tenant, *(f"the tide of pier {number}" for number in range(250)))
    tenants.ingest._closing.set()
    tenants.ingest.turn()
    unfinished = tenants.ingest.queue(tenant).get(id_)
    assert (unfinished.state, unfinished.done, unfinished.attempts) == ("queued", 100, 0)


def test_facts_are_read_once_out_of_turns_that_were_ingested(
    running: Callable[..., OpenTenants], tenant: Tenant
):
    begun: list[Tenant] = []

    def read(tenant: Tenant) -> "subprocess.Popen[bytes]":
        begun.append(tenant)
        return subprocess.Popen([sys.executable, "-c", ""])

    opened = running(read_facts=read)
    put(tenant, "the tide comes at noon")
    client = create_app(opened, TOKEN, lambda: NOW).test_client()
    turns = [{"role": "user", "content": "the API runs on port 8080"}]
    accepted(client, {"turns": turns})
    queue = opened.ingest.queue(tenant)
    until(lambda: begun and not queue.newest_unread() and not queue.counts()["queued"])
    assert begun == [tenant]


def test_facts_that_could_not_be_read_are_not_tried_again_at_once(
    running: Callable[..., OpenTenants], tenant: Tenant
):
    begun: list[Tenant] = []

    def read(tenant: Tenant) -> "subprocess.Popen[bytes]":
        begun.append(tenant)
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])

    opened = running(read_facts=read)
    client = create_app(opened, TOKEN, lambda: NOW).test_client()
    accepted(client, {"turns": [{"role": "user", "content": "the API runs on port 8080"}]})
    until(lambda: opened.ingest._wait_until)
    assert (len(begun), opened.ingest.queue(tenant).newest_unread()) == (1, 1)


def test_the_facts_job_reads_turns_and_asks_no_model(
    tenants: OpenTenants, client: Client, tenant: Tenant, log: EventLog
):
    turns = [{"role": "user", "content": "The API server runs on port 8080."}]
    accepted(client, {"turns": turns, "project": "acme/web"})
    tenants.ingest.turn()
    reading = fact_reader(tenants.settings)(tenant)
    assert reading.wait(timeout=120) == 0, (tenant.root / "facts.log").read_text()
    bodies = [event.body for event in log.read() if event.kind == "recorded" and event.body.key]
    assert [(body.key, body.value) for body in bodies] == [("api-server.port", "8080")]


def test_a_model_is_asked_only_where_the_job_may_run_by_itself(
    home: Path, tenant: Tenant, log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    commands_: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        worker.processes, "start_job", lambda settings, *words, **_: commands_.append(words)
    )
    fact_reader(Settings(home))(tenant)
    job_catalog.set_switches(tenant, ["learn"], on=True)
    fact_reader(Settings(home))(tenant)
    assert ["--no-model" in words for words in commands_] == [True, False]


# Readiness and metrics


def test_it_is_ready_when_its_threads_run_and_the_log_can_be_written(
    running: Callable[..., OpenTenants], tenant: Tenant
):
    opened = running()
    client = create_app(opened, TOKEN, lambda: NOW).test_client()
    assert code(client.get("/ready", headers={"Host": "localhost"})) == (503, "not_ready")
    opened.get("default")
    answer = client.get("/ready", headers={"Host": "localhost"})
    assert (answer.status_code, answer.json["status"]) == (200, "ready")
    opened.ingest.close()
    late = client.get("/ready", headers={"Host": "localhost"})
    assert code(late) == (503, "not_ready")
    assert "Retry-After" in late.headers
    assert str(tenant.root) not in late.text


SAMPLE = re.compile(
    r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)*)\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?|\+Inf)'
)


def metrics(client: Client) -> dict[str, float]:
    """Return every sample, after checking the format: each metric is declared once, with its kind,
    before its samples, which stand together.
    """
    answer = get(client, "/metrics")
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text.endswith("\n")
    samples: dict[str, float] = {}
    kinds: dict[str, str] = {}
    name = ""
    for line in answer.text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in kinds
        elif line.startswith("# TYPE "):
            assert line.split()[2] == name
            kinds[name] = line.split()[3]
            assert kinds[name] in ("counter", "gauge", "histogram")
        else:
            parts = SAMPLE.fullmatch(line)
            assert parts is not None, line
            suffixes = ("_bucket", "_sum", "_count") if kinds[name] == "histogram" else ("",)
            assert parts[1] in [name + suffix for suffix in suffixes]
            assert (kinds[name] == "counter") == name.endswith("_total")
            key = line.rpartition(" ")[0]
            assert key not in samples
            samples[key] = float(parts[3])
    return samples


def test_metrics_count_recalls_and_batches(client: Client, tenants: OpenTenants, log: EventLog):
    accepted(client, {"memories": NOTES})
    tenants.ingest.turn()
    for query in ("the tide of pier 2", "zebra crossing"):
        assert post(client, "/v1/recall", {"query": query}).status_code == 200
    post(client, "/v1/recall", {"query": "quiet", "touch": False})
    tenants.get("default").notes.write()
    samples, of = metrics(client), '{tenant="default"}'
    assert samples[f"mnemolog_recalls_total{of}"] == 2
    assert samples[f"mnemolog_silent_recalls_total{of}"] == 1
    assert samples[f"mnemolog_recall_seconds_count{of}"] == 2
    assert samples['mnemolog_recall_seconds_bucket{tenant="default",le="+Inf"}'] == 2
    assert samples[f"mnemolog_log_events{of}"] == log.head() == 5
    assert samples[f"mnemolog_tail_events{of}"] == 5
    assert samples[f"mnemolog_appends_total{of}"] == 2
    assert samples['mnemolog_ingest_jobs{tenant="default",state="done"}'] == 1
    assert samples["mnemolog_threads"] >= 1
    assert samples["mnemolog_open_tenants"] == 1
    assert samples["mnemolog_disk_free_bytes"] > 0


def test_metrics_count_answers_by_status_and_what_failed(
    client: Client, tenants: OpenTenants, tenant: Tenant
):
    tenants.get("default")
    get(client, "/v1/memories")
    get(client, "/v1/no-such-address")
    client.get("/v1/memories", headers={"Host": "localhost"})
    for _ in range(2):
        failures.keep(tenant.root, "replica", NOW, "the bucket does not answer")
    failures.keep(tenants.settings.home, "build", NOW, "the disk is full")
    samples = metrics(client)
    answers = {
        status: samples[f'mnemolog_responses_total{{status="{status}"}}']
        for status in (200, 401, 404)
    }
    assert answers == {200: 1, 401: 1, 404: 1}
    assert samples['mnemolog_failures{tenant="default",what="replica"}'] == 2
    failures.forget(tenant.root, "replica")
    failure_keys = [key for key in metrics(client) if key.startswith("mnemolog_failures")]
    assert failure_keys == ['mnemolog_failures{what="build"}']


def test_metrics_show_events_waiting_for_sync_and_their_age(tmp_path: Path):
    laptop = Laptop("desk", tmp_path / "desk", tmp_path / "place")
    laptop.place.mkdir()
    laptop.record("The pilot boards at the west buoy")
    opened = OpenTenants(Settings(laptop.home))
    try:
        client, of = create_app(opened, TOKEN, lambda: NOW + 60_000_000).test_client(), "default"
        opened.get(of)
        assert not [name for name in metrics(client) if "sync" in name]
        laptop.join()
        assert metrics(client)[f'mnemolog_sync_waiting_events{{tenant="{of}"}}'] == 1
        laptop.sync(NOW)
        samples = metrics(client)
        assert samples[f'mnemolog_sync_waiting_events{{tenant="{of}"}}'] == 0
        assert samples[f'mnemolog_sync_age_seconds{{tenant="{of}"}}'] == 60
    finally:
        opened.close()


def test_the_buckets_of_a_histogram_add_up(client: Client, tenants: OpenTenants):
    for took_us in (400, 1_000, 30_000, 5_000_000):
        body = plain_receipt(took_us=took_us)
        tenants.get("default").recalls.count([Event("r", NOW, body, "r")])
    buckets = [
        value
        for key, value in metrics(client).items()
        if key.startswith("mnemolog_recall_seconds_b")
    ]
    assert buckets == [2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4]


def test_metrics_of_two_tenants_stand_together(client: Client, tenants: OpenTenants, home: Path):
    EventLog(tenants_of.tenant(home, "other").log, create=True).close()
    tenants.get("default"), tenants.get("other")
    samples = metrics(client)
    assert {key for key in samples if key.startswith("mnemolog_log_events")} == {
        'mnemolog_log_events{tenant="default"}',
        'mnemolog_log_events{tenant="other"}',
    }


def test_metrics_ask_for_a_token(client: Client):
    assert code(client.get("/metrics", headers={"Host": "localhost"})) == (401, "no_token")


def test_decoders_are_compiled_before_the_first_request(
    client: Client, tenants: OpenTenants, monkeypatch: pytest.MonkeyPatch
):
    plain = msgspec.json.decode

    def decode(data: bytes, **options: object) -> Any:
        assert "type" not in options
        return plain(data, **options)

    monkeypatch.setattr("msgspec.json.decode", decode)
    accepted_job = accepted(client, {"memories": NOTES})
    tenants.ingest.turn()
    assert job(client, accepted_job["id"])["state"] == "done"


# Tenants of a request, and its body


def shown_by(client: Client, token: str, path: str, body: object | None = None) -> Any:
    """Send a request with a tenant's token: a POST if there is a body."""
    headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {token}"}
    if body is None:
        return client.get(path, headers=headers)
    return client.post(path, json=body, headers=headers)


def test_a_tenants_token_sees_its_own_jobs_and_numbers_alone(
    client: Client, tenants: OpenTenants, home: Path, tenant: Tenant
):
    team = tenants_of.tenant(home, "team")
    EventLog(team.log, create=True).close()
    _, token = tokens.make(home, "team", tokens.Wanted(scopes=("read", "write")), NOW)
    others = accepted(client, {"memories": NOTES})
    response = shown_by(client, token, "/v1/ingest", {"memories": NOTES, "tenant": "default"})
    assert response.status_code == 202
    assert tenants.ingest.queue(team).counts()["queued"] == 1
    assert tenants.ingest.queue(tenant).counts()["queued"] == 1
    (listed,) = shown_by(client, token, "/v1/jobs?tenant=default").json["jobs"]
    assert listed["id"] == response.json["id"]
    assert code(shown_by(client, token, f"/v1/jobs/{others['id']}")) == (404, "not_found")
    dead = f"/v1/jobs/{response.json['id']}/requeue"
    assert code(shown_by(client, token, dead, {})) == (403, "out_of_scope")
    text = shown_by(client, token, "/metrics").text
    assert 'tenant="team"' in text and "default" not in text and "resident" not in text


def test_a_disk_that_is_full_takes_nothing_and_says_so(
    client: Client, tenants: OpenTenants, tenant: Tenant
):
    accepted(client, {"memories": NOTES})
    connection = tenants.ingest.queue(tenant)._file._ours(make=True)
    connection.execute(f"PRAGMA max_page_count = {connection.pragma('page_count')}")
    large = [{"content": f"the tide of pier {number} comes at noon"} for number in range(2_000)]
    assert code(post(client, "/v1/ingest", {"memories": large})) == (507, "log_full")
    assert tenants.ingest.queue(tenant).counts()["queued"] == 1


def test_responses_match_the_openapi_document(client: Client, tenants: OpenTenants):
    accepted_job = accepted(client, {"memories": [*NOTES, {"content": "todo"}]})
    tenants.ingest.turn()
    assert undeclared(accepted_job, ingest.JobInShort) == []
    assert undeclared(job(client, accepted_job["id"]), ingest.WholeJob) == []
    assert undeclared(get(client, "/v1/jobs").json, ingest.Jobs) == []
