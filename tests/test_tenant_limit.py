"""A server keeps no more tenants open than its file descriptors allow, and serves all of them."""

import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import NOW
from torture.server import START, Server

from serve.hooks import answer
from serve.hooks.answer import Hooks
from serve.hooks.call import Call
from serve.hosts import HOSTS
from serve.hosts.event import SILENCE, Reply
from serve.server import open_tenants
from serve.server.open_tenants import HANDLES, OpenTenants, tenant_limit
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.tenant import Tenant
from store.ingest.batch import make_batch
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog

posix = pytest.mark.skipif(os.name != "posix", reason="`ulimit -n` is of POSIX")
LIMIT = 256
NAMES = [f"team{number}" for number in range(120)]
WITH_LIMIT = ("sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh")
UNBOUNDED = (
    f"import serve.server.open_tenants as o; o.tenant_limit = lambda: {len(NAMES) + 1}; {START}"
)


def make_tenants(home: Path, names: list[str]) -> list[Tenant]:
    first, *others = tenants_ = [tenants.tenant(home, name) for name in names]
    EventLog(first.log, create=True).close()
    for tenant in others:
        shutil.copytree(first.root, tenant.root)  # much faster than making each
    return tenants_


class Team:
    """Clients of one server that write to tenants and recall their own writes at once."""

    def __init__(self, server: Server) -> None:
        self.server, self.most_handles = server, 0
        self.written: dict[str, list[str]] = {name: [] for name in NAMES}
        self.failures: list[object] = []

    def ask(self, path: str, body: dict[str, object]) -> object:
        status, answer = self.server.ask("POST", path, body, timeout_s=60)
        while status == 503 and answer["code"] in ("busy", "overloaded"):
            status, answer = self.server.ask("POST", path, body, timeout_s=60)
        if status >= 300:
            self.failures.append(answer)
        return answer

    def write(self, name: str) -> None:
        content = f"the deploy of {name} number {len(self.written[name])} runs at noon"
        noted = self.ask("/v1/memories", {"tenant": name, "content": content})
        if not self.failures:
            self.written[name].append(noted["id"])
        if sys.platform == "linux":
            handles = len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
            self.most_handles = max(handles, self.most_handles)

    def recall_and_write(self, name: str) -> None:
        hits = self.ask("/v1/recall", {"tenant": name, "query": f"when does {name} deploy"})
        if not self.failures:
            assert [hit["id"] for hit in hits["hits"]] == self.written[name]
        self.write(name)


@posix
def test_a_server_of_few_descriptors_answers_a_hundred_and_twenty_tenants(tmp_path: Path):
    home = tmp_path / "home"
    tenants_ = make_tenants(home, NAMES)
    team = Team(Server(home, before=WITH_LIMIT))
    try:
        for name in NAMES:
            team.write(name)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(team.recall_and_write, random.Random(28).sample(NAMES, 60)))
    finally:
        team.server.kill(signal.SIGTERM)
    assert team.failures == []
    for tenant in tenants_:
        with EventLog(tenant.log) as log:
            kinds = [event.kind for event in log.read()]
            ids = {event.id for event in log.read() if event.kind == "recorded"}
        assert ids == set(team.written[tenant.name])
        assert kinds.count("recalled") == len(ids) - 1  # no receipt is lost
    assert team.most_handles < LIMIT - 64


@posix
def test_without_the_limit_of_tenants_descriptors_run_out_and_the_error_names_the_fix(
    tmp_path: Path,
):
    home = tmp_path / "home"
    make_tenants(home, NAMES[:60])
    team = Team(Server(home, UNBOUNDED, before=WITH_LIMIT))
    try:
        for name in NAMES[:60]:
            team.write(name)
            if team.failures:
                break
    finally:
        team.server.kill(signal.SIGTERM)
    assert team.failures
    assert "ulimit -n" in team.failures[0]["detail"], team.failures
    assert "fewer tenants" in team.failures[0]["detail"]


