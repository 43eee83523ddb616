"""Acknowledged events that vanish are detected and named, and their numbers are not reused."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from serve.cli import main
from serve.reader.reader import Reader
from store.home.config import Settings
from store.home.tenant import Tenant
from store.log import commands, integrity, log_head
from store.log.commands import Draft
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_head import Gap, Head, OtherLog
from store.maintenance import build
from store.maintenance.checkup import checkup
from store.maintenance.verify import verify

NOW = 1_790_000_000_000_000


def memory(id_: str) -> Event:
    return Event(id_, NOW, Recorded(content=f"some words of {id_}"), id_)


def filled(path: Path, *names: str) -> None:
    with EventLog(path, create=True) as log:
        for name in names:
            log.append([memory(name)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


@pytest.fixture
def older(path: Path) -> Path:
    """A log replaced by an older copy, with only a and b of the events a to e."""
    filled(path, "a", "b")
    shutil.copy(path, path.with_name("copy"))
    filled(path, "c", "d", "e")
    shutil.copy(path.with_name("copy"), path)
    return path


def test_the_head_names_the_newest_event_after_every_append(path: Path):
    with EventLog(path, create=True) as log:
        for number, name in enumerate("abc", 1):
            log.append([memory(name)])
            assert log_head.read(path) == Head(number, name, "a")


def test_two_who_append_by_turns_leave_the_newest(path: Path):
    filled(path, "a")
    with EventLog(path) as log, EventLog(path) as other:
        for number in range(6):
            (log if number % 2 else other).append([memory(f"e{number}")])
        assert log_head.read(path) == Head(7, "e5", "a")
        assert integrity.problems(log) == []


def test_an_older_copy_of_the_log_is_noticed_and_lost_events_are_named(older: Path):
    with EventLog(older) as log:
        assert integrity.head_gap(log) == Gap(3, 5)
        assert integrity.problems(log) == ["events 3 to 5 were acknowledged and are gone"]


def test_a_write_ahead_file_that_was_deleted_is_noticed(path: Path, tmp_path: Path):
    with EventLog(path, create=True) as log:
        log.append([memory("a")])
        log.settle()
        log.append([memory("b")])
        there = tmp_path / "there"
        there.mkdir()
        shutil.copy(path, there)
        shutil.copy(log_head.path_of(path), there)
    with EventLog(there / path.name) as log:
        assert integrity.head_gap(log) == Gap(2, 2)


def test_numbers_of_lost_events_are_not_given_again_and_the_log_says_so(older: Path):
    with EventLog(older) as log:
        (appended,) = log.append([memory("f")])
        assert appended.event.seq == 7
        assert integrity.gaps(log) == [(3, 5)]
        assert integrity.problems(log) == [] and integrity.head_gap(log) is None
    filled(older, "g")
    with EventLog(older) as log:
        assert [event.seq for event in log.read()] == [1, 2, 6, 7, 8]


def test_rows_deleted_at_the_end_are_noticed(path: Path, tamper):
    filled(path, "a", "b", "c")
    tamper(path, "DELETE FROM events WHERE seq = 3")
    with EventLog(path) as log:
        assert integrity.head_gap(log) == Gap(3, 3)


def test_an_index_that_says_something_else_than_the_table_is_noticed(path: Path):
    import apsw

    filled(path, "a", "b")
    with EventLog(path) as log:
        log.settle()
    connection = apsw.Connection(str(path))
    root = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'events_by_subject'"
    ).fetchall()[0][0]
    connection.close()
    data = bytearray(path.read_bytes())
    place = data.rindex(b"a", (root - 1) * 4096, root * 4096)
    data[place] ^= 2
    path.write_bytes(data)
    with EventLog(path) as log:
        assert any("index" in problem for problem in integrity.problems(log))
        assert integrity.damage(log)[1]


@pytest.mark.parametrize("data", [b"", b"garbage", b'00000000 [3,"c","a"]\n', None])
def test_a_head_that_cannot_be_read_says_nothing_and_is_made_anew(path: Path, data: bytes | None):
    filled(path, "a", "b")
    log_head.path_of(path).unlink()
    if data is not None:
        log_head.path_of(path).write_bytes(data)
    with EventLog(path) as log:
        assert integrity.head_gap(log) is None and integrity.problems(log) == []
        log.append([memory("c")])
    assert log_head.read(path) == Head(3, "c", "a")


def test_the_log_of_another_tenant_is_noticed_and_its_head_left_for_a_person(path: Path, tmp_path):
    filled(path, "a", "b", "c")
    other = tmp_path / "other" / path.name
    filled(other, "x", "y", "z", "w")
    shutil.copy(other, path)
    with EventLog(path) as log:
        assert integrity.head_gap(log) == OtherLog(3)
        log.append([memory("v")])
        assert integrity.head_gap(log) == OtherLog(3)


def test_erasing_and_archiving_keep_the_head_correct(built):
    from store.log import erasing

    built.log.append([memory("newest")])
    erasing.erase(built.log, ["newest"], NOW)
    assert integrity.head_gap(built.log) is None and integrity.problems(built.log) == []


def test_snapshots_of_lost_events_are_served_until_the_next_build(home, tenant: Tenant, embedder):
    with EventLog(tenant.log, create=True) as log:
        commands.record(log, Draft(id="m1", content="The port is 7437"), NOW)
        log.settle()
        shutil.copy(tenant.log, tenant.root / "older")
        commands.record(log, Draft(id="m2", content="The host is loopback"), NOW)
        build.rebuild(tenant, log, embedder, NOW)
    shutil.copy(tenant.root / "older", tenant.log)
    (tenant.root / "older").unlink()
    with EventLog(tenant.log) as log:
        with Reader(tenant, log, embedder).view() as view:
            assert len(view.snapshots.rows) == 2
            assert view.notices == ("event 2 was acknowledged and is gone: run `mnemolog doctor`",)
        commands.record(log, Draft(id="m3", content="Anna likes small commits"), NOW)
        with Reader(tenant, log, embedder).view() as view:
            assert [memory.id for memory in view.tail.current()] == ["m3"] and not view.notices
        build.rebuild(tenant, log, embedder, NOW)
        assert verify(tenant, log, embedder).ok
    (lost,) = [finding for finding in checkup(Settings(home)) if "has lost" in finding.what]
    assert lost.what == "the log has lost event 2, and says so"


def test_status_names_lost_events(built):
    built.log.settle()
    shutil.copy(built.log.path, built.tenant.root / "older")
    built.log.append([memory("newest")])
    built.log.close()
    shutil.copy(built.tenant.root / "older", built.log.path)
    payload = json.loads(CliRunner().invoke(main, ["status", "--json"]).stdout)
    assert payload["damage"] == ["event 47 was acknowledged and is gone"]


def test_a_damaged_event_of_the_tail_is_left_out_and_said_so(built, tamper, embedder):
    commands.record(built.log, Draft(id="n1", content="The relay is on the roof"), NOW)
    seq = built.log.head()
    commands.record(built.log, Draft(id="n2", content="The relay is in the cellar"), NOW)
    tamper(built.log.path, "UPDATE events SET body = replace(body, 'roof', 'door') WHERE id = 'n1'")
    with Reader(built.tenant, built.log, embedder).view() as view:
        assert [memory.id for memory in view.tail.current()] == ["n2"]
        assert view.notices == (f"event {seq} does not match its hash: restore a backup",)


def test_events_on_either_side_of_a_damaged_page_are_read(path: Path):
    filled(path, *(f"note-{number}" for number in range(200)))
    data = bytearray(path.read_bytes())
    page = data.index(b"some words of note-99") // 4096 * 4096
    data[page : page + 4096] = bytes(4096)
    path.write_bytes(data)
    with EventLog(path) as log:
        events, wrong = integrity.readable_events(log, 0)
    ids = {event.id for event in events}
    assert {"note-0", "note-199"} < ids and "note-99" not in ids and len(wrong) == 1
