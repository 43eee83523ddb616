"""Canaries: memories queried by their own words, which a healthy memory recalls."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from command_line import answer, run

from serve.evaluation import canaries
from serve.evaluation.canaries import Canary, Outcome
from serve.reader.reader import open_view
from serve.reader.view import View
from store.home.config import Choices, Settings
from store.log import commands
from store.log.commands import Draft
from store.maintenance.checkup import checkup
from store.memories.parts import MemoryParts
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Part

NOW = 1_790_000_000_000_000


def view_of(built, manifest: Manifest | None = None) -> View:
    return open_view(built.tenant, manifest or built.manifest, built.embedder)


def chosen(built, manifest: Manifest | None = None) -> tuple[Canary, ...]:
    return canaries.choose(view_of(built, manifest).snapshots, NOW)


def asked(built, view: View) -> Outcome:
    return canaries.ask(view, chosen(built), Choices(), NOW)


def test_an_intact_memory_returns_every_canary(built):
    outcome = asked(built, view_of(built))
    assert (outcome.asked, outcome.missed) == (canaries.MOST, ())


def test_canaries_are_deterministic_and_most_outlive_growth(built):
    before = chosen(built)
    assert chosen(built) == before
    commands.record_batch(built.log, [Draft(content=f"note {n} on lamps") for n in range(4)], NOW)
    after = chosen(built, built.rebuild())
    assert len({canary.id for canary in before} & {canary.id for canary in after}) > 0.7 * len(
        before
    )


def test_canaries_are_active_memories_of_every_kind(built):
    snapshots = view_of(built).snapshots
    memories = [snapshots.rows.find(canary.id) for canary in chosen(built)]
    assert {memory.kind for memory in memories} == {"fact", "goal", "milestone"}
    assert {memory.state for memory in memories} == {"active"}


def test_a_question_is_made_of_words_in_any_script(built):
    commands.record_batch(built.log, [Draft(id="ja", content="検索の索引は毎週作り直す。")], NOW)
    snapshots = view_of(built, built.rebuild()).snapshots
    questions = {canary.id: canary.question for canary in canaries.choose(snapshots, NOW)}
    mine = questions.get("ja") or canaries._question(
        snapshots, snapshots.rows.active_at(NOW), "検索の索引は毎週作り直す。"
    )
    assert mine is not None
    assert len(mine.split()) == canaries.WORDS


def test_memories_with_common_words_are_no_canaries(built):
    drafts = [Draft(id=f"x{n}", content=f"Restart the worker, case {n}") for n in range(30)]
    commands.record_batch(built.log, drafts, NOW)
    commands.record_batch(built.log, [Draft(id="x-alone", content="worker case restart")], NOW)
    assert "x-alone" not in {canary.id for canary in chosen(built, built.rebuild())}


def test_misplaced_rows_are_noticed(built):
    view = view_of(built)
    rows = view.snapshots.rows
    (part,) = rows.memories.parts
    turned = Part.of(part.table.take(pa.array(np.arange(len(rows))[::-1])))
    wrong = replace(
        rows,
        memories=MemoryParts(
            [turned], rows.memories.ids, rows.memories.keys, rows.memories.episodes
        ),
    )
    outcome = asked(built, View(replace(view.snapshots, rows=wrong), view.tail))
    assert outcome.share < 0.2
    assert outcome.is_refused
    assert outcome.is_doubted


def test_an_outcome_of_few_canaries_raises_no_doubt(built):
    outcome = Outcome(0, ())
    assert (outcome.share, outcome.is_doubted, outcome.is_refused) == (1.0, False, False)
    assert not Outcome(2, (Canary("a", "b"), Canary("c", "d"))).is_refused  # two prove nothing


def with_check(manifest: Manifest, outcome: Outcome, at: int) -> Manifest:
    return Manifest(
        **{name: getattr(manifest, name) for name in Manifest.__struct_fields__}
        | {"checks": (canaries.result(outcome, at, manifest),)}
    )


def test_the_trend_is_handed_from_build_to_build(built):
    first = with_check(built.manifest, Outcome(30, ()), 1)
    second = with_check(first, Outcome(30, (Canary("a", "b"),) * 4), 2)
    check = canaries.check_of(second)
    assert check is not None
    assert canaries.trend(check) == ((1, 30, 30), (2, 26, 30))
    assert check.passed
    assert check.metadata["is_doubted"]
    assert check.detail.startswith("26 of 30 canaries came back; missed: a")


@pytest.fixture
def served(built) -> None:
    """The tenant's manifest reports four missing canaries."""
    from store.snapshots import manifest as manifests

    outcome = Outcome(30, (Canary("a", "b"),) * 4)
    manifests.publish(built.tenant, with_check(built.manifest, outcome, NOW))


def test_doctor_warns_about_missed_canaries(served, home):
    findings = [finding for finding in checkup(Settings(home)) if "canaries" in finding.what]
    assert [finding.severity for finding in findings] == ["warn"]
    assert "mnemolog canaries" in findings[0].cure


def test_the_command_asks_again_and_shows_the_trend(served):
    payload = answer("canaries")
    assert (payload["ok"], payload["asked"], payload["came_back"]) == (True, 30, 30)
    assert payload["trend"] == [[NOW, 26, 30]]
    assert "30 of 30 canaries came back" in run("canaries").stdout


def test_the_command_fails_without_a_build(log):
    assert run("canaries").exit_code == 1
