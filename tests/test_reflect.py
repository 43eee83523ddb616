"""A pattern in several memories is reported once, with its sources, and not by chance."""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import Asked, ModelServer

from pipelines import jobs
from pipelines.jobs import Context
from pipelines.jobs.reflect import findings, generated_text
from pipelines.jobs.reflect.findings import average_linkage
from pipelines.jobs.reflect.generated_text import Written, supported_text
from pipelines.jobs.reflect.inputs import Finding
from pipelines.jobs.runner import open_memory, run
from serve.cli import main
from store.home.config import Choices, Llm, Settings
from store.home.instants import moment
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Step
from store.log.event_log import EventLog
from store.memories.memory import ACTIVE, STALE, SUPERSEDED, Memory
from store.plans import plans
from store.plans.plans import Plan

NOW = 1_790_000_000_000_000
DAY = 86_400_000_000

DEADLOCKS = (
    "The checkout deadlocked: orders were locked before the stock rows in settle_basket().",
    "Another deadlock in settle_basket(): lock the stock rows first, the orders second.",
    "settle_basket() deadlocked at night; the stock rows must be locked before orders.",
    "Deadlock again: a new caller of settle_basket() locked orders, then the stock rows.",
    "Review settle_basket() for deadlocks: every path locks stock rows, then orders.",
    "The deadlock test of settle_basket() locks the stock rows and orders from two threads.",
)
OTHERS = (
    "The logo on the landing page is an inline SVG of 3 KB",
    "Ana wants the quarterly numbers on the first Monday",
    "Set the timezone of the reporting database to UTC",
    "CSV exports begin with a byte order mark because of Excel",
    "Our TLS certificates renew themselves every sixty days",
    "The mobile app pins version 4 of the public API",
    "Feature flags are removed two releases after they shipped",
    "Emails leave through the outbox table and never directly",
)


@pytest.fixture
def memory(home: Path, tenant: Tenant, log: EventLog) -> Iterator["Notes"]:
    yield Notes(home, tenant, log)


class Notes:
    """A memory to write to and to reflect on."""

    def __init__(self, home: Path, tenant: Tenant, log: EventLog) -> None:
        self.home, self.tenant, self.log = home, tenant, log

    def say(self, texts: Sequence[str], first: int = 0, **fields: object) -> list[str]:
        """Record texts, one a day, starting at day `first`; return their ids."""
        name = fields.pop("name", "n")
        ids = [f"{name}{first + at}" for at in range(len(texts))]
        drafts = [
            Draft(id=id_, content=text, created_at=moment(NOW + (first + at) * DAY), **fields)
            for at, (id_, text) in enumerate(zip(ids, texts, strict=True))
        ]
        commands.record_batch(self.log, drafts, NOW)
        return ids

    def settings(self, llm: Llm | None = None) -> Settings:
        return Settings(self.home, choices=Choices(llm=llm or Llm()))

    def reflect(self, llm: Llm | None = None, **options: object) -> Plan | None:
        choices = {"apply": True, "no_model": True} | options
        return run(jobs.find_job("reflect"), self.settings(llm), "default", NOW, **choices)

    def insights(self) -> list[Memory]:
        with self.context() as context:
            table = context.tables("insights")["insights"]
            return context.memories(table.column("document").to_numpy().astype(np.int64))

    def context(self) -> AbstractContextManager[Context]:
        return open_memory(self.settings(), "default", NOW, no_model=True)


def recorded(plan: Plan | None, kind: str) -> list[Step]:
    steps = plan.body.steps if plan else ()
    return [step for step in steps if step.body.get("insight_type") == kind]


def test_similar_notes_become_an_insight_with_its_sources(memory: Notes):
    ids = memory.say(DEADLOCKS[:4], trust="agent", tags=("db",))
    memory.say(OTHERS, name="o")
    commands.record(memory.log, Draft(id="tool", content=DEADLOCKS[4], trust="tool"), NOW + 9 * DAY)
    (step,) = recorded(memory.reflect(), "cluster")
    body = step.body
    assert sorted(body["source_ids"]) == sorted([*ids, "tool"])
    assert step.trust == "tool" and step.project is None and body["tags"] == ["db"]
    assert body["kind"] == "insight" and body["made"] == {"job": "reflect"}
    headline, *sentences = body["content"].splitlines()
    assert "settle_basket" in headline and "5 notes" in headline
    assert sentences and all(
        sentence.split(" (2026-")[0][2:] in " ".join(DEADLOCKS) for sentence in sentences
    )


