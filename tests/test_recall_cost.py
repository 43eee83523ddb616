"""The cost of a recall in calls of Python functions, whose number is the same on every machine."""

import random
import sys
from itertools import product
from types import FrameType

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.log import commands
from store.log.commands import Draft
from store.maintenance.build import rebuild

NOW = 1_790_000_000_000_000
MOST_CALLS = 1_500
EMBEDDER = LexicalEmbedder()


def test_a_recall_by_words_makes_few_calls(tenant, log):
    draw = random.Random(7)
    words = list(map("".join, product(("ka", "lo", "mi", "ver", "sto", "ne"), repeat=5)))[:5_000]
    shares = [1 / rank for rank in range(1, len(words) + 1)]
    notes = [" ".join(draw.choices(words, shares, k=30)) for _ in range(1_000)]
    commands.record_batch(log, [Draft(content=note) for note in notes], NOW)
    rebuild(tenant, log, EMBEDDER, NOW)
    reader, calls = Reader(tenant, log, EMBEDDER), 0

    def ask(query: str) -> None:
        request = RecallRequest(query=query, mode="lexical", touch=False)
        payload, _ = answer(reader, request, Choices(), NOW)
        assert len(payload["hits"]) == 8

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    queries = [" ".join(note.split()[:10]) for note in notes[:120]]
    for query in queries[:20]:  # the first queries load the tables
        ask(query)
    sys.setprofile(count)
    try:
        for query in queries[20:]:
            ask(query)
    finally:
        sys.setprofile(None)
    assert calls / 100 <= MOST_CALLS
