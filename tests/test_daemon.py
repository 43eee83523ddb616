"""The server in the background: one per home, started, ended and gone without help."""

import http.client
import json
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from background import end, mnemolog, said, until

from serve import __main__
from serve.server import processes
from store.home.config import Settings
from store.home.files import replace_file
from store.home.registry import Server, is_held, live_server, read_registry
from store.home.tenant import tenant
from store.log.event_log import EventLog

posix = pytest.mark.skipif(os.name != "posix", reason="modes and signals of POSIX")


@pytest.fixture(autouse=True)
def _ended(home: Path) -> Iterator[None]:
    yield
    end(home)


def ask(home: Path, path: str, body: object) -> tuple[int, Any]:
    server = live_server(Settings(home))
    assert server is not None
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    token = (home / "token").read_text()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def kinds(home: Path) -> list[str]:
    with EventLog(tenant(home).log) as log:
        return [event.kind for event in log.read()]


def test_start_returns_when_the_server_answers_and_leaves_it_running(home: Path):
    started = said("start")
    assert started["new"]
    assert ask(home, "/v1/recall", {"query": "tides"})[0] == 200
    shown = said("status")["server"]
    assert (shown["pid"], shown["port"]) == (started["pid"], started["port"])
    assert shown["idle_exit_s"] == 7_200


def test_start_leaves_a_server_that_runs_alone(home: Path):
    first, second = said("start"), said("start")
    assert (second["pid"], second["new"]) == (first["pid"], False)
    assert f"already running: http://127.0.0.1:{first['port']}" in mnemolog("start").stdout


def test_stop_waits_until_it_is_gone_and_says_where_there_was_none(home: Path):
    pid = said("start")["pid"]
    assert said("stop")["stopped"]["pid"] == pid
    assert not is_held(Settings(home))
    assert not (home / "server.json").exists()
    assert said("stop")["stopped"] is None


def test_stop_writes_pending_receipts_first(home: Path):
    said("start")
    ask(home, "/v1/recall", {"query": "tides"})
    said("stop")
    assert kinds(home) == ["recalled"]


