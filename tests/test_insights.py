"""Insights in recall: they give way to their sources, and affect no other memory."""

from itertools import product

import pytest
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall.recall import Answer, Question, recall
from serve.recall.request import RecallRequest, answer
from store.derived.listings import INSIGHTS_PROJECTION, Insights
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.tenant import Tenant
from store.index.postings import POSTINGS_PROJECTION, PostingsIndex
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Made, Planned, Revised
from store.log.event_log import EventLog
from store.maintenance.build import rebuild
from store.maintenance.verify import verify
from store.plans import plans, steps
from store.snapshots.snapshot import read

NOW = 1_800_000_000_000_000
EMBEDDER = LexicalEmbedder()
NOTES = {
    "stock": "Lock the stock rows before the orders, or the checkout deadlocks",
    "orders": "The checkout deadlocked because orders were locked first",
    "test": "A test locks stock rows and orders from two threads",
    "pool": "Set pool_size to 20; with 5 the checkout timed out under load",
    "tls": "TLS certificates renew themselves every sixty days",
    "turn": "Tea at four",
}
INSIGHT = "checkout deadlock: lock the stock rows first, orders second, from two threads in a test"
ASKED = "how does the checkout deadlock on stock rows and orders in two threads?"
SOURCES = ("stock", "orders", "test")


class Notes:
    """A memory with an insight over some of its notes, queried from a build or from the tail."""

    def __init__(self, tenant: Tenant, log: EventLog, *, is_built: bool) -> None:
        self.tenant, self.log, self.is_built = tenant, log, is_built
        drafts = [Draft(id=id_, content=text) for id_, text in NOTES.items()]
        commands.record_batch(log, drafts, NOW)
        rebuild(tenant, log, EMBEDDER, NOW)
        self._head = log.head()

    def notice(
        self,
        id_: str = "insight",
        said: str = INSIGHT,
        of: tuple[str, ...] = SOURCES,
        tags: tuple[str, ...] = (),
    ) -> str:
        """Have a job make an insight, as an applied plan; return the plan's id."""
        fields = {"kind": "insight", "insight_type": "cluster", "source_ids": of, "tags": tags}
        draft = Draft(id=id_, content=said, **fields)
        plan_steps = (steps.record(draft, Made(job="reflect"), NOW, "they are alike"),)
        body = Planned(job="reflect", watermark=self.log.head(), steps=plan_steps)
        plan = plans.propose(self.log, body, NOW)
        plans.apply(self.log, plan.id, NOW)
        return plan.id

    def view(self) -> View:
        if self.is_built and self._head != self.log.head():
            rebuild(self.tenant, self.log, EMBEDDER, NOW)
            self._head = self.log.head()
        with Reader(self.tenant, self.log, EMBEDDER).view() as view:
            return view

    def ask(self, text: str = ASKED, **choices: object) -> Answer:
        question = replace(Question(text, Filter(now=NOW), 8, fusion="weighted"), **choices)
        return recall(self.view(), question)


@pytest.fixture(params=["built", "tail"])
def memory(request: pytest.FixtureRequest, tenant: Tenant, log: EventLog) -> Notes:
    return Notes(tenant, log, is_built=request.param == "built")


def ids(answer: Answer) -> list[str]:
    return [hit.memory.id for hit in answer.hits]


def scores(answer: Answer) -> dict[str, float]:
    return {hit.memory.id: hit.score for hit in answer.hits}


def test_an_insight_gives_its_place_to_its_best_source(memory: Notes):
    before = memory.ask()
    memory.notice()
    answer = memory.ask(explain=True)
    assert "insight" not in ids(answer) and ids(answer) == ids(before)
    first = answer.hits[0]
    assert first.memory.id in SOURCES and first.insights == ("insight",)
    assert [hit.insights for hit in answer.hits[1:]] == [()] * (len(answer.hits) - 1)
    assert answer.dropped["gave_way"] == 1 and answer.why["dropped"]["gave_way"] == 1
    assert first.why["insights"] == ["insight"]


def test_a_source_moves_up_to_where_its_insight_stood(memory: Notes):
    query = "pool_size under load and the TLS certificates that renew"
    before = scores(memory.ask(query))
    memory.notice(said="TLS pool_size certificates renew the timed load", of=("tls",))
    answer = memory.ask(query)
    (source,) = [hit for hit in answer.hits if hit.memory.id == "tls"]
    assert source.insights == ("insight",) and source.score >= before["tls"]
    assert [hit.score for hit in answer.hits] == sorted(scores(answer).values(), reverse=True)


def test_an_insight_without_candidate_sources_is_returned_itself(memory: Notes):
    memory.notice(tags=("db",))
    answer = memory.ask(filter=Filter(now=NOW, tags=("db",)))
    assert ids(answer) == ["insight"] and answer.hits[0].insights == ()


def test_an_insight_on_its_own_must_pass_the_default_threshold(memory: Notes):
    memory.notice(said="Breaks: 4 notes on tea, each of another week", of=("turn",))
    query = "notes of the quarterly planning with the board in another city"
    assert "insight" not in ids(memory.ask(query, min_confidence=0.0))


def test_an_insight_is_returned_if_its_kind_is_requested(memory: Notes):
    memory.notice()
    answer = memory.ask(filter=Filter(now=NOW, kinds=("insight",)))
    assert ids(answer) == ["insight"]


