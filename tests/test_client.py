"""The hook client as a host runs it: it answers in time or stays silent, and never fails."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec
import pytest
from background import end, mnemolog, said, until

from serve import client, unserved
from store.home import config
from store.home.config import Settings
from store.home.files import replace_file
from store.home.registry import Server, is_held, live_server
from store.home.tenant import tenant
from store.log.event_log import EventLog

CLIENT = Path(client.__file__)
ANSWER = b'{"hookSpecificOutput":{"additionalContext":"we deploy at noon"}}'
DELIVERY = f"{1:020d}-{'a' * 32}"
LATEST_S = 10.0  # far above any deadline of the client: reaching it means waiting for ever


@pytest.fixture(autouse=True)
def _ended(home: Path) -> Iterator[None]:
    yield
    end(home)


def event(name: str = "UserPromptSubmit", **fields: object) -> bytes:
    base = {"session_id": "s1", "cwd": "/", "prompt": "where must we deploy the customers' data?"}
    return json.dumps(base | {"hook_event_name": name} | fields).encode()


def run(sent: bytes = b"", *words: str, before: tuple[str, ...] = ()) -> bytes:
    """Return the client's output; it must succeed, print nothing else and hold no pipe."""
    return _run([str(CLIENT)], sent, *words, before=before)


def run_patiently(sent: bytes = b"", *words: str) -> bytes:
    """Return the output of a client that waits for the server however slow this machine is."""
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from serve import client; "
        "client.ANSWER_S = client.PROBE_S = 60.0; client.main(sys.argv[1:])"
    )
    return _run(["-c", code, str(CLIENT.parents[1])], sent, *words, timeout_s=90.0)


def _run(
    program: list[str],
    sent: bytes,
    *words: str,
    before: tuple[str, ...] = (),
    timeout_s: float = LATEST_S,
) -> bytes:
    result = subprocess.run(
        [sys.executable, "-I", "-S", *before, *program, "claude-code", *words],
        input=sent or event(),
        capture_output=True,
        timeout=timeout_s,
    )
    assert result.returncode == 0
    assert result.stderr == b"" or before
    return result.stderr if before else result.stdout


def nobody(*sent: object) -> tuple[bytes | None, bool]:
    """Deliver to no server."""
    return None, False


