"""A log that cannot be opened: recall answers from the published snapshot, and says so."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import dashboard_page
import mcp_client
import pytest
from background import mnemolog
from conftest import NOW, Built
from test_server import Server

from serve.app import create_app
from serve.hooks.answer import Hooks
from serve.hosts import HOSTS
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall.request import RecallRequest, answer
from serve.server.open_tenants import OpenTenants
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import LogClosed, LogCorrupt, LogError, NotFound
from store.home.files import replace_file
from store.home.tenant import Tenant
from store.log import commands, erasing, integrity
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.repair import repair

ASKED = "where does the recall server listen?"
FOUND = "The recall server listens on 127.0.0.1:7437 and refuses any other Host header."


def _emptied(log: Path) -> None:
    log.write_bytes(b"")


def _no_database(log: Path) -> None:
    log.write_bytes(b"no database at all " * 1_000)


def _without_header(log: Path) -> None:
    log.write_bytes(bytes(100) + log.read_bytes()[100:])


def _anothers(log: Path) -> None:
    log.unlink()
    connection = apsw.Connection(str(log))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def _of_a_newer_version(log: Path) -> None:
    connection = apsw.Connection(str(log))
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def _that_nobody_may_open(log: Path) -> None:
    log.unlink()
    log.mkdir()  # mode 0 does not stop root, and the tests may run as root


def _missing(log: Path) -> None:
    log.unlink()


SPOILT = (
    _emptied,
    _no_database,
    _without_header,
    _anothers,
    _of_a_newer_version,
    _that_nobody_may_open,
    _missing,
)
Spoil = Callable[[Path], None]


@pytest.fixture
def closed(built: Built) -> Tenant:
    """A built tenant whose log is closed and in one file."""
    built.log.settle()
    built.log.close()
    return built.tenant


def mend(log: Path, whole: bytes) -> None:
    """Restore a log's file."""
    log.rmdir() if log.is_dir() else log.unlink(missing_ok=True)
    replace_file(log, whole)


@pytest.fixture
def served(closed: Tenant, home: Path) -> Iterator[Callable[[], OpenTenants]]:
    """Open the tenants of the home on demand; close them at the end."""
    opened: list[OpenTenants] = []

    def serve() -> OpenTenants:
        opened.append(OpenTenants(Settings(home)))
        return opened[-1]

    yield serve
    for open_tenants in opened:
        open_tenants.close()


def recalled(tenants: OpenTenants, query: str = ASKED) -> dict[str, Any]:
    opened = tenants.get("default")
    request = RecallRequest(query=query, touch=False)
    return answer(opened.reader, request, tenants.settings.choices, NOW)[0]


@contextmanager
def without_log(reader: Reader) -> Iterator[View]:
    yield reader.answer(lambda view: view, without_log=True)


def prompted(prompt: str) -> dict[str, Any]:
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "/"}
    return payload | {"prompt": prompt}


def texts(payload: dict[str, Any]) -> list[str]:
    return [hit["text"] for hit in payload["hits"]]


@pytest.mark.parametrize("spoil", SPOILT)
def test_recall_answers_says_so_and_recovers_by_itself(
    served: Callable[[], OpenTenants], closed: Tenant, spoil: Spoil
):
    whole = closed.log.read_bytes()
    spoil(closed.log)
    opened = served()
    payload = recalled(opened)
    assert texts(payload)[0] == FOUND and payload["degraded"]
    [notice] = payload["notices"]
    assert notice.startswith("the log cannot be read: answers know events up to 46, the last build")
    assert str(closed.log) in notice and "`mnemolog doctor --repair`" in notice
    with pytest.raises(LogError):
        opened.get("default").log.append(commands.memory_events([Draft(content="new")], NOW))
    mend(closed.log, whole)
    tenant = opened.get("default")
    assert tenant.reader.poll()
    payload = recalled(opened)
    assert texts(payload)[0] == FOUND and "notices" not in payload
    commands.record(tenant.log, Draft(content="The gateway listens on port 9"), NOW)
    assert recalled(opened, "gateway port")["hits"][0]["text"] == "The gateway listens on port 9"


def test_a_write_that_finds_the_log_mended_is_recalled_at_once(
    served: Callable[[], OpenTenants], closed: Tenant
):
    whole = closed.log.read_bytes()
    _no_database(closed.log)
    opened = served()
    tenant = opened.get("default")
    assert recalled(opened)["degraded"]
    mend(closed.log, whole)
    commands.record(tenant.log, Draft(content="The gateway listens on port 9"), NOW)
    payload = recalled(opened, "gateway port")
    assert payload["hits"][0]["text"] == "The gateway listens on port 9" and not payload["degraded"]


