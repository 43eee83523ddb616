"""
kill -9 in the middle of writes: what was acknowledged is there, and a retry makes no second one.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from store.events import Recorded
from store.log import EventLog
from store.tenant import tenant

ROOT = Path(__file__).parents[1]
START = "from serve.process.server import run; from store.config import load; run(load(), port=0)"
KILLS = 20
CLIENTS = 4

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")


class Server:
    """A server process of a home, and the address to ask it at."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START],
            env=os.environ | {"MNEMOLOG_HOME": str(home), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])
        self.token = (home / "token").read_text()

    def record(self, body: dict[str, str]) -> int:
        """Return the status of one write; raise OSError or HTTPException where it was cut off."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request("POST", "/v1/memories", json.dumps(body), headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Client:
    """Writes one memory after the other; one that was cut off is sent again under its id."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.numbers = count()
        self.acknowledged: list[str] = []
        self.unsure: list[dict[str, str]] = []
        self.statuses: Counter[int] = Counter()

    def write_until_cut_off(self, server: Server) -> None:
        try:
            while True:
                if not self.unsure:
                    id_ = f"{self.name}-{next(self.numbers)}"
                    self.unsure.append({"id": id_, "content": f"memory {id_} of a busy client"})
                status = server.record(self.unsure[0])
                assert status in (200, 201), status
                self.statuses[status] += 1
                self.acknowledged.append(self.unsure.pop(0)["id"])
        except (OSError, http.client.HTTPException):
            return


def test_twenty_kills_lose_nothing_and_double_nothing(tmp_path: Path):
    home = tmp_path / "home"
    clients = [Client(f"client{number}") for number in range(CLIENTS)]
    for cycle in range(KILLS):
        server = Server(home)
        threads = [
            threading.Thread(target=client.write_until_cut_off, args=(server,))
            for client in clients
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.05 + 0.02 * cycle)  # another moment each time
        server.kill()
        for thread in threads:
            thread.join()

    with EventLog(tenant(home).log) as log:
        assert log.integrity() == []
        written = Counter(event.id for event in log.read() if isinstance(event.body, Recorded))
    acknowledged = {id_ for client in clients for id_ in client.acknowledged}
    unsure = {body["id"] for client in clients for body in client.unsure}
    assert max(written.values()) == 1
    assert acknowledged <= written.keys() <= acknowledged | unsure
    assert len(acknowledged) > KILLS * CLIENTS
    assert sum(client.statuses[201] for client in clients) > KILLS


def test_after_a_kill_a_retry_of_everything_writes_only_what_is_missing(tmp_path: Path):
    home = tmp_path / "home"
    client, server = Client("client"), Server(home)
    writing = threading.Thread(target=client.write_until_cut_off, args=(server,))
    writing.start()
    time.sleep(0.3)
    server.kill()
    writing.join()
    again = Server(home)
    for id_ in client.acknowledged:
        assert again.record({"id": id_, "content": f"memory {id_} of a busy client"}) == 200
    for body in client.unsure:
        assert again.record(body) in (200, 201)
    again.kill(signal.SIGTERM)
    with EventLog(tenant(home).log) as log:
        assert log.head() == len(client.acknowledged) + len(client.unsure)
