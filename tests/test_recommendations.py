"""Recommendations wait for a person: nothing is done unasked, and a rejected one never returns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drafts
import pytest
from click.testing import CliRunner
from folds import fold_log
from msgspec.structs import replace
from plain_receipt import plain_receipt

from pipelines.jobs.recommend import refresh
from serve.cli import main
from store.embedders.lexical import LexicalEmbedder
from store.home import config
from store.home.errors import InvalidInput, NotFound, PlanStale
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Hit, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.memories.memory import ACTIVE, ARCHIVED, SUPERSEDED
from store.plans import lesson_proposals, plans, recommendations
from store.plans.recommendations import Recommendation

Clock = Callable[[], int]
NOW = 1_790_000_000_000_000
DAY = 86_400_000_000
LATER = NOW + 400 * DAY

LIST = """What we know of the exporter:
- it writes Parquet files into the exports folder
- it runs every night at four o'clock
- it skips tenants that were archived"""
LONG = "Restarts lose sessions. " + "They are kept in memory by the worker that made them. " * 30


@pytest.fixture
def say(log: EventLog) -> Callable[..., str]:
    def record(text: str, at: int = NOW, **fields: Any) -> str:
        return commands.record(log, Draft(content=text, **fields), at).event.id

    return record


@pytest.fixture
def look(home: Path, log: EventLog) -> Callable[..., list[Recommendation]]:
    """Look for recommendations; return the new ones as they are in the log."""

    def refreshed(at: int = LATER) -> list[Recommendation]:
        settings = config.load(environ={"MNEMOLOG_HOME": str(home)})
        ids = [recommendation.id for recommendation in refresh(settings, "default", at, write=True)]
        return [recommendations.find(log, id_) for id_ in ids]

    return refreshed


def recalled(log: EventLog, id_: str, times: int) -> None:
    hits = (Hit(id_, 1.0, 0.9),)
    for number in range(times):
        body = plain_receipt(hits=hits)
        log.append([Event(f"r{id_[-6:]}{number}", NOW + number, body, f"r{id_[-6:]}{number}")])


def whats(recommendations: list[Recommendation]) -> list[tuple[str, tuple[str, ...]]]:
    return [(recommendation.what, recommendation.source_ids) for recommendation in recommendations]


def test_old_memories_never_recalled_are_proposed_for_archiving(log: EventLog, say, look):
    used = say("The queue is drained at midnight", kind="observation")
    idle = say("Looked at the logs of the worker", kind="activity")
    say("Looked at the dashboards of the worker", at=LATER - DAY, kind="activity")
    say("The retention is ninety days by law", kind="decision")
    say("The worker was restarted by hand", kind="activity", importance=0.9)
    say("The worker has a pinned note", kind="activity", pinned=True)
    recalled(log, used, 20)
    imported = commands.memory_event(
        Draft(content="The worker was looked at before it was imported", kind="activity"), NOW
    )
    log.append([replace(imported, clock=LATER - DAY)])
    assert whats(look()) == [("archive", (idle,))]


def test_where_nothing_is_recalled_nothing_is_called_unused(say, look):
    say("Looked at the logs of the worker", kind="activity")
    assert look() == []


def test_memories_recalled_often_and_rated_well_may_gain_importance(log: EventLog, say, look):
    good, bad = say("Drain the queue first"), say("Restart the worker then")
    for id_, verdict in ((good, 1.0), (bad, -1.0)):
        recalled(log, id_, 5)
        for number in range(2):
            commands.rate(log, id_, verdict, NOW + number)
    (recommendation,) = look()
    assert whats([recommendation]) == [("promote", (good,))]
    recommendations.accept(log, recommendation.id, LATER)
    assert fold_log(log).rows[good].importance == 0.9


def test_two_notes_in_other_words_may_be_merged_but_not_two_values(log: EventLog, say, look):
    short = say("The nightly exporter writes its Parquet files into the exports folder")
    long = say("The nightly exporter always writes all its Parquet files into the exports folder")
    say("The upload timeout of the web client is 30 seconds in all environments")
    say("The upload timeout of the web client is 60 seconds in all environments")
    say("We never restart the worker while the nightly exporter is running")
    say("We restart the worker while the nightly exporter is running")
    (recommendation,) = look()
    assert whats([recommendation]) == [("merge", (short, long))]
    recommendations.accept(log, recommendation.id, LATER)
    merged = fold_log(log).rows[short]
    assert (merged.state, merged.superseded_by) == (SUPERSEDED, long)


def test_several_facts_in_one_may_be_parted_and_taken_back(
    tenant: Tenant, log: EventLog, say, look
):
    id_ = say(LIST, tags=("export",), trust="agent")
    embedder = LexicalEmbedder()
    before = build.rebuild(tenant, log, embedder, LATER).digests
    (recommendation,) = look()
    assert (recommendation.what, recommendation.because) == ("reword", "3 facts in one memory")
    plan = recommendations.accept(log, recommendation.id, LATER)
    rows = fold_log(log).rows
    parts = [row for row in rows.values() if row.job == "recommend"]
    assert [part.content for part in parts] == [line[2:] for line in LIST.splitlines()[1:]]
    assert {(part.trust, part.tags, part.state) for part in parts} == {
        ("agent", ("export",), ACTIVE)
    }
    assert {part.context for part in parts} == {"What we know of the exporter:"}
    assert rows[id_].state == ARCHIVED
    plans.undo(log, plan.id, LATER)
    assert build.rebuild(tenant, log, embedder, LATER).digests == before


def test_no_rewording_is_proposed_of_an_imported_commit(say, look):
    say(LIST, source="git")
    say(LONG, source="git")
    assert look() == []


def test_a_long_text_may_begin_with_what_it_says_and_loses_nothing(log: EventLog, say, look):
    id_ = say(LONG)
    (recommendation,) = look()
    recommendations.accept(log, recommendation.id, LATER)
    after = fold_log(log).rows[id_]
    assert after.content.startswith("Restarts lose sessions.") and len(after.content) <= 400
    assert after.context == LONG.strip()


def test_nothing_is_done_unasked_nor_proposed_twice(log: EventLog, say, look):
    say(LIST)
    before = fold_log(log).rows
    (recommendation,) = look()
    assert recommendation.state == "pending" and fold_log(log).rows == before
    assert look() == []


def test_a_rejected_recommendation_is_never_proposed_again(log: EventLog, clock: Clock, say, look):
    id_ = say(LIST)
    (recommendation,) = look()
    assert recommendations.reject(log, recommendation.id, LATER, "as I like it").state == "rejected"
    commands.revise(log, id_, Revised(content=LIST + "\n- it is a script of ours"), LATER)
    assert look() == []
    with pytest.raises(InvalidInput, match="was rejected"):
        recommendations.accept(log, recommendation.id, LATER)


def test_undoing_counts_as_rejection(log: EventLog, say, look):
    say(LIST)
    (recommendation,) = look()
    plan = recommendations.accept(log, recommendation.id, LATER)
    assert recommendations.accept(log, recommendation.id, LATER).events == plan.events
    with pytest.raises(InvalidInput, match="plans undo"):
        recommendations.reject(log, recommendation.id, LATER)
    plans.undo(log, plan.id, LATER)
    assert recommendations.find(log, recommendation.id).state == "undone" and look() == []


def test_what_changed_since_is_outdated_refused_and_proposed_anew(log: EventLog, say, look):
    id_ = say(LIST)
    (recommendation,) = look()
    commands.revise(log, id_, Revised(content=LIST + "\n- it is a script of ours"), LATER)
    assert recommendations.find(log, recommendation.id).state == "outdated"
    with pytest.raises(PlanStale, match="was revised since"):
        recommendations.accept(log, recommendation.id, LATER)
    (again,) = look()
    assert again.because == "4 facts in one memory"


def test_drafts_of_lessons_and_recommendations_do_not_mix(log: EventLog, say, look):
    say(LIST)
    (again,) = look()
    draft = drafts.draft("Always drain the queue first", "preference", NOW)
    log.append([draft])
    assert [recommendation.id for recommendation in recommendations.every(log)] == [again.id]
    with pytest.raises(NotFound, match="no statement, lesson of an agent or draft"):
        lesson_proposals.accept(log, again.id, LATER)
    with pytest.raises(NotFound, match="no recommendation"):
        recommendations.accept(log, draft.id, LATER)
    lessons = json.loads(CliRunner().invoke(main, ["lessons", "--json"]).output)
    assert [other["id"] for other in lessons["drafts"]] == [draft.id]


def invoke(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["recommendations", *words, "--json"])
    assert result.exit_code == 0, result.output
    payload: dict[str, Any] = json.loads(result.stdout)
    return payload


def test_recommendations_are_answered_on_the_command_line(log: EventLog, say, look):
    parted, long = say(LIST), say(LONG)
    look()
    listed = invoke()["recommendations"]
    ids = {item["source_ids"][0]: item["id"] for item in listed}
    assert {item["state"] for item in listed} == {"pending"} and ids.keys() == {parted, long}
    assert "3 facts in one" in CliRunner().invoke(main, ["recommendations"]).output
    text = CliRunner().invoke(main, ["recommendations", "show", ids[parted][:8]]).output
    assert "+ it runs every night" in text
    assert invoke("accept", ids[parted], "--dry-run")["recommendations"][0]["state"] == "pending"
    (accepted,) = invoke("accept", ids[parted][:8].lower())["accepted"]
    assert plans.find(log, accepted["plan"]).state == "applied"
    assert invoke("reject", ids[long], "--reason", "as is")["rejected"] == [ids[long]]
    assert invoke()["recommendations"] == []
    states = {item["id"]: item["state"] for item in invoke("--all")["recommendations"]}
    assert states == {ids[parted]: "accepted", ids[long]: "rejected"}


def test_refresh_looks_in_a_process_of_its_own_and_a_dry_run_writes_nothing(log: EventLog, say):
    say(LIST)
    assert [
        recommendation["what"] for recommendation in invoke("--refresh", "--dry-run")["new"]
    ] == ["reword"]
    assert recommendations.every(log) == []
    payload = invoke("--refresh")
    assert [recommendation["id"] for recommendation in payload["recommendations"]] == payload["new"]
