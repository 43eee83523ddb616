"""rebuild(): everything but the log can go, and nothing unchecked is ever served."""

import os
import shutil
import time

import msgspec
import pytest

from store.derived import catalog
from store.home.errors import BuildBusy, BuildRefused, NotFound
from store.home.files import replace_file
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Hit, Recalled, Recorded
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import digest
from store.text import frame

NOW = 1_790_000_000_000_000
OURS = f"{frame.OPENING} a note"


def paths(manifest: Manifest) -> dict[str, list[str]]:
    return {name: [file.path for file in ref.files] for name, ref in manifest.projections.items()}


def files(manifest: Manifest) -> list[str]:
    return [path for some in paths(manifest).values() for path in some]


def note(built, content: str = "we use one more server") -> str:
    return commands.record(built.log, Draft(content=content), NOW).event.id


def test_everything_but_the_log_can_be_deleted_and_comes_back_the_same(built):
    for path in built.tenant.root.iterdir():
        if not path.name.startswith("log.sqlite"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = built.rebuild()
    assert again.digests == built.manifest.digests
    assert again.number == 1 and again.watermark == built.log.head()


def test_a_full_build_equals_an_incremental_one(built):
    for number in range(3):
        note(built, f"we use {number} servers")
        stepwise = built.rebuild()
    full = built.rebuild(full=True)
    assert full.digests == stepwise.digests
    assert not set(files(full)) & set(files(stepwise))


def test_tables_computed_from_the_log_alone_are_those_served(built):
    computed = build.digests(built.log, built.embedder, built.manifest.watermark)
    assert {name: digest(tables) for name, tables in computed.items()} == built.manifest.digests


def test_an_empty_log_can_be_built(tenant, log, embedder):
    published = build.rebuild(tenant, log, embedder, NOW)
    assert published.watermark == 0 and all(check.passed for check in published.checks)


def test_a_build_of_nothing_new_takes_every_snapshot_over(built):
    again = built.rebuild()
    assert again.number == 2 and paths(again) == paths(built.manifest)


def test_a_receipt_rebuilds_only_what_reads_the_log(built):
    hit = Hit(id="m00", score=1.0, confidence=0.5)
    receipt = Recalled(
        query="q", mode="", manifest=1, watermark=1, hits=(hit,), dropped={}, took_us=1
    )
    built.log.append([Event("r", NOW, receipt, "r")])
    after = built.rebuild()
    changed = {name for name, path in paths(after).items() if path != paths(built.manifest)[name]}
    assert changed == {"memories", "state", "usage"}
    assert {ref.watermark for ref in after.projections.values()} == {built.log.head()}
    assert after.digests["memories"] == built.manifest.digests["memories"]


@pytest.mark.parametrize(
    "name",
    "memories postings sessions vectors entities goals usage lessons".split(),
)
def test_a_damaged_snapshot_is_mended_by_the_next_build(built, name: str):
    ref = built.manifest.projections[name]
    (built.tenant.snapshots / ref.files[0].path).write_bytes(b"")
    again = built.rebuild()
    assert again.digests == built.manifest.digests
    assert paths(again)[name] != paths(built.manifest)[name]
    for projection in again.projections.values():
        snapshot.verify(built.tenant.snapshots, projection)


def test_a_damaged_head_is_mended_by_the_next_build(built):
    built.tenant.head.write_bytes(b"{")
    assert built.rebuild().digests == built.manifest.digests
    assert manifests.current(built.tenant).number == 2


def test_a_second_build_at_the_same_time_is_refused(built):
    with build.lock(built.tenant):
        with pytest.raises(BuildBusy, match="another build of default"):
            built.rebuild()
    assert built.rebuild().number == 2


HOLD = """
import sys
from pathlib import Path
from store.home import tenant
from store.maintenance import build
with build.lock(tenant.tenant(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_build_in_another_process_is_noticed_and_its_lock_dies_with_it(built, home, child):
    holder = child(HOLD, home)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(BuildBusy):
        built.rebuild()
    holder.kill()
    holder.wait()
    assert built.rebuild().number == 2


def test_a_build_may_wait_for_its_turn(built, home, child):
    holder = child(HOLD, home)
    assert holder.stdout.readline() == "held\n"
    began = time.monotonic()
    with pytest.raises(BuildBusy):
        build.rebuild(built.tenant, built.log, built.embedder, NOW, wait_s=0.3)
    assert time.monotonic() - began >= 0.3


def test_a_build_removes_files_of_killed_writers(built):
    root, left = built.tenant.root, "-0123abcd"
    ours = [root / "manifests" / f".00000009.json{left}", root / "candidate" / f".usage.json{left}"]
    ours += [root / "snapshots" / "usage" / f".new{left}"]
    old = [root / f".HEAD{left}", root / "erased" / f".1.json{left}"]
    writing = root / f".upkeep.json{left}"  # by a server, which holds none of our locks
    (root / "erased").mkdir()
    for path in (*ours, *old, writing):
        path.write_bytes(b"half of i")
    for path in old:
        os.utime(path, (0, 0))
    built.rebuild()
    assert [path for path in (*ours, *old) if path.exists()] == []
    assert writing.exists()


def test_a_refused_build_keeps_what_is_served_and_says_why(built, plant, monkeypatch):
    monkeypatch.setattr(
        "store.maintenance.build.take_out", lambda *given: []
    )  # else the build leaves it out
    plant(built.log, "bad", Recorded(content=OURS))
    for _ in range(2):
        with pytest.raises(BuildRefused, match="no_self_injection"):
            built.rebuild()
        assert manifests.current(built.tenant) == built.manifest
    refusal = manifests.last_refusal(built.tenant)
    assert refusal.watermark == built.log.head() and OURS not in str(refusal)
    (reason,) = refusal.reasons
    assert reason.startswith(
        "no_self_injection: 1 memory holding an injected block: memory bad. `mnemolog "
    )


def test_refused_builds_leave_no_snapshots_behind_but_the_last(built, plant, monkeypatch):
    monkeypatch.setattr(
        "store.maintenance.build.take_out", lambda *given: []
    )  # else the build leaves it out
    plant(built.log, "bad", Recorded(content=OURS))
    counts = set()
    for _ in range(3):
        with pytest.raises(BuildRefused):
            built.rebuild()
        counts.add(len(list(built.tenant.snapshots.glob("*/*"))))
    assert len(counts) == 1


def test_a_build_that_passes_again_forgets_the_refusal(built, plant, tamper, monkeypatch):
    monkeypatch.setattr(
        "store.maintenance.build.take_out", lambda *given: []
    )  # else the build leaves it out
    plant(built.log, "bad", Recorded(content=OURS))
    with pytest.raises(BuildRefused):
        built.rebuild()
    tamper(built.log.path, "DELETE FROM events WHERE id = 'bad'")
    built.rebuild()
    assert manifests.last_refusal(built.tenant) is None


def test_events_that_vanished_from_the_log_are_not_published(built, tamper):
    tamper(built.log.path, "DELETE FROM events WHERE id = 'm30'")
    note(built)  # so that the log moved on, and the number of rows stays the same
    with pytest.raises(BuildRefused, match=r"rows_match_log|did_not_shrink"):
        built.rebuild()
    assert manifests.current(built.tenant) == built.manifest


def test_a_log_that_was_cut_is_not_published(built, tamper):
    tamper(built.log.path, "DELETE FROM events WHERE seq > 30")
    with pytest.raises(BuildRefused, match="did_not_shrink: 30 rows"):
        built.rebuild()


def all_steps(one: build.Build) -> None:
    for projection in one.projections:
        _, tables = build.step(one, projection)
        build.check(one, projection, tables)


def test_a_candidate_of_mixed_watermarks_is_refused(built):
    with build.lock(built.tenant):
        one = build.start(built.tenant, built.log, built.embedder)
        all_steps(one)
        path = built.tenant.candidate / "postings.json"
        ref = msgspec.json.decode(path.read_bytes(), type=snapshot.SnapshotRef)
        older = msgspec.structs.replace(ref, watermark=ref.watermark - 1)
        replace_file(path, msgspec.json.encode(older))
        with pytest.raises(BuildRefused, match="at another watermark: postings"):
            build.publish(one, build.load_checks(one), NOW)
    assert manifests.current(built.tenant) == built.manifest


def test_a_candidate_with_a_part_missing_or_unchecked_is_refused(built):
    with build.lock(built.tenant):
        one = build.start(built.tenant, built.log, built.embedder)
        all_steps(one)
        (built.tenant.candidate / "goals.json").unlink()
        (built.tenant.candidate / "usage.checks.json").unlink()
        with pytest.raises(BuildRefused, match=r"not built: goals; .* not checked: usage"):
            build.publish(one, build.load_checks(one), NOW)


def test_steps_in_other_processes_share_one_watermark(built):
    with build.lock(built.tenant):
        started = build.start(built.tenant, built.log, built.embedder)
        note(built)
        resumed = build.resume(built.tenant, built.log, built.embedder)
        assert resumed.watermark == started.watermark == built.log.head() - 1
        all_steps(resumed)
        assert (
            build.publish(resumed, build.load_checks(resumed), NOW).watermark == resumed.watermark
        )


def test_events_appended_during_a_build_wait_for_the_next(built):
    seen = []

    def append(name: str) -> None:
        seen.append(name)
        note(built, f"we wrote this while building {name}")

    head = built.log.head()
    published = build.rebuild(built.tenant, built.log, built.embedder, NOW, on_progress=append)
    assert published.watermark == head
    assert {ref.watermark for ref in published.projections.values()} == {head}
    names = [projection.name for projection in catalog.all_projections(built.embedder)]
    assert seen == [*names, "checks", "publish"]


def test_old_manifests_stay_readable_after_many_builds(built):
    for number in range(5):
        note(built, f"we use {number} servers")
        built.rebuild()
    kept = list(manifests.list_manifests(built.tenant))
    assert len(kept) == manifests.KEEP
    for manifest in kept:
        for ref in manifest.projections.values():
            snapshot.verify(built.tenant.snapshots, ref)
    there = {f"{path.parent.name}/{path.name}" for path in built.tenant.snapshots.glob("*/*")}
    assert there == {path for manifest in kept for path in files(manifest)}


def test_a_build_needs_a_log(tenant):
    with pytest.raises(NotFound):
        EventLog(tenant.log)
