"""A build that is killed while it embeds loses the batch under way and no other."""

import json
import urllib.request
from collections import Counter

import numpy as np
import pytest
from background import until
from embedding_server import DIMENSION, EmbeddingServer

from store.index import vector_cache
from store.log import commands
from store.log.commands import Draft
from store.maintenance import build
from store.maintenance.build_state import StepJournal
from store.maintenance.progress import ProgressEstimate, format_duration
from store.snapshots.projection import digest

NOW = 1_790_000_000_000_000
BATCH = 8
TEXTS = [f"note {number} of many" for number in range(5 * BATCH)]


class Posting:
    """A slow model behind a server that records its requests."""

    model, dimension, is_cheap, is_local = "posting-1", DIMENSION, False, True

    def __init__(self, url: str) -> None:
        self._url = f"{url}/embeddings"

    def embed(self, texts):
        sent = json.dumps({"input": list(texts), "model": "m"}).encode()
        request = urllib.request.Request(self._url, sent, {"Content-Length": str(len(sent))})
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = sorted(json.load(answer)["data"], key=lambda embedding: embedding["index"])
        vectors = np.array([vector["embedding"] for vector in data], np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)

    def embed_queries(self, texts):
        return self.embed(texts)

    def knows(self, text):
        return True


BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_resume import BATCH, NOW, Posting
from store.home import tenant
from store.maintenance import build
from store.log.event_log import EventLog
from store.index import vector_cache
vector_cache._BATCH = BATCH
one = tenant.tenant(Path({home!r}))
with EventLog(one.log) as log:
    build.rebuild(one, log, Posting({url!r}), NOW)
"""


@pytest.fixture
def server():
    running = EmbeddingServer()
    yield running
    running.stop()


def test_a_killed_build_is_gone_on_with(server, log, tenant, child, home, monkeypatch):
    from pathlib import Path

    commands.record_batch(log, [Draft(content=text) for text in TEXTS], NOW)
    server.slow_after = 3
    code = BUILD.format(tests=str(Path(__file__).parent), home=str(home), url=server.url)
    process = child(code)
    until(lambda: len(server.asked) > server.slow_after, 240)
    process.kill()
    process.communicate()
    under_way = server.asked[server.slow_after]
    server.slow_after = None
    monkeypatch.setattr(vector_cache, "_BATCH", BATCH)
    model = Posting(server.url)
    manifest = build.rebuild(tenant, log, model, NOW)
    times = Counter(text for texts in server.asked for text in texts if text in TEXTS)
    assert times == Counter(TEXTS) + Counter(under_way)
    assert not tenant.journals.exists()
    at_once = build.digests(log, model, log.head())["vectors"]
    assert manifest.projections["vectors"].digest == digest(at_once)


def test_a_journal_of_one_model_is_not_read_by_another(tmp_path):
    import pyarrow as pa

    first = StepJournal(tmp_path, "one")
    for number in range(3):
        first.add(pa.table({"number": [number]}))
    assert [table.to_pylist() for table in first.read()] == [[{"number": n}] for n in range(3)]
    assert list(StepJournal(tmp_path, "two").read()) == []


def test_a_pace_tells_how_far_how_fast_and_how_long_yet():
    output: list[str] = []
    times = iter([0.0, 0.5, 40.0, 40.1, 130.0])
    pace = ProgressEstimate("embedded", output.append, lambda: next(times))
    for count in (100, 3_200, 3_210, 11_000):
        pace(count, 11_000)
    assert output == [
        "embedded 3,200 of 11,000, 80/s, 1 min 38 s left",
        "embedded 11,000 of 11,000, 85/s",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(8.2, "8 s"), (59.7, "1 min 0 s"), (92, "1 min 32 s"), (7_500, "2 h 5 min")],
)
def test_a_duration_is_said_as_people_say_it(seconds: float, said: str):
    assert format_duration(seconds) == said
