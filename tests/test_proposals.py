"""Plans, recommendations and drafts of lessons share one list and the same answers."""

from collections.abc import Callable, Iterator
from typing import Any

import drafts
import pytest
from flask.testing import FlaskClient
from folds import fold_log

from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.home.errors import Conflict, InvalidInput, NotFound, PlanStale
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Accepted, Made, Planned, Proposed, Revised, Step
from store.log.event_log import EventLog
from store.log.events import Event
from store.plans import lesson_proposals, plans, proposals, recommendations, steps
from store.plans.recommendations import Change

NOW = 1_790_000_000_000_000
OURS = {"Host": "127.0.0.1", "Authorization": "Bearer owner"}
Clock = Callable[[], int]


@pytest.fixture
def notes(log: EventLog) -> EventLog:
    texts = ("We deploy on Monday", "The deploy is on Monday", "Redis holds the sessions")
    drafts = [Draft(id=f"n{number}", content=text) for number, text in enumerate(texts)]
    commands.record_batch(log, drafts, NOW)
    return log


def a_plan(log: EventLog, now: int = NOW, project: str | None = None) -> str:
    """Propose to merge two notes and to raise the importance of a third; return the plan's id."""
    draft = Draft(id="merged", content="We deploy on Mondays", source_ids=("n0", "n1"))
    rows = fold_log(log).rows
    changes: tuple[Step, ...] = (
        steps.record(draft, Made(job="consolidate"), now, "they say the same"),
        steps.supersede(rows["n0"], "merged", "it says so too", by_says=draft.content),
        steps.supersede(rows["n1"], "merged", "it says so too", by_says=draft.content),
        steps.revise(rows["n2"], Revised(importance=0.9), "it is asked for daily"),
    )
    body = Planned(
        job="consolidate", watermark=log.head(), steps=changes, looked_at=3, notes=("of one night",)
    )
    return plans.propose(log, body, now, project).id


def a_recommendation(log: EventLog, now: int = NOW) -> str:
    memory = fold_log(log).rows["n2"]
    change = Change(log.head(), (steps.archive(memory, "nobody asked for it"),))
    event = recommendations.proposal("archive", [memory], change, "nobody asked for it", now)
    return log.append([event])[0].event.id


def a_draft(log: EventLog, now: int = NOW) -> str:
    event = drafts.draft("Use pnpm", "lesson", now, because="no, use pnpm")
    return log.append([event])[0].event.id


MAKERS = {"plan": a_plan, "recommendation": a_recommendation, "lesson": a_draft}


@pytest.fixture(params=MAKERS)
def waiting(request: pytest.FixtureRequest, notes: EventLog) -> str:
    """Return the id of a pending proposal, for each category."""
    return MAKERS[request.param](notes)


def test_all_sorts_are_one_list_the_newest_first(notes: EventLog):
    ids = [make(notes, NOW + number) for number, make in enumerate(MAKERS.values())]
    proposals_ = proposals.every(notes)
    assert [proposal.id for proposal in proposals_] == ids[::-1]
    assert {proposal.state for proposal in proposals_} == {"waiting"}
    assert [proposal.id for proposal in proposals.every(notes, sort="plan")] == ids[:1]
    assert proposals.every(notes, "accepted") == []
    assert [proposal.title for proposal in proposals_] == [
        "Use pnpm",
        "archive: Redis holds the sessions",
        "consolidate: 2 replaced, 1 new, 1 changed",
    ]


def test_a_proposal_found_alone_is_the_one_in_the_list(notes: EventLog, waiting: str):
    assert proposals.find(notes, waiting) == proposals.every(notes)[0]


def test_a_plan_is_told_field_by_field(notes: EventLog):
    proposal = proposals.find(notes, a_plan(notes))
    new, stale, _, changed = proposals.steps(proposal)
    assert (new.verb, new.changes[0]) == (
        "new",
        proposals.Change("content", None, "We deploy on Mondays"),
    )
    assert (stale.verb, stale.other, stale.text) == ("replaced", "merged", None)
    assert stale.changes == (
        proposals.Change("content", "We deploy on Monday", "We deploy on Mondays"),
    )
    assert [(change.field, change.before, change.after) for change in changed.changes] == [
        ("importance", 0.5, 0.9)
    ]
    assert (proposal.because, proposal.job, proposal.plan) == (
        ("of one night",),
        "consolidate",
        proposal.id,
    )