def test_an_insight_that_a_person_wrote_is_a_memory_like_others(memory: Notes):
    draft = Draft(id="own", kind="insight", content=INSIGHT, source_ids=SOURCES)
    commands.record(memory.log, draft, NOW)
    assert "own" in ids(memory.ask())


def test_in_every_mode_the_sources_come_and_it_does_not(memory: Notes):
    memory.notice()
    for mode, fusion in product(("auto", "lexical", "vector", "entity"), ("weighted", "rrf")):
        assert "insight" not in ids(memory.ask(mode=mode, fusion=fusion))


def test_a_filtered_insight_does_not_promote_its_source(memory: Notes):
    memory.notice()
    commands.record(memory.log, Draft(id="b", content=NOTES["stock"], project="b"), NOW)
    memory.notice("other", INSIGHT, ("b",))
    answer = memory.ask(filter=Filter(now=NOW, since=NOW + 1))
    assert ids(answer) == []


def test_a_source_revised_since_the_build_still_represents_its_insight(
    tenant: Tenant, log: EventLog
):
    memory = Notes(tenant, log, is_built=False)
    memory.notice()
    rebuild(tenant, log, EMBEDDER, NOW)
    for id_ in SOURCES:
        commands.revise(log, id_, Revised(context="since the autumn"), NOW)
    answer = memory.ask()
    assert "insight" not in ids(answer) and answer.hits[0].insights == ("insight",)


def test_forgetting_a_source_removes_its_insight_in_the_same_build(memory: Notes):
    memory.notice()
    commands.forget(memory.log, "test", NOW)
    answer = memory.ask()
    assert all(hit.insights == () for hit in answer.hits) and "insight" not in ids(answer)
    assert ids(memory.ask(filter=Filter(now=NOW, kinds=("insight",)))) == []


def test_an_insight_changes_no_other_score(tenant: Tenant, log: EventLog):
    memory = Notes(tenant, log, is_built=True)
    queries = [*NOTES.values(), "checkout timed out", "sixty certificates"]
    ways = [
        {"profile": profile, "fusion": fusion}
        for profile, fusion in product(("balanced", "wal", "match"), ("weighted", "rrf"))
    ]

    def others() -> list[dict[str, tuple[float, float]]]:
        """Return score and confidence of all but the insight and its source."""
        answers = [memory.ask(query, **way) for query, way in product(queries, ways)]
        return [
            {
                hit.memory.id: (hit.score, hit.confidence)
                for hit in answer.hits
                if hit.memory.id not in ("turn", "insight")
            }
            for answer in answers
        ]

    before = others()
    memory.notice(said=f"{INSIGHT}; pool_size and checkout and stock", of=("turn",))
    assert others() == before


def test_an_insight_changes_no_term_weight_and_is_found(tenant, log):
    memory = Notes(tenant, log, is_built=True)

    def index() -> PostingsIndex:
        ref = rebuild(tenant, log, EMBEDDER, NOW).projections["postings"]
        return PostingsIndex.open(read(tenant.snapshots, ref, POSTINGS_PROJECTION))

    before = index()
    memory.notice(said=f"{INSIGHT} unheard")
    after = index()
    for term in ("checkout", "deadlock", "stock", "pool_size", "renew"):
        assert (after.idf(term), after.frequency(term)) == (
            before.idf(term),
            before.frequency(term),
        )
    shared = ("size", "average_length", "average_idf", "sample_coverage")
    assert all(getattr(after, name) == getattr(before, name) for name in shared)
    assert after.frequency("unheard") == 0 and len(after.posting_list("unheard")[0]) == 1


def test_the_table_names_what_a_job_made_of_what(tenant: Tenant, log: EventLog):
    memory = Notes(tenant, log, is_built=True)
    memory.notice()
    memory.notice("two", "tls again and again", ("tls", "nobody", "tls"))
    commands.forget(log, "tls", NOW)
    manifest = rebuild(tenant, log, EMBEDDER, NOW)
    tables = read(tenant.snapshots, manifest.projections["insights"], INSIGHTS_PROJECTION)
    assert tables["insights"].to_pylist() == [
        {
            "document": 6,
            "id": "insight",
            "kind": "insight",
            "job": "reflect",
            "insight_type": "cluster",
            "state": "active",
            "project": None,
            "sources": [0, 1, 2],
        },
        {
            "document": 7,
            "id": "two",
            "kind": "insight",
            "job": "reflect",
            "insight_type": "cluster",
            "state": "stale",
            "project": None,
            "sources": [4],
        },
    ]
    opened = Insights.open(tables)
    assert opened.documents.tolist() == [6, 7]
    assert opened.sources(6).tolist() == [0, 1, 2] and not len(opened.sources(3))
    assert verify(tenant, log, EMBEDDER).ok


def test_undoing_restores_every_digest(tenant: Tenant, log: EventLog):
    memory = Notes(tenant, log, is_built=True)
    before = rebuild(tenant, log, EMBEDDER, NOW).digests
    plan = memory.notice()
    assert rebuild(tenant, log, EMBEDDER, NOW).digests["insights"] != before["insights"]
    plans.undo(log, plan, NOW)
    assert rebuild(tenant, log, EMBEDDER, NOW).digests == before


def test_an_answer_as_it_is_sent_names_the_insights(memory: Notes):
    memory.notice()
    memory.view()
    reader = Reader(memory.tenant, memory.log, EMBEDDER)
    payload, _ = answer(reader, RecallRequest(query=ASKED), Choices(), NOW)
    assert payload["hits"][0]["insights"] == ["insight"]
    assert "insights" not in payload["hits"][1]
