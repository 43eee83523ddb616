"""A plan is applied completely or not at all, and undoing it leaves no trace in the memory."""

from collections.abc import Callable

import pytest

from store.home.errors import Conflict, InvalidInput, NotFound, PlanStale
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Made, Planned, Revised, Step
from store.maintenance.export import export
from store.maintenance.verify import verify
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import ACTIVE, ARCHIVED, STALE, SUPERSEDED, Memory
from store.memories.rows import MemoryRows
from store.plans import plans, steps
from store.snapshots.snapshot import read

Clock = Callable[[], int]
MADE = Made(job="consolidate")


def rows(built, manifest) -> MemoryRows:
    ref = manifest.projections["memories"]
    return MemoryRows.open(read(built.tenant.snapshots, ref, MEMORIES_PROJECTION))


@pytest.fixture
def memory(built) -> Callable[[str], Memory]:
    """Return a memory as a build has it; a build is made only if the log has new events."""
    rows_at: dict[int, MemoryRows] = {}

    def found(id_: str) -> Memory:
        head = built.log.head()
        if head not in rows_at:
            rows_at[head] = rows(built, built.rebuild())
        row = rows_at[head].find(id_)
        assert row is not None
        return row

    return found


def merge(built, memory, clock: Clock) -> tuple[Step, ...]:
    """Return the steps of a plan with every change that a plan may make to memories."""
    first, other, third, fourth = map(memory, ("m00", "m01", "m02", "m03"))
    draft = Draft(id="merged", content="Two notes in one", source_ids=("m00", "m01"))
    return (
        steps.record(draft, MADE, clock(), "they say the same"),
        steps.supersede(first, "merged", "it says so too"),
        steps.supersede(other, "merged", "it says so too"),
        steps.archive(third, "nobody asked for it"),
        steps.revise(fourth, Revised(importance=0.9, tags=("a",)), "it is asked for daily"),
        steps.link(memory("m04"), "m05", "conflict", "they disagree"),
        steps.stale(memory("m07"), "its file changed", "db/migrations"),
        steps.restore(memory("m19"), "it is asked for again"),
    )


def planned(built, steps: tuple[Step, ...], clock: Clock) -> plans.Plan:
    body = Planned(job="consolidate", watermark=built.log.head(), steps=steps)
    return plans.propose(built.log, body, clock())


def test_a_plan_changes_nothing_until_it_is_applied(built, memory, clock: Clock):
    before = built.rebuild().digests["memories"]
    plan = planned(built, merge(built, memory, clock), clock)
    assert (plan.state, len(plan.body.steps)) == ("waiting", 8)
    assert built.rebuild().digests["memories"] == before
    assert [other.id for other in plans.every(built.log)] == [plan.id]


def test_an_applied_plan_does_exactly_what_it_says(built, memory, clock: Clock):
    plan = planned(built, merge(built, memory, clock), clock)
    applied = plans.apply(built.log, plan.id, clock())
    assert (applied.state, len(applied.events)) == ("applied", 8)
    memory_rows = rows(built, built.rebuild())
    states = {id_: memory_rows.find(id_).state for id_ in ("merged", "m00", "m02", "m07", "m19")}
    wanted = (ACTIVE, SUPERSEDED, ARCHIVED, STALE, ACTIVE)
    assert states == dict(zip(states, wanted, strict=True))
    assert memory_rows.find("m03").importance == 0.9 and memory_rows.find("m03").tags == ("a",)
    assert memory_rows.find("merged").job == "consolidate"
    assert plans.apply(built.log, plan.id, clock()).events == applied.events


def test_undone_it_leaves_the_memory_with_the_digest_it_had(built, memory, clock: Clock):
    before = built.rebuild().digests
    plan = planned(built, merge(built, memory, clock), clock)
    plans.apply(built.log, plan.id, clock())
    assert built.rebuild().digests["memories"] != before["memories"]
    undone = plans.undo(built.log, plan.id, clock())
    assert undone.state == "undone"
    assert built.rebuild().digests == before
    assert plans.undo(built.log, plan.id, clock()).state == "undone"
    assert verify(built.tenant, built.log, built.embedder).ok
    with pytest.raises(InvalidInput, match="was undone"):
        plans.apply(built.log, plan.id, clock())


