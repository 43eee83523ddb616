"""An erased memory is in no file, never comes back, and takes the memories made of it along."""

from collections.abc import Callable
from pathlib import Path

import pytest
from agent import Agent
from command_line import answer, run, succeed
from test_pretool import agent, tenants

from serve.reader.reader import Reader
from store.embedders.lexical import LexicalEmbedder
from store.home.errors import BuildBusy, Conflict, NotFound
from store.home.instants import new_id
from store.log import commands, compaction, erasing, integrity, segments
from store.log.commands import Draft
from store.log.event_kinds import (
    Followed,
    Forgotten,
    Judged,
    Linked,
    Made,
    Pinned,
    Planned,
    Prompted,
    Proposed,
    Restored,
    Revised,
    Superseded,
    Surfaced,
)
from store.log.events import Event
from store.maintenance import build, erase
from store.maintenance.verify import verify
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import ERASED, FORGOTTEN, STALE
from store.memories.rows import MemoryRows
from store.plans import plans, steps
from store.snapshots import manifest as manifests
from store.snapshots.projection import Inputs, Previous, build_checked, digest
from store.snapshots.snapshot import read

__all__ = ["agent", "tenants"]  # fixtures

Clock = Callable[[], int]
NOW = 1_790_000_000_000_000
DAY = 86_400_000_000
WORDS = "harbour lantern meadow orchid pebble quarry".split()
SECRET = "zanzibar"  # the word that must be nowhere


def told(built, clock: Clock) -> None:
    """Record a memory with every kind of event about it."""
    draft = Draft(
        id="e1",
        content=f"Our {SECRET} customers' data lies in the old bucket",
        context=f"{SECRET} audit",
        action=f"asked {SECRET}",
        result=f"{SECRET} agreed",
        tags=(SECRET,),
        source=SECRET,
        created_by=SECRET.title(),
        key=f"{SECRET}.bucket",
        value=SECRET,
        chain=SECRET,
        metadata={SECRET: [SECRET]},
    )
    log = built.log
    commands.record(log, draft, clock())
    commands.revise(log, "e1", Revised(content=f"The {SECRET} data was moved", reason=SECRET), 1)
    commands.archive(log, "e1", clock(), SECRET)
    commands.restore(log, "e1", clock(), SECRET)
    commands.rate(log, "e1", 1.0, clock(), SECRET)
    memory = rows(built, built.rebuild()).find("e1")
    lesson = Draft(
        id="l1", kind="lesson", content=f"Ask before you move {SECRET} data", source_ids=("e1",)
    )
    found = (
        steps.record(lesson, Made(job="distill"), clock(), f"of {SECRET}", quote=SECRET),
        steps.revise(memory, Revised(importance=0.9), f"{SECRET} matters"),
    )
    plan = plans.propose(log, Planned(job="distill", watermark=log.head(), steps=found), clock())
    plans.apply(log, plan.id, clock())
    old = NOW - 100 * DAY
    proposed = Proposed(what="lesson", draft={"content": SECRET}, source_ids=("e1",))
    bodies = {
        "p1": proposed,
        "e1": Surfaced(place="tool", about=f"mv {SECRET}"),
        "j1": Judged(verdicts={"e1": 1.0, "m01": 1.0}, evidence={"e1": SECRET, "m01": "kept"}),
    }
    log.append([Event(new_id(old), old, body, id_) for id_, body in bodies.items()])
    log.append(
        [
            Event(new_id(old), old, Followed(verdict="followed", evidence=SECRET), "e1")
            for _ in range(compaction.LEAST)
        ]
    )


def rows(built, manifest) -> MemoryRows:
    ref = manifest.projections["memories"]
    return MemoryRows.open(read(built.tenant.snapshots, ref, MEMORIES_PROJECTION))


def holding(built, word: str = SECRET) -> list[str]:
    """Return the tenant's files that contain a word, in any case."""
    files = (path for path in built.tenant.root.rglob("*") if path.is_file())
    return [path.name for path in files if word.encode() in path.read_bytes().lower()]


def law(built, watermark: int, before: Previous) -> None:
    """Assert that a build that goes on from before the erasing equals one of the log alone."""
    given = Inputs(watermark, lambda after: built.log.effective_events(after, watermark), {})
    grown = build_checked(MEMORIES_PROJECTION, given, before)
    assert digest(grown) == digest(build_checked(MEMORIES_PROJECTION, given, None))


