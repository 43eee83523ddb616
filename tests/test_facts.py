"""Facts of the memories about entities, each with its start and its end."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.derived.facts import FACTS_PROJECTION, Fact, Facts, facts_of
from store.home.instants import moment
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Archived, Forgotten, Recorded, Restored
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.fold import Fold
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import Memory
from store.memories.table import NEVER
from store.snapshots.projection import Inputs, build_checked

Clock = Callable[[], int]
NOW = 1_790_000_000_000_000
DAY = 86_400_000_000


def borne(entity: str, relation: str, value: str, *, singleton: bool = False) -> dict[str, object]:
    """Return the metadata of a memory with a fact."""
    fact = {"entity": entity, "relation": relation, "value": value, "singleton": singleton}
    return {"fact": fact}


def memories(log: EventLog) -> list[Memory]:
    fold = Fold()
    for event in log.effective_events(0, log.head()):
        fold.apply(event)
    return list(fold.rows.values())


def told(facts: Sequence[Fact]) -> list[tuple[str, str, int, int]]:
    return [(fact.key, fact.value, fact.valid_from, fact.valid_to) for fact in facts]


def test_a_newer_value_of_a_key_closes_the_older(log: EventLog, clock: Clock):
    for value, day in (("5432", 1), ("5433", 3)):
        at = moment(NOW + day * DAY)
        draft = Draft(content=f"it is {value}", key="api.v2.port", value=value, created_at=at)
        commands.record(log, draft, clock())
    assert told(facts_of(memories(log))) == [
        ("api.v2.port", "5432", NOW + DAY, NOW + 3 * DAY),
        ("api.v2.port", "5433", NOW + 3 * DAY, NEVER),
    ]


def test_values_of_a_relation_that_has_several_hold_side_by_side(log: EventLog, clock: Clock):
    for value in ("Redis", "Postgres"):
        fact = borne("Job Queue", "uses", value)
        commands.record(log, Draft(content=f"the queue uses {value}", metadata=fact), clock())
    facts = facts_of(memories(log))
    assert [(other.entity, other.value, other.valid_to) for other in facts] == [
        ("job-queue", "Redis", NEVER),
        ("job-queue", "Postgres", NEVER),
    ]


def test_a_singleton_fact_closes_the_older_of_its_project_alone(log: EventLog, clock: Clock):
    for value, project in (("1.0", "a/b"), ("2.0", "a/b"), ("3.0", "c/d")):
        fact = borne("numpy", "version", value, singleton=True)
        draft = Draft(content=f"numpy is at {value}", metadata=fact, project=project)
        commands.record(log, draft, clock())
    now = [other.value for other in facts_of(memories(log)) if other.valid_to == NEVER]
    assert now == ["2.0", "3.0"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"fact": "the sky is blue"},
        {"fact": {"entity": "api"}},
        {"fact": {"entity": " ", "relation": "port", "value": "1"}},
        {"fact": {"entity": "api", "relation": "port", "value": 1}},
        {"note": '"fact":{'},
    ],
)
def test_metadata_of_another_shape_bears_no_fact(log: EventLog, clock: Clock, metadata):
    commands.record(log, Draft(content="the API listens", metadata=metadata), clock())
    assert facts_of(memories(log)) == []


def test_a_forgotten_memory_says_nothing_at_no_moment(log: EventLog, clock: Clock):
    commands.record(log, Draft(id="m", content="x is 1", key="x.value", value="1"), clock())
    commands.forget(log, "m", clock())
    assert facts_of(memories(log)) == []


def test_the_table_names_the_memories_that_bear_facts(built):
    commands.record(built.log, Draft(content="eu", key="api-server.region", value="eu"), NOW)
    assert len(Facts.open(tables(built.log)).documents) == 3  # and two values of deploy.region


def tables(log: EventLog):
    below = Inputs(log.head(), lambda after: log.read(after))
    made = {"memories": build_checked(MEMORIES_PROJECTION, below, None)}
    return build_checked(FACTS_PROJECTION, Inputs(log.head(), below.read, made), None)


AT = st.sampled_from([None, *(moment(NOW + day * DAY) for day in range(4))])
KEYED = st.builds(
    Recorded,
    content=st.just("x"),
    key=st.sampled_from(["a.b", "c.d"]),
    value=st.sampled_from(["1", "2"]),
    created_at=AT,
    ttl_s=st.sampled_from([None, 86_400]),
)
ABOUT = st.sampled_from([Archived(), Forgotten(), Restored()])


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(st.tuples(KEYED | ABOUT, st.integers(0, 9)), max_size=12),
    at=st.integers(-1, 14),
)
def test_keyed_facts_hold_when_their_memories_do(steps, at):
    fold = Fold()
    for seq, (body, of) in enumerate(steps, start=1):
        id_ = f"m{seq}" if isinstance(body, Recorded) else f"m{of}"
        fold.apply(
            Event(f"e{seq}" if id_ == f"m{of}" else id_, NOW + seq * DAY, body, id_, seq=seq)
        )
    rows = list(fold.rows.values())
    then = NOW + at * DAY + 1
    held = {place for place, memory in enumerate(rows) if memory.holds_at(then)}
    assert {fact.document for fact in facts_of(rows) if fact.holds_at(then)} == held