@posix
@pytest.mark.parametrize(
    ("soft", "limit"), [(20, 1), (LIMIT, LIMIT // 2 // HANDLES), (1 << 20, open_tenants.MOST_OPEN)]
)
def test_tenants_share_half_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, soft: int, limit: int
):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, soft))
    assert tenant_limit() == limit


@pytest.fixture
def two_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenTenants]:
    """A server that may have two tenants open, with the tenants `default`, `a`, `b` and `c`."""
    monkeypatch.setattr(open_tenants, "tenant_limit", lambda: 2)
    home = tmp_path / "home"
    make_tenants(home, ["default", "a", "b", "c"])
    opened = OpenTenants(Settings(home))
    opened.get("default")
    yield opened
    opened.close()


def names(opened: OpenTenants) -> list[str]:
    return [tenant.tenant.name for tenant in opened.all_open]


def test_the_tenant_used_longest_ago_is_closed_but_never_the_default_one(two_open: OpenTenants):
    first = two_open.get("a")
    two_open.get("b")
    assert names(two_open) == ["b", "default"]
    assert not first.log.is_open
    assert two_open.get("a").log.head() == 0
    assert names(two_open) == ["a", "default"]


def test_a_tenant_that_a_request_uses_stays_open_until_the_request_ends(two_open: OpenTenants):
    two_open.requests.begin()
    used = two_open.get("a")
    other = threading.Thread(target=lambda: two_open.get("b"))
    other.start()
    other.join()
    assert used.log.is_open and names(two_open) == ["a", "b", "default"]
    two_open.requests.end()
    two_open.get("c")
    assert not used.log.is_open


def test_a_pinned_tenant_stays_open(two_open: OpenTenants):
    with two_open.pinned("a") as used:
        two_open.get("b")
        two_open.get("c")
        assert used.log.is_open
    two_open.get("b")
    assert not used.log.is_open


def test_a_tenant_stays_open_for_a_hook_that_outlasts_its_request(
    two_open: OpenTenants, monkeypatch: pytest.MonkeyPatch
):
    may_end = threading.Event()
    log_is_open: list[bool] = []

    def answer_late(call: Call) -> Reply:
        may_end.wait(30)
        log_is_open.append(call.tenant.log.is_open)
        return SILENCE

    monkeypatch.setattr(answer, "_ANSWERS", {"prompt": answer_late})
    hooks = Hooks(two_open, lambda: NOW, deadline_s=0.01)
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "when is noon?"}
    two_open.requests.begin()
    assert hooks.answer(HOSTS["claude-code"], prompt, "a") is None
    two_open.requests.end()
    two_open.get("b")
    two_open.get("c")
    may_end.set()
    hooks.close()
    assert log_is_open == [True]
    two_open.get("b")
    assert names(two_open) == ["b", "default"]


def test_more_queues_than_may_be_open_are_closed_and_still_answer(two_open: OpenTenants):
    queues = {name: two_open.ingest.queue(two_open.get(name).tenant) for name in "abc"}
    for name, queue in queues.items():
        job = f"job-{name}"
        queue.accept(job, NOW, make_batch(job, NOW, [Draft(content=f"the tide of pier {name}")]))
    assert len(two_open.ingest._queues) == 2
    assert two_open.ingest.turn()
    for name in "abc":
        assert two_open.get(name).log.head() == 1


def test_what_cannot_be_written_just_now_keeps_its_tenant_open(two_open: OpenTenants):
    used = two_open.get("a")
    waiting = commands.memory_events([Draft(content="the tide comes at noon")], 1)
    used.notes.add(*waiting)
    used.notes._is_held_up = True
    two_open.get("b")
    assert used.log.is_open and len(used.receipts) == len(waiting)
    used.notes._is_held_up = False
    two_open.get("c")
    assert not used.log.is_open
    assert two_open.get("a").log.head() == len(waiting)
