"""A question that takes two memories: the first names the subject of the second."""

from pathlib import Path

import pytest

from serve.evaluation import dataset
from serve.evaluation.harness import run_queries
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.recall import Hit, Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.log import commands
from store.log.commands import Draft
from store.maintenance.build import rebuild

NOW = 1_790_000_000_000_000
EMBEDDER = LexicalEmbedder()
SET = Path(__file__).parent / "data" / "hops"
ASKED = "who owns the service that billing depends on"
NOTES = {
    "first": "billing depends on the export service",
    "second": "export is owned by Priya",
    "other": "search is owned by Dana and is a service",
    **{f"filler{n}": f"the {word} garden was watered" for n, word in enumerate("red blue".split())},
}


def ask(tenant, log, question: str, drafts: list[Draft], **choices: object) -> dict[str, Hit]:
    commands.record_batch(log, drafts, NOW)
    rebuild(tenant, log, EMBEDDER, NOW)
    with Reader(tenant, log, EMBEDDER).view() as view:
        asked = Question(
            question, Filter(now=NOW), 9, explain=True, **({"fusion": "weighted"} | choices)
        )
        return {hit.memory.id: hit for hit in recall(view, asked).hits}


def drafts(**changed: str) -> list[Draft]:
    return [Draft(id=id_, content=text) for id_, text in (NOTES | changed).items()]


def test_a_memory_that_the_best_one_leads_to_comes_second(tenant, log):
    hits = ask(tenant, log, ASKED, drafts())
    assert [*hits][:2] == ["first", "second"]
    assert hits["second"].why["evidence"]["bridge"] > 0
    assert hits["second"].why["question_words"]  # the words of the first count for both
    assert "bridge" not in hits["other"].why["evidence"]


def test_a_bridge_finds_a_memory_without_a_word_of_the_question(tenant, log):
    hits = ask(tenant, log, ASKED, drafts(second="export went to Priya"))
    assert hits["second"].why["evidence"]["bridge"] > 0


@pytest.mark.parametrize("choices", [{"mode": "lexical"}, {"fusion": "rrf"}])
def test_other_modes_have_no_bridges(tenant, log, choices):
    hits = ask(tenant, log, ASKED, drafts(), **choices)
    assert all("bridge" not in hit.why["evidence"] for hit in hits.values())


def test_a_question_that_one_memory_answers_has_no_bridges(tenant, log):
    hits = ask(tenant, log, "billing depends on export service", drafts())
    assert all("bridge" not in hit.why["evidence"] for hit in hits.values())


def test_a_bridge_does_not_lead_to_what_was_forgotten(tenant, log):
    commands.record_batch(log, drafts(), NOW)
    rebuild(tenant, log, EMBEDDER, NOW)
    commands.forget(log, "second", NOW)
    with Reader(tenant, log, EMBEDDER).view() as view:
        question = Question(ASKED, Filter(now=NOW), 9, fusion="weighted")
        assert "second" not in {hit.memory.id for hit in recall(view, question).hits}


def test_questions_of_two_hops_find_both_memories(tmp_path):
    results = run_queries(dataset.read_workspaces(SET), tmp_path, Choices(), "auto").results
    ranked = {result.query_id: result.ranked for result in results}
    both: dict[str, list[bool]] = {}
    for workspace in dataset.read_workspaces(SET):
        for query in workspace.queries:
            is_found = set(query.relevant) <= set(ranked[query.id][:5])
            both.setdefault(f"{workspace.name} {query.category}", []).append(is_found)
    shares = {name: sum(some) / len(some) for name, some in both.items()}
    assert shares["dev/projects one hop"] == shares["aside/projects one hop"] == 1.0
    # .52 and .54 without bridges; .85 and .76 with them
    assert shares["dev/projects two hops"] > 0.75 and shares["aside/projects two hops"] > 0.7