def test_hooks_and_tools_answer_without_the_log(
    served: Callable[[], OpenTenants], closed: Tenant, home: Path
):
    _no_database(closed.log)
    opened = served()
    hooks = Hooks(opened, lambda: NOW, deadline_s=30.0)
    assert FOUND in json.dumps(hooks.answer(HOSTS["claude-code"], prompted(ASKED)))
    # the pending events record the first answer
    assert hooks.answer(HOSTS["claude-code"], prompted(f"{ASKED} which port?")) is None
    begun = {"hook_event_name": "SessionStart", "session_id": "s2", "source": "startup"}
    assert "Answer every recall" in json.dumps(hooks.answer(HOSTS["claude-code"], begun))
    hooks.close()
    client = create_app(opened, mcp_client.TOKEN, lambda: NOW, hook_deadline_s=30.0).test_client()
    response = mcp_client.modern(client, "tools/call", name="recall", arguments={"query": ASKED})
    answer = response.json["result"]["structuredContent"]
    assert answer["degraded"] and answer["memories"][0]["text"] == FOUND
    assert "the log cannot be read" in answer["said"]
    response = mcp_client.modern(client, "tools/call", name="recent", arguments={})
    answer = response.json["result"]["structuredContent"]
    assert len(answer["memories"]) == 20 and "the log cannot be read" in answer["said"]
    response = mcp_client.modern(client, "tools/call", name="project_overview", arguments={})
    assert "the log cannot be read" in response.json["result"]["structuredContent"]["said"]
    response = mcp_client.modern(
        client, "tools/call", name="remember", arguments={"content": "new"}
    )
    assert response.json["result"]["isError"]
    assert "nothing in it is mnemolog" in response.json["result"]["content"][0]["text"]


def test_the_dashboard_says_what_is_wrong(served: Callable[[], OpenTenants], closed: Tenant):
    _no_database(closed.log)
    browser = dashboard_page.browser(dashboard_page.application(served()))
    page = browser.get("/t/default/errors")
    assert page.status_code == 200 and "the log cannot be read" in page.text
    for name in ("overview", "memories"):
        page = browser.get(f"/t/default/{name}")
        assert page.status_code == 500 and "nothing in it is mnemolog" in page.text


def test_nothing_is_answered_where_nothing_was_published(home: Path):
    with EventLog(tenants.tenant(home).log, create=True) as log:
        commands.record(log, Draft(content="The gateway listens on port 9"), NOW)
        log.settle()
    _no_database(log.path)
    opened = OpenTenants(Settings(home))
    with pytest.raises(LogCorrupt):
        opened.get("default")
    opened.close()


def test_while_an_erasing_is_not_ended_nothing_comes_from_what_was_published_before(
    served: Callable[[], OpenTenants], closed: Tenant
):
    with EventLog(closed.log) as log:
        replace_file(closed.erasure_file, b"{}")
        erasing.erase(log, ["m00"], NOW)
    whole = closed.log.read_bytes()
    _no_database(closed.log)
    opened = served()
    with pytest.raises(LogCorrupt):
        recalled(opened)
    mend(closed.log, whole)
    assert FOUND not in texts(recalled(opened))


def test_a_log_that_fails_later_leaves_what_was_read_of_it(built: Built):
    commands.record(built.log, Draft(content="The gateway listens on port 9"), NOW)
    reader = Reader(built.tenant, built.log, built.embedder)
    with reader.view() as view:
        assert view.notices == ()
    with _failing(built.log), pytest.raises(LogError, match="no disk"), reader.view():
        pass
    with _failing(built.log), without_log(reader) as view:
        [notice] = view.notices
        assert "know events up to 47," in notice and "no disk" in notice
        assert view.tail.current()[0].content == "The gateway listens on port 9"
    with without_log(reader) as view:
        assert view.notices == ()


def test_what_is_built_while_a_server_cannot_read_the_log_is_answered_from(built: Built):
    reader = Reader(built.tenant, built.log, built.embedder)
    commands.record(built.log, Draft(id="new", content="The gateway listens on port 9"), NOW)
    published = built.rebuild()
    with _failing(built.log), without_log(reader) as view:
        assert view.snapshots.manifest == published and view.notices
        assert view.tail.find("new") is not None
    with without_log(reader) as view:
        assert view.notices == ()


def test_without_the_log_nothing_is_answered_from_what_is_published_no_more(built: Built):
    reader = Reader(built.tenant, built.log, built.embedder)
    built.tenant.head.unlink()
    shutil.rmtree(built.tenant.manifests)
    with _failing(built.log), pytest.raises(LogError, match="no disk"), without_log(reader):
        pass


def test_a_log_that_was_closed_is_not_answered_for(built: Built):
    reader = Reader(built.tenant, built.log, built.embedder)
    built.log.close()
    with pytest.raises(LogClosed), without_log(reader):
        pass


