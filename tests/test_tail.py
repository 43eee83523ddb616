"""The tail's law: a snapshot with the log's tail over it answers as a full rebuild would."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from plain_receipt import plain_receipt

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.snapshots import Snapshots
from serve.reader.tail import LiveTail
from serve.reader.view import View
from serve.recall.recall import LEAST_IDF, Question, recall
from store.derived.sessions import SESSIONS_PROJECTION, Sessions
from store.embedders.lexical import LexicalEmbedder
from store.home.errors import EmbedderError
from store.home.tenant import Tenant, tenant
from store.index.postings import POSTINGS_PROJECTION, PostingsIndex
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    Archived,
    Body,
    Forgotten,
    Hit,
    Linked,
    Pinned,
    Rated,
    Recalled,
    Recorded,
    Restored,
    Revised,
    Superseded,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.rows import MemoryRows
from store.snapshots.projection import Inputs, build_checked
from store.text import tokenizer

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
EMBEDDER = LexicalEmbedder()
WORDS = ("anchor", "badger", "copper", "dragon", "ember", "falcon")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
NUMBERS = st.integers(0, 9)  # of memories; an unrecorded one is an unknown subject

CHANGES = st.one_of(
    st.builds(
        Recorded,
        content=TEXTS,
        key=st.sampled_from([None, None, "deploy.region", "deploy.branch"]),
        ttl_s=st.sampled_from([None, None, 5, 50]),
    ),
    st.builds(Revised, content=st.none() | TEXTS, context=st.none() | TEXTS, ttl_s=st.none()),
    st.builds(Superseded, by=NUMBERS.map(lambda n: f"m{n}")),
    st.builds(Linked, target=NUMBERS.map(lambda n: f"m{n}"), relation=st.just("support")),
    st.builds(Pinned, pinned=st.booleans()),
    st.builds(Rated, verdict=st.just(1.0)),
    st.sampled_from([Archived(), Forgotten(), Restored()]),
    st.builds(
        Recalled,
        query=TEXTS,
        mode=st.just("auto"),
        manifest=st.none(),
        watermark=st.just(0),
        hits=st.just((Hit("m0", 1.0, 1.0),)),
        dropped=st.just({}),
        took_us=st.just(1),
    ),
)
HISTORIES = st.lists(st.tuples(CHANGES, NUMBERS), max_size=30)


def events(history: list[tuple[Body, int]]) -> list[Event]:
    """Return a history as the log would hold it: a second apart, memories named by their position.

    No two texts are equal: only the best of equal texts is returned, and that may be any of them.
    """
    count, written = 0, []
    for seq, (body, about) in enumerate(history, start=1):
        id_, subject, project = f"e{seq}", f"m{about}", None
        if isinstance(body, Recorded):
            id_ = subject = f"m{count}"
            project, count = ("shop" if count % 2 else None), count + 1
        if getattr(body, "content", None):
            body = structs.replace(body, content=f"{body.content} text{seq}")
        written.append(Event(id_, NOW + seq * SECOND, body, subject, project, seq=seq))
    return written


def view_at(log: list[Event], watermark: int) -> View:
    """Return a view of a snapshot of the first events with the others in the tail."""
    inputs = Inputs(watermark, lambda after: iter(log[after:watermark]))
    tables = {"memories": build_checked(MEMORIES_PROJECTION, inputs, None)}
    above = Inputs(watermark, inputs.read, tables)
    rows = MemoryRows.open(tables["memories"])
    tables["postings"] = build_checked(POSTINGS_PROJECTION, above, None)
    index = PostingsIndex.open(tables["postings"])
    sessions = Sessions.open(build_checked(SESSIONS_PROJECTION, above, None))
    live = LiveTail(rows, index, EMBEDDER)
    live.extend(log[watermark:])
    return View(
        Snapshots(
            manifest=None,
            embedder=EMBEDDER,
            rows=rows,
            postings=index,
            vectors=None,
            entities=None,
            duplicates=None,
            facts=None,
            sessions=sessions,
            usage=None,
            lessons=None,
            statement_weights=None,
            state=None,
            insights=None,
            routes=None,
            notices=(),
        ),
        live.now(),
    )


def recalled_ids(view: View, query: str, now: int, **only: object) -> set[str]:
    question = Question(query, Filter(now=now, **only), 200, "lexical")
    return {hit.memory.id for hit in recall(view, question).hits}


@given(HISTORIES, st.integers(0, 30), st.integers(0, 60))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_any_split_gives_the_memories_of_a_full_rebuild(
    history: list[tuple[Body, int]], split: int, later: int
):
    log = events(history)
    split, now = min(split, len(log)), NOW + later * SECOND
    laid_over, rebuilt = view_at(log, split), view_at(log, len(log))
    for number in range(10):
        id_ = f"m{number}"
        assert laid_over.tail.find(id_) == rebuilt.tail.find(id_)
    for only in ({}, {"active_only": False}, {"project": "shop"}):
        for query in WORDS:
            assert recalled_ids(laid_over, query, now, **only) == recalled_ids(
                rebuilt, query, now, **only
            )


@given(st.lists(TEXTS, min_size=1, max_size=12, unique=True), TEXTS)
@settings(deadline=None, max_examples=60)
def test_a_memory_scores_the_same_in_the_tail_as_in_the_snapshot(texts: list[str], query: str):
    recorded = [(Recorded(content=text), 0) for text in texts]
    touched = [(Pinned(), number) for number in range(len(texts))]  # changes no text
    view = view_at(events([*recorded, *touched]), len(texts))
    terms = tokenizer.terms(query)
    snapshot = view.snapshots.postings.scores(terms, least_idf=LEAST_IDF)
    tail = view.tail.scores(terms, least_idf=LEAST_IDF)
    assert view.tail.hidden_rows.tolist() == list(range(len(texts)))
    np.testing.assert_allclose(tail, snapshot, rtol=1e-5, atol=1e-5)


def test_a_word_nobody_holds_has_an_idf_in_an_empty_memory():
    assert np.isfinite(view_at([], 0).tail.idf("anything"))


@dataclass
class Memory:
    """One tenant on disk, with a reader that was opened before the changes of a test."""

    tenant: Tenant
    log: EventLog
    reader: Reader
    now: int = NOW

    def add(self, content: str, **fields: object) -> str:
        self.now += SECOND
        return commands.record(self.log, Draft(content=content, **fields), self.now).event.id

    def ids(self, query: str, **only: object) -> list[str]:
        question = Question(query, Filter(now=self.now, **only), 10, "lexical")
        with self.reader.view() as view:
            return [hit.memory.id for hit in recall(view, question).hits]


@pytest.fixture(params=["tail", "snapshot"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """A memory with one note, in the tail or in a snapshot."""
    place = tenant(tmp_path)
    with EventLog(place.log, create=True) as log:
        commands.record(log, Draft(id="old", content="badgers eat copper wire"), NOW)
        if request.param == "snapshot":
            rebuild(place, log, EMBEDDER, NOW)
        yield Memory(place, log, Reader(place, log, EMBEDDER))


def test_a_fresh_memory_is_found_at_once(memory: Memory):
    id_ = memory.add("falcons nest on the tower")
    assert memory.ids("falcon tower") == [id_]


def test_a_fresh_memory_is_found_by_the_file_it_names(memory: Memory):
    id_ = memory.add("the retries live in `src/net/backoff.py` now")
    memory.add("the retries were a bad idea")
    question = Question("backoff.py", Filter(now=memory.now), 10, "entity")
    with memory.reader.view() as view:
        ids = [hit.memory.id for hit in recall(view, question).hits]
    assert ids == [id_]


def test_what_another_process_appends_is_found_at_once(memory: Memory):
    with EventLog(memory.tenant.log) as other:
        commands.record(other, Draft(id="theirs", content="falcons nest on the tower"), NOW)
    assert memory.ids("falcon tower") == ["theirs"]


def test_a_forgotten_memory_is_gone_at_once_and_a_restored_one_is_back(memory: Memory):
    commands.forget(memory.log, "old", NOW)
    assert memory.ids("copper", active_only=False) == []
    commands.restore(memory.log, "old", NOW)
    assert memory.ids("copper") == ["old"]


def test_an_archived_memory_is_found_only_where_it_is_asked_for(memory: Memory):
    commands.archive(memory.log, "old", NOW)
    assert memory.ids("copper") == []
    assert memory.ids("copper", active_only=False) == ["old"]


def test_a_revised_text_is_found_by_its_new_words_alone(memory: Memory):
    commands.revise(memory.log, "old", Revised(content="badgers eat fibre cable"), NOW)
    assert memory.ids("copper wire") == []
    assert memory.ids("fibre cable") == ["old"]


def test_a_superseded_memory_gives_way_at_once(memory: Memory):
    newer = memory.add("badgers eat no copper wire at all")
    commands.supersede(memory.log, "old", newer, NOW)
    assert memory.ids("badger copper") == [newer]


def test_the_newest_of_a_key_holds_at_once(memory: Memory):
    first = memory.add("deploys go to frankfurt", key="deploy.region", value="fra")
    assert memory.ids("deploy frankfurt") == [first]
    second = memory.add("deploys go to dublin", key="deploy.region", value="dub")
    assert memory.ids("deploy") == [second]


def test_a_key_in_the_snapshot_is_replaced_by_one_in_the_tail(memory: Memory):
    first = memory.add("deploys go to frankfurt", key="deploy.region")
    rebuild(memory.tenant, memory.log, EMBEDDER, NOW)
    memory.reader.poll()
    second = memory.add("deploys go to dublin", key="deploy.region")
    assert memory.ids("deploy") == [second]
    commands.restore(memory.log, first, NOW)
    assert memory.ids("deploy") == [first]


def test_a_key_is_held_within_its_project(memory: Memory):
    ids = [memory.add("deploys go out", key="deploy.at", project=name) for name in ("shop", "bank")]
    assert memory.ids("deploy", project="shop") == ids[:1]
    assert memory.ids("deploy", project="bank") == ids[1:]


def test_a_ttl_runs_out_with_the_clock(memory: Memory):
    id_ = memory.add("the staging host is down today", ttl_s=60)
    memory.now += 59 * SECOND
    assert memory.ids("staging") == [id_]
    memory.now += SECOND
    assert memory.ids("staging") == []


def test_receipts_change_no_answer(memory: Memory):
    before = memory.ids("badger copper")
    hits = (Hit("old", 1.0, 1.0),)
    memory.log.append([Event("r1", NOW, plain_receipt(hits=hits), "r1")])
    with memory.reader.view() as view:
        assert view.tail.watermark == memory.log.head()
        assert "r1" not in {other.id for other in view.tail.current()}
    assert memory.ids("badger copper") == before


def test_a_build_changes_no_answer_and_empties_the_tail(memory: Memory):
    ids = {memory.add(f"copper pipe number {word}") for word in WORDS}
    before = set(memory.ids("copper"))
    rebuild(memory.tenant, memory.log, EMBEDDER, NOW)
    assert memory.reader.poll()
    assert set(memory.ids("copper")) == before == ids | {"old"}
    with memory.reader.view() as view:
        assert len(view.tail) == 0


class Unreachable(LexicalEmbedder):
    """A model that does not answer."""

    def embed(self, texts: object) -> np.ndarray:
        raise EmbedderError("the model does not answer: start it")


def test_without_a_model_a_fresh_memory_is_found_by_its_words(tmp_path: Path):
    place = tenant(tmp_path)
    with EventLog(place.log, create=True) as log:
        reader = Reader(place, log, Unreachable())
        for number in range(70):
            commands.record(log, Draft(content=f"falcon number {number} nests"), NOW)
        with reader.view() as view:
            answer = recall(view, Question("falcon number 7", Filter(now=NOW), 1))
    assert answer.hits[0].memory.content == "falcon number 7 nests"
    assert answer.is_degraded
    assert "does not answer" in answer.notices[0]


def test_only_a_restore_brings_back_what_was_forgotten(memory: Memory):
    newer = memory.add("falcons nest on the tower")
    commands.forget(memory.log, "old", NOW)
    commands.archive(memory.log, "old", NOW)
    commands.supersede(memory.log, "old", newer, NOW)
    assert memory.ids("copper", active_only=False) == []
    assert memory.ids("copper", cold=True) == []
    commands.restore(memory.log, "old", NOW)
    assert memory.ids("copper") == ["old"]
