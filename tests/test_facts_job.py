"""Facts from turns: only asserted ones, with date and subject; none replaces a person's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import answer, succeed
from model_server import Asked, ModelServer

from pipelines.jobs import find_job
from pipelines.jobs.facts.statements import assertions, facts_in
from pipelines.jobs.runner import run
from store.derived.facts import entity_name, facts_of
from store.embedders.lexical import LexicalEmbedder
from store.home import config
from store.home.errors import PlanStale
from store.home.instants import moment
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Recorded, Revised
from store.log.event_log import EventLog
from store.maintenance import build
from store.memories.fold import Fold
from store.memories.memory import ACTIVE, STALE, SUPERSEDED, Memory
from store.plans import plans
from store.plans.plans import Plan

Clock = Callable[[], int]
NOW = 1_790_000_000_000_000  # a Monday: 21 September 2026
DAY = 86_400_000_000
SENTENCES = Path(__file__).parent / "data" / "facts" / "sentences.jsonl"


def memories(log: EventLog) -> dict[str, Memory]:
    fold = Fold()
    for event in log.effective_events(0, log.head()):
        fold.apply(event)
    return fold.rows


def of_turn(text: str, **fields: Any) -> Memory:
    """Return a memory as recorded from a turn."""
    event = commands.memory_event(Draft(id="t", content=text, kind="raw_turn", **fields), NOW)
    fold = Fold()
    fold.apply(event)
    return fold.rows["t"]


@pytest.fixture
def say(log: EventLog, clock: Clock) -> Callable[..., str]:
    def record(text: str, id_: str | None = None, **fields: Any) -> str:
        draft = Draft(id=id_, content=text, **({"kind": "raw_turn"} | fields))
        return commands.record(log, draft, clock()).event.id

    return record


@pytest.fixture
def learn(home: Path, log: EventLog, clock: Clock) -> Callable[..., Plan | None]:
    """Run the job as `mnemolog facts` does."""

    def job(*, apply: bool = True, **options: Any) -> Plan | None:
        settings = config.load(environ={"MNEMOLOG_HOME": str(home)})
        return run(find_job("facts"), settings, "default", clock(), apply=apply, **options)

    return job


def known(log: EventLog) -> dict[str, str]:
    """Return the values that hold now."""
    rows = [memory for memory in memories(log).values() if memory.state == ACTIVE]
    return {fact.key: fact.value for fact in facts_of(rows)}


def named(fact: str) -> tuple[str, str, str]:
    key, value = fact.split("=", 1)
    entity, _, relation = key.rpartition(".")
    return entity_name(entity), entity_name(relation), value


# Assertions


def test_of_labelled_sentences_nearly_all_that_is_read_is_stated_and_most_is_read():
    right = wrong = missed = 0
    lines = [json.loads(line) for line in SENTENCES.read_text().splitlines()]
    assert len(lines) >= 120 and sum(not line["facts"] for line in lines) * 2 >= len(lines)
    for sentence in lines:
        wanted = {named(fact) for fact in sentence["facts"]}
        turn = of_turn(sentence["text"], project="acme/web") if sentence["text"].strip() else None
        stated = {(f.entity, f.relation, f.value) for f in facts_in(turn)} if turn else set()
        right += len(stated & wanted)
        wrong += len(stated - wanted)
        missed += len(wanted - stated)
    assert right / (right + wrong) >= 0.95
    assert right / (right + missed) >= 0.9


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The API runs on port 8080.", 0),
        ("Yesterday we moved the API to port 8080.", -1),
        ("The API runs on port 8080 since 2026-09-01.", -20),
        ("As of last week, the API listens on port 8080.", -7),
        ("We moved the API to port 8080 three days ago.", -3),
    ],
)
def test_a_fact_holds_since_the_day_its_turn_names(text: str, day: int):
    (fact,) = facts_in(of_turn(text))
    assert fact.since == (NOW if day == 0 else (NOW // DAY + day) * DAY)


def test_a_time_that_had_not_come_is_no_fact():
    assert facts_in(of_turn("The API listens on port 8080 since 2026-12-24.")) == []


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({"created_by": "Anna Smith"}, "anna-smith"),
        ({}, "user"),
        ({"created_by": "user"}, "user"),
        ({"trust": "agent"}, None),
        ({"trust": "agent", "created_by": "assistant"}, None),
    ],
)
def test_first_person_facts_are_about_the_speaker(fields: dict[str, Any], who: str | None):
    entities = [fact.entity for fact in facts_in(of_turn("I live in Lisbon.", **fields))]
    assert entities == ([who] if who else [])


def test_a_text_with_two_values_of_one_key_states_neither():
    text = "The API runs on port 8080.\nThe API runs on port 8090.\nThe web runs on port 3000."
    assert [fact.key for fact in facts_in(of_turn(text))] == ["web.port"]


def test_what_is_pasted_asserts_nothing():
    assert list(assertions("The API runs on port 8080.\n" * 300)) == []


# Effects on other facts


def test_a_newer_turn_closes_the_older_value_and_the_plan_undone_leaves_no_trace(
    tenant: Tenant, log: EventLog, clock: Clock, say, learn
):
    first = say("The API runs on port 8080.", created_by="Anna Smith", session="s1")
    learn()
    embedder = LexicalEmbedder()
    before = build.rebuild(tenant, log, embedder, clock()).digests
    say("We moved the API to port 9090.", created_at=moment(NOW + DAY))
    plan = learn()
    assert known(log) == {"api.port": "9090"}
    rows = memories(log)
    old = next(row for row in rows.values() if row.value == "8080")
    assert (old.state, old.ended_at) == (SUPERSEDED, NOW + DAY)
    assert (old.source_ids, old.created_by, old.trust) == ((first,), "Anna Smith", "user")
    assert old.created_at == rows[first].created_at and old.session is None
    plans.undo(log, plan.id, clock())
    assert known(log) == {"api.port": "8080"}
    turn = next(row for row in rows.values() if row.content.startswith("We moved"))
    commands.forget(log, turn.id, clock())
    after = build.rebuild(tenant, log, embedder, clock()).digests
    assert after["facts"] == before["facts"]


def test_an_older_turn_never_replaces_a_newer_value(log: EventLog, say, learn):
    say("The API runs on port 9090.")
    learn()
    say("The API runs on port 8080.", created_at=moment(NOW - DAY))
    assert learn() is None and known(log) == {"api.port": "9090"}


def test_two_turns_are_read_in_the_order_of_their_days(log: EventLog, say, learn):
    say("The API runs on port 9090.")
    say("The API runs on port 8080.", created_at=moment(NOW - DAY))
    learn()
    assert known(log) == {"api.port": "9090"}
    facts = facts_of(list(memories(log).values()))
    assert [(fact.value, fact.valid_from) for fact in facts] == [("8080", NOW - DAY), ("9090", NOW)]


def test_a_value_by_hand_is_never_replaced_but_contradicted(log: EventLog, say, learn):
    by_hand = say("We deploy to us", kind="fact", key="deploy.region", value="us-east-1")
    turn = say("We deploy to eu-west-1.")
    (step,) = learn().body.steps
    assert (step.event, step.subject) == ("linked", turn)
    assert step.body == {"target": by_hand, "relation": "conflict"}
    assert known(log) == {"deploy.region": "us-east-1"}
    assert learn() is None


def test_a_value_by_hand_that_came_meanwhile_makes_the_plan_stale(log: EventLog, say, learn):
    say("We deploy to eu-west-1.")
    plan = learn(apply=False)
    say("We deploy to us", kind="fact", key="deploy.region", value="us-east-1")
    with pytest.raises(PlanStale, match=r"deploy\.region was given a value since"):
        plans.apply(log, plan.id, NOW)


def test_what_is_known_is_not_recorded_again(log: EventLog, say, learn):
    say("The API runs on port 8080.")
    say("We use Redis for caching.")
    learn()
    say("OK, the API runs on port 8080 now.")
    say("We use redis for caching, as before.")
    assert learn() is None


def test_a_turn_is_looked_at_once_and_again_when_its_words_changed(
    log: EventLog, clock, say, learn
):
    say("The API runs on port 8080.", "t1")
    assert learn().body.looked_at == 1
    say("The web client runs on port 3000.", "t2")
    assert learn().body.looked_at == 1
    commands.revise(log, "t1", Revised(content="The API is written in Go."), clock())
    plan = learn()
    assert plan.body.looked_at == 1
    assert [step.event for step in plan.body.steps] == ["staled", "recorded"]
    assert known(log) == {"web-client.port": "3000", "api.language": "Go"}


def test_what_a_person_undid_is_not_read_again(log: EventLog, clock, say, learn):
    say("The API runs on port 8080.")
    plans.undo(log, learn().id, clock())
    assert learn() is None and known(log) == {}


def test_a_fact_whose_turn_is_forgotten_says_no_more(log: EventLog, clock, say, learn):
    turn = say("The API runs on port 8080.")
    learn()
    commands.forget(log, turn, clock())
    (fact,) = [memory for memory in memories(log).values() if memory.job == "facts"]
    assert fact.state == STALE


def test_what_a_merged_turn_said_is_read_in_the_one_that_took_its_place(
    log: EventLog, clock, say, learn
):
    merged = say("The API runs on port 8080.")
    learn()
    other = say("The API runs on port 8080, as ever.", created_at=moment(NOW))
    assert learn() is None
    commands.supersede(log, merged, other, clock())
    assert known(log) == {}
    learn()
    assert known(log) == {"api.port": "8080"} and learn() is None


@pytest.mark.parametrize(
    ("fields", "is_read"),
    [
        ({"trust": "web"}, False),
        ({"trust": "tool"}, False),
        ({"trust": "tool", "tags": ("facts",)}, True),
        ({"trust": "agent"}, True),
        ({"kind": "summary"}, False),
        ({"kind": "goal"}, False),
    ],
)
def test_only_what_users_and_agents_say_is_read_unless_it_is_labelled(
    log: EventLog, say, learn, fields: dict[str, Any], is_read: bool
):
    say("The API runs on port 8080.", **fields)
    assert (learn() is not None) == is_read
    trusts = [memory.trust for memory in memories(log).values() if memory.job == "facts"]
    assert trusts == ([fields["trust"]] if is_read else [])


def test_a_project_has_values_of_its_own(log: EventLog, say, learn):
    say("Our database is Postgres 16.", project="acme/web")
    say("Our database is MariaDB 11.", project="acme/api")
    learn()
    values = {memory.project: memory.value for memory in memories(log).values() if memory.key}
    assert values == {"acme/web": "Postgres 16", "acme/api": "MariaDB 11"}


# With a model


def answers(*facts: dict[str, Any]) -> Callable[[Asked], object]:
    return lambda asked: {"facts": list(facts)}


TURN = "The nightly export lands in the bucket exports-eu at four. Is the CDN ours?"
GOOD = {
    "turn": 1,
    "sentence": "The nightly export lands in the bucket exports-eu at four.",
    "entity": "nightly export",
    "relation": "bucket",
    "value": "exports-eu",
}


@pytest.fixture
def with_model(home: Path) -> Callable[[ModelServer], None]:
    def set_up(server: ModelServer) -> None:
        (home / "config.toml").write_text(server.settings())

    return set_up


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")


def test_a_model_finds_what_no_pattern_does_and_is_asked_once(
    log: EventLog, say, learn, with_model
):
    with ModelServer(answers(GOOD)) as server:
        with_model(server)
        say(TURN)
        learn()
        assert known(log) == {"nightly-export.bucket": "exports-eu"}
        recorded = [e.body for e in log.read() if isinstance(e.body, Recorded) and e.body.made]
        assert [(body.made.model, body.made.tokens) for body in recorded] == [
            ("openai/gpt-5-mini", 120)
        ]
        server.answers = answers()
        say("The weather is nice in the mountains today.")
        assert learn() is None and learn() is None
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": "exports-us"},
        {"entity": "weekly export"},
        {"turn": 7},
        {"sentence": "Is the CDN ours?", "entity": "CDN", "value": "ours"},
        {"sentence": "The export is slow.", "value": "slow"},
        {"relation": "is; drop table"},
        {"entity": "I"},
    ],
)
def test_what_a_model_says_beyond_the_turn_is_not_believed(
    log: EventLog, say, learn, with_model, wrong: dict[str, Any]
):
    with ModelServer(answers(GOOD | wrong)) as server:
        with_model(server)
        say(TURN)
        assert learn() is None and len(server.asked) == 1


def test_without_the_models_answer_the_patterns_go_on(log: EventLog, say, learn, with_model):
    with ModelServer(answers(GOOD)) as server:
        server.mode = "400"
        with_model(server)
        say("The API runs on port 8080.")
        learn()
        assert known(log) == {"api.port": "8080"} and server.asked


# On the command line


def test_facts_are_read_and_listed_on_the_command_line(log: EventLog, clock, say, learn):
    say("The API server runs on port 8080.", created_by="Anna Smith")
    say("The API server runs on port 9090.", created_at=moment(NOW + DAY), created_by="Bob Lee")
    learn()

    def listed(*words: str) -> list[tuple[str, str, str | None]]:
        facts = answer("facts", "list", *words)["facts"]
        return [(fact["value"], fact["said_by"], fact["until"]) for fact in facts]

    assert listed("API server", "--all") == [
        ("8080", "Anna Smith", "2026-09-22T14:13:20Z"),
        ("9090", "Bob Lee", None),
    ]
    assert listed("--as-of", "2026-09-21T20:00:00") == [
        ("8080", "Anna Smith", "2026-09-22T14:13:20Z")
    ]
    assert listed("database") == []
    text = succeed("facts", "list", "--all").output
    assert "api-server  port" in text and "Bob Lee" in text
