"""A view is one state of the memory: later events are in the next view, and no reader waits."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from test_tail import HISTORIES, NOW, WORDS, Body, Memory, events

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.tail import LiveTail, Tail
from serve.reader.view import View
from serve.recall.recall import Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.index import postings
from store.index.postings import PostingsIndex
from store.log import commands, integrity
from store.log.event_kinds import Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild
from store.memories.rows import MemoryRows
from store.text.mentions import mentions

EMBEDDER = LexicalEmbedder()
ASKED = mentions("what did Ada change in `src/anchor.py`")


def live_tail() -> LiveTail:
    index = PostingsIndex.open(
        {name: table.combine_chunks() for name, table in postings.index([]).items()}
    )
    return LiveTail(MemoryRows.empty(), index, EMBEDDER)


def tail_state(tail: Tail) -> list[object]:
    """Return all data that recall reads from a tail."""
    words = [*WORDS, "text3", "anchors", "badgerly"]  # the last two match similar words
    columns = tail.columns
    return [
        tail.watermark,
        tail.size,
        tail.sample_coverage,
        tail.people,
        [tail.find(f"m{number}") for number in range(10)],
        [
            [predecessor.id for predecessor in tail.predecessors(f"m{number}")]
            for number in range(10)
        ],
        tail.current(),
        tail.scores(words, least_idf=0.1).tolist(),
        [(tail.idf(word), tail.frequency(word)) for word in words],
        tail.contains(words, np.arange(len(tail))).tolist(),
        tail.entity_scores(ASKED).tolist(),
        Filter(now=NOW, project="shop").mask(columns).tolist(),
        Filter(now=NOW, as_of=NOW).mask(columns).tolist(),
        columns.column_values("state", np.arange(len(tail))),
    ]


@given(HISTORIES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_tail_answers_the_same_however_much_was_added_after_it(history: list[tuple[Body, int]]):
    live, tails = live_tail(), []
    for event in (log := events(history)):
        live.extend([event])
        tails.append(live.now())
    for length, tail in enumerate(tails, start=1):
        alone = live_tail()
        for event in log[:length]:
            alone.extend([event])
        assert tail_state(tail) == tail_state(alone.now())


@given(HISTORIES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_events_give_the_same_memories_one_by_one_or_at_once(history: list[tuple[Body, int]]):
    at_once, one_by_one = live_tail(), live_tail()
    at_once.extend(events(history))
    for event in events(history):
        one_by_one.extend([event])
    by_id = {memory.id: memory for memory in at_once.now().current()}
    assert {memory.id: memory for memory in one_by_one.now().current()} == by_id
    for word in WORDS:
        first, second = at_once.now(), one_by_one.now()
        assert first.idf(word) == second.idf(word)
        assert sorted(scored(first, word)) == sorted(scored(second, word))


def scored(tail: Tail, word: str) -> Iterator[tuple[str, float]]:
    scores = tail.scores([word], least_idf=0.1).tolist()
    for memory, score in zip(tail.take(range(len(tail))), scores, strict=True):
        if score:
            yield memory.id, score


def test_scores_are_written_where_they_are_wanted():
    live = live_tail()
    live.extend(events([(body, 0) for body in [commands.Recorded(content="anchor")] * 3]))
    tail, buffer = live.now(), np.full(5, 7, np.float32)
    tail.scores(["anchor"], least_idf=0.1, out=buffer[1:4])
    assert buffer.tolist() == [7, *tail.scores(["anchor"], least_idf=0.1).tolist(), 7]


@pytest.fixture(params=["tail", "snapshot"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """A memory with one note, in the tail or in a snapshot."""
    place = tenant(tmp_path)
    with EventLog(place.log, create=True) as log:
        commands.record(log, commands.Draft(id="old", content="badgers eat copper wire"), NOW)
        if request.param == "snapshot":
            rebuild(place, log, EMBEDDER, NOW)
        yield Memory(place, log, Reader(place, log, EMBEDDER))


def contents(view: View, query: str) -> list[str]:
    question = Question(query, Filter(now=NOW), 10, "lexical")
    return [hit.memory.content for hit in recall(view, question).hits]


def test_a_view_keeps_what_was_revised_and_forgotten_since(memory: Memory):
    with memory.reader.view() as before:
        commands.revise(memory.log, "old", Revised(content="badgers eat fibre cable"), NOW)
        with memory.reader.view() as revised:
            commands.forget(memory.log, "old", NOW)
            with memory.reader.view() as forgotten:
                assert contents(forgotten, "badgers copper fibre") == []
            assert contents(revised, "badgers copper") == ["badgers eat fibre cable"]
        assert contents(before, "badgers fibre") == ["badgers eat copper wire"]
        assert before.tail.find("old").content == "badgers eat copper wire"


def test_nobody_waits_for_an_answer_that_is_held_open(memory: Memory):
    with memory.reader.view() as view_, ThreadPoolExecutor(1) as pool:
        memory.add("falcons nest on the tower")
        assert pool.submit(memory.ids, "falcon tower").result(timeout=60)
        assert contents(view_, "falcon tower") == []


def test_threads_that_see_the_same_new_events_read_them_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    reads, reached, go_on = [], threading.Event(), threading.Event()
    read = integrity.readable_events

    def wait_and_read(log: EventLog, after: int) -> tuple[list[Event], list[str]]:
        reads.append(after)
        reached.set()
        assert go_on.wait(timeout=60)
        return read(log, after)

    id_ = memory.add("falcons nest on the tower")
    monkeypatch.setattr(integrity, "readable_events", wait_and_read)
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(memory.ids, "falcon tower")]
        assert reached.wait(timeout=60)
        answers += [pool.submit(memory.ids, "falcon tower") for _ in range(2)]
        go_on.set()
        assert [answer.result() for answer in answers] == [[id_]] * 3
    assert len(reads) == 1


@pytest.mark.usefixtures("quick_turns")
def test_a_memory_that_is_revised_meanwhile_is_in_every_answer_once(memory: Memory):
    """Each answer has it in the same or a newer version than the answer before."""
    is_over = threading.Event()

    def ask() -> list[int]:
        views = []
        while not is_over.is_set() or not views:
            with memory.reader.view() as view:
                (content,) = contents(view, "badgers eat")
            views.append(int(content.removeprefix("badgers eat meal ").split()[0]))
        return views

    commands.revise(memory.log, "old", Revised(content="badgers eat meal 0 today"), NOW)
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        try:
            for number in range(1, 60):
                change = Revised(content=f"badgers eat meal {number} today")
                commands.revise(memory.log, "old", change, NOW)
                if number % 20 == 0:
                    rebuild(memory.tenant, memory.log, EMBEDDER, NOW)
                    memory.reader.poll()
        finally:
            is_over.set()
        for call in asking:
            assert all(older <= newer for older, newer in pairwise(call.result()))
    with memory.reader.view() as view:
        assert contents(view, "badgers eat") == ["badgers eat meal 59 today"]
