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
from serve.server import processes
from serve.server.open_tenants import LEARN_IDLE_S, PATIENCE_S, OpenTenants
from store.embedders.embedder import Matrix
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Settings
from store.home.registry import register_ui
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.plans import job_catalog

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


# Jobs that are on, run by an idle server


@pytest.fixture
def jobs_begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """The command lines of the jobs that a server starts; each ends at once."""
    begun: list[tuple[str, ...]] = []
    processes_begun: list[subprocess.Popen[bytes]] = []

    def start_job(settings: Settings, *words: str, **streams: object) -> "subprocess.Popen[bytes]":
        processes_begun.append(subprocess.Popen([sys.executable, "-c", ""]))
        begun.append(words)
        return processes_begun[-1]

    monkeypatch.setattr(processes, "start_job", start_job)
    yield begun
    for process in processes_begun:
        process.wait()


@pytest.fixture
def idle(begin: Begin, builds: Callable[..., Builds]) -> Callable[[float], OpenTenants]:
    """Start a server, then leave it alone for some seconds of its clock."""

    def leave(seconds: float) -> OpenTenants:
        now = [0.0]
        tenants = begin(builds(), lambda: now[0], build_after=0)
        now[0] = seconds
        tenants.start()
        return tenants

    return leave


def test_jobs_that_are_on_run_in_order_when_nobody_has_asked_for_ten_minutes(
    idle: Callable[[float], OpenTenants], built: Built, jobs_begun: list[tuple[str, ...]]
):
    job_catalog.set_switches(built.tenant, ["archive", "distill"], on=True)
    idle(LEARN_IDLE_S - 1)
    time.sleep(0.3)
    assert jobs_begun == []
    idle(LEARN_IDLE_S)
    until(lambda: len(jobs_begun) == 2)
    assert [words[:2] for words in jobs_begun] == [("learn", "distill"), ("learn", "archive")]
    time.sleep(0.3)
    assert len(jobs_begun) == 2  # once a day, also of a server that starts anew
    idle(LEARN_IDLE_S)
    time.sleep(0.3)
    assert len(jobs_begun) == 2


def test_no_job_runs_that_is_off_or_that_dagster_runs(
    idle: Callable[[float], OpenTenants], built: Built, jobs_begun: list[tuple[str, ...]]
):
    idle(LEARN_IDLE_S)
    with register_ui(Settings(built.tenant.root.parents[1]), 3_000):
        job_catalog.set_switches(built.tenant, ["learn"], on=True)
        time.sleep(0.3)
        assert jobs_begun == []
    until(lambda: jobs_begun)
    assert jobs_begun == [("learn", "learn", "--tenant", "default")]


def test_a_job_is_due_once_a_day_and_first_if_it_never_ran(tenant: Tenant):
    assert job_catalog.due_job(tenant, NOW) is None
    job_catalog.set_switches(tenant, ["distill", "facts"], on=True)
    assert job_catalog.due_job(tenant, NOW) == "facts"
    job_catalog.record_begun(tenant, "facts", NOW)
    assert job_catalog.due_job(tenant, NOW) == "distill"
    job_catalog.record_begun(tenant, "distill", NOW)
    assert job_catalog.due_job(tenant, NOW + job_catalog.APART - 1) is None
    assert job_catalog.due_job(tenant, NOW + job_catalog.APART) == "facts"
    assert job_catalog.due_job(tenant, NOW - job_catalog.APART) == "facts"  # a wrong clock
    job_catalog.set_switches(tenant, ["learn"], on=True)
    assert job_catalog.due_job(tenant, NOW) == "learn"


@pytest.mark.parametrize("damage", [b"", b"[]", b"\xff", b'{"facts": "soon"}'])
def test_times_that_cannot_be_read_hold_no_job_back(tenant: Tenant, damage: bytes):
    job_catalog.set_switches(tenant, ["facts"], on=True)
    job_catalog.record_begun(tenant, "facts", NOW)
    (tenant.root / "jobs-begun.json").write_bytes(damage)
    assert job_catalog.due_job(tenant, NOW) == "facts"