def test_running_again_proposes_nothing_and_one_more_note_changes_nothing(memory: Notes):
    memory.say([*DEADLOCKS[:4], *OTHERS])
    assert memory.reflect() is not None
    assert memory.reflect() is None
    memory.say(DEADLOCKS[4:5], 20)
    assert memory.reflect() is None


def test_a_cluster_that_grew_takes_the_place_of_its_old_insight(memory: Notes):
    memory.say([*DEADLOCKS[:3], *OTHERS])
    memory.reflect()
    memory.say(DEADLOCKS[3:], 20)
    plan = memory.reflect()
    assert plan is not None and {step.event for step in plan.body.steps} == {
        "recorded",
        "superseded",
    }
    assert sorted(insight.state for insight in memory.insights()) == [ACTIVE, SUPERSEDED]
    assert memory.reflect() is None


def test_undone_the_memory_is_as_it_was_and_the_insight_does_not_come_back(memory: Notes):
    memory.say([*DEADLOCKS, *OTHERS])
    with memory.context() as context:
        before = context.manifest.digests
    plan = memory.reflect()
    assert plan is not None
    plans.undo(memory.log, plan.id, NOW)
    with memory.context() as context:
        assert context.manifest.digests == before
    assert memory.reflect() is None


def test_a_forgotten_source_makes_it_stale_and_restored_it_is_current_again(memory: Notes):
    ids = memory.say([*DEADLOCKS[:4], *OTHERS])
    memory.reflect()
    commands.forget(memory.log, ids[0], NOW)
    assert [insight.state for insight in memory.insights()] == [STALE]
    commands.restore(memory.log, ids[0], NOW)
    plan = memory.reflect()
    assert plan is not None and [step.event for step in plan.body.steps] == ["restored"]
    assert [insight.state for insight in memory.insights()] == [ACTIVE]


def test_a_forgotten_insight_is_not_proposed_again(memory: Notes):
    memory.say([*DEADLOCKS, *OTHERS])
    memory.reflect()
    (insight,) = memory.insights()
    commands.forget(memory.log, insight.id, NOW)
    assert memory.reflect() is None


def test_projects_are_never_mixed_and_nothing_derived_is_a_source(memory: Notes):
    memory.say(DEADLOCKS[:2], project="a", name="a")
    memory.say(DEADLOCKS[2:4], project="b", name="b")
    memory.say(DEADLOCKS[4:5], kind="insight", name="i")
    memory.say(OTHERS, name="o")
    assert memory.reflect() is None


def test_one_sitting_and_copies_of_one_note_are_no_cluster(memory: Notes):
    drafts = [Draft(content=text, session="s") for text in (*DEADLOCKS, *OTHERS)]
    commands.record_batch(memory.log, drafts, NOW)
    memory.say([DEADLOCKS[0]] * 4, project="p", name="copy")
    assert memory.reflect() is None


def test_an_error_on_three_days_is_a_pattern_and_on_two_is_none(memory: Notes):
    words = (
        "The importer stopped with ENOSPC while unpacking",
        "ENOSPC again: nightly backup filled /var",
        "Today the image cache hit ENOSPC after an upgrade",
    )
    memory.say([*words[:2], *OTHERS])
    assert not recorded(memory.reflect(), "temporal")
    memory.say(words[2:], 20)
    (step,) = recorded(memory.reflect(), "temporal")
    assert step.body["content"].startswith("ENOSPC: comes back on 3 days, ")
    assert len(step.body["source_ids"]) == 3


def test_a_weekday_is_told_only_where_chance_does_not_explain_it():
    week = range(364)
    tuesdays = [day for day in week if day % 7 == 5]  # 1970 began on a Thursday
    rhythm = findings._rhythm(tuesdays[:9], list(week), set(), tried=80)
    assert rhythm == "9 times on a Tuesday"
    assert findings._rhythm(tuesdays[:3], list(week), set(), tried=80) == ""
    # if all notes are from Tuesdays, an error on Tuesdays is no finding
    assert findings._rhythm(tuesdays[:9], tuesdays, set(), tried=80) == ""
    spread = random.Random(7).sample(list(week), 40)
    assert findings._rhythm(sorted(spread), list(week), set(), tried=80) == ""
    released = {day for day in week if day % 30 < 3}
    after = sorted(released)[:9]
    assert "release" in findings._rhythm(after, list(week), released, tried=80)


def test_the_binomial_tail_is_that_of_its_definition():
    assert findings.binomial_tail(0, 5, 0.3) == pytest.approx(1.0)
    assert findings.binomial_tail(5, 5, 0.5) == pytest.approx(1 / 32)
    assert findings.binomial_tail(8, 10, 0.5) == pytest.approx(56 / 1024)  # (45 + 10 + 1) / 2^10