def test_nothing_of_it_is_left_in_the_log_or_in_what_is_served(built, clock: Clock):
    told(built, clock)
    assert holding(built)
    done = erasing.erase(built.log, ["e1", "l1"], clock())
    assert done.events > 100 and done.is_settled
    assert "log.sqlite" not in holding(built) and "log.sqlite-wal" not in holding(built)
    manifest = built.rebuild()
    manifests.expire(built.tenant, keep=1)
    assert holding(built) == []
    erased = rows(built, manifest).find("e1")
    assert (erased.state, erased.content, erased.text_hash) == (FORGOTTEN, "", ERASED)
    assert verify(built.tenant, built.log, built.embedder).ok
    assert integrity.problems(built.log) == []


def test_erasing_keeps_the_events_of_others(built, clock: Clock):
    told(built, clock)
    before = {event.seq: event for event in built.log.read()}
    erasing.erase(built.log, ["e1"], clock())
    after = {event.seq: event for event in built.log.read()}
    assert [(e.id, e.at, e.kind, e.subject) for e in before.values()] == [
        (e.id, e.at, e.kind, e.subject) for seq, e in after.items() if seq in before
    ]
    judged = next(event.body for event in after.values() if isinstance(event.body, Judged))
    assert judged.evidence == {"m01": "kept"} and judged.verdicts == {"e1": 1.0, "m01": 1.0}
    assert before[1] == after[1]


def test_full_and_incremental_builds_agree(built, clock: Clock):
    told(built, clock)
    commands.record(built.log, Draft(id="k3", key="deploy.region", content="Paris"), clock())
    manifest = built.rebuild()
    ref = manifest.projections["memories"]
    tables = read(built.tenant.snapshots, ref, MEMORIES_PROJECTION)
    erasing.erase(built.log, ["e1", "k3", "k1"], clock())
    law(built, built.log.head(), Previous(manifest.watermark, tables))
    quick = built.rebuild()
    assert quick.digests == built.rebuild(full=True).digests
    assert rows(built, quick).find("k2").state == "superseded"  # its successor does not come back
    commands.record(built.log, Draft(id="k4", key="deploy.region", content="Oslo"), clock())
    law(built, built.log.head(), Previous(manifest.watermark, tables))
    assert built.rebuild().digests == built.rebuild(full=True).digests


def test_a_memory_derived_from_an_erased_one_is_stale_at_once(built, clock: Clock):
    told(built, clock)
    assert rows(built, built.rebuild()).find("l1").state == "active"
    done = erasing.erase(built.log, ["e1"], clock())
    assert done.made == ("l1",)
    assert rows(built, built.rebuild()).find("l1").state == STALE


def test_what_was_made_of_it_is_not_restored_as_valid(built, clock: Clock):
    told(built, clock)
    late = commands.change_event(
        built.log, "l1", Restored(), clock()
    )  # by a process that read it before the erasing
    deeper = Draft(id="l2", content="Ask, then move data at night", source_ids=("l1",))
    built.log.append(
        plans.events_of(
            Planned(
                job="distill",
                watermark=0,
                steps=(steps.record(deeper, Made(job="distill"), clock(), "of a lesson"),),
            ),
            clock(),
        )
    )
    manifest = built.rebuild()
    ref = manifest.projections["memories"]
    tables = read(built.tenant.snapshots, ref, MEMORIES_PROJECTION)
    erasing.erase(built.log, ["e1"], clock())
    for id_ in ("l1", "l2"):
        with pytest.raises(Conflict, match=f"{id_!r} was made of 'e1', which was erased"):
            commands.restore(built.log, id_, clock())
    built.log.append([late, Event(new_id(clock()), clock(), Restored(), "l2")])
    law(built, built.log.head(), Previous(manifest.watermark, tables))
    memory_rows = rows(built, built.rebuild())
    assert [memory_rows.find(id_).state for id_ in ("l1", "l2")] == [STALE, STALE]


def test_an_erased_memory_cannot_be_brought_back(built, clock: Clock):
    told(built, clock)
    erasing.erase(built.log, ["e1"], clock())
    with pytest.raises(NotFound, match="was erased"):
        commands.restore(built.log, "e1", clock())
    with pytest.raises(NotFound, match="was erased"):
        commands.revise(built.log, "e1", Revised(content="It is back"), clock())
    again = commands.record(built.log, Draft(id="e1", content="It is back"), clock())
    assert not again.is_new
    assert rows(built, built.rebuild()).find("e1").content == ""


