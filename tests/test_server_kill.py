"""kill -9 during writes: acknowledged memories are kept, and a retry makes no duplicate."""

import os
import signal
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from background import until
from torture.server import CutOff, Server

from store.home.tenant import tenant
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog

KILLS = 5  # `make torture` does it a hundred times, with more at once
CLIENTS = 4

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")


class Client:
    """Writes one memory after another; an interrupted one is sent again under its id."""

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
        except CutOff:
            return


def test_kills_lose_nothing_and_double_nothing(tmp_path: Path):
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
        before = len(clients[0].acknowledged)
        until(lambda one=clients[0], before=before: len(one.acknowledged) > before)
        time.sleep(0.08 * cycle)  # a different moment each time
        server.kill()
        for thread in threads:
            thread.join()

    with EventLog(tenant(home).log) as log:
        assert integrity.problems(log) == []
        written = Counter(event.id for event in log.read() if isinstance(event.body, Recorded))
    acknowledged = {id_ for client in clients for id_ in client.acknowledged}
    unsure = {body["id"] for client in clients for body in client.unsure}
    assert max(written.values()) == 1
    assert acknowledged <= written.keys() <= acknowledged | unsure
    assert len(acknowledged) > KILLS
    assert sum(client.statuses[201] for client in clients) > KILLS


def test_after_a_kill_a_retry_of_everything_writes_only_what_is_missing(tmp_path: Path):
    home = tmp_path / "home"
    client, server = Client("client"), Server(home)
    writing = threading.Thread(target=client.write_until_cut_off, args=(server,))
    writing.start()
    until(lambda: len(client.acknowledged) > 3)
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
