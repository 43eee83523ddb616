"""The search after an erasing: the texts, the places, and the receipt's report."""

import gzip
import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from command_line import answer, run, succeed
from pyarrow import ipc, parquet

from pipelines.jobs.archive import write_archive
from serve.cli.erase import _build_anew
from serve.server import processes
from store.home.config import Settings
from store.home.errors import PlanStale
from store.ingest.batch import Batch, Refused
from store.ingest.job_queue import Queue
from store.log import commands, erasing, integrity, salvage
from store.log.commands import Draft
from store.log.event_kinds import (
    Acted,
    Judged,
    Made,
    Planned,
    Prompted,
    Recalled,
    Recorded,
    Revised,
    SessionTold,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import erase, erase_receipt, erase_scan
from store.maintenance.erase_scan import scan
from store.plans import plans, steps
from store.text import fingerprints
from store.text.fingerprints import Looker

NOW = 1_790_000_000_000_000
Clock = Callable[[], int]
SALT = b"0123456789abcdef"
TEXT = "The Zanzibar customers keep all of their orders in the old bucket behind the harbour"
MARKS = fingerprints.of([TEXT], SALT)


@pytest.fixture(autouse=True)
def built_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build in this process; `test_erase.py` covers the command's own builds."""

    def build(settings: Settings, name: str) -> None:
        write_archive(settings, name, NOW, lambda what: None, only_newest=True)

    monkeypatch.setattr("serve.cli.erase._build_anew", build)


def erased(*words: str) -> Any:
    """Return the receipt of an erasing by the command, clean or not."""
    result = run("erase", *words, "--yes", "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "said",
    [
        TEXT,
        TEXT.upper(),
        TEXT[20:],
        json.dumps({"said": json.dumps(TEXT.replace(" ", "\n"))}),
        "before, " + TEXT.replace(" ", " \\u002d ") + ", after",
    ],
)
def test_a_long_piece_of_a_text_is_found_however_it_was_written(said: str):
    assert Looker(MARKS).holds(said)


def test_a_few_common_words_do_not_match_an_erased_text():
    assert not Looker(MARKS).holds("all of their orders went into the old town behind us")
    assert Looker(MARKS).holds("a zanzibar of a kind", words=True)


def test_a_text_without_spaces_has_runs_too():
    looker = Looker(
        fingerprints.of(["港の古い倉庫にすべての注文が保管されている。鍵は事務所にある。"], SALT)
    )
    assert looker.holds("彼は言った：「港の古い倉庫にすべての注文が保管されているよ」と。")
    assert not looker.holds("港の新しい倉庫には何もない。鍵は家にある。")


def test_the_marks_quote_nothing():
    kept = repr(MARKS).lower()
    assert not any(word.lower() in kept for word in TEXT.split() if len(word) > 3)


def test_a_text_that_nothing_tells_apart_is_counted():
    assert (
        fingerprints.of(["db", "ok", TEXT], SALT).short,
        len(fingerprints.of(["db"], SALT)),
    ) == (2, 0)


def written(folder: Path) -> dict[str, Callable[[Path], None]]:
    """Return the ways in which a file may hold a text, by name."""

    def in_sqlite(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE t (v BLOB)")
            connection.execute("INSERT INTO t VALUES (?)", (zlib.compress(TEXT.encode()),))
        connection.close()

    def freed(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute("CREATE TABLE t (v TEXT)")
            connection.execute("INSERT INTO t VALUES (?)", (TEXT * 100,))
            connection.execute("DELETE FROM t")
        connection.close()

    def in_arrow(path: Path) -> None:
        table = pa.table({"words": pa.array([["x", TEXT]]), "n": [1]})
        with ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)

    def in_parquet(path: Path) -> None:
        parquet.write_table(pa.table({"v": [TEXT] * 9}), path, compression="zstd")

    return {
        "plain.txt": lambda path: path.write_text(TEXT) and None,
        "utf16.txt": lambda path: path.write_bytes(b"\xff" * 9 + TEXT.encode("utf-16-le")) and None,
        "packed.gz": lambda path: path.write_bytes(gzip.compress(TEXT.encode())) and None,
        "rows.db": in_sqlite,
        "freed.db": freed,
        "table.arrow": in_arrow,
        "cold.parquet": in_parquet,
    }


def test_the_scan_finds_it_in_every_kind_of_file(tmp_path: Path):
    ways = written(tmp_path)
    for name, write in ways.items():
        write(tmp_path / name)
    (tmp_path / "harmless.txt").write_text("Nobody said anything of the kind")
    report = scan(tmp_path, tmp_path, MARKS)
    assert {hit.path for hit in report.found} == ways.keys()
    assert {hit.path for hit in report.found if hit.is_plain} >= {"plain.txt", "freed.db"}
    assert (report.files, report.decoded) == (len(ways) + 1, 5)


def test_a_file_that_cannot_be_read_is_no_proof(tmp_path: Path):
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    assert scan(tmp_path, tmp_path, MARKS).unread == ("torn.parquet",)


def told(built, clock: Clock) -> None:
    """Record a memory, and events of others that quote it."""
    commands.record(built.log, Draft(id="e1", content=TEXT, tags=("harbour-office",)), clock())
    bodies = {
        "q1": Prompted(prompt=f"is it so that {TEXT}?"),
        "a1": Acted(tool="Bash", command=f"echo {TEXT}"),
        "q2": Prompted(prompt="what about the harbour"),
    }
    built.log.append([Event(id_, clock(), body, id_) for id_, body in bodies.items()])
    commands.record(built.log, Draft(id="o1", content=f"Anna said: {TEXT}"), clock())


def test_quotes_of_an_erased_text_are_listed_and_can_be_cut(built, clock: Clock):
    told(built, clock)
    first = erased("e1")
    assert {quote["id"]: quote["can_be_cut"] for quote in first["quotes"]} == {
        "q1": True,
        "a1": True,
        "o1": False,
    }
    second = erased("e1", "o1", "--also-quotes")
    assert (second["quotes"], second["left"], second["cut"]) == ([], [], 3)
    said = {event.id: event.body for event in built.log.read()}
    assert said["q1"] == Prompted(prompt="") and said["a1"] == Acted(tool="Bash")
    assert said["q2"] == Prompted(prompt="")  # it has a word that occurs in no other memory
    assert not [path for path in built.tenant.root.rglob("*") if holds(path, "zanzibar")]


def test_a_word_shared_with_another_memory_is_no_quote(built, clock: Clock):
    told(built, clock)
    commands.record(built.log, Draft(id="o2", content="A harbour is no bucket"), clock())
    erased("e1", "o1", "--also-quotes")
    said = {event.id: event.body for event in built.log.read()}
    assert said["q2"] == Prompted(prompt="what about the harbour")


def talk(built, clock: Clock) -> None:
    """Record a session's events, with a distinct word in each text."""
    bodies = {
        "t1": Prompted(prompt="what is Zanzibar?"),
        "t2": Acted(tool="Bash", command="ls zanzibar/", error="ZANZIBAR: not there"),
        "t3": SessionTold(stage="stopped", said="I looked at zanzibar."),
        "t4": Recalled(
            query="zanzibar",
            mode="auto",
            manifest=None,
            watermark=0,
            hits=(),
            dropped={},
            took_us=1,
        ),
        "t5": Acted(tool="Bash", command="ls"),
    }
    commands.record(built.log, Draft(id="e1", content="Zanzibar is an island"), clock())
    commands.record(built.log, Draft(id="e2", content="Madagascar is another"), clock())
    commands.rate(built.log, "e2", 1.0, clock(), "not of zanzibar")
    events = [Event(id_, clock(), body, id_, session="talk") for id_, body in bodies.items()]
    built.log.append(events)


def test_a_text_is_erased_wherever_it_is_said(built, clock: Clock):
    talk(built, clock)
    told_first = answer("erase", "--text", "zanzibar", "--dry-run")
    assert told_first["ids"] == ["e1"]
    assert told_first["cut"] == {
        "action": 1,
        "prompted": 1,
        "rated": 1,
        "recalled": 1,
        "session": 1,
    }
    done = erased("--text", "zanzibar")
    assert (done["ids"], done["cut"], done["left"]) == (["e1"], 5, [])
    assert not [path for path in built.tenant.root.rglob("*") if holds(path, "zanzibar")]
    said = {event.id: event.body for event in built.log.read()}
    assert said["e2"].content and said["t5"] == Acted(tool="Bash", command="ls")


def test_words_are_erased_only_where_they_stand_together(built, clock: Clock):
    talk(built, clock)
    done = erased("--text", "an Island")
    assert (done["ids"], done["cut"], done["left"]) == (["e1"], 0, [])


def test_an_event_and_a_session_are_erased_by_their_ids(built, clock: Clock):
    talk(built, clock)
    erased("t3")
    said = {event.id: event.body for event in built.log.read()}
    assert said["t3"] == SessionTold(stage="stopped") and said["t2"].command
    done = erased("--session", "talk")
    assert done["ids"] == ["t1"] and done["left"] == []
    said = {event.id: event.body for event in built.log.read()}
    assert said["t2"] == Acted(tool="-") and said["t4"].query == "" and said["e1"].content


def test_an_event_that_cannot_lose_its_texts_is_refused_by_name(built, clock: Clock):
    body = Judged(verdicts={"m01": 1.0}, evidence={"m01": "of zanzibar"})
    built.log.append([Event("j1", clock(), body, "r1")])
    result = run("erase", "j1", "--dry-run")
    assert result.exit_code != 0 and "--text" in result.output
    assert erased("--text", "zanzibar")["cut"] == 1


def test_a_name_that_says_an_asked_text_stays_and_is_named(built, clock: Clock):
    built.log.append([Event("t1", clock(), Prompted(prompt="hello"), "t1", session="zanzibar")])
    done = erased("--text", "zanzibar")
    assert [(quote["id"], quote["can_be_cut"]) for quote in done["quotes"]] == [("t1", False)]


def test_a_session_is_named_by_the_first_letters_of_its_id(built, clock: Clock):
    for name in ("5f0c1f2e", "5f0c77aa"):
        built.log.append(
            [Event(f"e{name}", clock(), Prompted(prompt="hi"), f"e{name}", session=name)]
        )
    words = ("erase", "--dry-run", "--session")
    ambiguous = run(*words, "5f0c")
    assert ambiguous.exit_code == 2 and "5f0c1f2e, 5f0c77aa" in ambiguous.output
    succeed(*words, "5f0c1")


@pytest.mark.parametrize("words", [(), ("--text", "--"), ("--session", "nobody"), ("nothing",)])
def test_erasing_an_unknown_target_fails(built, words: tuple[str, ...]):
    assert run("erase", *words, "--yes").exit_code != 0


def holds(path: Path, word: str) -> bool:
    return path.is_file() and word in path.read_bytes().decode("utf-8", "replace").lower()


def test_the_receipt_quotes_nothing_and_is_whole(built, clock: Clock):
    told(built, clock)
    settings = Settings(built.tenant.root.parents[1])
    erase_receipt.record_copy(built.tenant, "export", "/elsewhere/memories.jsonl", clock())
    erased("e1", "o1", "--also-quotes")
    (path,) = erase_receipt.receipts_folder(built.tenant).glob("*.json")
    kept = msgspec.json.decode(path.read_bytes(), type=erase_receipt.Receipt)
    assert kept.digest == erase_receipt.receipt_digest(kept)
    assert kept.is_clean and kept.scan.marks > 3 and kept.scan.bytes > 10_000
    assert [copy.to for copy in kept.copies] == ["/elsewhere/memories.jsonl"]
    assert "zanzibar" not in path.read_text().lower()
    assert not erase.has_start(built.tenant) and settings.home.exists()


def test_what_an_erasing_that_was_killed_looked_for_is_looked_for_again(built, clock: Clock):
    commands.record(built.log, Draft(id="e1", content=TEXT), clock())
    (built.tenant.root / "notes.txt").write_text(TEXT)  # which the first try did not reach
    erase.wipe(built.tenant, built.log, erase.EraseRequest(("e1",)), clock())
    assert erase.has_start(built.tenant)
    assert "zanzibar" not in (built.tenant.root / "erasing.json").read_text()
    again = erased("e1")
    assert again["left"] == ["tenants/default/notes.txt"]
    (built.tenant.root / "notes.txt").unlink()
    assert erased("e1")["left"] == []


def test_another_tenants_words_are_named_and_left_alone(built, clock: Clock):
    commands.record(built.log, Draft(id="e1", content=TEXT), clock())
    other = built.tenant.root.with_name("other")
    other.mkdir()
    (other / "log.txt").write_text(TEXT)
    found = erased("e1")
    assert (found["left"], found["elsewhere"]) == ([], ["tenants/other/log.txt"])
    assert (other / "log.txt").read_text() == TEXT


def test_runs_of_dagster_that_quote_are_dropped_whole(tmp_path: Path):
    history = tmp_path / "dagster" / "history"
    (history / "runs").mkdir(parents=True)
    with sqlite3.connect(history / "runs.db") as runs:
        runs.execute("CREATE TABLE runs (run_id TEXT, status TEXT)")
        ended = [("r1", "SUCCESS"), ("r2", "SUCCESS"), ("r3", "STARTED")]
        runs.executemany("INSERT INTO runs VALUES (?, ?)", ended)
    with sqlite3.connect(history / "index.db") as index:
        index.execute("PRAGMA journal_mode = WAL")  # as Dagster has it
        index.execute("CREATE TABLE events (run_id TEXT, event TEXT NOT NULL)")
        event = json.dumps({"sample": json.dumps({"md": f"| `{TEXT[:100]}` |"})})
        said = [("r1", event), ("r1", "picture"), ("r2", "fine"), ("r3", event)]
        index.executemany("INSERT INTO events VALUES (?, ?)", said)
    for run_id in ("r1", "r2"):
        (history / "runs" / f"{run_id}.db").write_bytes((history / "runs.db").read_bytes())
    erase_scan.drop_records(tmp_path, tmp_path / "tenant", Looker(MARKS))
    with sqlite3.connect(history / "index.db") as index:
        left = index.execute("SELECT run_id FROM events").fetchall()
    assert left == [("r2",)]
    for connection in (runs, index):
        connection.close()


def test_a_log_that_quotes_is_emptied_and_a_failure_forgotten(tmp_path: Path):
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "build.json").write_text(json.dumps({"said": TEXT}))
    (tmp_path / "server.log").write_text(TEXT)
    (tmp_path / "server.log.1").write_text("nothing of the kind")
    erase_scan.drop_records(tmp_path, tmp_path / "tenant", Looker(MARKS))
    assert not (tmp_path / "failures" / "build.json").exists()
    assert (tmp_path / "server.log").read_text() == ""
    assert (tmp_path / "server.log.1").read_text()


def test_copies_of_damaged_files_that_quote_are_deleted(tmp_path: Path):
    damaged = tmp_path / "tenants" / "default" / "damaged"
    damaged.mkdir(parents=True)
    (damaged / "log.sqlite-1").write_bytes(b"SQLite format 3\x00 and then rubbish")
    (damaged / "log.sqlite-2").write_text(f"a page with {TEXT}")
    (damaged / "HEAD-3").write_text("nothing of the kind")
    erase_scan.drop_records(tmp_path, damaged.parent, Looker(MARKS))
    assert [path.name for path in damaged.iterdir()] == ["HEAD-3"]


def test_a_write_ahead_file_that_was_kept_at_opening_is_reached_and_what_stays_is_named(
    built, clock: Clock
):
    log = built.log
    commands.record(log, Draft(id="e1", content=TEXT), clock())
    log.settle()
    commands.revise(log, "e1", Revised(context=f"{TEXT}, I said"), clock())
    ahead = log.path.with_name("log.sqlite-wal")
    whole = {path: path.read_bytes() for path in built.tenant.root.glob("log.*")}
    log.close()
    for path, data in whole.items():
        path.write_bytes(data)
    ahead.write_bytes(whole[ahead][:100] + b"?" + whole[ahead][101:])
    with EventLog(log.path) as opened:
        assert integrity.head_gap(opened) is not None
    folder = salvage.folder_of(log.path)
    (kept,) = folder.iterdir()
    assert TEXT.encode() in kept.read_bytes()
    (folder / "HEAD-3").write_text("nothing of the kind")
    found = erased("e1")
    assert kept.relative_to(built.tenant.root.parents[1]).as_posix() in found["dropped"]
    assert [path.name for path in folder.iterdir()] == ["HEAD-3"]
    assert [copy["to"] for copy in found["copies"]] == [str(folder / "HEAD-3")]


def test_erasing_cleans_judgments_of_waiting_plans(built, clock: Clock):
    commands.record(built.log, Draft(id="e1", content=TEXT), clock())
    judged = Judged(verdicts={"e1": 1.0}, evidence={"e1": "for the harbour answered"})
    step = steps.judge("r1", judged, "the harbour helped")
    plan = Planned(job="judge", watermark=built.log.head(), steps=(step,), notes=("harbour",))
    id_ = plans.propose(built.log, plan, clock()).id
    erasing.erase(built.log, ["e1"], clock())
    assert "harbour" not in repr(plans.find(built.log, id_).body)


def test_a_plan_that_waits_to_make_something_of_it_makes_nothing(built, clock: Clock):
    commands.record(built.log, Draft(id="e1", content=TEXT), clock())
    lesson = Draft(id="l1", kind="lesson", content="Ask about the harbour", source_ids=("e1",))
    step = steps.record(lesson, Made(job="distill"), clock(), "of it")
    plan = Planned(job="distill", watermark=built.log.head(), steps=(step,))
    id_ = plans.propose(built.log, plan, clock()).id
    erasing.erase(built.log, ["e1"], clock())
    with pytest.raises(PlanStale):
        plans.apply(built.log, id_, clock())
    assert built.log.events_for("l1") == []


def test_derivatives_include_indirect_ones(built, clock: Clock):
    def record(id_: str, *sources: str) -> None:
        body = Recorded(content=f"of {sources}", source_ids=sources, made=Made(job="reflect"))
        built.log.append([Event(id_, clock(), body, id_)])

    commands.record(built.log, Draft(id="e1", content=TEXT), clock())
    record("i1", "e1")
    record("i2", "m01", "i1")
    assert set(erasing.derivatives(built.log, ["e1"])) == {"i1", "i2"}
    found = erased("e1", "--with-derived")
    assert set(found["ids"]) == {"e1", "i1", "i2"} and found["made"] == []


def test_erasing_cleans_refusals_that_quote_the_text(tmp_path: Path):
    queue = Queue(tmp_path / "ingest.sqlite")
    said = Refused(0, f"nothing to remember: {TEXT}")
    queue.accept("j1", 1, Batch((None,), (said,), b"[]"))
    queue.erase([], Looker(MARKS).holds)
    assert queue.outcome("j1").refused == (Refused(0, "erased"),)
    queue.close()
    assert b"Zanzibar" not in (tmp_path / "ingest.sqlite").read_bytes()


def test_copies_are_kept_in_the_order_of_their_making(built, clock: Clock):
    for name in ("a", "b"):
        erase_receipt.record_copy(built.tenant, "export", name, clock())
    with (built.tenant.root / "copies.jsonl").open("ab") as file:
        file.write(b'{"what": "exp\xc3')  # its writer was killed
    assert [copy.to for copy in erase_receipt.list_copies(built.tenant)] == ["a", "b"]
    erase_receipt.record_copy(built.tenant, "export", "c", clock())
    assert [copy.to for copy in erase_receipt.list_copies(built.tenant)] == ["a", "b", "c"]


def test_exports_and_backups_are_noted_for_the_receipt(built, tmp_path: Path):
    succeed("export", "--output", str(tmp_path / "all.jsonl"))
    succeed("export")
    succeed("backup", "make", str(tmp_path / "all.zip"))
    noted = [(copy.what, copy.to) for copy in erase_receipt.list_copies(built.tenant)]
    files = [("export", "all.jsonl"), ("backup", "all.zip")]
    (written, kept) = [(what, str(tmp_path / name)) for what, name in files]
    assert noted == [written, ("export", "stdout"), kept]


def test_nothing_is_served_where_no_build_passes(
    built, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    commands.record(built.log, Draft(id="e1", content=TEXT), clock())
    built.rebuild()
    start = processes.start_job
    monkeypatch.setattr("serve.cli.erase._build_anew", _build_anew)
    monkeypatch.setattr(
        processes, "start_job", lambda settings, *words, **more: start(settings, "no-such")
    )
    found = erased("e1")
    assert found["left"] == [] and not built.tenant.head.exists()


def test_quotes_of_a_memory_are_not_cut(built, clock: Clock):
    told(built, clock)
    cut = erase.find_cuts(built.log, Looker(MARKS), receipts=True)
    assert {change.row[1] for change in cut} == {"q1", "a1"}