@contextmanager
def listening(home: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Act as the server of a home: each connection is passed to `serve`, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        serve(connection)
            except OSError:
                return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        register(home, server.getsockname()[1], os.getpid())
        yield
        server.shutdown(socket.SHUT_RDWR) if sys.platform == "linux" else None
    thread.join(timeout=LATEST_S)


def register(home: Path, port: int, pid: int) -> None:
    server = Server(pid, port, 1, "a" * 32)
    replace_file(home / "token", b"secret")
    replace_file(home / "server.json", msgspec.json.encode(server))  # its reader connects at once


def saying(answer: bytes, heard: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    """Return a server that reads a whole request, keeps it and replies with `answer`."""

    def serve(connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < _length(data):
            if not (part := connection.recv(1 << 16)):
                return
            data += part
        if heard is not None:
            heard.append(data)
        connection.sendall(answer)

    return serve


def _length(data: bytes) -> int:
    return int(data.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])


def http(body: bytes, status: bytes = b"200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, size, body)


def kinds(home: Path) -> list[str]:
    with EventLog(tenant(home).log) as log:
        return [event.kind for event in log.read()]


def breaker(home: Path) -> Path:
    return Settings(home).server_breaker


def tripped(home: Path, ago_s: float = 0.0) -> None:
    """Record that a hook waited in vain some seconds ago."""
    home.mkdir(mode=0o700, exist_ok=True)
    client.trip(str(home))
    then = time.time() - ago_s
    os.utime(breaker(home), (then, then))


def tried(home: Path) -> bool:
    return (home / "server.try").exists()


def test_the_servers_answer_is_printed_as_it_is(home: Path):
    heard: list[bytes] = []
    with listening(home, saying(http(ANSWER), heard)):
        assert run_patiently(event(), "--tenant", "work") == ANSWER
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/hooks/claude-code?tenant=work HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret" in head
    assert body == event()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 NO CONTENT\r\n\r\n",
        http(b'{"error":{}}', b"401 UNAUTHORIZED"),
        http(b'{"error":{}}', b"500 INTERNAL SERVER ERROR"),
        http(ANSWER, length=len(ANSWER) + 1),
        http(b"<html>nothing of ours</html>"),
        b"HTTP/1.1 200 OK\r\n\r\n" + ANSWER,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        os.urandom(2_000),
        b"",
    ],
    ids=["silence", "401", "500", "cut off", "no JSON", "no length", "SSH", "noise", "hang up"],
)
def test_an_incomplete_answer_prints_nothing(home: Path, answer: bytes):
    with listening(home, saying(answer)):
        assert run_patiently() == b""
    assert not tried(home)


def test_a_server_that_hangs_is_waited_for_once(home: Path):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        register(home, mute.getsockname()[1], os.getpid())
        assert run() == b""
        mute.accept()[0].close()
        assert run() == b""
        mute.settimeout(0.05)
        with pytest.raises(TimeoutError):
            mute.accept()
    assert not tried(home)


def test_a_server_with_a_full_backlog_is_not_replaced(home: Path):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            register(home, port, os.getpid())
            assert run() == b""
    assert breaker(home).exists() and not tried(home)


def test_after_a_pause_one_hook_tries_a_server_that_hung(home: Path):
    tripped(home, ago_s=client.BREAKER_S + 1)
    with listening(home, saying(http(ANSWER))):
        assert run_patiently() == ANSWER


def test_a_clock_that_was_put_back_keeps_no_breaker_open(home: Path):
    tripped(home, ago_s=-3_600)
    assert client._breaker(str(home)) == (True, True)


def test_a_server_that_never_starts_is_waited_for_once_only(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    mnemolog("record", "The tides come at noon", "--no-project")
    tenant(home).log.write_bytes(os.urandom(20_000))
    run()
    assert breaker(home).exists()
    monkeypatch.setattr(unserved, "_from_disk", None)  # any wait now fails
    monkeypatch.setattr(unserved, "_from_server", None)
    assert (
        unserved.answer(
            str(home), "claude-code", "", event(), client.deliver, delivery=DELIVERY, waits=False
        )
        == b""
    )


def test_who_waits_for_a_server_leaves_when_another_waited_in_vain(home: Path):
    tripped(home)
    data = unserved._from_server(str(home), "claude-code", "", event(), nobody, DELIVERY, 60.0)
    assert data is None


def test_a_run_that_is_off_is_told_of_although_the_server_hung(home: Path):
    heard: list[bytes] = []
    tripped(home)
    with listening(home, saying(http(b"{}"), heard)):
        with_off = os.environ | {"MNEMOLOG_OFF": "1"}
        subprocess.run(
            [sys.executable, "-I", "-S", str(CLIENT), "claude-code"],
            input=event("SessionStart"),
            env=with_off,
            timeout=LATEST_S,
            check=True,
        )
        until(lambda: heard)
    assert b"X-Mnemolog-Off: 1" in heard[0]


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGSTOP")
def test_a_server_that_goes_on_closes_the_breaker_itself(home: Path):
    mnemolog("record", "The tides come at noon", "--no-project")
    pid = said("start")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert run() == b""
        assert breaker(home).exists()
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not breaker(home).exists())


def test_a_server_that_was_ended_is_started_again_at_the_next_prompt(home: Path):
    mnemolog("record", "The tides come at noon", "--no-project")
    for _ in range(2):
        run()
        until(lambda: live_server(Settings(home)))
        until(lambda: not tried(home))
        said("stop")


def test_a_host_that_never_ends_its_event_is_left(home: Path):
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(CLIENT), "claude-code"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"{")
        process.stdin.flush()
        assert process.stdout.read() == b""
        assert process.wait(timeout=LATEST_S) == 0


def test_without_a_token_there_is_silence(home: Path):
    with listening(home, saying(http(ANSWER))):
        (home / "token").unlink()
        assert run() == b""


def test_an_event_too_large_is_dropped_and_one_as_large_as_may_be_is_sent(home: Path):
    heard: list[bytes] = []
    largest = b" " * client.MAX_BYTES
    with listening(home, saying(http(ANSWER), heard)):
        assert run_patiently(largest) == ANSWER
        assert run_patiently(largest + b" ") == b""
    assert len(heard) == 1


def test_what_is_delivered_costs_no_module_that_is_not_needed(home: Path):
    with listening(home, saying(http(ANSWER))):
        timed = run(event(), before=("-X", "importtime")).decode()
    imported = {line.rpartition("|")[2].strip() for line in timed.splitlines()}
    assert "_socket" in imported
    assert imported & {"socket", "json", "subprocess", "site", "re", "http.client"} == set()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX's and macOS's folders")
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"XDG_DATA_HOME": "/data/of/mine"},
        {"XDG_DATA_HOME": "not/absolute"},
        {"XDG_DATA_HOME": ""},
        {"MNEMOLOG_HOME": "/elsewhere", "XDG_DATA_HOME": "/data/of/mine"},
        {"MNEMOLOG_HOME": "~/here"},
        {"MNEMOLOG_HOME": ""},
    ],
)
def test_its_home_is_the_one_of_the_settings(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("MNEMOLOG_HOME")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert os.path.expanduser(client.home_of(os.environ)) == str(config.load().home)


def test_a_home_that_is_named_wins(home: Path, tmp_path: Path):
    other = tmp_path / "other"
    with listening(other, saying(http(ANSWER))):
        assert run_patiently(event(), "--home", str(other)) == ANSWER


def test_what_is_answered_from_the_disk_is_what_the_server_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unserved, "COLD_S", 60.0)  # the speed of a busy machine is not tested here
    text = "We deploy to eu-west-1 because the customers' data must stay in the EU"
    mnemolog("record", text, "--kind", "decision", "--no-project")
    cold = unserved._from_disk(str(home), "claude-code", "", event(), DELIVERY)
    assert b"We deploy to eu-west-1" in cold
    said("start")
    sessions = count()  # a busy machine may leave one of them without an answer
    until(lambda: run(event(session_id=f"next-{next(sessions)}")) == cold.strip())