class _failing:
    """Makes a log fail within the block."""

    def __init__(self, log: EventLog) -> None:
        self._of = log._connections

    def __enter__(self) -> None:
        self._of._why_not = LogError("no disk")

    def __exit__(self, *_: object) -> None:
        self._of._why_not = None


def test_another_log_in_its_place_is_noticed_when_it_can_be_opened_again(
    served: Callable[[], OpenTenants], closed: Tenant, home: Path
):
    with EventLog(tenants.tenant(home, "other").log, create=True) as other:
        commands.record_batch(
            other, [Draft(content=f"The recall server {n} is theirs") for n in range(99)], NOW
        )
        other.settle()
    _no_database(closed.log)
    opened = served()
    assert recalled(opened)["degraded"]
    mend(closed.log, other.path.read_bytes())
    assert opened.get("default").reader.poll()
    payload = recalled(opened)
    assert "it is another log" in payload["notices"][0] and texts(payload)[0] == FOUND
    assert not any("theirs" in text for text in texts(payload))


def test_a_log_that_is_gone_is_not_one_that_never_was(closed: Tenant, home: Path):
    closed.log.unlink()
    with pytest.raises(LogCorrupt, match="is missing: restore a backup"):
        EventLog(tenants.find_tenant(home).log)
    with pytest.raises(NotFound):
        tenants.find_tenant(home, "other")


@pytest.mark.parametrize("spoil", [_emptied, _missing])
def test_what_lay_in_the_write_ahead_file_of_an_emptied_log_is_saved(
    tmp_path: Path, built: Built, spoil: Spoil
):
    copy = tenants.tenant(tmp_path / "copy")
    shutil.copytree(built.tenant.root, copy.root)  # still open, so that events are in the -wal
    ahead = copy.log.with_name("log.sqlite-wal")
    commands.record_batch(built.log, [Draft(content=f"note {n}") for n in range(9)], NOW)
    shutil.copy(built.log.path.with_name(ahead.name), ahead)
    shutil.copy(built.tenant.log_head, copy.log_head)
    spoil(copy.log)
    with EventLog(copy.log, create=True) as log:  # as a server starts: SQLite deletes the -wal
        assert integrity.head_gap(log) is not None
    list(repair(Settings(tmp_path / "copy"), NOW, may_touch_log=True))
    with EventLog(copy.log) as log:
        there = {event.id for event in log.read()}
    assert {event.id for event in built.log.read(built.log.head() - 9)} <= there


def test_a_server_begins_answers_and_recovers_without_a_restart(closed: Tenant, tmp_path: Path):
    whole = closed.log.read_bytes()
    _no_database(closed.log)
    server = Server(tmp_path / "home").ready()
    try:
        answer = server.recall(ASKED)
        assert texts(answer)[0] == FOUND and "the log cannot be read" in answer["notices"][0]
        assert FOUND in json.dumps(server.ask("/v1/hooks/claude-code", prompted(ASKED)))
        assert server.ask("/v1/memories", {"content": "new"}) == _problem("log_corrupt")
        for path in ("/v1/memories", "/v1/memories/m00", "/v1/goals"):
            assert server.ask(path) == _problem("log_corrupt")
        assert server.ask("/ready")[0] == 503
        assert "Traceback" not in server.said()
        mend(closed.log, whole)
        deadline = time.monotonic() + 30
        while server.recall(ASKED)["degraded"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        server.add("The gateway listens on port 9")
        assert server.recall("gateway port")["hits"][0]["text"] == "The gateway listens on port 9"
        assert server.end() == 0
        assert {receipt.body.query for receipt in server.receipts()} >= {ASKED}
    finally:
        server.process.kill()
        server.process.wait()


class _problem:
    """An error response of the server, with a code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, tuple)
        status, answer = other
        return (status, answer["code"]) == (500, self.code)


def test_the_command_line_recalls_and_refuses_to_write(closed: Tenant):
    _no_database(closed.log)
    completed = mnemolog("recall", ASKED)
    assert completed.returncode == 0, completed.stderr
    assert FOUND in " ".join(completed.stdout.split()) and "m00" in completed.stdout
    assert "note: the log cannot be read" in completed.stderr
    assert "no receipt was stored" in completed.stderr
    completed = mnemolog("why", ASKED)
    assert completed.returncode == 0
    assert "the log cannot be read" in completed.stdout + completed.stderr
    for words in (["record", "new"], ["list"], ["forget", "m00"]):
        completed = mnemolog(*words)
        assert completed.returncode and "nothing in it is mnemolog" in completed.stderr
    completed = mnemolog("hook", "claude-code", event=json.dumps(prompted(ASKED)).encode())
    assert completed.returncode == 0 and FOUND in completed.stdout
