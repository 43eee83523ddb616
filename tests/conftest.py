"""Shared fixtures: an isolated home, a clock that stands still, and a tenant built once."""

import asyncio
import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import msgspec
import pytest
from flask import Flask
from hypothesis import HealthCheck, settings
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from werkzeug.routing import Rule

from serve.cli import environment
from serve.cli.presence import PERSON, VARIABLES
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.home.tenant import Tenant
from store.home.tenant import tenant as tenant_of
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Body, Revised
from store.log.event_log import EventLog
from store.log.events import encode
from store.maintenance import build
from store.snapshots.manifest import Manifest

# the speed at which a machine generates examples is no finding
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

ROOT = Path(__file__).resolve().parents[1]
NOW = 1_790_000_000_000_000  # microseconds UTC: September 2026

TEXTS = """
The recall server listens on 127.0.0.1:7437 and refuses any other Host header.
We chose SQLite in WAL mode for the event log because a single file is easy to back up.
Never call git push --force on main; use --force-with-lease on your own branch.
pytest runs with --import-mode=importlib, so tests/ must not have an __init__.py.
The flaky test in tests/test_sync.py was a race between two threads closing one socket.
ruff check --fix reorders imports; run it before mypy or the line numbers move.
Retry uploads with exponential backoff, at most five times, then raise UploadError.
BM25 with k1=0.9 and b=0.3 beat the defaults on long conversations.
Anna prefers small commits with a subject of at most fifty characters.
The Docker image is built from python:3.12-slim; alpine broke the pyarrow wheel.
Database migrations live in db/migrations and are applied by make migrate.
A null tenant id in billing/invoice.py caused the 500 on /invoices last Tuesday.
Use time.monotonic for timeouts: the wall clock jumped back on the CI runner.
The staging cluster runs in eu-central-1, production in eu-west-1.
Feature flags are read once at start; changing one needs a restart of the worker.
Do not mock the database in tests; a real SQLite file in tmp_path is fast enough.
The parser must accept CRLF because the Windows client sends it.
Cache keys carry the schema version so that a deploy never reads an old shape.
numpy.frombuffer returns a read-only array; copy it before sorting in place.
We dropped Redis: the queue fits into Postgres with SKIP LOCKED.
Logs are JSON lines; the field is called message, not msg.
The OAuth callback failed because the redirect URL had a trailing slash.
Page size is 50 in the API and 20 in the web client, on purpose.
Upgrading lancedb from 0.29 to 0.30 needs pyarrow 18 or newer.
Long jobs write a heartbeat every 30 seconds so that the watchdog leaves them alone.
Ship the dashboard without external fonts: customers run it offline.
Сервер отвечает медленно, когда индекс строится заново при каждом запросе.
テストは本物のファイルを使い、モックは使わない。
The search endpoint must answer within 40 ms at the 95th percentile.
store/log.py is the only module that may import apsw.
Rotate the signing key every quarter; the runbook is docs/keys.md.
asyncio.TaskGroup cancels the siblings when one task fails, gather does not.
The CSV export writes a BOM because Excel guesses the encoding otherwise.
""".strip().splitlines()


# the files that take longest start first, so that no processor waits for one of them at the end
LONGEST = """
dagster_browser dagster_ui pipelines dashboard_browser schemathesis served server distill bench
reader daemon torture_undelivered dashboard_graph client torture_locks soak consolidate
torture_poisoned_rows torture_rot embedder_switch vector_copy erase dashboard torture_patterns
""".split()

if TYPE_CHECKING:
    from dagster_page import Page
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

    from serve.server.open_tenants import OpenTenants

_compile_builder, _builders = Rule._compile_builder, dict[object, Callable[..., Any]]()


def _builder(rule: Rule, append_unknown: bool = True) -> Callable[..., Any]:
    """Return the function that builds the addresses of a rule, compiled once: compiling is most
    of the cost of an application, and hundreds of tests create one.
    """
    if rule.defaults:
        return _compile_builder(rule, append_unknown)
    key = rule.rule, tuple(rule._trace), append_unknown
    if key not in _builders:
        _builders[key] = _compile_builder(rule, append_unknown)
    return _builders[key]