def test_an_erased_memory_takes_no_more_words_of_who_read_it_before(built, clock: Clock):
    log = built.log
    told(built, clock)
    lesson = Draft(id="l2", content=f"Move {SECRET} data at night", source_ids=("e1",))
    made = steps.record(lesson, Made(job="distill"), clock(), f"of {SECRET}")
    plan = Planned(job="distill", watermark=log.head(), steps=(made,))
    late = [
        commands.change_event(log, "e1", Revised(content=f"The {SECRET} data is here"), clock()),
        commands.change_event(log, "e1", Forgotten(reason=SECRET), clock()),
        commands.change_event(log, "m01", Superseded(by="e1", reason=SECRET), clock()),
        commands.change_event(log, "m01", Linked(target="e1", relation="support"), clock()),
        commands.rating_event(log, "e1", 1.0, clock(), SECRET),
        Event("f2", clock(), Followed(verdict="followed", evidence=SECRET), "e1"),
        Event("j2", clock(), Judged(verdicts={"e1": 1.0}, evidence={"e1": SECRET}), "r2"),
        Event("p2", clock(), Proposed(what="lesson", draft={}, source_ids=("e1",)), "p2"),
        Event("p3", clock(), plan, "p3"),
        *plans.events_of(plan, clock()),
    ]
    erasing.erase(log, ["e1", "l1"], clock())
    head = log.head()
    for event in late:
        with pytest.raises(NotFound, match="memory 'e1' was erased"):
            log.append([commands.change_event(log, "m02", Pinned(), clock()), event])
    assert log.head() == head
    assert not [name for name in holding(built) if name.startswith("log.sqlite")]
    log.append([commands.change_event(log, "m01", Forgotten(reason="it is another's"), clock())])


def test_what_was_written_before_the_erasing_can_be_sent_again(built, clock: Clock):
    told(built, clock)
    event = commands.change_event(built.log, "e1", Revised(importance=0.5), clock())
    built.log.append([event])
    erasing.erase(built.log, ["e1"], clock())
    assert [result.is_new for result in built.log.append([event])] == [False]


def test_receipts_about_it_that_were_put_away_are_erased_too(built, clock: Clock):
    told(built, clock)
    built.rebuild()
    assert compaction.compact(built.log, built.log.head(), NOW).events > compaction.LEAST
    folder = segments.folder_of(built.log.path)
    before = {path.name for path in folder.iterdir()}
    erasing.erase(built.log, ["e1"], clock())
    assert before.isdisjoint(path.name for path in folder.iterdir())
    followed = [
        event.body for event in built.log.events_for("e1") if isinstance(event.body, Followed)
    ]
    assert {(body.verdict, body.evidence) for body in followed} == {("followed", None)}
    assert integrity.problems(built.log) == []


def test_erased_twice_is_erased_once(built, clock: Clock):
    told(built, clock)
    erasing.erase(built.log, ["e1"], clock())
    head = built.log.head()
    assert erasing.erase(built.log, ["e1"], clock()).events == 0
    assert built.log.head() == head


def test_a_plan_that_waits_and_rests_on_it_can_not_be_applied(built, clock: Clock):
    memory = rows(built, built.rebuild()).find("m03")
    step = steps.archive(memory, "nobody asked")
    body = Planned(job="archive", watermark=built.log.head(), steps=(step,))
    plan = plans.propose(built.log, body, clock())
    erasing.erase(built.log, ["m03"], clock())
    found = plans.find(built.log, plan.id)
    assert found.state == "stale" and found.body.steps[0].before == {}


@pytest.mark.usefixtures("jobs_here")
def test_a_person_erases_and_the_lesson_made_of_it_is_not_said_again(agent: Agent):
    tenant = agent.tenants.get("default")
    now = NOW
    source = Draft(id="e1", content=f"npm broke the {SECRET} lock file")
    commands.record(tenant.log, source, now)
    words = "Never run npm here, use pnpm: the lock file is pnpm's"
    lesson = Draft(id="l1", kind="lesson", content=words, source_ids=("e1",))
    step = steps.record(lesson, Made(job="distill"), now, f"of {SECRET}")
    plan = Planned(job="distill", watermark=tenant.log.head(), steps=(step,))
    plans.apply(tenant.log, plans.propose(tenant.log, plan, now).id, now)
    assert "pnpm" in agent.runs("npm install")
    build.rebuild(tenant.tenant, tenant.log, LexicalEmbedder(), now)
    payload = answer("erase", "e1", "--yes")
    assert payload["made"] == ["l1"] and payload["is_settled"]
    assert agent.again("s2").runs("npm install") == ""
    files = [path for path in tenant.tenant.root.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes().lower()]
    assert answer("verify")["ok"]


