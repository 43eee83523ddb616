"""
The cost of a recall in calls of Python functions: unlike time, their number is the same on every
machine.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase
from types import FrameType

import pytest

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

NOW = 1_800_000_000_000_000
EMBEDDER = LexicalEmbedder()
WORDS = ["".join(random.Random(place).choices(ascii_lowercase, k=7)) for place in range(2_000)]
MEMORIES, TAIL, LENGTH = 1_000, 100, 30  # LENGTH is in words a memory
WARM, COUNTED = 30, 30  # questions
MOST_CALLS = 1_500


def texts(count: int, seed: int) -> list[str]:
    """Return texts with Zipfian word frequencies, as in natural text."""
    weights = [1 / (rank + 3) for rank in range(len(WORDS))]
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, weights, k=LENGTH)) for _ in range(count)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A built memory with later events."""
    home: Path = tmp_path_factory.mktemp("home")
    tenant_ = tenant(home)
    with EventLog(tenant_.log, create=True) as log:
        contents = texts(MEMORIES + TAIL, seed=1)
        drafts = [Draft(id=f"m{place}", content=text) for place, text in enumerate(contents)]
        commands.import_drafts(log, drafts[:MEMORIES], NOW)
        rebuild(tenant_, log, EMBEDDER, NOW)
        commands.import_drafts(log, drafts[MEMORIES:], NOW)
        yield Reader(tenant_, log, EMBEDDER)


def test_a_warm_recall_by_words_makes_few_calls(reader: Reader) -> None:
    questions = [" ".join(text.split()[:10]) for text in texts(WARM + COUNTED, seed=2)]
    requests = [RecallRequest(query=question, mode="lexical") for question in questions]
    calls, choices = 0, Choices()
    for request in requests[:WARM]:
        answer(reader, request, choices, NOW)

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        answers = [answer(reader, request, choices, NOW)[0] for request in requests[WARM:]]
    finally:
        sys.setprofile(before)
    assert all(len(payload["hits"]) == choices.top_k for payload in answers)
    assert calls / COUNTED <= MOST_CALLS