@posix
def test_the_registry_is_the_owners_and_every_start_has_its_own_instance(home: Path):
    said("start")
    first = read_registry(Settings(home))
    assert stat.S_IMODE((home / "server.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "server.log").stat().st_mode) == 0o600
    said("stop")
    said("start")
    second = read_registry(Settings(home))
    assert first is not None and second is not None
    assert len(first.instance) == 32
    assert first.instance != second.instance
    assert 0 < first.started_at < second.started_at


def test_stop_ends_no_process_that_was_given_the_pid_of_a_dead_server(home: Path):
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        server = Server(sleeping.pid, 1, 1, "a" * 32)
        replace_file(home / "server.json", msgspec.json.encode(server))
        assert said("stop")["stopped"] is None
        assert sleeping.poll() is None
    finally:
        sleeping.kill()
        sleeping.wait()


@posix
def test_stop_signals_a_server_that_does_not_answer(home: Path):
    said("start")
    server = read_registry(Settings(home))
    assert server is not None
    with socket.socket() as mute:  # as if it hung: nothing answers at its port
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]
        named = msgspec.structs.replace(server, port=port)
        replace_file(home / "server.json", msgspec.json.encode(named))
        assert said("stop")["stopped"]["pid"] == server.pid
    assert not is_held(Settings(home))


def test_stop_waits_for_running_requests(home: Path):
    said("start")
    drafts = [{"content": f"note {number}: " + "tide and ebb " * 200} for number in range(1_000)]
    answers: list[int] = []
    asking = threading.Thread(
        target=lambda: answers.append(ask(home, "/v1/memories/batch", {"memories": drafts})[0])
    )
    asking.start()
    time.sleep(0.2)
    processes.stop_server(Settings(home))
    asking.join()
    assert answers == [201]
    assert len(kinds(home)) == 1_000


def test_it_ends_when_nobody_asked_for_a_while_and_writes_what_it_gathered(home: Path):
    said("start", MNEMOLOG_IDLE_EXIT_S="2")
    ask(home, "/v1/recall", {"query": "tides"})
    until(lambda: not is_held(Settings(home)))
    assert kinds(home) == ["recalled"]
    assert not (home / "server.json").exists()


def test_in_the_foreground_it_never_ends_by_itself_unless_asked(home: Path):
    result = mnemolog("serve", "--port", "0", "--idle-exit", "1")
    assert result.returncode == 0
    assert "listens on" in result.stdout


def test_a_server_whose_home_was_deleted_ends(home: Path):
    pid = said("start")["pid"]
    shutil.rmtree(home)
    until(lambda: not _is_there(pid))


def _is_there(pid: int) -> bool:
    """Return True if a process runs; an ended process not yet reaped does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc/self").exists()


@posix
def test_after_a_kill_it_starts_again(home: Path):
    pid = said("start")["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_held(Settings(home)))
    assert said("status")["server"] is None
    assert said("start")["pid"] != pid


def test_a_program_with_the_pid_and_the_port_of_a_dead_server_is_none(home: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        left = Server(os.getpid(), other.getsockname()[1], 1, "a" * 32)
        replace_file(home / "server.json", msgspec.json.encode(left))
        assert live_server(Settings(home)) is None


def test_where_its_port_is_taken_it_listens_elsewhere(home: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        started = said("start", MNEMOLOG_PORT=str(port))
    assert started["port"] != port
    assert f"port {port} is taken" in (home / "server.log").read_text()


def test_servers_of_two_homes_live_side_by_side(home: Path, tmp_path: Path):
    other = tmp_path / "other"
    try:
        first, second = said("start"), said("--home", str(other), "start")
        assert first["port"] != second["port"]
        said("--home", str(other), "stop")
        assert live_server(Settings(home)).pid == first["pid"]
    finally:
        end(other)


@posix
def test_start_says_why_it_did_not_start(home: Path):
    home.mkdir()
    (home / "token").write_text("secret")
    (home / "token").chmod(0o644)
    result = mnemolog("start")
    assert result.returncode == 2
    assert "chmod 600" in result.stderr


def test_starting_at_once_from_four_places_gives_one_server(home: Path):
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(said("start")["pid"])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {live_server(Settings(home)).pid}
    processes.stop_server(Settings(home))
    time.sleep(1)  # time enough for a late server to replace the one that ended
    assert not is_held(Settings(home))


def test_its_log_quotes_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, secret = tmp_path / "server.log", "gh" + "p_" + "a1B2c3D4e5F6" * 3
    with open(path, "a") as file:
        monkeypatch.setattr(sys, "stderr", file)
        handler = __main__.BoundedLog(path)
        try:
            raise ValueError(f"no such thing: {secret}")
        except ValueError:
            failure = sys.exc_info()
        record = logging.LogRecord("x", logging.ERROR, "", 0, "of %s", (secret,), failure)
        handler.emit(record)
    assert "ValueError" in path.read_text() and secret not in path.read_text()


def test_its_log_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "server.log"
    monkeypatch.setattr(__main__, "LOG_BYTES", 1_000)
    with open(path, "a") as file:
        monkeypatch.setattr(sys, "stderr", file)
        handler = __main__.BoundedLog(path)
        for number in range(500):
            record = logging.LogRecord("x", logging.INFO, "", 0, f"line {number}", (), None)
            handler.emit(record)
    assert path.stat().st_size < 1_100
    assert path.read_text().endswith("line 499\n")
    assert "line 0\n" not in (tmp_path / "server.log.1").read_text() + path.read_text()


def test_arguments_are_refused_with_the_command_that_was_meant(tmp_path: Path):
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "serve", "import", "git", "."],
        env=os.environ | {"MNEMOLOG_HOME": str(tmp_path)},
        cwd=Path(__main__.__file__).parents[1],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 2 and "run `mnemolog import`" in ran.stderr
    assert not list(tmp_path.iterdir())
