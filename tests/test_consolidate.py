"""Duplicates become one memory, and corrected ones give way; nothing else, and nothing for good."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from as_person import AS_PERSON
from click.testing import CliRunner
from lookalikes import CORRECTIONS, NO_CORRECTIONS, SAME, facts
from model_server import Asked, ModelServer

from pipelines.jobs import Context, find_job
from pipelines.jobs.consolidate.model_judgments import Judgment, differ_in_fact, reject_reason
from pipelines.jobs.runner import open_memory, write_plan
from pipelines.llm.model_client import Answer
from serve.cli import main
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.recall import Question, recall
from store.home import config
from store.home.errors import BudgetSpent, ModelError, PlanStale
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Made, Planned, Revised, Step
from store.log.event_log import EventLog
from store.maintenance import build
from store.memories.memory import ACTIVE, STALE, SUPERSEDED, Memory
from store.plans import plans, steps
from store.plans.plans import Plan
from store.snapshots.manifest import Manifest

ROOT = Path(__file__).resolve().parents[1]
START = 1_780_000_000_000_000  # microseconds UTC, before NOW of conftest
DAY = 86_400_000_000


@dataclass(frozen=True)
class Home:
    """A separate tenant, and the results of consolidating it."""

    tenant: Tenant
    log: EventLog
    embedder: Any
    clock: Callable[[], int]

    def record(self, *drafts: Draft) -> None:
        for number, draft in enumerate(drafts):
            commands.record(self.log, draft, START + number * 1_000_000)

    def build(self) -> Manifest:
        return build.rebuild(self.tenant, self.log, self.embedder, self.clock())

    @contextmanager
    def context(self, **changes: Any) -> Iterator[Context]:
        self.build()
        with open_memory(config.load(), "default", self.clock()) as context:
            yield replace(context, **changes)

    def plan(self, *, apply: bool = False, **changes: Any) -> Plan | None:
        with self.context(**changes) as context:
            return write_plan(find_job("consolidate"), context, apply=apply)

    def steps(self, **changes: Any) -> list[tuple[str, str, str | None]]:
        """Return the proposed steps of a consolidation: event, subject, and its replacement."""
        plan = self.plan(**changes)
        return told(plan.body.steps) if plan else []

    def memory(self, id_: str) -> Memory:
        with Reader(self.tenant, self.log, self.embedder).view() as view:
            memory = view.tail.find(id_)
        assert memory is not None
        return memory

    def states(self, *ids: str) -> list[str]:
        return [self.memory(id_).state for id_ in ids]

    def recalled(self, query: str) -> list[str]:
        with Reader(self.tenant, self.log, self.embedder).view() as view:
            question = Question(query, Filter(now=self.clock()), 20)
            return [hit.memory.id for hit in recall(view, question).hits]


def told(some: tuple[Step, ...]) -> list[tuple[str, str, str | None]]:
    return [(step.event, step.subject, step.body.get("by")) for step in some]


@pytest.fixture
def home(tenant, log, embedder, clock) -> Home:
    return Home(tenant, log, embedder, clock)


def drafts(*texts: str, **fields: Any) -> list[Draft]:
    return [Draft(id=f"d{n}", content=text, **fields) for n, text in enumerate(texts)]


# Strict evidence


def test_of_309_distinct_facts_nothing_is_merged(home: Home):
    home.record(*drafts(*facts()))
    assert home.plan() is None


def test_the_labelled_duplicates_are_found_and_nothing_else(home: Home):
    different = [pair for pair in SAME if pair[0] != pair[1]] + list(NO_CORRECTIONS)
    home.record(
        *(
            Draft(id=f"d{2 * n + place}", content=text, project=f"p{n}")
            for n, pair in enumerate(different)
            for place, text in enumerate(pair)
        )
    )
    merged = {(subject, by) for event, subject, by in home.steps() if event == "superseded"}
    wanted = {(f"d{2 * n + 1}", f"d{2 * n}") for n in range(len(SAME))}
    hits = len(merged & wanted)
    assert (hits / len(merged), hits / len(wanted)) == (1.0, 1.0)  # precision, recall


@pytest.mark.parametrize("kind", ["fact", "decision"])
def test_a_correction_takes_the_older_values_place_and_both_stay_readable(home: Home, kind: str):
    home.record(
        *(
            Draft(id=f"d{2 * n + place}", content=text, project=f"p{n}", kind=kind)
            for n, pair in enumerate(CORRECTIONS)
            for place, text in enumerate(pair[:2])
        )
    )
    pairs = [(f"d{2 * n}", f"d{2 * n + 1}") for n in range(len(CORRECTIONS))]
    assert home.steps() == [("superseded", older, newer) for older, newer in pairs]
    home.plan(apply=True)
    assert home.memory("d0").superseded_by == "d1"
    assert home.memory("d0").content == CORRECTIONS[0][0]


def test_a_value_that_came_back_is_the_one_that_holds(home: Home):
    home.record(*drafts("The port is 80", "The port is 81", "The port is 80"))
    home.plan(apply=True)
    assert home.states("d0", "d1", "d2") == [SUPERSEDED, SUPERSEDED, ACTIVE]
    assert home.plan() is None


def test_what_was_learned_or_happened_is_not_corrected(home: Home):
    for number, kind in enumerate(("lesson", "milestone", "raw_turn", "summary")):
        pair = drafts("The port is 80", "The port is 81", kind=kind, project=f"p{number}")
        home.record(*(replace_id(draft, f"{kind}-{draft.id}") for draft in pair))
    assert home.plan() is None


def replace_id(draft: Draft, id_: str) -> Draft:
    from msgspec.structs import replace as with_fields

    return with_fields(draft, id=id_)


def test_a_merge_carries_tags_importance_metadata_and_edges_over(home: Home):
    home.record(
        Draft(id="a", content="Use uv, never pip", tags=("tools",), importance=0.4),
        Draft(id="b", content="use uv, never pip!", tags=("python",), importance=0.9),
        Draft(id="c", content="Use **uv**, never pip", metadata={"seen": "in review"}),
        Draft(id="x", content="The lock file is uv's"),
    )
    commands.link(home.log, "b", "x", "support", START)
    commands.link(home.log, "x", "c", "cause", START)
    home.plan(apply=True)
    assert home.states("a", "b", "c", "x") == [ACTIVE, SUPERSEDED, SUPERSEDED, ACTIVE]
    memory = home.memory("a")
    assert (memory.tags, memory.importance) == (("tools", "python"), 0.9)
    assert json.loads(memory.metadata) == {"seen": "in review"}
    with Reader(home.tenant, home.log, home.embedder).view() as view:
        edges = {(e.source, e.target, e.relation) for e in view.tail.edges_of("a")}
    assert edges == {("a", "x", "support"), ("x", "a", "cause")}


def test_trust_never_rises(home: Home):
    home.record(
        Draft(id="web", content="Use uv, never pip", trust="web", tags=("x",), importance=1.0),
        Draft(id="user", content="use uv, never pip", trust="user"),
        Draft(id="older", content="The port is 80", trust="user"),
        Draft(id="newer", content="The port is 81", trust="tool"),
        Draft(id="said", content="The limit is 80", trust="agent"),
        Draft(id="better", content="The limit is 81", trust="user"),
    )
    assert home.steps() == [("superseded", "web", "user"), ("superseded", "said", "better")]


def test_keyed_pinned_goal_and_insight_memories_are_not_merged(home: Home):
    made = Made(job="reflect")
    home.record(
        *drafts("The region is eu", "the region is eu", key="deploy.region"),
        Draft(id="g1", content="Move to uv", kind="goal"),
        Draft(id="g2", content="move to uv", kind="goal"),
        Draft(id="p1", content="Never push to main", pinned=True),
        Draft(id="p2", content="never push to main", pinned=True),
        Draft(id="s1", content="Builds are slow on Mondays"),
        Draft(id="t1", content="Ship on Friday", metadata={"by": "Anna"}),
        Draft(id="t2", content="ship on friday", metadata={"by": "Berta"}),
    )
    insight = Draft(id="i1", content="Builds are slow on Mondays.", source_ids=("s1",))
    body = Planned(
        job="reflect",
        watermark=home.log.head(),
        steps=(steps.record(insight, made, START, "seen twice"),),
    )
    plans.apply(home.log, plans.propose(home.log, body, START).id, START)
    assert home.plan() is None


def test_what_expires_takes_no_place_of_what_lasts(home: Home):
    home.record(
        Draft(id="a", content="Deploys are frozen", ttl_s=10**9),
        Draft(id="b", content="deploys are frozen"),
    )
    assert home.steps() == [("superseded", "a", "b")]


def test_sources_of_insights_are_not_superseded(home: Home):
    home.record(*drafts("Builds are slow", "builds are slow"))
    insight = Draft(id="i1", content="Slow builds cost a day", source_ids=("d1",))
    step = steps.record(insight, Made(job="reflect"), START, "seen twice")
    body = Planned(job="reflect", watermark=home.log.head(), steps=(step,))
    plans.apply(home.log, plans.propose(home.log, body, START).id, START)
    home.plan(apply=True)
    assert home.states("d0", "d1", "i1") == [SUPERSEDED, ACTIVE, ACTIVE]


def test_what_is_over_by_its_time_its_words_or_its_sources_is_stale(home: Home):
    home.record(
        Draft(id="ttl", content="Deploys are frozen this week", ttl_s=60),
        Draft(id="tag", content="We deploy by FTP", tags=("obsolete",)),
        Draft(id="word", content="[outdated]: the queue is Redis"),
        Draft(id="struck", content="~~The queue is Redis~~"),
        Draft(id="source", content="Redis is a queue"),
        Draft(id="made", content="Queues are Redis", kind="insight", source_ids=("source",)),
        Draft(id="kept", content="The word obsolete is banned here"),
        Draft(id="pinned", content="We deploy by rsync", tags=("obsolete",), pinned=True),
        Draft(id="child", content="It has two replicas", parent_id="source"),
    )
    commands.forget(home.log, "source", START)
    plan = home.plan(apply=True)
    assert plan is not None and plan.body.notes == (
        "kept though their parent was forgotten: 1 memory",
    )
    assert home.states("ttl", "tag", "word", "struck", "made") == [STALE] * 5
    assert home.states("kept", "pinned", "child") == [ACTIVE] * 3


# Plans


def test_undo_restores_the_same_digest(home: Home):
    home.record(
        *drafts("Use uv, never pip", "use uv, never pip", "The port is 80", "The port is 81")
    )
    commands.record(home.log, Draft(id="x", content="We deploy by FTP", tags=("obsolete",)), START)
    before = home.build().digests
    plan = home.plan(apply=True)
    assert plan is not None and home.build().digests != before
    plans.undo(home.log, plan.id, home.clock())
    assert home.build().digests == before
    assert home.plan() is None  # a person's undo is not proposed again


def test_a_write_between_preview_and_apply_makes_the_plan_stale(home: Home):
    home.record(*drafts("Use uv, never pip", "use uv, never pip"))
    plan = home.plan()
    assert plan is not None
    commands.record(home.log, Draft(id="other", content="An unrelated note"), home.clock())
    assert plans.find(home.log, plan.id).state == "waiting"
    commands.revise(home.log, "d0", Revised(content="Use poetry"), home.clock())
    with pytest.raises(PlanStale, match="d0 was revised since"):
        plans.apply(home.log, plan.id, home.clock())
    assert home.states("d0", "d1") == [ACTIVE, ACTIVE]


def test_a_second_run_has_nothing_left_to_do(home: Home):
    home.record(*drafts(*(text for pair in SAME for text in pair)))
    home.plan(apply=True)
    assert home.plan() is None


# With a model


@dataclass
class Model:
    """A model that answers every pair with `answers`; its questions are in `asked`."""

    answers: Callable[[str], Judgment]

    def __post_init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, purpose: str, instructions: str, data: str, answer: type, *, tier: str) -> Answer:
        assert (purpose, tier, answer) == ("consolidate", "balanced", Judgment)
        self.asked.append(data)
        return Answer(self.answers(data), "small/one", "ab" * 32, 12, 0.001)


NEAR = ("We use pnpm here for installs", "For installs here the team uses pnpm")
ONE = "We, the team, use pnpm here for installs"


def same(text: str) -> Model:
    return Model(lambda data: Judgment("same", "they say the same", text))


def test_a_model_words_the_successor_and_its_lineage_is_kept(home: Home):
    home.record(*drafts(*NEAR, tags=("tools",)))
    plan = home.plan(apply=True, model=same(ONE))
    assert plan is not None
    (successor,) = [step.subject for step in plan.body.steps if step.event == "recorded"]
    memory = home.memory(successor)
    assert (memory.content, memory.source_ids, memory.job) == (ONE, ("d0", "d1"), "consolidate")
    assert (memory.trust, memory.tags, memory.state) == ("user", ("tools",), ACTIVE)
    assert home.states("d0", "d1") == [SUPERSEDED, SUPERSEDED]
    recorded = home.log.events_for(successor)[0].body
    assert (recorded.made.model, recorded.made.tokens) == ("small/one", 12)


def test_the_successor_is_recallable_whenever_its_sources_are_not(home: Home):
    home.record(*drafts(*NEAR))
    plan = home.plan(model=same(ONE))
    assert plan is not None
    query = "what do we use for installs: pnpm?"
    assert set(home.recalled(query)) == {"d0", "d1"}
    plans.apply(home.log, plan.id, home.clock())
    successor = plan.body.steps[0].subject
    events = [event.kind for event in home.log.read(plan.body.watermark) if event.kind != "planned"]
    assert events == ["recorded", "superseded", "superseded", "applied"]  # one transaction
    assert home.recalled(query) == [successor]  # from the log's tail, before any build
    home.build()
    assert home.recalled(query) == [successor]


def test_a_model_that_lies_merges_nothing_of_309_facts(home: Home):
    home.record(*drafts(*facts()))
    liar = Model(lambda data: Judgment("same", "so", data.partition("\n")[2].partition("\n")[0]))
    assert home.plan(model=liar) is None
    assert len(liar.asked) > 20


@pytest.mark.parametrize(
    ("successor", "reason"),
    [
        ("We use pnpm 9 here for installs of the team", "number"),
        ("We, the team, never use pnpm here for installs", "negation"),
        ("We, the team, use Pnpm of Anna here for installs", "name"),
        ("We, the team, use pnpm here for fast installs", "neither says fast"),
        ("We use pnpm here", "it does not say"),
        ("", "it does not say"),
    ],
)
def test_words_that_lose_or_invent_are_not_taken(home: Home, successor: str, reason: str):
    assert reason in (reject_reason(successor, *NEAR) or "")
    home.record(*drafts(*NEAR))
    assert home.plan(model=same(successor)) is None


def test_a_model_does_not_overrule_strict_evidence():
    assert differ_in_fact("Anna owns the parser", "Berta owns the parser")
    assert differ_in_fact("All replicas keep data", "Some replicas keep data")
    assert differ_in_fact("It may restart", "It must restart")
    assert not differ_in_fact(*NEAR)


def test_a_model_may_say_that_a_later_word_holds(home: Home):
    home.record(*drafts("We deploy the API to Frankfurt", "We deploy the API to Dublin"))
    later = Model(lambda data: Judgment("update", "the region moved"))
    assert home.steps(model=later) == [("superseded", "d0", "d1")]


@pytest.mark.parametrize("error", [ModelError("it is ill"), BudgetSpent("none is left")])
def test_without_an_answer_strict_evidence_is_what_there_is(home: Home, error: Exception):
    home.record(*drafts(*NEAR, "Use uv, never pip", "use uv, never pip"))

    def fails(data: str) -> Judgment:
        raise error

    assert home.steps(model=Model(fails)) == [("superseded", "d3", "d2")]


@pytest.mark.filterwarnings("default")  # litellm warns about its own values
def test_a_real_server_is_asked_and_the_budget_ends_the_asking(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-q8Zt4LmX2vN7cR5bW1yK9dF3hJ6gA0sE")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    other = ("Deploys of the shop start at noon", "At noon the shop's deploys always start")
    home.record(*drafts(*NEAR, *other), *drafts_of("Use uv, never pip", "use uv, never pip"))

    def says(question: Asked) -> object:
        text = ONE if "pnpm" in question.data else ""
        relation = "same" if text else "different"
        return {"relation": relation, "because": "so", "text": text}

    with ModelServer(says) as server:
        file = config.load().home / "config.toml"
        file.write_text(server.settings())
        plan = home.plan()
        assert plan is not None and plan.body.tokens == 120 * len(server.asked) > 0
        assert [step.event for step in plan.body.steps].count("recorded") == 1
        assert len(server.asked) == 2
        home.plan()  # asks again about the pair that waits for acceptance, and not about the other
        assert (calls := len(server.asked)) == 3
        file.write_text(server.settings(tokens_a_day=1))
        cut = home.plan()
        assert cut is not None and len(server.asked) == calls
    assert told(cut.body.steps) == [("superseded", "e1", "e0")]
    assert any("tokens_a_day" in note for note in cut.body.notes)


def drafts_of(*texts: str) -> list[Draft]:
    return [Draft(id=f"e{n}", content=text) for n, text in enumerate(texts)]


# The command line


@pytest.fixture
def run(home: Home) -> Callable[..., Any]:
    def invoke(*words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(main, ["consolidate", *words])
        assert result.exit_code == code, result.output
        return (
            json.loads(result.stdout)
            if "--json" in words and not code
            else result.stdout + result.stderr
        )

    return invoke


@pytest.mark.usefixtures("jobs_here")
def test_the_command_previews_applies_refuses_and_undoes(home: Home, run):
    home.record(*drafts("Use uv, never pip", "use uv, never pip", "The port is 80"))
    before = home.build().digests
    result = run()
    assert "merged into  d0" in result and "- use uv, never pip" in result
    (waiting,) = run("review", "--json")["plans"]
    plan = waiting["plan"]
    assert (waiting["state"], waiting["looked_at"]) == ("waiting", 3)
    assert "merged into" in run("review")
    assert run("apply", plan[:8], "--dry-run", "--json")["state"] == "waiting"
    assert run("apply", plan[:8], "--json")["state"] == "applied"
    assert home.states("d0", "d1") == [ACTIVE, SUPERSEDED]
    assert run("undo", plan[:8], "--json")["state"] == "undone"
    assert home.build().digests == before
    commands.record(home.log, Draft(id="n", content="The port is 81"), home.clock())
    again = run("preview", "--json", "--no-model")
    assert [step["subject"] for step in again["steps"]] == ["d2"]
    commands.forget(home.log, "d2", home.clock())
    tried = run("apply", again["plan"], "--dry-run", "--json")
    assert (tried["state"], tried["because"]) == ("stale", ["d2 was forgotten since"])
    assert "d2 was forgotten since" in run("apply", again["plan"], code=2)


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
def test_on_a_terminal_review_asks_and_does_what_is_answered(home: Home, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    home.record(*drafts("Use uv, never pip", "use uv, never pip"))
    assert home.plan() is not None
    outer, inner = os.openpty()
    command = [*AS_PERSON, "consolidate", "review"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=inner, stdout=inner, stderr=inner) as child:
        os.write(outer, b"what?\ndetails\napply\n")
        assert child.wait(120) == 0
    text = os.read(outer, 1 << 16).decode()
    os.close(outer)
    os.close(inner)
    assert "merged into  d0" in text and "applied" in text
    assert home.states("d0", "d1") == [ACTIVE, SUPERSEDED]