def test_a_history_of_commits_makes_no_insight(memory: Notes):
    commits = [
        f"{action} src/cart.py and CHANGELOG.md for pytest {number}"
        for number, action in enumerate(
            ["Fix a typo in", "Mend the discount of", "Update", "Fix rounding in", "Reword"] * 4
        )
    ]
    memory.say(commits, kind="bugfix", source="git", tags=("src/cart.py",))
    memory.say(DEADLOCKS, name="c", source="git")
    assert memory.reflect() is None


def test_a_file_that_was_often_fixed_is_no_insight(memory: Notes):
    fixes = ("The total in src/cart.py was rounded", "A discount was lost", "An empty basket fell")
    memory.say([f"{fix}: mended in src/cart.py" for fix in fixes], kind="bugfix")
    memory.say(OTHERS, name="o")
    assert not recorded(memory.reflect(), "temporal")


def test_causal_chains_are_listed_in_order(memory: Notes):
    a, b, c, *_ = memory.say(
        ["We moved the queue to Postgres", "Workers polled too often", "LISTEN replaced polling"]
    )
    commands.link(memory.log, b, a, "cause", NOW)  # a is b's cause
    commands.link(memory.log, b, c, "derived", NOW)  # c is derived from b
    (step,) = recorded(memory.reflect(), "causal")
    assert step.body["source_ids"] == [a, b, c]
    assert "3 steps" in step.body["content"]


def test_chains_end_where_they_go_round_and_at_two_there_is_none(memory: Notes):
    a, b, c = memory.say(["Alpha came first", "Beta came of it", "Gamma is apart"])
    commands.link(memory.log, b, a, "cause", NOW)
    commands.link(memory.log, a, b, "cause", NOW)
    commands.link(memory.log, c, c, "support", NOW)
    assert memory.reflect() is None


def test_a_fix_is_told_with_the_failure_before_it(memory: Notes):
    texts = ["Login crashed with ECONNREFUSED after the upgrade", *OTHERS[:4]]
    memory.say(texts)
    memory.say(["Start the broker first: cures ECONNREFUSED"], 6, kind="bugfix", name="f")
    (step,) = recorded(memory.reflect(), "causal")
    assert step.body["source_ids"] == ["n0", "f6"]
    assert "this fixed it 6 days later" in step.body["content"]


# linkage


def mean_linkage(alike: np.ndarray, least: float) -> list[list[int]]:
    """Merge the most similar two groups repeatedly, as the definition requires."""
    groups = [[number] for number in range(len(alike))]
    while True:
        pairs = [
            (alike[np.ix_(groups[a], groups[b])].mean(), a, b)
            for a in range(len(groups))
            for b in range(a + 1, len(groups))
        ]
        best = max(pairs, default=(-1.0, 0, 0))
        if best[0] < least:
            return sorted(sorted(group) for group in groups if len(group) > 1)
        groups[best[1]] += groups.pop(best[2])


@given(seed=st.integers(0, 10_000), count=st.integers(0, 14), least=st.floats(0.0, 0.9))
@settings(max_examples=40, deadline=None)
def test_the_chain_finds_the_groups_of_the_definition(seed: int, count: int, least: float):
    points = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    alike = points @ points.T
    groups = [some.tolist() for some in average_linkage(alike.copy(), least, count)]
    assert groups == mean_linkage(alike.astype(np.float64), least)


def test_no_group_is_larger_than_allowed():
    groups = average_linkage(np.ones((30, 30), np.float32), 0.5, 8)
    assert max(map(len, groups)) <= 8 and sum(map(len, groups)) >= 24


# with a model


def finding(*texts: str) -> Finding:
    drafts = [commands.memory_event(Draft(content=text), NOW) for text in texts]
    nothing = dict.fromkeys(Memory.__struct_fields__)
    sources = tuple(
        Memory(**nothing | {"id": event.id, "content": text, "created_at": NOW})
        for event, text in zip(drafts, texts, strict=True)
    )
    return Finding("cluster", None, sources, ("port",), "2 notes", "", 1.0)