def test_memories_of_an_undone_plan_are_not_recalled(built, memory, clock: Clock):
    plan = planned(built, merge(built, memory, clock), clock)
    plans.apply(built.log, plan.id, clock())
    plans.undo(built.log, plan.id, clock())
    for restore in (
        lambda: commands.restore(built.log, "merged", clock()),
        lambda: commands.revise(built.log, "merged", Revised(content="Another word"), clock()),
        lambda: commands.supersede(built.log, "m08", "merged", clock()),
        lambda: commands.link(built.log, "m08", "merged", "related", clock()),
    ):
        with pytest.raises(Conflict, match=f"plan {plan.id}, which was undone"):
            restore()
    assert commands.restore(built.log, "m00", clock()).subject == "m00"


def test_an_export_knows_nothing_of_an_undone_plan(built, memory, clock: Clock):
    before = [*export(built.log, clock(), all_states=True)]
    plan = planned(built, merge(built, memory, clock), clock)
    plans.apply(built.log, plan.id, clock())
    assert [*export(built.log, clock(), all_states=True)] != before
    plans.undo(built.log, plan.id, clock())
    assert [*export(built.log, clock(), all_states=True)] == before


def test_undone_before_any_build_the_digest_is_the_same(built, memory, clock: Clock):
    before = built.rebuild().digests
    plan = planned(built, merge(built, memory, clock), clock)
    plans.apply(built.log, plan.id, clock())
    plans.undo(built.log, plan.id, clock())
    assert built.rebuild().digests == before


def test_a_plan_whose_memories_changed_is_refused_and_says_which(built, memory, clock: Clock):
    plan = planned(built, merge(built, memory, clock), clock)
    commands.forget(built.log, "m01", clock())
    head = built.log.head()
    assert plans.find(built.log, plan.id).state == "stale"
    with pytest.raises(PlanStale, match="m01 was forgotten since"):
        plans.apply(built.log, plan.id, clock())
    assert built.log.head() == head


@pytest.mark.parametrize("how", ["recorded", "restored"])
def test_a_plan_is_refused_where_a_key_of_its_memories_has_a_newer_value(built, clock: Clock, how):
    for id_ in ("older", "old"):
        commands.record(
            built.log, Draft(id=id_, content=f"{id_} is the base", key="app.db"), clock()
        )
    row = rows(built, built.rebuild()).find("old")
    assert row is not None
    plan = planned(built, (steps.archive(row, "nobody asks for it"),), clock)
    if how == "recorded":
        commands.record(built.log, Draft(id="new", content="new is it", key="app.db"), clock())
    else:
        commands.restore(built.log, "older", clock())
    with pytest.raises(PlanStale, match=r"app\.db was given a value since"):
        plans.apply(built.log, plan.id, clock())


def test_a_rating_or_a_recall_makes_no_plan_stale(built, memory, clock: Clock):
    plan = planned(built, merge(built, memory, clock), clock)
    commands.rate(built.log, "m01", 1.0, clock())
    assert plans.apply(built.log, plan.id, clock()).state == "applied"


def test_undo_keeps_later_manual_changes(built, memory, clock: Clock):
    plan = planned(built, merge(built, memory, clock), clock)
    plans.apply(built.log, plan.id, clock())
    commands.revise(built.log, "merged", Revised(content="Better words"), clock())
    with pytest.raises(PlanStale, match="merged was revised since"):
        plans.undo(built.log, plan.id, clock())


def test_the_same_plan_twice_is_one(built, memory, clock: Clock):
    plan_steps = merge(built, memory, clock)
    watermark = built.log.head()
    body = Planned(job="consolidate", watermark=watermark, steps=plan_steps)
    first, second = (plans.propose(built.log, body, clock()) for _ in range(2))
    assert first.id == second.id and len(plans.every(built.log)) == 1


def test_what_was_undone_is_not_proposed_again(built, memory, clock: Clock):
    plan_steps = merge(built, memory, clock)
    other = steps.archive(memory("m08"), "nobody asked for it")
    plan = planned(built, plan_steps, clock)
    plans.apply(built.log, plan.id, clock())
    plans.undo(built.log, plan.id, clock())
    assert plans.new_steps(built.log, [*plan_steps, other]) == [other]


