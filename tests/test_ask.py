"""`mnemolog ask`: a compound question, split by rules or by a model, each part recalled."""

from collections.abc import Iterator

import pytest
from command_line import answer, run
from model_server import Asked, ModelServer

from pipelines.jobs import find_job, runner
from pipelines.jobs.questions import split_by_model
from serve.recall.question_parts import split_question
from store.home import config
from store.home.errors import ModelError
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Called
from store.log.event_log import EventLog

NOW = 1_790_000_000_000_000
COMPOUND = "Which region do deploys go out from, and why did the cache fail?"
PARTS = ["Which region do deploys go out from", "why did the cache fail?"]
BY_MODEL = ["Which region do deploys use?", "Why did the cache fail?"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (COMPOUND, PARTS),
        (
            "Who reviewed the parser? Where do the nightly logs go?",
            ["Who reviewed the parser?", "Where do the nightly logs go?"],
        ),
        (
            "How many days passed between the first release and the outage in Oslo?",
            ["the first release", "the outage in Oslo"],
        ),
        (
            "Wer war für den Parser zuständig und wann wurde der Lexer getrennt?",
            ["Wer war für den Parser zuständig", "wann wurde der Lexer getrennt?"],
        ),
    ],
)
def test_a_compound_question_is_split_into_parts_that_stand_alone(
    question: str, expected: list[str]
):
    assert list(split_question(question)) == expected


@pytest.mark.parametrize(
    "question",
    [
        "When and where did Tom buy the car?",
        "What is the retry limit and why did we choose it?",
        "Who wrote the parser? Is it tested?",
        "Which tests and builds were slow?",
        "the wait between A, B and C and the rest",
        "What changed between May 7 and May 9?",
        "",
    ],
)
def test_a_question_whose_parts_need_each_other_stays_whole(question: str):
    assert list(split_question(question)) == [question]


@pytest.fixture
def known(home, tenant, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-tests")
    texts = {"a": "Deploys go out from eu-west-1 only", "b": "The cache failed as its ttl was zero"}
    with EventLog(tenant.log, create=True) as log:
        commands.record_batch(
            log, [Draft(id=id_, content=text) for id_, text in texts.items()], NOW
        )


@pytest.fixture
def model(home, known) -> Iterator[ModelServer]:
    """The model that the settings name."""
    with ModelServer(lambda asked: {"parts": BY_MODEL}) as server:
        (home / "config.toml").write_text(server.settings())
        yield server


def questions(found: dict[str, object]) -> list[str]:
    return [part["question"] for part in found["parts"]]


def test_each_part_has_its_own_answer(known):
    payload = answer("ask", COMPOUND)
    assert payload["split_by"] == "rules" and questions(payload) == PARTS
    assert [part["answer"]["hits"][0]["id"] for part in payload["parts"]] == ["a", "b"]
    result = run("ask", COMPOUND)
    assert [line for line in result.stdout.splitlines() if line in PARTS] == PARTS
    assert "split by rules" in result.stderr


def test_a_model_splits_where_one_is_set_and_its_call_is_recorded(model, tenant):
    payload = answer("ask", COMPOUND)
    assert payload["split_by"] == "openai/gpt-5-mini" and questions(payload) == BY_MODEL
    [asked] = model.asked
    assert asked.data.strip() == COMPOUND
    with EventLog(tenant.log) as log:
        [call] = [event.body for event in log.job_events(("called",))]
    assert isinstance(call, Called) and (call.purpose, call.error) == ("questions", None)


def test_rules_split_where_the_user_or_the_settings_want_no_model(model, home):
    assert answer("ask", COMPOUND, "--no-model")["split_by"] == "rules"
    (home / "config.toml").write_text(model.settings(rules_only=["questions"]))
    assert answer("ask", COMPOUND)["split_by"] == "rules"
    assert model.asked == []


@pytest.mark.parametrize("parts", [["Is there life on Mars?"], [], ["why"] * 9])
def test_parts_unrelated_to_the_question_are_refused(model, tenant, parts: list[str]):
    model.answers = lambda asked: {"parts": parts}
    with pytest.raises(ModelError):
        split_by_model(config.load(), tenant.name, COMPOUND)


def test_rules_split_where_the_model_does_not_answer(model, jobs_here):
    model.mode = "401"
    result = run("ask", COMPOUND)
    assert result.exit_code == 0 and "so rules do" in result.stderr
    assert "Deploys go out from eu-west-1 only" in result.stdout


def test_a_job_in_rules_only_asks_no_model(model, home, tenant, log):
    def scores(asked: Asked) -> object:
        return {"scores": [{"n": n, "importance": 0.9} for n in (1, 2)]}

    model.answers = scores
    run = ("importance", "facts")
    (home / "config.toml").write_text(model.settings(rules_only=list(run)))
    for name in run:
        job, settings = find_job(name), config.load()
        runner.run(job, settings, tenant.name, NOW, apply=False)
        assert runner.estimate(job, settings, tenant.name, NOW).calls == 0
    assert model.asked == []
    (home / "config.toml").write_text(model.settings(rules_only=["facts"]))
    runner.run(find_job("importance"), config.load(), tenant.name, NOW, apply=False)
    assert [call.schema_name for call in model.asked] == ["Scores"]
