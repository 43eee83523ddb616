"""An undone plan leaves no trace in recalls, from the moment it is undone."""

from collections.abc import Callable, Iterator

import pytest
from folds import fold_log

from serve.reader.reader import Reader
from serve.reader.view import View
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Made, Planned, Revised, Step
from store.memories.memory import FORGOTTEN, Memory
from store.plans import plans, steps

Clock = Callable[[], int]
AT = ("nothing", "the first notes", "the plan, applied", "the newer value")  # built after


@pytest.fixture(params=AT)
def lived(request, built, clock: Clock) -> Iterator[View]:
    """A plan of every step, applied and undone, with a newer value of a key in between, in the view
    of a server that ran the whole time; each parameter is the moment of its build.
    """
    moment = request.param

    def build(at: str) -> None:
        if at == moment:
            built.rebuild()
            reader.poll()

    reader = Reader(built.tenant, built.log, built.embedder)
    for id_, key in (
        ("first", "app.db"),
        ("second", "app.db"),
        ("other", "app.os"),
        ("loose", None),
    ):
        draft = Draft(id=id_, content=f"the {id_} is said", key=key, value=id_, ttl_s=3_600)
        commands.record(built.log, draft, clock())
    build("the first notes")
    plan = plans.propose(
        built.log,
        Planned(job="consolidate", watermark=built.log.head(), steps=plan_steps(built, clock)),
        clock(),
    )
    plans.apply(built.log, plan.id, clock())
    reader.keep_up()
    build("the plan, applied")
    for id_, key in (("newest", "app.db"), ("newer", "app.os")):
        commands.record(built.log, Draft(id=id_, content=f"{id_} of all", key=key), clock())
    reader.keep_up()
    build("the newer value")
    plans.undo(built.log, plan.id, clock())
    with reader.view() as view:
        yield view


def plan_steps(built, clock: Clock) -> tuple[Step, ...]:
    memories = fold_log(built.log).rows
    draft = Draft(id="merged", content="All in one", source_ids=("loose", "m00"))
    return (
        steps.archive(memories["second"], "nobody asks for it"),
        steps.record(draft, Made(job="consolidate"), clock(), "they say the same"),
        steps.supersede(memories["loose"], "merged", "it says so too"),
        steps.revise(memories["m03"], Revised(content="Other words", tags=("a",)), "it is shorter"),
        steps.link(memories["m04"], "m05", "conflict", "they disagree"),
        steps.stale(memories["other"], "its file changed"),
        steps.restore(memories["m19"], "it is asked for again"),
    )


def test_the_tail_matches_the_fold_of_effective_events(built, lived: View):
    expected = fold_log(built.log).rows
    served: dict[str, Memory | None] = {id_: lived.tail.find(id_) for id_ in expected}
    assert served == expected
    assert (expected["second"].superseded_by, expected["newest"].state) == ("newest", "active")


def test_memories_recorded_by_an_undone_plan_are_not_found(lived: View):
    merged = lived.tail.find("merged")
    assert merged is None or merged.state == FORGOTTEN


def test_links_of_an_undone_plan_are_gone(lived: View):
    assert not [edge for edge in lived.tail.edges if edge.relation == "conflict"]


@pytest.mark.parametrize("lived", ["nothing"], indirect=True)
def test_a_build_keeps_what_was_served(built, lived: View):
    before = {id_: lived.tail.find(id_) for id_ in fold_log(built.log).rows}
    built.rebuild()
    reader = Reader(built.tenant, built.log, built.embedder)
    with reader.view() as view:
        assert {id_: view.tail.find(id_) for id_ in before} == before


def test_where_the_log_is_damaged_beneath_recall_answers_and_says_so(built, clock: Clock, tamper):
    commands.record(built.log, Draft(id="old", content="an old note"), clock())
    plan = plans.propose(
        built.log,
        Planned(
            job="archive",
            watermark=built.log.head(),
            steps=(steps.archive(fold_log(built.log).rows["old"], "nobody asks for it"),),
        ),
        clock(),
    )
    built.rebuild()
    reader = Reader(built.tenant, built.log, built.embedder)
    plans.apply(built.log, plan.id, clock())
    tamper(
        built.tenant.log, "UPDATE events SET body = replace(body, 'old', 'odd') WHERE id = 'old'"
    )
    plans.undo(built.log, plan.id, clock())
    with reader.view() as view:
        assert any(plan.id in notice for notice in view.notices)
        assert view.tail.find("m00") is not None