def test_an_accepted_proposal_is_applied_and_undone_once(notes: EventLog, waiting: str):
    accepted = proposals.accept(notes, waiting, NOW + 1)
    assert accepted.state == "accepted" and (accepted.plan or accepted.memory)
    head = notes.head()
    assert proposals.accept(notes, waiting, NOW + 2) == accepted
    assert notes.head() == head
    assert proposals.undo(notes, waiting, NOW + 3).state == "undone"
    head = notes.head()
    assert proposals.undo(notes, waiting, NOW + 4).state == "undone"
    assert notes.head() == head
    with pytest.raises(Conflict):
        proposals.accept(notes, waiting, NOW + 5)


def test_what_a_job_applied_by_itself_is_not_called_accepted(notes: EventLog):
    id_ = a_plan(notes)
    plans.apply(notes, id_, NOW + 1)
    (proposal,) = proposals.every(notes, "applied")
    assert proposal.id == id_ and proposals.every(notes, "accepted") == []
    assert {step.answer for step in proposals.steps(proposal)} == {"applied"}
    assert proposals.undo(notes, id_, NOW + 2).state == "undone"


def test_of_a_plan_some_steps_are_accepted_and_the_rest_waits(notes: EventLog):
    id_ = a_plan(notes)
    proposal = proposals.accept(notes, id_, NOW + 1, [1])
    assert proposal.state == "waiting"
    answers = [step.answer for step in proposals.steps(proposal)]
    assert answers == ["accepted", "accepted", "waiting", "waiting"]
    rejected = proposals.reject(notes, id_, NOW + 2)
    assert rejected.state == "accepted"
    assert proposals.undo(notes, id_, NOW + 3).state == "undone"


def test_only_a_plan_is_answered_step_by_step(notes: EventLog):
    for id_ in (a_recommendation(notes), a_draft(notes)):
        with pytest.raises(InvalidInput, match="as a whole"):
            proposals.accept(notes, id_, NOW + 1, [0])


def test_a_rejected_proposal_stays_rejected(notes: EventLog, waiting: str):
    assert proposals.reject(notes, waiting, NOW + 1, "both are needed").state == "rejected"
    head = notes.head()
    assert proposals.reject(notes, waiting, NOW + 2).state == "rejected"
    assert notes.head() == head
    for answer in (proposals.accept, proposals.undo):
        with pytest.raises(Conflict):
            answer(notes, waiting, NOW + 3)


def test_what_was_accepted_is_not_rejected_and_what_waits_not_undone(notes: EventLog, waiting: str):
    with pytest.raises(Conflict, match="nothing to undo"):
        proposals.undo(notes, waiting, NOW + 1)
    proposals.accept(notes, waiting, NOW + 2)
    with pytest.raises(Conflict, match="was a"):
        proposals.reject(notes, waiting, NOW + 3)


@pytest.mark.parametrize("make", [a_plan, a_recommendation])
def test_a_proposal_whose_memories_changed_is_stale(notes: EventLog, make):
    id_ = make(notes)
    commands.revise(notes, "n2", Revised(content="Redis held the sessions"), NOW + 1)
    proposal = proposals.find(notes, id_)
    assert (proposal.state, proposal.stale_because) == ("stale", ("n2 was revised since",))
    with pytest.raises(PlanStale):
        proposals.accept(notes, id_, NOW + 2)


def test_concurrent_accepts_record_one_memory(notes: EventLog, clock: Clock):
    id_ = a_draft(notes)
    first = lesson_proposals.accept(notes, id_, NOW + 1)
    event = Event("late", NOW + 2, Accepted(memory=first.id), id_)
    notes.append([event])
    assert lesson_proposals.accept(notes, id_, NOW + 3).id == first.id
    assert first.id == proposals.find(notes, id_).memory


