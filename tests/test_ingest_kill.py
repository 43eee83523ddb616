"""kill -9 while batches are accepted and recorded: every 202 ends up in the log exactly once."""

import os
import random
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
from store.ingest.job_queue import Queue
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog

KILLS = 5  # `make torture` does it a hundred times, with more at once
CLIENTS = 4
ITEMS = 130  # more than a step, so that a kill may also fall between two of them

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")


class Client:
    """A client that sends one batch after another, and keeps the texts of the accepted jobs."""

    def __init__(self, name: str) -> None:
        self.name, self.numbers = name, count()
        self.accepted: dict[str, list[str]] = {}  # texts by job
        self.unsure: list[str] = []

    def send_until_cut_off(self, server: Server) -> None:
        try:
            while True:
                batch = f"{self.name} batch {next(self.numbers)}"
                texts = [f"item {number} of {batch}, as was sent" for number in range(ITEMS)]
                self.unsure += texts
                body = {"memories": [{"content": text} for text in texts]}
                status, job = server.ask("POST", "/v1/ingest", body)
                if status == 202:
                    self.accepted[job["id"]] = texts
                    del self.unsure[-ITEMS:]
                else:
                    assert (status, job["code"]) == (503, "queue_full")
                    del self.unsure[-ITEMS:]
        except CutOff:
            return


def waiting(queue: Queue) -> int:
    counts = queue.counts()
    return counts["queued"] + counts["running"]


def test_kills_lose_no_accepted_batch_and_double_none(tmp_path: Path):
    home, chance = tmp_path / "home", random.Random(7)
    clients = [Client(f"client{number}") for number in range(CLIENTS)]
    for _ in range(KILLS):
        server = Server(home)
        threads = [
            threading.Thread(target=client.send_until_cut_off, args=(server,)) for client in clients
        ]
        for thread in threads:
            thread.start()
        before = len(clients[0].accepted)
        until(lambda one=clients[0], before=before: len(one.accepted) > before)
        time.sleep(chance.uniform(0.0, 0.3))
        server.kill()
        for thread in threads:
            thread.join()

    last, queue = Server(home), Queue(tenant(home).ingest)
    until(lambda: not waiting(queue), 180)
    assert queue.counts()["dead"] == 0
    queue.close()
    last.kill(signal.SIGTERM)

    with EventLog(tenant(home).log) as log:
        assert integrity.problems(log) == []
        bodies = [
            (event.id, event.body) for event in log.read() if isinstance(event.body, Recorded)
        ]
    written = Counter(body.content for _, body in bodies)
    accepted = {text for client in clients for texts in client.accepted.values() for text in texts}
    unsure = {text for client in clients for text in client.unsure}
    assert max(written.values()) == 1
    assert max(Counter(id_ for id_, _ in bodies).values()) == 1
    assert accepted <= written.keys() <= accepted | unsure
    assert len(accepted) >= KILLS * ITEMS
