"""The memories above the threshold that are returned, and the notices about the others."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from serve.cli import main
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.near_duplicates import Comparable, comparable, near_candidates
from serve.recall.recall import Answer, Question, recall
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Made, Planned
from store.log.event_log import EventLog
from store.maintenance.build import rebuild
from store.plans import plans, steps

ROOT = Path(__file__).resolve().parents[1]
NOW = 1_800_000_000_000_000
HOUR = 3_600_000_000
EMBEDDER = LexicalEmbedder()


@dataclass(frozen=True)
class Memory:
    """A tenant to write to and to ask, from the tail or from a build."""

    tenant: Tenant
    log: EventLog
    is_built: bool

    def record(self, id_: str, content: str, at: int = NOW, **fields: object) -> None:
        commands.record(self.log, Draft(id=id_, content=content, **fields), at)

    def ask(self, text: str, **choices: object) -> Answer:
        if self.is_built:
            rebuild(self.tenant, self.log, EMBEDDER, NOW)
        question = Question(text, Filter(now=NOW + HOUR), 8, fusion="weighted")
        with Reader(self.tenant, self.log, EMBEDDER).view() as view:
            return recall(view, msgspec.structs.replace(question, **choices))


@pytest.fixture(params=["built", "tail"])
def memory(request: pytest.FixtureRequest, tenant: Tenant, log: EventLog) -> Memory:
    return Memory(tenant, log, request.param == "built")


def ids(answer: Answer) -> list[str]:
    return [hit.memory.id for hit in answer.hits]


SUBJECTS = "port API pool size Python handler deploys Friday lock orders jobs 端口 порт"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Port is 5432", "port is 5433"),
        ("The API listens on port 5432.", "The API now listens on port 5433"),
        ("pool_size = 20", "pool_size = 25"),
        ("We run Python v3.11.4 in production", "We run Python v3.12.0 in production"),
        ("The handler lives in src/auth/login.py", "The handler lives in src/auth/session.py"),
        ("Deploys on Friday are allowed", "Deploys on Friday are not allowed"),
        ("Lock orders before stock", "Lock orders after stock"),
        ("At most 20 jobs run", "At most 30 jobs run"),
        ("数据库的端口是5432", "数据库的端口是5433"),
        ("Порт базы 5432", "Порт базы 5433"),
    ],
)
def test_of_two_values_the_newer_comes_first_and_the_older_is_marked(
    memory: Memory, older: str, newer: str
):
    memory.record("newer", newer, NOW + HOUR)
    memory.record("older", older)
    answer = memory.ask(SUBJECTS)
    assert ids(answer) == ["newer", "older"]
    assert [hit.conflicts_with for hit in answer.hits] == [None, "newer"]
    assert answer.dropped == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The staging cluster runs on port 80", "The production cluster runs on port 81"),
        ("loginHandler answers 401", "logoutHandler answers 401"),
        ("Is the port 5432?", "The port is 5432"),
        ("Retry at most 5 times", "Retry at most 5 times, then raise UploadError"),
        ("worker calls scheduler", "scheduler calls worker"),
        ("Marek told Ana the secret", "Ana told Marek the secret"),
    ],
)
def test_two_memories_that_differ_by_more_than_a_value_are_left_alone(
    memory: Memory, one: str, other: str
):
    memory.record("one", one)
    memory.record("other", other, NOW + HOUR)
    answer = memory.ask(f"{one} {other}")
    assert set(ids(answer)) == {"one", "other"}
    assert all(not hit.copies and hit.conflicts_with is None for hit in answer.hits)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploys go out on Tuesdays.", "deploys go out on Tuesday"),
        ("We don't deploy on Fridays", "Do not deploy on Fridays!"),
        ("The pool_size is 20", "pool_size: 20"),
        (
            "Retry uploads with exponential backoff at most 5 times, wait a second between tries, "
            "then raise UploadError with the path and the answer of the storage service",
            "Retry uploads with exponential backoff at most 5 times, wait one full second between "
            "tries, then raise UploadError with the path and the answer of the storage service",
        ),
    ],
)
def test_near_duplicates_fold_into_the_newer_one(memory: Memory, one: str, other: str):
    memory.record("older", one)
    memory.record("newer", other, NOW + HOUR)
    answer = memory.ask(one)
    assert [(hit.memory.id, hit.copies) for hit in answer.hits] == [("newer", ("older",))]
    assert answer.dropped == {"folded": 1}


def test_a_pinned_memory_stands_for_its_newer_copies(memory: Memory):
    for number in range(4):
        memory.record(f"n{number}", "the copper boiler runs at ten bar", pinned=number == 1)
    (hit,) = memory.ask("copper boiler").hits
    assert (hit.memory.id, sorted(hit.copies)) == ("n1", ["n0", "n2", "n3"])


def test_copies_take_no_place_from_others(memory: Memory):
    for number in range(12):
        memory.record(f"copy{number}", "the copper boiler runs at ten bar")
    memory.record("steel", "the steel boiler of the copper mine is cold")
    answer = memory.ask("copper boiler bar", top_k=2)
    assert ids(answer) == ["copy11", "steel"]
    assert answer.dropped == {"folded": 11}


def test_a_newer_value_is_fetched_from_below_top_k(memory: Memory):
    memory.record("newer", "billing database port number is 5433 nowadays", NOW + HOUR)
    for word in ("ledger", "invoice", "journal"):
        memory.record(word, f"billing database port number, see {word}")
    memory.record("older", "billing database port number is 5432")
    query = "billing database port number"
    plain = memory.ask(query, mode="lexical", top_k=1, filter=Filter(now=NOW, until=NOW + 1))
    assert ids(plain) == ["older"]
    answer = memory.ask(query, mode="lexical", top_k=1)
    assert ids(answer) == ["newer"]
    assert answer.dropped == {"over_top_k": 4}


def test_a_question_that_names_a_value_keeps_the_order_of_the_scores(memory: Memory):
    for number in (12, 13):
        memory.record(f"t{number}", f"Test {number} fails on CI", NOW + number)
    assert ids(memory.ask("why does test 12 fail")) == ["t12", "t13"]
    assert ids(memory.ask("why does the test fail")) == ["t13", "t12"]


def test_what_two_people_or_two_projects_say_is_no_contradiction(memory: Memory):
    memory.record("ana", "I have 2 children", created_by="Ana Kovacs", kind="raw_turn")
    memory.record("bob", "I have 3 children", created_by="Bob Miller", kind="raw_turn")
    memory.record("shop", "the database port is 5432", project="shop")
    memory.record("bank", "the database port is 5433", project="bank")
    for query in ("children", "database port"):
        hits = memory.ask(query).hits
        assert len(hits) == 2
        assert all(hit.conflicts_with is None for hit in hits)


def test_later_activities_do_not_supersede_earlier_ones(memory: Memory):
    for minor in (1, 2):
        memory.record(f"r{minor}", f"Released version 1.{minor}.0", kind="milestone")
    assert all(hit.conflicts_with is None for hit in memory.ask("released version").hits)


def test_a_keyed_fact_brings_its_history(memory: Memory):
    for number, port in enumerate((5432, 5433, 5434)):
        memory.record(f"v{number}", f"the port is {port}", NOW + number, key="db.port")
    (hit,) = memory.ask("port").hits
    assert hit.memory.id == "v2"
    assert [(old.id, old.content) for old in hit.history] == [
        ("v1", "the port is 5433"),
        ("v0", "the port is 5432"),
    ]


def test_what_was_superseded_on_purpose_is_history_too(memory: Memory):
    memory.record("old", "we ship on Mondays")
    memory.record("new", "shipping moved to Tuesday", NOW + 1)
    commands.supersede(memory.log, "old", "new", NOW + 2)
    (hit,) = memory.ask("shipping").hits
    assert [old.id for old in hit.history] == ["old"]


def test_history_shows_nothing_forgotten_and_nothing_of_another_project(memory: Memory):
    for id_, project in (("gone", None), ("bank", "bank"), ("new", None)):
        memory.record(id_, f"we ship on {id_} days", project=project)
    for id_ in ("gone", "bank"):
        commands.supersede(memory.log, id_, "new", NOW)
    commands.forget(memory.log, "gone", NOW)
    (hit,) = memory.ask("ship days", filter=Filter(now=NOW, project="shop")).hits
    assert hit.history == ()


def test_a_build_between_two_values_changes_nothing_of_their_history(tenant, log):
    memory = Memory(tenant, log, True)
    memory.record("v0", "the port is 5432", key="db.port")
    memory.record("v1", "the port is 5433", NOW + 1, key="db.port")
    rebuild(tenant, log, EMBEDDER, NOW)
    memory.record("v2", "the port is 5434", NOW + 2, key="db.port")
    (hit,) = replace(memory, is_built=False).ask("port").hits
    assert (hit.memory.id, [old.id for old in hit.history]) == ("v2", ["v1", "v0"])
    assert memory.ask("port").hits[0].history == hit.history


def test_with_the_archive_asked_for_the_replaced_fact_is_a_hit_marked(memory: Memory):
    for number, port in enumerate((5432, 5433)):
        memory.record(f"v{number}", f"the port is {port}", NOW + number, key="db.port")
    answer = memory.ask("port", filter=Filter(now=NOW, active_only=False))
    assert [(hit.memory.id, hit.conflicts_with, hit.history) for hit in answer.hits] == [
        ("v1", None, ()),
        ("v0", "v1", ()),
    ]


PUT_AWAY: dict[str, Callable[[EventLog, str], object]] = {
    "archived": lambda log, id_: commands.archive(log, id_, NOW),
    "forgotten": lambda log, id_: commands.forget(log, id_, NOW),
    "superseded": lambda log, id_: commands.supersede(log, id_, "live0", NOW),
    "expired": lambda log, id_: None,
}


@pytest.mark.parametrize("state", PUT_AWAY)
@pytest.mark.parametrize("when", ["built", "tail", "put away after the build"])
def test_sixty_archived_duplicates_do_not_hide_five_active_memories(
    tenant: Tenant, log: EventLog, state: str, when: str
):
    steps = ("open the copper valve", "fill the copper tank", "light it", "wait", "close it")
    for number, step in enumerate(steps):
        content = f"copper boiler start, part {'abcde'[number]}: {step}"
        commands.record(log, Draft(id=f"live{number}", content=content), NOW)
    ttl = {"ttl_s": 60} if state == "expired" else {}
    look_alikes = [
        Draft(id=f"gone{number}", content=f"copper boiler start boiler {number}", **ttl)
        for number in range(60)
    ]
    commands.record_batch(log, look_alikes, NOW)
    if when == "put away after the build":
        rebuild(tenant, log, EMBEDDER, NOW)
    for draft in look_alikes:
        PUT_AWAY[state](log, draft.id)
    answer = Memory(tenant, log, when == "built").ask("start the copper boiler")
    assert sorted(ids(answer)) == [f"live{number}" for number in range(5)]


@pytest.fixture
def contradicted(tenant: Tenant, log: EventLog) -> Memory:
    """A port with two values, a note recorded three times, and a fact with a past value."""
    memory = Memory(tenant, log, True)
    memory.record("port-old", "billing port is 5432")
    memory.record("port-new", "billing port is 5433", NOW + HOUR)
    for number in range(3):
        memory.record(f"cache{number}", "billing caches rates for a day")
    memory.record("region0", "billing runs in eu-west-1", key="billing.region")
    memory.record("region1", "billing runs in eu-north-1", NOW + 1, key="billing.region")
    rebuild(tenant, log, EMBEDDER, NOW)
    return memory


def test_an_answer_carries_its_marks_and_only_those(contradicted: Memory):
    with_marks = ("id", "copies", "conflicts_with", "history")
    reader = Reader(contradicted.tenant, contradicted.log, EMBEDDER)
    request = RecallRequest(query="billing", min_confidence=0.0)
    payload, _ = answer(reader, request, Choices(), NOW)
    marks = {
        hit["id"]: {name: hit[name] for name in with_marks[1:] if name in hit}
        for hit in payload["hits"]
    }
    former = {
        "id": "region0",
        "text": "billing runs in eu-west-1",
        "at": "2027-01-15T08:00:00Z",
        "trust": "user",
    }
    assert marks == {
        "port-new": {},
        "port-old": {"conflicts_with": "port-new"},
        "cache2": {"copies": ["cache1", "cache0"]},
        "region1": {"history": [former]},
    }


def test_the_terminal_says_what_an_answer_marks(contradicted: Memory):
    output = CliRunner().invoke(main, ["recall", "billing", "--min-confidence", "0"]).output
    assert "older: port-new has another value" in output
    assert "said 3 times: also cache1, cache0" in output
    assert "until then: billing runs in eu-west-1 (2027-01-15, region0)" in output


def test_why_tells_the_profile_its_signals_and_every_drop(contradicted: Memory):
    command = ["why", "billing port", "--profile", "match", "--top-k", "2"]
    output = CliRunner().invoke(main, [*command, "--min-confidence", "0.2"]).output
    for text in ("profile     match: recency 0.05", "left out    ", "route_fit 0.50", "as fused"):
        assert text in output
    command = ["why", "billing", "--json", "--top-k", "2", "--min-confidence", "0"]
    why = msgspec.json.decode(CliRunner().invoke(main, command).output)["why"]
    assert why["profile"] == "balanced"
    assert why["weights"] == {"importance": 0.025, "usefulness": 0.025}
    named = why["nearest_over_top_k"]
    assert len(named) == why["dropped"]["over_top_k"]
    assert set(named[0]) == {"id", "text", "trust", "confidence"}


def test_why_names_what_a_copy_was_folded_into(contradicted: Memory):
    command = ["why", "billing caches", "cache0", "--min-confidence", "0"]
    output = CliRunner().invoke(main, command).output
    assert "cache2 is a duplicate and was returned instead" in output


ASKED = ("billing port", "billing", "rates cached for a day", "where does billing run")


@pytest.mark.parametrize("profile", ["balanced", "wal", "match"])
def test_recalls_in_between_change_no_byte_of_an_answer(contradicted: Memory, profile: str):
    def hits(query: str, now: int) -> bytes:
        reader = Reader(contradicted.tenant, contradicted.log, EMBEDDER)
        request = RecallRequest(query=query, profile=profile, min_confidence=0.0, explain=True)
        payload, receipt = answer(reader, request, Choices(), now)
        contradicted.log.append([receipt])
        del payload["why"]["took_us"]
        return msgspec.json.encode([payload["hits"], payload["why"]])

    first = {query: hits(query, NOW) for query in ASKED}
    for turn in range(5):
        for query in ASKED[turn % 2 :]:
            assert hits(query, NOW + turn * 200 * HOUR) == first[query]


def test_two_processes_give_the_same_bytes(contradicted: Memory, home: Path):
    def hits(query: str) -> bytes:
        arguments = ["recall", *query.split(), "--json", "--why", "--min-confidence", "0"]
        completed = subprocess.run(
            [sys.executable, "-P", "-m", "serve.cli", *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "random"},
            cwd=home,
            capture_output=True,
            check=True,
            timeout=60,
        )
        return msgspec.json.encode(msgspec.json.decode(completed.stdout)["hits"])

    first = [hits(query) for query in ASKED[:2]]
    assert [hits(query) for query in ASKED[:2]] == first
    assert b"conflicts_with" in first[0]


def read_out(memory: Memory, id_: str, content: str, *sources: str) -> None:
    """Record a fact as the job `facts` extracts it from some memories."""
    draft = Draft(id=id_, content=content, source_ids=sources)
    step = steps.record(draft, Made(job="facts"), NOW, "it is said there")
    body = Planned(job="facts", watermark=memory.log.head(), steps=(step,))
    plans.apply(memory.log, plans.propose(memory.log, body, NOW).id, NOW)


def test_a_fact_that_was_read_out_of_a_memory_is_folded_into_it(memory: Memory):
    text = "The invoice service runs on port 8090. It was moved there when the proxy was renewed."
    memory.record("note", text)
    memory.record("other", "The search service answers in 40 ms")
    read_out(memory, "fact", "The invoice service runs on port 8090.", "note")
    (hit,) = memory.ask("which port does the invoice service run on?", min_confidence=0.5).hits
    assert (hit.memory.id, hit.copies) == ("note", ("fact",))


def test_a_fact_stands_where_its_memory_has_no_room(memory: Memory):
    memory.record("note", "We spoke of this and that, and of lunch. " * 5 + "It runs on port 8090.")
    read_out(memory, "fact", "The invoice service runs on port 8090.", "note")
    answer = memory.ask("which port does the invoice service run on?", top_k=1)
    assert ids(answer) == ["fact"]


def test_signatures_leave_out_no_text_that_shares_half_of_its_words(tenant, log):
    draw = random.Random(7)
    words = [f"{draw.choice('abcdefgh')}{number}" for number in range(3_000)]
    texts = []
    for _ in range(40):  # including long ones, whose words share bits
        size = draw.choice((6, 30, 150, 700))
        texts.append(draw.sample(words, size))
        sample = draw.sample(texts[-1], round(size * draw.uniform(0.4, 1.0)))
        texts.append([*sample, *draw.sample(words, size - len(sample))])
    for number, text in enumerate(texts):
        commands.record(log, Draft(id=f"m{number}", content=" ".join(text)), NOW)
    with Reader(tenant, log, EMBEDDER).view() as view:
        read = [comparable(memory) for memory in view.tail.current()]

    def share_half(first: Comparable, other: Comparable) -> bool:
        ours, theirs = first.beginnings.words, other.beginnings.words
        # four words fewer, because a few stop words are half of a short text
        return 2 * len(ours & theirs) >= max(len(ours), len(theirs)) - 4

    near, signatures = 0, 0
    for number, hit in enumerate(read):
        expected = [place for place, other in enumerate(read[:number]) if share_half(hit, other)]
        assert near_candidates(hit, read[:number], signatures) == expected
        near, signatures = near + len(expected), signatures | hit.beginnings.signature
    assert near > 20