def test_with_no_server_one_is_started_for_the_next_prompt(home: Path):
    mnemolog("record", "The tides come at noon", "--no-project")
    run(event(prompt="when do the tides come at noon?"))
    until(lambda: live_server(Settings(home)))


def test_a_server_that_came_up_a_moment_ago_answers_and_none_is_started(home: Path):
    home.mkdir()
    args = (str(home), "claude-code", "", event())
    late = unserved.answer(*args, lambda *_: (ANSWER, True), delivery=DELIVERY)
    assert late == ANSWER and not tried(home)
    assert not (home / "server.log").exists()


def test_while_a_server_is_being_started_it_is_waited_for(home: Path):
    (home / "tenants/default").mkdir(mode=0o700, parents=True)
    (home / "server.try").touch()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(run_patiently)
        time.sleep(0.3)  # by then it has found that none listens yet
        with listening(home, saying(http(ANSWER))):
            assert asking.result() == ANSWER


def test_a_server_that_does_not_come_is_waited_for_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unserved, "COLD_S", 60.0)
    monkeypatch.setattr(unserved, "TRY_EVERY_S", 600.0)
    mnemolog("record", "The tides come at noon", "--no-project")
    tried_s = time.time() - unserved.COLD_S
    (home / "server.try").touch()
    os.utime(home / "server.try", (tried_s, tried_s))
    sent = event(prompt="when do the tides come at noon?")
    answer = unserved.answer(str(home), "claude-code", "", sent, nobody, delivery=DELIVERY)
    assert b"at noon" in answer


def test_the_registry_of_a_killed_server_is_not_believed(home: Path):
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    with socket.create_server(("127.0.0.1", 0)) as other:
        register(home, other.getsockname()[1], gone.pid)
        (home / "server.try").touch()
        run(event("PostToolUse"))
        other.settimeout(0.05)
        with pytest.raises(TimeoutError):
            other.accept()


def test_four_sessions_at_once_start_one_server(home: Path):
    mnemolog("record", "The tides come at noon", "--no-project")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: run(event(session_id=f"s{number}")), range(4)))
    until(lambda: "listens on" in (home / "server.log").read_text())
    log = (home / "server.log").read_text()
    assert (log.count("listens on"), log.count("ERROR")) == (1, 0)


def test_the_use_of_a_tool_starts_a_server_that_records_it(home: Path):
    assert run(event("PostToolUse", tool_name="Bash")) == b""
    until(lambda: live_server(Settings(home)))
    until(lambda: kinds(home) == ["action"])


def test_the_end_of_a_session_starts_nothing(home: Path):
    assert run(event("SessionEnd")) == b""
    assert not home.exists()


def test_what_was_tried_a_moment_ago_is_not_tried_again(home: Path):
    home.mkdir(mode=0o700)
    (home / "server.try").touch()
    run(event("PostToolUse"))
    assert not (home / "server.log").exists()
    long_ago = time.time() - unserved.TRY_EVERY_S - 1
    os.utime(home / "server.try", (long_ago, long_ago))
    run(event("PostToolUse"))
    until(lambda: live_server(Settings(home)))


@pytest.mark.parametrize("sent", [b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_an_invalid_event_prints_nothing(home: Path, sent: bytes):
    assert run(sent) == b""
    assert not home.exists()


@pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")
def test_between_a_kill_and_the_next_start_nothing_fails(home: Path):
    pid = said("start")["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_held(Settings(home)))
    run(event("PostToolUse"))
    until(lambda: live_server(Settings(home)))


def test_doctor_looks_at_the_hosts_beside_a_running_server(home: Path):
    mnemolog("record", "The tides come at noon", "--no-project")
    said("start")
    completed = subprocess.run(
        [sys.executable, "-m", "serve.cli", "doctor"],
        capture_output=True,
        text=True,
        cwd=CLIENT.parents[1],
    )
    assert "Traceback" not in completed.stderr and "server" in completed.stdout