@pytest.mark.parametrize(
    ("sentence", "stays"),
    [
        ("The proxy listens on port 5432 in both notes.", True),
        ("The proxy listens on port 5433.", False),  # another number
        ("The proxy listens on port 543.", False),  # part of a number
        ("The proxy was moved to nginx.conf by Anna.", False),  # an invented name
        ("The proxy does not listen on port 5432.", False),  # negated
        ("Rewrite everything with better tooling and more tests.", False),  # other words
        ("The proxy listens, " * 40 + "on port 5432.", False),  # not a sentence
    ],
)
def test_only_sentences_supported_by_sources_are_kept(sentence: str, stays: bool):
    of = finding("The proxy listens on port 5432", "Our proxy was moved: port 5432 again")
    text = supported_text(of, Written((sentence,)))
    assert (text is not None and sentence in text) == stays


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")

    def answers(question: Asked) -> object:
        true = "settle_basket() deadlocks when orders are locked before the stock rows."
        return {"sentences": [true, "It cost us 73 hours in Hamburg."]}

    with ModelServer(answers) as server:
        yield server


@pytest.mark.filterwarnings("default")
def test_a_model_writes_what_its_sources_bear_out(memory: Notes, server: ModelServer):
    memory.say([*DEADLOCKS[:4], *OTHERS])
    plan = memory.reflect(no_model=False, llm=asking(server))
    (step,) = recorded(plan, "cluster")
    assert step.body["content"].endswith("when orders are locked before the stock rows.")
    assert "Hamburg" not in step.body["content"]
    assert step.body["made"]["model"] and len(step.body["made"]["prompt_sha256"]) == 64
    assert plan is not None and "a model wrote 1 text" in plan.body.notes
    assert DEADLOCKS[0] in server.asked[0].data
    assert memory.reflect(no_model=False, llm=asking(server)) is None
    assert len(server.asked) == 1  # a known insight is not requested again


@pytest.mark.filterwarnings("default")
def test_a_model_that_is_ill_or_too_dear_leaves_the_sources_own_words(
    memory: Notes, server: ModelServer
):
    memory.say([*DEADLOCKS[:4], *OTHERS])
    server.mode = "401"
    plan = memory.reflect(no_model=False, llm=asking(server))
    (step,) = recorded(plan, "cluster")
    assert step.body["made"] == {"job": "reflect"} and "- " in step.body["content"]
    assert plan is not None and "a model gave no answer to 1 questions" in plan.body.notes
    memory.say(DEADLOCKS[:3], 40, project="p", name="p")
    plan = memory.reflect(no_model=False, llm=asking(server, tokens_a_run=1))
    assert plan is not None and "the budget was spent before all texts were written" in (
        plan.body.notes
    )
    assert recorded(plan, "cluster")


def asking(server: ModelServer, **limits: object) -> Llm:
    """Return settings for a model on the server."""
    model = "openai/gpt-5-mini"
    values = {"cheap": model, "balanced": model, "api_base": server.url, "timeout_s": 5.0}
    return msgspec.convert(values | limits, Llm)


@pytest.mark.usefixtures("jobs_here")
def test_the_command_shows_its_plan_and_does_it(memory: Notes):
    memory.say([*DEADLOCKS, *OTHERS])
    tried = CliRunner().invoke(main, ["reflect", "--dry-run"])
    assert tried.exit_code == 0 and "settle_basket" in tried.stdout
    assert "plans apply" in tried.stderr and not memory.insights()
    waiting = json.loads(CliRunner().invoke(main, ["reflect", "--json"]).stdout)
    assert waiting["state"] == "waiting" and not memory.insights()  # a person has to accept it
    assert len(waiting["steps"]) == 1
    result = CliRunner().invoke(main, ["plans", "apply", waiting["plan"]])
    assert result.exit_code == 0, result.output
    assert "nothing to do" in CliRunner().invoke(main, ["reflect"]).stdout
    command = ["recall", "deadlock in settle_basket", "--json"]
    hits = json.loads(CliRunner().invoke(main, command).stdout)["hits"]
    (insight,) = memory.insights()
    assert insight.id not in [hit["id"] for hit in hits]
    assert [hit["id"] for hit in hits if hit.get("insights") == [insight.id]]
    of_kind = CliRunner().invoke(main, [*command, "--kind", "insight"])
    assert [hit["id"] for hit in json.loads(of_kind.stdout)["hits"]] == [insight.id]


def test_a_sentence_is_quoted_whole_or_not_at_all():
    wrapped = "The pool is closed\nbefore the last connection is. It waits.\n- One thing a line"
    assert generated_text.sentences(wrapped) == [
        "The pool is closed before the last connection is.",
        "One thing a line",
    ]
    assert generated_text.sentences("The pool is closed and " * 20) == []


def test_commit_trailers_are_not_sentences():
    text = (
        "The pool is closed before the last connection.\nFiles: pool.py, README.md\nFixes #12, #13"
    )
    assert generated_text.sentences(text) == ["The pool is closed before the last connection."]
