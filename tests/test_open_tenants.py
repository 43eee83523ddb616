"""The work of a server between requests: warming up, due builds and idle detection."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import pytest
from background import until
from conftest import NOW, Built

import serve.server.open_tenants
from serve.server.open_tenants import PATIENCE_S, OpenTenants
from store.embedders.embedder import Matrix
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Settings
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft

Begin = Callable[..., OpenTenants]


@pytest.fixture
def begin(built: Built, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Open the built tenant as a server that never waits; close every server at the end."""
    monkeypatch.setattr(serve.server.open_tenants, "TICK_S", 0.01)
    monkeypatch.setattr(serve.server.open_tenants, "IDLE_S", 0.0)
    opened: list[OpenTenants] = []

    def start(*arguments: object, **chosen: int) -> OpenTenants:
        settings = Settings(built.tenant.root.parents[1], Choices(**chosen))
        opened.append(OpenTenants(settings, *arguments))
        opened[-1].get("default")
        return opened[-1]

    yield start
    for tenants in opened:
        tenants.close()


class Builds:
    """Fake builds that publish nothing and run for some seconds, with a count of those begun."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.begun = seconds, 0
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, tenant: Tenant) -> "subprocess.Popen[bytes]":
        code = f"import time; time.sleep({self.seconds})"
        self.processes.append(subprocess.Popen([sys.executable, "-c", code]))
        self.begun += 1  # last: a waiting test may end the process
        return self.processes[-1]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def builds() -> Iterator[Callable[[float], Builds]]:
    opened: list[Builds] = []

    def make(seconds: float = 0.0) -> Builds:
        opened.append(Builds(seconds))
        return opened[-1]

    yield make
    for server in opened:
        server.end()


def test_a_tenant_runs_one_warm_up_recall(
    begin: Begin, built: Built, monkeypatch: pytest.MonkeyPatch
):
    queries: list[Sequence[str]] = []

    class Counting(LexicalEmbedder):
        def embed(self, texts: Sequence[str]) -> Matrix:
            queries.append(texts)
            return super().embed(texts)

    tenants, head = begin(), built.log.head()
    monkeypatch.setattr(tenants.embedder, "_model", Counting())
    tenants.start()
    until(lambda: queries)
    tenants.close()
    assert built.log.head() == head


def test_a_build_that_published_nothing_is_not_begun_again_after_a_restart(
    begin: Begin, built: Built, builds: Callable[..., Builds]
):
    commands.record(built.log, Draft(content="the tide comes at noon"), time.time_ns() // 1000)
    first, second = builds(), builds()
    tenants = begin(first, build_after=1)
    tenants.start()
    until(lambda: first.begun)
    tenants.close()
    begin(second, build_after=1).start()
    time.sleep(0.5)
    assert (first.begun, second.begun) == (1, 0)
    commands.record(built.log, Draft(content="and at midnight"), time.time_ns() // 1000)
    until(lambda: second.begun)


def test_it_is_not_idle_while_a_build_runs(
    begin: Begin, built: Built, builds: Callable[..., Builds]
):
    commands.record(built.log, Draft(content="the tide comes at noon"), time.time_ns() // 1000)
    hours = count(0, 3_600).__next__
    slow = builds(60.0)
    tenants = begin(slow, hours, build_after=1)
    assert tenants.idle_s() > 0
    tenants.start()
    until(lambda: tenants.idle_s() == 0)
    slow.end()
    until(lambda: tenants.idle_s() > 0)


def test_a_request_ends_idleness(begin: Begin):
    now = [0.0]
    tenants = begin(None, lambda: now[0])
    now[0] = 100.0
    assert tenants.idle_s() == 100
    tenants.get("default")
    assert tenants.idle_s() == 0


@pytest.fixture
def asked_always(
    built: Built, builds: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], int]]:
    """Simulate some seconds of continuous requests; return the number of builds begun."""
    now, made_builds = [0.0], builds()
    settings = Settings(built.tenant.root.parents[1], Choices(build_after=1))
    tenants = OpenTenants(settings, made_builds, lambda: now[0])

    def passing(seconds: int) -> int:
        for _ in range(seconds):
            now[0] += 1.0
            tenants._keep_up(tenants.get("default"))
        return made_builds.begun

    tenants.get("default")
    yield passing
    tenants.close()


def test_a_busy_tenant_is_built_after_a_few_minutes(asked_always, built: Built):
    assert asked_always(1) == 0
    commands.record(built.log, Draft(content="the tide comes at noon"), NOW)
    assert asked_always(int(PATIENCE_S)) == 0
    assert asked_always(1) == 1
    assert asked_always(int(PATIENCE_S)) == 1  # no second build for the same events
