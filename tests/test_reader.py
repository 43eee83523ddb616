"""A damaged or foreign snapshot never costs an answer, and a new build never gives a wrong one."""

import gc
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.recall import Answer, Question, recall
from store.derived.catalog import all_projections
from store.embedders.embedder import Embedder
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import Tenant, tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild
from store.snapshots import manifest as manifests
from store.snapshots.manifest import Manifest

NOW = 1_800_000_000_000_000
EMBEDDER = LexicalEmbedder()
READ = (
    "memories",
    "postings",
    "sessions",
    "vectors",
    "entities",
    "facts",
    "usage",
    "lessons",
)  # the tables that recall opens
QUERY = "where does `src/beacon.py` send its heartbeat"
WANTED = "`src/beacon.py` sends its heartbeat to the harbour queue"


@dataclass
class Memory:
    """One tenant on disk, its log open."""

    tenant: Tenant
    log: EventLog

    def add(self, content: str, id_: str | None = None) -> None:
        draft = Draft(id=id_, content=content, context="seen at the pier", tags=("notes",))
        commands.record(self.log, draft, NOW)

    def build(self, embedder: Embedder = EMBEDDER) -> Manifest:
        return rebuild(self.tenant, self.log, embedder, NOW)

    def reader(self, embedder: Embedder = EMBEDDER) -> Reader:
        return Reader(self.tenant, self.log, embedder)

    def files(self, manifest: Manifest, projection: str) -> list[Path]:
        ref = manifest.projections[projection]
        return [self.tenant.snapshots / file.path for file in ref.files]

    def files_read(self, manifest: Manifest, projection: str) -> list[Path]:
        """Return the files of the tables that recall reads; builds check their own tables."""
        projections = {other.name: other for other in all_projections(EMBEDDER)}[projection]
        return [
            self.tenant.snapshots / file.path
            for table, parts in manifest.projections[projection].parts.items()
            if table not in projections.for_builds
            for file in parts
        ]

    def manifest_file(self, manifest: Manifest) -> Path:
        return self.tenant.manifests / f"{manifest.number:08d}.json"


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two manifests, the newer over three more memories, and one memory in the tail."""
    home = tmp_path_factory.mktemp("pattern")
    place = tenant(home)
    with EventLog(place.log, create=True) as log:
        memory = Memory(place, log)
        memory.add(WANTED, "wanted")
        for number in range(20):
            memory.add(f"note {number} is about tides and charts")
        memory.build()
        for number in range(3):
            memory.add(f"late note {number} is about anchors")
        memory.build()
        memory.add("the newest note is about lanterns", "newest")
    return home


@pytest.fixture
def memory(pattern: Path, tmp_path: Path) -> Iterator[Memory]:
    shutil.copytree(pattern, tmp_path / "home")
    place = tenant(tmp_path / "home")
    with EventLog(place.log) as log:
        yield Memory(place, log)


def ask(reader: Reader, query: str = QUERY, embedder: Embedder = EMBEDDER) -> Answer:
    question = Question(query, Filter(now=NOW), 5)
    return reader.answer(lambda view: recall(view, question))


def first(answer: Answer) -> str:
    return answer.hits[0].memory.id


def newest(memory: Memory, number: int = 0) -> Manifest:
    with_number = sorted(memory.tenant.manifests.glob("*.json"))[-1 - number]
    return msgspec.json.decode(with_number.read_bytes(), type=Manifest)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


HARMS = (empty, halve, flip, remove)
Harm = Callable[[Path], None]


@pytest.mark.parametrize("projection", READ)
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_any_damaged_file_is_named_and_the_answer_is_right(
    memory: Memory, projection: str, harm: Harm
):
    paths = memory.files_read(newest(memory), projection)
    assert paths
    for path in paths:
        whole = path.read_bytes()
        harm(path)
        answer = ask(memory.reader())
        assert first(answer) == "wanted"
        assert answer.is_degraded
        assert any(str(path) in notice for notice in answer.notices)
        path.write_bytes(whole)
    assert not ask(memory.reader()).is_degraded


@pytest.mark.parametrize("projection", ["memories", "postings"])
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_an_older_manifest_serves_and_the_tail_fills_the_gap(
    memory: Memory, projection: str, harm: Harm
):
    harm(memory.files(newest(memory), projection)[0])
    reader = memory.reader()
    answer = ask(reader)
    assert answer.manifest == newest(memory, 1).number
    assert answer.watermark == memory.log.head()
    assert first(ask(reader, "late note 2 anchors")) != "wanted"
    assert first(ask(reader, "lanterns")) == "newest"


@pytest.mark.parametrize("projection", ["memories", "postings"])
def test_the_log_alone_serves_where_no_manifest_can(memory: Memory, projection: str):
    for number in (0, 1):
        flip(memory.files(newest(memory, number), projection)[0])
    reader = memory.reader()
    answer = ask(reader)
    assert answer.manifest is None
    assert len(answer.notices) == 2
    assert first(answer) == "wanted"
    assert first(ask(reader, "lanterns")) == "newest"


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_a_damaged_manifest_gives_way_to_the_older_one(memory: Memory, harm: Harm):
    older = newest(memory, 1).number
    harm(memory.manifest_file(newest(memory)))
    answer = ask(memory.reader())
    assert first(answer) == "wanted"
    assert answer.is_degraded
    assert answer.manifest == older


def test_a_manifest_that_reads_well_but_is_not_what_head_names_is_not_served(memory: Memory):
    damaged, older = newest(memory), newest(memory, 1).number
    path = memory.manifest_file(damaged)
    was, later = f'"watermark":{damaged.watermark}', f'"watermark":{damaged.watermark + 1}'
    path.write_text(path.read_text().replace(was, later))  # would hide memories of the tail
    reader = memory.reader()
    assert ask(reader).manifest == older
    assert first(ask(reader, "lanterns")) == "newest"


@pytest.mark.parametrize("which", ["head", "manifest"])
def test_any_byte_of_head_or_manifest_may_be_lost(memory: Memory, which: str):
    path = memory.tenant.head if which == "head" else memory.manifest_file(newest(memory))
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 30)):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        answer = ask(memory.reader())
        assert first(answer) == "wanted"
        assert answer.is_degraded


@pytest.mark.parametrize("harm", (empty, halve))
def test_a_damaged_head_costs_nothing_but_a_notice(memory: Memory, harm: Harm):
    harm(memory.tenant.head)
    answer = ask(memory.reader())
    assert first(answer) == "wanted"
    assert str(memory.tenant.head) in answer.notices[0]


def test_without_snapshots_at_all_the_log_answers(memory: Memory):
    shutil.rmtree(memory.tenant.snapshots)
    answer = ask(memory.reader())
    assert first(answer) == "wanted"
    assert answer.is_degraded


@pytest.mark.parametrize("projection", READ)
def test_a_build_mends_what_was_damaged(memory: Memory, projection: str):
    flip(memory.files_read(newest(memory), projection)[0])
    reader = memory.reader()
    assert ask(reader).is_degraded
    memory.build()
    assert reader.poll()
    assert not ask(reader).is_degraded
    assert first(ask(reader)) == "wanted"


def test_an_unchanged_head_is_not_opened_again(memory: Memory):
    reader = memory.reader()
    assert not reader.poll()
    memory.build()
    assert reader.poll()
    assert not reader.poll()


class Opposite(LexicalEmbedder):
    """Another model of the same dimension, whose vectors have the opposite sign."""

    model = "opposite-1"

    def embed(self, texts: object) -> np.ndarray:
        return -super().embed(texts)


def test_vectors_of_another_model_are_never_compared(memory: Memory):
    reader = memory.reader(Opposite())
    answer = ask(reader, embedder=Opposite())
    assert first(answer) == "wanted"
    assert any(notice.startswith("the vectors were made by") for notice in answer.notices)
    with reader.view() as view:
        assert view.snapshots.vectors is None


def test_a_build_by_the_new_model_brings_its_vectors(memory: Memory):
    reader = memory.reader(Opposite())
    memory.build(Opposite())
    reader.poll()
    assert not ask(reader, embedder=Opposite()).is_degraded


@pytest.mark.usefixtures("quick_turns")
def test_answers_stay_right_while_builds_are_swapped_in(memory: Memory):
    reader, is_over = memory.reader(), threading.Event()

    def hammer() -> int:
        count = 0
        while not is_over.is_set():
            answer = ask(reader)
            assert first(answer) == "wanted"
            assert not answer.is_degraded
            count += 1
        return count

    def rebuild_often() -> set[int | None]:
        watermarks = set()
        for number in range(3):
            memory.add(f"build {number} was made while others asked about tides")
            manifest = memory.build()
            assert reader.poll()
            assert ask(reader, f"build {number}").manifest == manifest.number
            watermarks.add(manifest.number)
        return watermarks

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(hammer) for _ in range(2)]
        try:
            watermarks = rebuild_often()
        finally:
            is_over.set()
        assert all(answer.result() > 10 for answer in asking)
    assert len(watermarks) == 3


def test_what_is_recorded_while_a_build_is_opened_is_in_the_next_answer(memory: Memory):
    class Interrupted(Reader):
        """A reader that recalls, after a write, between opening a build and swapping it in."""

        def _open(self):
            view = super()._open()
            if hasattr(self, "_view"):
                memory.add("a note about whales came in between", "between")
                assert first(ask(self, "whales")) == "between"
            return view

    reader = Interrupted(memory.tenant, memory.log, EMBEDDER)
    memory.build()
    assert reader.poll()
    assert first(ask(reader, "whales")) == "between"


def test_an_answer_held_open_keeps_its_snapshot_through_later_builds(memory: Memory):
    reader = memory.reader()
    with reader.view() as view:
        before = [other.content for other in view.snapshots.rows.take(range(24))]
        for number in range(5):  # more than are kept, so that the mapped folder is deleted
            memory.add(f"later note {number} is about sails")
            memory.build()
        assert [other.content for other in view.snapshots.rows.take(range(24))] == before


def test_replaced_snapshots_are_released_from_memory(memory: Memory):
    reader, former = memory.reader(), list[weakref.ref[object]]()
    gc.collect()
    gc.disable()  # reference cycles would stay until the next collection
    try:
        with ThreadPoolExecutor(4) as pool:
            for count in range(5):
                assert all(answer.hits for answer in pool.map(ask, [reader] * 8, [QUERY] * 8))
                with reader.view() as view:
                    parts = (view, view.snapshots, view.snapshots.rows, view.tail, view.masks)
                    former += map(weakref.ref, parts)
                del view, parts
                memory.add(f"The {count}th harbour queue")
                memory.build()
                assert reader.poll()
    finally:
        gc.enable()
    assert len(former) == 25
    assert [reference() for reference in former if reference() is not None] == []


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what is mapped")
def test_replaced_snapshot_files_are_closed_at_once(memory: Memory):
    reader = memory.reader()
    gc.collect()
    gc.disable()  # the files must be closed without the cycle collector
    try:
        for count in range(2):
            assert ask(reader, QUERY).hits
            memory.add(f"The {count}th harbour queue")
            memory.build()
            manifests.expire(memory.tenant, keep=1)
            assert reader.poll()
        maps = Path("/proc/self/maps").read_text().splitlines()
    finally:
        gc.enable()
    assert not [line for line in maps if str(memory.tenant.root) in line and "(deleted)" in line]