def test_a_recommendation_of_what_was_erased_is_told_all_the_same(notes: EventLog):
    notes.append([Event("R1", NOW, Proposed(what="archive", draft={}, source_ids=("n2",)), "R1")])
    proposal = proposals.find(notes, "R1")
    assert (proposal.state, proposal.title) == ("stale", "archive: a memory that was erased")
    with pytest.raises(Conflict, match="erased"):
        proposals.accept(notes, "R1", NOW)


def test_an_unknown_id_and_one_of_a_memory_are_not_found(notes: EventLog):
    for id_ in ("nobody", "n0"):
        with pytest.raises(NotFound):
            proposals.find(notes, id_)


@pytest.fixture
def client(notes: EventLog) -> Iterator[FlaskClient]:
    opened = OpenTenants(Settings(notes.path.parent.parent.parent))
    yield create_app(opened, "owner", lambda: NOW + 60_000_000).test_client()
    opened.close()


def test_over_http_a_proposal_is_listed_shown_accepted_and_undone(
    notes: EventLog, client: FlaskClient
):
    id_ = a_plan(notes, project="acme/web")

    def asked(method: str, path: str, **body: Any) -> Any:
        sent = {"json": body} if method == "POST" else {}
        return client.open(f"/v1/proposals{path}", method=method, headers=OURS, **sent)

    listed = asked("GET", "?state=waiting&project=acme/web").json
    assert ([proposal["id"] for proposal in listed["proposals"]], listed["more"]) == ([id_], 0)
    assert "steps" not in listed["proposals"][0] and listed["proposals"][0]["changes"] == 4
    assert asked("GET", "?project=acme/api").json["proposals"] == []
    assert asked("GET", f"/{id_}").json["steps"][1]["changes"] == [
        {"field": "content", "before": "We deploy on Monday", "after": "We deploy on Mondays"}
    ]
    assert asked("POST", f"/{id_}/accept").json["state"] == "accepted"
    refused = asked("POST", f"/{id_}/reject", reason="too late")
    assert (refused.status_code, refused.json["code"]) == (409, "conflict")
    assert asked("POST", f"/{id_}/undo").json["state"] == "undone"
    missing = asked("POST", "/nobody/accept")
    assert (missing.status_code, missing.json["code"]) == (404, "not_found")


def test_over_http_the_steps_of_a_plan_are_answered_one_by_one(
    notes: EventLog, client: FlaskClient
):
    id_ = a_plan(notes)

    def asked(word: str, **body: Any) -> Any:
        return client.post(f"/v1/proposals/{id_}/{word}", json=body, headers=OURS)

    answer = asked("accept", steps=[3]).json
    assert answer["state"] == "waiting"
    assert [step["answer"] for step in answer["steps"]] == ["waiting"] * 3 + ["accepted"]
    assert asked("accept", steps=[3]).json == answer
    assert asked("accept", steps=[4]).status_code == 409
    assert asked("reject", steps=[0]).json["state"] == "accepted"  # also its dependent steps
    assert asked("undo").json["state"] == "undone"


@pytest.mark.parametrize("name", ["category", "sort"])
def test_over_http_proposals_are_filtered_by_category_and_by_its_old_name(
    notes: EventLog, client: FlaskClient, name: str
):
    id_ = a_plan(notes)

    def listed(category: str) -> list[str]:
        answer = client.get(f"/v1/proposals?{name}={category}", headers=OURS)
        return [proposal["id"] for proposal in answer.json["proposals"]]

    assert (listed("plan"), listed("lesson")) == ([id_], [])
    both = client.get("/v1/proposals?category=plan&sort=lesson", headers=OURS)
    assert [proposal["id"] for proposal in both.json["proposals"]] == [id_]


def test_over_http_a_stale_plan_is_a_conflict_of_its_own_code(notes: EventLog, client: FlaskClient):
    id_ = a_plan(notes)
    commands.forget(notes, "n0", NOW + 1)
    refused = client.post(f"/v1/proposals/{id_}/accept", json={}, headers=OURS)
    assert (refused.status_code, refused.json["code"]) == (409, "plan_stale")