def test_a_rejected_plan_is_not_applied_and_not_proposed_again(built, memory, clock: Clock):
    plan_steps = (steps.archive(memory("m02"), "nobody asked for it"),)
    plan = planned(built, plan_steps, clock)
    assert plans.reject(built.log, plan.id, clock(), "I do").state == "rejected"
    head = built.log.head()
    assert plans.reject(built.log, plan.id, clock()).state == "rejected"  # rejected twice
    assert built.log.head() == head
    assert [other.state for other in plans.every(built.log)] == ["rejected"]
    with pytest.raises(Conflict, match="was rejected"):
        plans.apply(built.log, plan.id, clock())
    with pytest.raises(Conflict, match="was not applied"):
        plans.undo(built.log, plan.id, clock())
    assert plans.new_steps(built.log, plan_steps) == []


def test_a_plan_is_answered_step_by_step_and_waits_until_all_are(built, memory, clock: Clock):
    plan = planned(built, merge(built, memory, clock), clock)
    part = plans.apply(built.log, plan.id, clock(), chosen=[3])
    assert (part.state, part.applied, part.open) == ("waiting", {3}, (0, 1, 2, 4, 5, 6, 7))
    assert memory("m02").state == ARCHIVED and memory("m07").state == ACTIVE
    assert plans.reject(built.log, plan.id, clock(), chosen=[4, 5, 6]).state == "waiting"
    rest = plans.apply(built.log, plan.id, clock())
    assert (rest.state, rest.rejected, rest.open) == ("applied", {4, 5, 6}, ())
    assert memory("m00").state == SUPERSEDED and memory("m07").state == ACTIVE
    assert {step.subject for step in rest.done} == {"merged", "m00", "m01", "m02", "m19"}
    assert plans.find(built.log, plan.id) == plans.every(built.log)[0] == rest


def test_a_chosen_step_brings_along_what_records_the_memory_it_names(built, memory, clock: Clock):
    plan_steps = merge(built, memory, clock)
    plan, other = planned(built, plan_steps, clock), planned(built, plan_steps[:3], clock)
    assert plans.apply(built.log, plan.id, clock(), chosen=[1]).applied == {0, 1}
    assert plans.reject(built.log, other.id, clock(), chosen=[0]).rejected == {0, 1, 2}


def test_steps_that_were_rejected_alone_are_not_proposed_again(built, memory, clock: Clock):
    plan_steps = merge(built, memory, clock)
    plan = planned(built, plan_steps, clock)
    plans.reject(built.log, plan.id, clock(), chosen=[3, 6])
    new_steps = plans.new_steps(built.log, plan_steps)
    assert [step.subject for step in new_steps] == [
        plan_steps[at].subject for at in (0, 1, 2, 4, 5, 7)
    ]
    assert planned(built, tuple(new_steps), clock).id == plan.id  # already in the pending plan
    with pytest.raises(Conflict, match=r"step 4 .* was rejected"):
        plans.apply(built.log, plan.id, clock(), chosen=[3])


def test_undoing_takes_back_all_that_was_applied_and_closes_the_rest(built, memory, clock: Clock):
    before = built.rebuild().digests["memories"]
    plan = planned(built, merge(built, memory, clock), clock)
    plans.apply(built.log, plan.id, clock(), chosen=[3])
    plans.apply(built.log, plan.id, clock(), chosen=[0, 1])
    assert plans.undo(built.log, plan.id, clock()).state == "undone"
    assert built.rebuild().digests["memories"] == before
    with pytest.raises(Conflict, match="undone"):
        plans.apply(built.log, plan.id, clock(), chosen=[4])