Rule._compile_builder = _builder


class _Templates(BytecodeCache):
    """The dashboard's templates, also compiled once for all applications."""

    def __init__(self) -> None:
        self.compiled: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.compiled:
            bucket.bytecode_from_string(self.compiled[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.compiled[bucket.key] = bucket.bytecode_to_string()


_create_environment, _templates = Flask.create_jinja_environment, _Templates()


def _environment(app: Flask) -> Environment:
    made = _create_environment(app)
    made.bytecode_cache = _templates
    return made


Flask.create_jinja_environment = _environment

# collecting the tests creates a million objects that stay: scanning them again gains nothing
gc.disable()

# a shell that started us in the background ignores it, and our child processes would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the files that take longest first."""
    place = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish() -> None:
    """Resume garbage collection, less often, and without the objects imported and collected."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: "Producer"
) -> "LoadFileScheduling | None":
    """Give the files that use Dagster's UI one worker: the UI takes half a minute to start."""
    from xdist.scheduler import LoadFileScheduling

    class OneUi(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope = str(super()._split_scope(nodeid))
            return scope.replace("dagster_browser", "dagster_ui")

    return OneUi(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def main_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Return an event loop for the main thread, closed at the end."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def current_loop(main_loop: asyncio.AbstractEventLoop) -> None:
    """Give every test that loop: litellm needs one, and `asyncio.run` in a test leaves none."""
    asyncio.set_event_loop(main_loop)


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's settings, memories and git configuration out of every test."""
    for name in list(os.environ):
        if name.startswith(("MNEMOLOG_", "XDG_", "GIT_")):
            monkeypatch.delenv(name)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    # commands run in this process count as a person's; test_presence.py detects it itself
    monkeypatch.setattr(environment, "presence", lambda: PERSON)
    # power cuts are tested in separate processes (tests/torture): no test here waits for the disk
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "home"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def tenant(home: Path) -> Tenant:
    return tenant_of(home)


@pytest.fixture
def log(tenant: Tenant) -> Iterator[EventLog]:
    """An empty log whose events arrive now."""
    with EventLog(tenant.log, create=True, wall=lambda: NOW) as made:
        yield made


@pytest.fixture
def tenants(home: Path) -> Iterator["OpenTenants"]:
    """The open tenants of a server: a single one, with an empty log."""
    from serve.server.open_tenants import OpenTenants

    EventLog(tenant_of(home).log, create=True).close()
    opened = OpenTenants(Settings(home))
    yield opened
    opened.close()


@pytest.fixture
def built_tenants(built: "Built") -> Iterator["OpenTenants"]:
    """The open tenants of a server: only `built`."""
    from serve.server.open_tenants import OpenTenants

    opened = OpenTenants(Settings(built.tenant.root.parents[1]))
    yield opened
    opened.close()


@pytest.fixture
def clock() -> Callable[[], int]:
    """Microseconds UTC, a second later at each call."""
    return itertools.count(NOW, 1_000_000).__next__


@pytest.fixture(scope="session")
def embedder() -> LexicalEmbedder:
    return LexicalEmbedder()


@dataclass(frozen=True)
class Built:
    """A tenant of some forty memories, fully built and published."""

    tenant: Tenant
    log: EventLog
    manifest: Manifest
    embedder: LexicalEmbedder

    def rebuild(self, **options: bool) -> Manifest:
        return build.rebuild(self.tenant, self.log, self.embedder, NOW, **options)


@pytest.fixture
def built(
    _template: tuple[Path, Manifest], home: Path, embedder: LexicalEmbedder
) -> Iterator[Built]:
    """A separate copy for each test: change it freely."""
    folder, published = _template
    shutil.copytree(folder, home)
    tenant = tenant_of(home)
    with EventLog(tenant.log) as opened:
        yield Built(tenant, opened, published, embedder)


@pytest.fixture(scope="session")
def _template(
    tmp_path_factory: pytest.TempPathFactory, embedder: LexicalEmbedder
) -> tuple[Path, Manifest]:
    home = tmp_path_factory.mktemp("template") / "home"
    tenant = tenant_of(home)
    with EventLog(tenant.log, create=True) as made:
        remember(made)
        return home, build.rebuild(tenant, made, embedder, NOW)


def remember(log: EventLog) -> None:
    """Record some forty memories, and change a few as people do."""
    drafts = [
        Draft(id=f"m{number:02}", content=text, tags=("team",) if number % 3 else ())
        for number, text in enumerate(TEXTS)
    ]
    drafts += [
        Draft(id="g1", kind="goal", content="Answer every recall within 40 ms", progress=0.5),
        Draft(id="g2", kind="goal", content="Move the queue to Postgres", status="done"),
        Draft(id="s1", kind="milestone", chain="queue", content="Redis is read no more"),
        Draft(id="s2", kind="milestone", chain="queue", content="Redis is gone"),
        Draft(id="k1", key="deploy.region", value="us", content="We deploy to us-east-1"),
        Draft(id="k2", key="deploy.region", value="eu", content="We deploy to eu-west-1"),
        Draft(id="p1", project="acme/web", pinned=True, content="The web client talks JSON only"),
    ]
    commands.record_batch(log, drafts, NOW)
    commands.forget(log, "m06", NOW)
    commands.archive(log, "m19", NOW)
    commands.supersede(log, "m22", "m28", NOW)
    commands.revise(log, "m13", Revised(context="asked by the SRE team"), NOW)
    commands.link(log, "m04", "m15", "support", NOW)
    commands.rate(log, "m01", 1.0, NOW)


@pytest.fixture
def jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the jobs of commands in this process; test_jobs_cli.py starts real processes."""
    from job_here import JobHere

    monkeypatch.setattr("serve.server.processes.start_job", JobHere)


@pytest.fixture
def plant() -> Callable[[EventLog, str, Body], None]:
    """Write an event with a correct hash, bypassing every check and redaction."""
    return _plant


def _plant(log: EventLog, id_: str, body: Body, kind: str = "recorded") -> None:
    row = (id_, NOW, kind, id_, None, None, None, "user", encode(body))
    columns = "id, at, kind, subject, project, session, agent, trust, body, sha256"
    with raw(log.path) as connection:
        connection.execute(
            f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, sha256(msgspec.json.encode(row)).digest()),
        )


@pytest.fixture(scope="session")
def dagster_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], "Page"]]:
    """Yield the shared UI, started on first use because it takes long."""
    from dagster_page import opened

    pages: list[Page] = []

    def running() -> "Page":
        if not (pages and pages[-1].is_there):
            pages.append(opened(tmp_path_factory.mktemp("ui"), _plant))
        return pages[-1]

    yield running
    for page in pages:
        page.end()


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Shorten the interpreter's switch interval: a build beside the computing threads releases
    the interpreter at each file, and would wait 5 ms for every turn.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module", autouse=True)
def chromium_ends() -> Iterator[None]:
    """End the browser shared by the tests of a file."""
    yield
    if "dashboard_page" in sys.modules:
        sys.modules["dashboard_page"].end_chromium()


@pytest.fixture
def bench_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import the benchmarks by their file names, as their scripts do."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "bench")


@pytest.fixture
def tamper() -> Callable[..., None]:
    """Change a log outside our code: SQL, with the triggers that keep it append-only dropped."""

    def run(path: Path, sql: str, *values: object) -> None:
        with raw(path) as connection:
            connection.execute("DROP TRIGGER events_keep_update; DROP TRIGGER events_keep_delete")
            connection.execute(sql, values)

    return run


def raw(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path))


@pytest.fixture
def child() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start Python code in a separate process that ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *args: object, before: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        command = [*before, sys.executable, "-c", code, *map(str, args)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
