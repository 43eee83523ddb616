"""Archived and expired memories are found on request, marked as such, and restored at once."""

import json
import time
from pathlib import Path

import pyarrow.parquet
import pytest
from command_line import answer, run
from msgspec.structs import replace

from serve.reader.filters import Filter
from store.log import commands, erasing
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import memory_archive as cold
from store.maintenance.checkup import _cold as looked_at
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.rows import MemoryRows
from store.snapshots.snapshot import read

NOW = 1_790_000_000_000_000
DAY = 86_400_000_000


@pytest.fixture
def worn(built):
    """A built tenant with an expired, an archived and a superseded memory."""
    draft = Draft(id="ttl", content="The turnstile code of the lab is blue", ttl_s=3_600)
    commands.record(built.log, draft, NOW - 2 * DAY)
    commands.archive(built.log, "m20", NOW, "nobody asked")
    built.rebuild()
    return built


def rows(built) -> MemoryRows:
    ref = built.rebuild().projections["memories"]
    return MemoryRows.open(read(built.tenant.snapshots, ref, MEMORIES_PROJECTION))


def test_recall_finds_it_only_where_it_is_asked_for_and_says_what_it_is(worn):
    assert [hit["id"] for hit in answer("recall", "turnstile code lab")["hits"]] == []
    expired = answer("recall", "--cold", "turnstile code lab")["hits"][0]
    assert (expired["id"], expired["state"]) == ("ttl", "expired")
    assert expired["ended_at"].startswith("2026-09-19")
    hits = answer("recall", "--cold", "the message field of the log lines")["hits"]
    assert (hits[0]["id"], hits[0]["state"]) == ("m20", "archived")
    assert "m20" not in [h["id"] for h in answer("recall", "message field of log lines")["hits"]]


def test_restored_it_is_back_at_once(worn):
    answer("restore", "m20")
    hits = answer("recall", "the message field of the log lines")["hits"]
    assert hits[0]["id"] == "m20" and "state" not in hits[0]
    answer("restore", "ttl")
    assert answer("recall", "turnstile code lab")["hits"][0]["id"] == "ttl"


def test_superseded_memories_are_not_cold(worn):
    conditions = Filter(NOW, cold=True)
    memory_rows = rows(worn)
    passed = {
        memory_rows.memories.value(int(row), "id")
        for row in conditions.mask(memory_rows).nonzero()[0]
    }
    assert {"ttl", "m20", "m19", "m00"} <= passed
    assert passed.isdisjoint({"m22", "k1", "m06"})


def test_cold_and_as_of_exclude_each_other(worn):
    refused = run("recall", "--cold", "--as-of", "2026-03-01", "lab", "--json")
    assert refused.exit_code != 0 and "as_of" in json.loads(refused.stdout)["error"]["message"]


def test_why_names_the_option_that_finds_it(worn):
    assert "--cold includes it" in answer("why", "message field", "m20")["reason"]
    assert "returned as" in answer("why", "message field log lines", "m20", "--cold")["reason"]


def test_the_cold_file_is_read_by_anything_that_reads_columns(worn):
    import polars

    made = cold.write(worn.tenant, worn.log, rows(worn), worn.log.head(), NOW)
    assert made.memories == {"archived": 2, "expired": 1, "superseded": 2}
    table = polars.read_parquet(made.path)
    assert table.height == 5 and {"content", "state", "why", "ended_at"} <= set(table.columns)
    by_id = {row["id"]: row for row in table.to_dicts()}
    assert by_id["m20"]["why"] == "nobody asked"
    assert by_id["ttl"]["why"] == "its time ran out on 2026-09-19"
    assert by_id["m22"]["superseded_by"] == "m28"
    assert by_id["ttl"]["ended_at"].year == 2026
    assert Path(made.path).stat().st_mode & 0o077 == 0
    assert pyarrow.parquet.read_table(made.path).num_rows == 5


def test_written_again_there_is_one_file_and_damage_is_named(worn):
    cold.write(worn.tenant, worn.log, rows(worn), 1, NOW)
    made = cold.write(worn.tenant, worn.log, rows(worn), worn.log.head(), NOW)
    assert [str(path) for path in cold.folder_of(worn.tenant).iterdir()] == [made.path]
    assert cold.problem(worn.tenant) is None and next(looked_at(worn.tenant)).severity == "ok"
    data = bytearray(Path(made.path).read_bytes())
    data[40] ^= 1
    Path(made.path).write_bytes(data)
    (found,) = looked_at(worn.tenant)
    assert (found.severity, Path(made.path).name in found.what) == ("warn", True)


def test_a_cold_file_that_was_half_written_goes_with_the_next_or_with_an_erasing(worn):
    folder = cold.folder_of(worn.tenant)
    cold.write(worn.tenant, worn.log, rows(worn), 1, NOW)
    (folder / ".new-0123abcd").write_bytes(b"PAR1 what was erased")
    cold.write(worn.tenant, worn.log, rows(worn), 2, NOW)
    assert [path.suffix for path in folder.iterdir()] == [".parquet"]
    (folder / ".new-0123abcd").write_bytes(b"PAR1 what was erased")
    cold.drop(worn.tenant)
    assert list(folder.iterdir()) == []


def test_what_was_erased_since_the_build_is_not_written_to_a_cold_file(worn):
    before, watermark = rows(worn), worn.log.head()
    erasing.erase(worn.log, ["m20"], NOW)
    written = cold.write(worn.tenant, worn.log, before, watermark, NOW)
    assert "m20" not in pyarrow.parquet.read_table(written.path).column("id").to_pylist()


@pytest.mark.usefixtures("jobs_here")
def test_a_person_puts_away_looks_and_takes_back(home, tenant):
    now = time.time_ns() // 1_000
    with EventLog(tenant.log, create=True) as log:
        old = Draft(id="old", content="The kiosk printer wants its paper the other way round")
        event = commands.memory_event(old, now - 400 * DAY)
        log.append([replace(event, clock=event.at)])  # it arrived then, too
        commands.record(log, Draft(content="The kiosk got a second screen"), now - DAY)
    dry = answer("archive", "--dry-run")
    assert [step["subject"] for step in dry["steps"]] == ["old"]
    asked = ("recall", "--no-touch", "kiosk printer paper")  # a recalled memory is not cold
    assert answer(*asked)["hits"][0]["id"] == "old"
    plan = answer("archive")
    assert plan["state"] == "waiting"
    assert answer(*asked)["hits"][0]["id"] == "old"
    assert answer("plans", "apply", plan["plan"])["state"] == "applied"
    assert "old" not in [hit["id"] for hit in answer(*asked)["hits"]]
    assert answer(*asked, "--cold")["hits"][0]["state"] == "archived"
    (file,) = cold.folder_of(tenant).iterdir()
    assert "kiosk printer" in str(pyarrow.parquet.read_table(file).column("content")[0])
    answer("plans", "undo", plan["plan"])
    assert answer(*asked)["hits"][0]["id"] == "old"