def test_what_changed_since_stops_only_the_steps_that_rest_on_it(built, memory, clock: Clock):
    plan = planned(built, merge(built, memory, clock), clock)
    plans.apply(built.log, plan.id, clock(), chosen=[6])
    commands.forget(built.log, "m02", clock())
    assert plans.find(built.log, plan.id).because == ("m02 was forgotten since",)
    with pytest.raises(PlanStale, match="m02"):
        plans.apply(built.log, plan.id, clock(), chosen=[3, 4])
    assert plans.apply(built.log, plan.id, clock(), chosen=[4]).applied == {4, 6}
    commands.forget(built.log, "m07", clock())
    with pytest.raises(PlanStale, match="m07 was forgotten"):
        plans.undo(built.log, plan.id, clock())


@pytest.mark.parametrize("chosen", [[], [8], [-1]])
def test_a_step_that_a_plan_has_not_is_refused(built, memory, clock: Clock, chosen: list[int]):
    plan = planned(built, merge(built, memory, clock), clock)
    with pytest.raises(InvalidInput, match="among the 8 steps"):
        plans.apply(built.log, plan.id, clock(), chosen=chosen)


def test_an_applied_plan_is_not_rejected(built, memory, clock: Clock):
    plan = planned(built, (steps.archive(memory("m02"), "nobody asked for it"),), clock)
    plans.apply(built.log, plan.id, clock())
    with pytest.raises(Conflict, match="was applied"):
        plans.reject(built.log, plan.id, clock())


def test_a_plan_nobody_made_is_not_found(built):
    with pytest.raises(NotFound, match="mnemolog plans"):
        plans.find(built.log, "ABC")


def test_what_was_made_of_a_forgotten_source_is_stale_in_the_same_build(built, clock: Clock):
    draft = Draft(id="insight", content="Notes agree on SQLite", source_ids=("m01", "m15"))
    chained = Draft(id="lesson", content="Always use SQLite", source_ids=("insight",))
    plan_steps = tuple(
        steps.record(other, MADE, clock(), "seen twice") for other in (draft, chained)
    )
    plans.apply(built.log, planned(built, plan_steps, clock).id, clock())
    built.rebuild()
    commands.forget(built.log, "m15", clock())
    now = rows(built, built.rebuild())
    assert [now.find(id_).state for id_ in ("insight", "lesson")] == [STALE, STALE]
    assert now.find("m01").state == ACTIVE


def test_a_plan_that_is_too_long_is_cut_where_nothing_is_torn_apart(
    built, memory, clock: Clock, monkeypatch
):
    monkeypatch.setattr(plans, "MOST_STEPS", 3)
    draft = Draft(id="merged", content="Two notes in one", source_ids=("m00", "m01"))
    plan_steps = (
        steps.archive(memory("m08"), "nobody asked for it"),
        steps.archive(memory("m09"), "nobody asked for it"),
        steps.record(draft, MADE, clock(), "they say the same"),
        steps.supersede(memory("m00"), "merged", "it says so too"),
        steps.supersede(memory("m01"), "merged", "it says so too"),
    )
    plan = planned(built, plan_steps, clock)
    assert [step.subject for step in plan.body.steps] == ["m08", "m09"] and plan.body.left == 3


def test_each_of_many_plans_is_held_to_what_it_rests_on_itself(built, memory, clock: Clock):
    first = planned(built, (steps.archive(memory("m02"), "nobody asked for it"),), clock)
    commands.revise(built.log, "m02", Revised(importance=0.5), clock())
    later = planned(built, (steps.archive(memory("m02"), "nobody asks still"),), clock)
    other = planned(built, (steps.archive(memory("m03"), "nobody asked for it"),), clock)
    states = {plan.id: (plan.state, plan.because) for plan in plans.every(built.log)}
    assert states[first.id] == ("stale", ("m02 was revised since",))
    assert states[later.id] == states[other.id] == ("waiting", ())


def test_the_newest_plan_of_each_job_is_found(built, memory, clock: Clock):
    planned(built, (steps.archive(memory("m02"), "nobody asked for it"),), clock)
    second = planned(built, (steps.archive(memory("m03"), "nobody asked for it"),), clock)
    body = Planned(job="archive", watermark=built.log.head(), steps=second.body.steps)
    third = plans.propose(built.log, body, clock())
    assert [plan.id for plan in plans.newest(built.log)] == [third.id, second.id]
    assert plans.newest(built.log) == [plans.find(built.log, plan.id) for plan in (third, second)]
