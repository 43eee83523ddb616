"""Damage to a file on disk is found after the answers and costs none of them."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from test_reader import EMBEDDER, NOW, QUERY, READ, WANTED, Memory, ask, first, newest

from serve.reader import reader as readers
from serve.reader import snapshots
from serve.reader.filters import Filter
from serve.reader.tail import LiveTail
from serve.recall.recall import Question, recall
from store.home.tenant import tenant
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.snapshots import snapshot
from store.snapshots.projection import PartFile


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with two manifests; each test has a copy."""
    home = tmp_path_factory.mktemp("template")
    place = tenant(home)
    with EventLog(place.log, create=True) as log:
        memory_ = Memory(place, log)
        memory_.add(WANTED, "wanted")
        for number in range(20):
            memory_.add(f"note {number} is about tides and charts")
        memory_.build()
        memory_.add("a late note is about anchors", "late")
        memory_.build()
    return home


@pytest.fixture
def memory(tmp_path: Path, template: Path) -> Iterator[Memory]:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    place = tenant(tmp_path)
    with EventLog(place.log) as log:
        yield Memory(place, log)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory too large to be hashed before the first answer."""
    monkeypatch.setattr(readers, "_AT_OPEN", 0)


Harm = Callable[[bytearray], None]


def rot(path: Path, harm: Harm) -> None:
    """Change a file's bytes as a bad disk would: its length and its mtime stay."""
    before, data = path.stat(), bytearray(path.read_bytes())
    harm(data)
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def one_bit(data: bytearray) -> None:
    data[len(data) // 2] ^= 1


def middle(data: bytearray) -> None:
    part = slice(len(data) // 4, len(data) // 2)
    data[part] = b"\xff" * len(data[part])


@pytest.mark.parametrize("projection", READ)
def test_a_rotten_file_costs_no_answer_and_is_named_after_the_next_poll(
    memory: Memory, projection: str
):
    for path in memory.files_read(newest(memory), projection):
        whole, before = path.read_bytes(), path.stat()
        rot(path, middle)
        reader = memory.reader()
        ask(reader)  # this answer may be anything
        reader.poll()
        answer = ask(reader)
        assert first(answer) == "wanted"
        assert any(str(path) in notice for notice in answer.notices)
        path.write_bytes(whole)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not ask(memory.reader()).is_degraded


def test_answers_are_given_before_any_file_was_hashed(memory: Memory, monkeypatch):
    hashed = count_hashing(monkeypatch)
    reader = memory.reader()
    assert first(ask(reader)) == "wanted"
    assert not hashed
    reader.poll()
    assert hashed
    assert not ask(reader).is_degraded


def count_hashing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects every file hashed in the background."""
    hashed: list[str] = []

    def counted(root: Path, file: PartFile) -> Iterator[int]:
        hashed.append(file.path)
        return snapshot.hashing(root, file)

    monkeypatch.setattr(snapshots, "hashing", counted)
    return hashed


def test_a_file_that_was_found_whole_is_not_hashed_again(memory: Memory, monkeypatch):
    reader = memory.reader()
    reader.poll()
    hashed = count_hashing(monkeypatch)
    reader.poll()
    assert not hashed
    memory.add("another note is about sails")
    memory.build()
    assert reader.poll()
    reader.poll()
    assert hashed  # the files of the build
    served = newest(memory).projections.values()
    assert set(hashed) <= {file.path for ref in served for file in ref.files}


def test_hashing_goes_on_a_little_at_every_poll(memory: Memory, monkeypatch):
    monkeypatch.setattr("serve.reader.reader._A_POLL", 1)
    last = memory.files_read(newest(memory), "sessions")[0]
    rot(last, one_bit)
    reader = memory.reader()
    polls = 0
    while not ask(reader).is_degraded:
        reader.poll()
        assert first(ask(reader)) == "wanted"
        polls += 1
        assert polls < 100
    assert polls > 5
    assert str(last) in ask(reader).notices[0]


def test_a_damaged_file_that_breaks_an_answer_is_set_aside_at_once(memory: Memory):
    path = next(
        other
        for other in memory.files_read(newest(memory), "memories")
        if other.name.startswith("memories-")
    )
    rot(path, middle)
    reader, tried = memory.reader(), []

    def broken_once(view):
        tried.append(view.snapshots.manifest.number)
        if len(tried) == 1:
            raise IndexError("an offset out of the file")
        return recall(view, Question(QUERY, Filter(now=NOW), 5))

    answer = reader.answer(broken_once)
    assert first(answer) == "wanted"
    assert str(path) in answer.notices[0]
    assert tried == [newest(memory).number, newest(memory, 1).number]


def test_damage_that_breaks_catching_up_with_the_log_is_set_aside_at_once(
    memory: Memory, monkeypatch
):
    path = memory.files_read(newest(memory), "memories")[0]
    rot(path, one_bit)
    reader = memory.reader()
    extend, calls = LiveTail.extend, []

    def broken_once(live: LiveTail, events: Iterable[Event]) -> list[str]:
        calls.append(live)
        if len(calls) == 1:
            raise IndexError("an offset out of the file")
        return extend(live, events)

    monkeypatch.setattr(LiveTail, "extend", broken_once)
    memory.add("the newest note is about lanterns", "newest")
    with reader.view() as view:
        assert view.tail.find("newest") is not None
        assert view.tail.find("late") is not None
        assert any(str(path) in notice for notice in view.snapshots.notices)
    assert calls[0] is not calls[-1]


def test_a_bug_is_not_mistaken_for_damage(memory: Memory):
    def mistaken(view):
        raise IndexError("ours")

    with pytest.raises(IndexError, match="ours"):
        memory.reader().answer(mistaken)


def test_a_rotten_file_is_not_taken_over_by_a_build_that_only_glances(memory: Memory):
    path = memory.files_read(newest(memory), "memories")[0]
    rot(path, one_bit)
    reader = memory.reader()
    reader.poll()
    assert ask(reader).is_degraded
    build.rebuild(memory.tenant, memory.log, EMBEDDER, NOW, thorough=False)
    assert reader.poll()
    reader.poll()
    assert not ask(reader).is_degraded
    assert path not in memory.files_read(newest(memory), "memories")


def test_any_bytes_of_any_file_may_rot(memory: Memory):
    """For any damage the process lives, and after a poll the answer is right and reports it."""
    for projection in READ:
        for path in memory.files_read(newest(memory), projection):
            whole, before = path.read_bytes(), path.stat()
            for place in range(3, len(whole), max(1, len(whole) // 2)):
                rot(path, lambda data, place=place: data.__setitem__(place, data[place] ^ 0x40))
                reader = memory.reader()
                with np.errstate(all="ignore"):  # overflow of damaged numbers is only a warning
                    ask(reader)
                reader.poll()
                answer = ask(reader)
                assert first(answer) == "wanted"
                assert answer.is_degraded
                path.write_bytes(whole)
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
