"""CrewAI's memory over a live server, and a crew that works with it."""

from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI has an environment of its own: make adapters")

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from mnemolog import Client
from mnemolog.adapters.crewai import CrewMemory


class ScriptedModel(BaseLLM):
    """A model with a fixed answer, and the questions it got."""

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        self.__dict__.setdefault("asked", []).append(str(messages))
        return "Final Answer: We ship from eu-west-1"


@pytest.fixture
def memory(client: Client) -> CrewMemory:
    return CrewMemory(client, project="acme/web")


def texts(matches: list[Any]) -> list[str]:
    return [match.record.content for match in matches]


def test_what_a_crew_remembers_is_recalled_by_its_words(memory: CrewMemory, client: Client):
    record = memory.remember(
        "Deploys go out from eu-west-1 only",
        scope="/ops",
        categories=["deploy"],
        metadata={"ticket": 7},
        importance=0.9,
        source="ana",
        agent_role="operator",
    )
    assert record is not None
    memory.remember("Ana likes pizza with olives", scope="/people")
    [match] = memory.recall("where do deploys go out from")
    fields = match.record.model_dump(exclude={"created_at", "last_accessed"})
    assert fields == record.model_dump(exclude={"created_at", "last_accessed"})
    assert 0 < match.score <= 1 and "deploys go out" in match.format().lower()
    stored = client.memories.get(record.id)
    assert (stored.trust, stored.agent, stored.importance) == ("agent", "operator", 0.9)
    assert memory.recall("the horses of the queen of Spain") == []


def test_a_scope_holds_what_lies_in_it_and_below(client: Client):
    memory = CrewMemory(client, root_scope="/crew/web")
    memory.remember_many(["The port is 5433", "The host is heron"], scope="/db", categories=["net"])
    memory.remember("The port of the cache is 6380", scope="/cache")
    assert memory.list_scopes() == ["/crew/web/cache", "/crew/web/db"]
    assert memory.info().record_count == 3 and memory.info("/db").categories == ["net"]
    assert memory.list_categories() == {"net": 2}
    assert "/crew/web/db (2 records)" in memory.tree()
    assert texts(memory.scope("/db").recall("which port")) == ["The port is 5433"]
    assert texts(memory.recall("which port", categories=["net"])) == ["The port is 5433"]
    assert CrewMemory(client, root_scope="/crew/we").recall("which port") == []
    assert memory.forget(scope="/db") == 2 and memory.info().record_count == 1
    memory.reset_all()
    assert memory.list_records() == []


def test_a_recall_without_a_scope_brings_what_others_keep_and_changes_none_of_it(
    memory: CrewMemory, client: Client
):
    client.record("Deploys go out from eu-west-1 only", kind="decision", project="acme/web")
    [match] = memory.recall("where do deploys go out from")
    assert match.record.scope == "/"
    assert memory.recall("where do deploys go out from", scope="/ops") == []
    with pytest.raises(ValueError, match="Record not found"):
        memory.update(match.record.id, content="From us-east-1")
    assert memory.list_records() == [] and memory.forget() == 0
    assert len(memory.recall("where do deploys go out from")) == 1


def test_a_change_keeps_what_was_before(memory: CrewMemory, client: Client):
    record = memory.remember("The port is 5432", scope="/db")
    memory.update(record.id, content="The port is 5433", categories=["net"])
    [stored] = memory.list_records()
    assert (stored.content, stored.scope, stored.categories) == ("The port is 5433", "/db", ["net"])
    assert "The port is 5432" in repr(client.memories.get(record.id).history)


def test_a_private_record_is_told_to_its_source_alone(memory: CrewMemory):
    memory.remember("The port is 5432", source="ana", private=True)
    assert memory.recall("which port") == []
    assert len(memory.recall("which port", source="ana")) == 1
    assert len(memory.recall("which port", include_private=True)) == 1


def test_a_read_only_memory_stores_nothing(client: Client):
    memory = CrewMemory(client, read_only=True)
    assert memory.remember("The port is 5432") is None
    assert memory.remember_many(["The port is 5432"]) == []
    assert list(client.memories.list()) == []


def test_a_crew_is_told_what_is_known_and_keeps_what_it_found(memory: CrewMemory):
    memory.remember("Deploys go out from eu-west-1 only")
    model = ScriptedModel(model="scripted")
    memory._llm_instance = model
    agent = Agent(role="operator", goal="answer", backstory="knows", llm=model, max_iter=2)
    task = Task(
        description="Say where deploys go out from", expected_output="a region", agent=agent
    )
    Crew(agents=[agent], tasks=[task], memory=memory).kickoff()
    assert "Deploys go out from eu-west-1 only" in model.__dict__["asked"][0]
    memory.drain_writes()
    contents = [record.content for record in memory.list_records()]
    assert len(contents) == 2 and "eu-west-1" in contents[0]