@pytest.mark.usefixtures("jobs_here")
def test_a_secret_on_stdin_is_cut_out_of_all_that_was_kept(agent: Agent):
    tenant = agent.tenants.get("default")
    secret = "harbour-Blue!lanterns"  # not a secret to any pattern
    commands.record(tenant.log, Draft(id="e1", content=f"The door opens with {secret}"), NOW)
    commands.record(tenant.log, Draft(id="e2", content="Blue harbour lanterns are lit"), NOW)
    agent.runs(f"curl -u bot:{secret} https://door.example")
    build.rebuild(tenant.tenant, tenant.log, LexicalEmbedder(), NOW)

    def holding() -> list[Path]:
        files = [path for path in tenant.tenant.root.rglob("*") if path.is_file()]
        return [path for path in files if secret.encode() in path.read_bytes()]

    assert holding()
    words = ["erase", "--secret", "--yes"]
    result = succeed(*words, stdin=f"{secret}\n")
    assert secret not in result.output
    assert not holding()
    assert tenant.log.events_for("e2")[0].body.content == "Blue harbour lanterns are lit"


@pytest.mark.parametrize("said", ["", "!!\n", "two\nlines\n"])
def test_what_is_no_secret_is_refused(built, said: str):
    result = run("erase", "--secret", "--yes", stdin=said)
    assert result.exit_code == 2
    assert "--secret: give one line with a letter or digit in it" in result.stderr


def test_a_dry_run_lists_what_would_be_erased(built):
    payload = answer("erase", "m00", "m01", "--dry-run")
    assert payload["ids"] == ["m00", "m01"] and payload["events"] == 2
    assert rows(built, built.rebuild()).find("m00").content


def test_nothing_is_erased_under_a_build_that_is_under_way(built, clock: Clock, monkeypatch):
    monkeypatch.setattr(erase, "_WAIT_S", 0.0)
    before = built.log.events_for("m01")
    with build.lock(built.tenant), pytest.raises(BuildBusy):
        erase.wipe(built.tenant, built.log, erase.EraseRequest(("m01",)), clock())
    assert built.log.events_for("m01") == before and not erase.has_start(built.tenant)


def test_when_an_erased_one_ended_is_told_by_its_erasing_alone(built, clock: Clock):
    """A newer value of its key ended it; without its key, a full build no longer knows that."""
    reader = Reader(built.tenant, built.log, built.embedder)
    for number in range(2):
        draft = Draft(id=f"v{number}", content=f"the gate is {number} wide", key="gate.width")
        commands.record(built.log, draft, clock())
    for id_ in ("v1", "v0"):
        erasing.erase(built.log, [id_], clock())
    with reader.view() as view:
        laid_over = view.tail.find("v0")
    assert laid_over == rows(built, built.rebuild(full=True)).find("v0")


@pytest.mark.parametrize("order", [[["v0", "v1", "v2"]], [["v2"], ["v0"], ["v1"]]])
def test_the_name_of_a_key_goes_with_the_last_of_its_values(built, clock: Clock, order):
    for number in range(3):
        draft = Draft(id=f"v{number}", content=f"{number} wide", key=f"{SECRET}.width")
        commands.record(built.log, draft, clock())
    built.rebuild()
    for ids in order:
        assert {"log.sqlite", "log.sqlite-wal"} & set(holding(built))
        erasing.erase(built.log, ids, clock())
    assert "log.sqlite" not in holding(built) and "log.sqlite-wal" not in holding(built)
    assert built.rebuild().digests == built.rebuild(full=True).digests


@pytest.mark.parametrize("also_quotes", [False, True])
def test_words_that_sessions_use_too_are_erased_and_a_build_is_served(
    built, clock: Clock, also_quotes: bool
):
    commands.record(built.log, Draft(id="e1", content=f"Our {SECRET} data is old"), clock())
    for number in range(150):  # of one session: each prompt ends the turn before
        words = " ".join(f"{word}{chr(97 + number % 26) * 2}{number // 26}" for word in WORDS)
        id_, prompt = f"turn{number}", Prompted(prompt=f"{SECRET} data of {words}?")
        built.log.append([Event(id_, clock(), prompt, id_, session="s")])
    before = built.rebuild()
    request = erase.EraseRequest(("e1",), texts=(f"{SECRET} data",), also_quotes=also_quotes)
    assert erase.wipe(built.tenant, built.log, request, clock()).cut >= 30
    manifest = built.rebuild()
    assert manifest.number > before.number
    texts = rows(built, manifest).take(range(manifest.projections["memories"].rows["memories"]))
    assert not [text for text in texts if f"{SECRET} data" in text.text]
    again = build.rebuild(built.tenant, built.log, built.embedder, clock(), full=True)
    assert {name: ref.digest for name, ref in again.projections.items()} == {
        name: one.digest for name, one in manifest.projections.items()
    }
