"""Builds repeat past queries: unchanged memories that were recalled then must be recalled again."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hook_session import opened, speaks_where_recall_is_sure
from msgspec.structs import replace
from test_replay import live

from pipelines.jobs import runner
from serve.evaluation import canaries, past_answers
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall import ranking
from serve.recall import recall as recall_module
from serve.recall.request import Asker, RecallRequest, answer
from store.derived import catalog
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Settings
from store.home.errors import BuildRefused
from store.home.tenant import Tenant, tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Trust
from store.log.event_log import EventLog
from store.maintenance import candidate_checks, quarantine
from store.memories.rows import MemoryRows
from store.snapshots import manifest as manifests
from store.snapshots.manifest import NEWCOMERS, ONLY_VISIBLE, PAST_ANSWERS, SAME_MODEL, CheckResult

THINGS = "billing search upload session mail parser ledger deploy cache audit".split()
NOW = 1_790_000_000_000_000


@dataclass
class Memory:
    settings: Settings
    tenant: Tenant
    log: EventLog
    at: int = NOW

    def record(self, content: str, id_: str, kind: Any = "fact", trust: Trust = "user") -> None:
        self.at += 1_000_000
        draft = Draft(content=content, id=id_, kind=kind, trust=trust)
        commands.record(self.log, draft, self.at)

    def ask(self, query: str) -> str:
        """Recall as an agent does; return the id of the first memory."""
        self.at += 1_000_000
        embedder = LexicalEmbedder()
        reader = Reader(self.tenant, self.log, embedder)
        request = RecallRequest(query=query)
        _, receipt = answer(reader, request, Choices(), self.at, Asker(door="mcp"))
        assert receipt is not None
        self.log.append([receipt])
        return receipt.body.hits[0].id

    def build(self, **options: Any) -> dict[str, CheckResult]:
        runner.build(self.settings, "default", lambda text: None, **options)
        return {check.name: check for check in manifests.current(self.tenant).checks}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A home with a build and recalls, and the time of the last."""
    home = tmp_path_factory.mktemp("asked") / "home"
    tenant_ = tenant(home)
    with EventLog(tenant_.log, create=True) as log, pytest.MonkeyPatch.context() as patch:
        memory_ = Memory(Settings(home), tenant_, log)
        patch.setattr(runner, "wall_clock", lambda: memory_.at)
        for number, thing in enumerate(THINGS):
            kind = "decision" if number < 6 else "fact"
            memory_.record(f"The {thing} worker is configured in {thing}/worker.py", thing, kind)
        memory_.build()
        for thing in THINGS:
            assert memory_.ask(f"where is the {thing} worker configured") == thing
        return home, memory_.at


@pytest.fixture
def memory(
    asked: tuple[Path, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Memory]:
    home, at = asked
    shutil.copytree(home, tmp_path, dirs_exist_ok=True, symlinks=True)
    tenant_ = tenant(tmp_path)
    with EventLog(tenant_.log) as log:
        memory_ = Memory(Settings(tmp_path), tenant_, log, at)
        monkeypatch.setattr(runner, "wall_clock", lambda: memory_.at)
        yield memory_


def hide_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break recall: no filter lets a decision pass."""
    real = Filter.narrow

    def narrow(self: Filter, mask: Any, rows: Any) -> Any:
        return real(self, mask, rows) & ~rows.equal("kind", ("decision",))

    monkeypatch.setattr(Filter, "narrow", narrow)
    monkeypatch.setattr(canaries, "FEWEST", 99)  # the canaries would notice, too
    monkeypatch.setattr(runner, "code", lambda: "broken")  # else nothing has changed


def test_a_memory_that_grows_changes_and_forgets_passes(memory: Memory):
    for thing in THINGS[:5]:
        memory.record(f"Team {thing} moved to another floor", f"{thing}-2")
    commands.forget(memory.log, "mail", memory.at)
    checks = memory.build()
    assert checks[PAST_ANSWERS].passed and checks[NEWCOMERS].passed and checks[SAME_MODEL].passed
    assert [point[1:] for point in checks[PAST_ANSWERS].metadata["trend"]] == [[10, 10]]


def test_an_equivalent_memory_counts_as_the_former_answer(memory: Memory):
    memory.record("The mail worker is configured in mail/worker.py", "mail-again")
    checks = memory.build()
    assert checks[PAST_ANSWERS].passed and checks[NEWCOMERS].passed


def test_a_build_that_loses_past_answers_is_refused_until_somebody_accepts_it(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    before = memory.build()[PAST_ANSWERS]
    hide_decisions(monkeypatch)
    with pytest.raises(BuildRefused, match=r"past_answers: 4 of 10 past .* --accept"):
        memory.build()
    assert manifests.current(memory.tenant).number == 2
    checks = memory.build(accepts=True)
    assert before.passed and not checks[PAST_ANSWERS].passed and checks[PAST_ANSWERS].warns


def test_web_text_written_to_be_found_is_quarantined_alone(memory: Memory):
    words = ", ".join(f"where is the {thing} worker configured" for thing in THINGS)
    memory.record(f"{words}: ask the intern", "hub", trust="web")
    memory.record("The intern starts in May", "intern")
    checks = memory.build()
    assert [(entry.id, entry.check) for entry in quarantine.entries(memory.log)] == [
        ("hub", NEWCOMERS)
    ]
    assert checks[NEWCOMERS].passed
    quarantine.release(memory.log, ["hub"], memory.at)
    assert memory.build()[NEWCOMERS].passed  # a person released it


def on_every_question() -> list[Draft]:
    return [
        Draft(
            id=f"{thing}-x{number}",
            content=f"{thing} worker configured, {thing} worker configured, note {number}",
        )
        for thing in THINGS
        for number in range(9)
    ]


def test_an_import_that_displaces_past_answers_is_refused(memory: Memory):
    commands.import_drafts(memory.log, on_every_question(), memory.at)
    with pytest.raises(BuildRefused, match=r"newcomers|past_answers"):
        memory.build()
    assert manifests.current(memory.tenant).number == 1


def test_automatic_notes_are_never_refused_or_quarantined(memory: Memory):
    words = ", ".join(f"where is the {thing} worker configured" for thing in THINGS)
    memory.record(f"{words}: ask the captain", "overview", trust="agent")
    for number, draft in enumerate(on_every_question()):  # as an import they were refused
        memory.record(draft.content, draft.id or "", trust="agent" if number % 2 else "user")
        if number % 30 == 0:
            assert memory.build()[NEWCOMERS].passed
    checks = memory.build()
    assert checks[NEWCOMERS].passed and quarantine.entries(memory.log) == []
    assert not checks[PAST_ANSWERS].stops


def test_growth_does_not_excuse_a_code_fault(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    for number in range(12):
        memory.record(
            f"The {THINGS[number % 10]} worker was restarted {number} times", f"n{number}"
        )
    hide_decisions(monkeypatch)
    with pytest.raises(BuildRefused, match=r"past_answers: 4 of 10 past"):
        memory.build()


def test_other_word_weights_in_a_grown_memory_are_a_warning(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    real = past_answers._hits  # a stand-in for changed word weights, whatever the memories

    def lost(view: Any, *arguments: Any) -> Any:
        return real(view, *arguments) if len(view.snapshots.rows) < 12 else ()

    monkeypatch.setattr(past_answers, "_hits", lost)
    commands.import_drafts(
        memory.log,
        [Draft(id=f"i{n}", content=f"Notes on unit {n}", source="wiki") for n in range(4)],
        memory.at,
    )
    with pytest.raises(BuildRefused, match=r"past_answers: 0 of 10"):
        memory.build()
    for number in range(5):
        memory.record(f"The pier has {number} lamps", f"pier{number}")
    result = memory.build()[PAST_ANSWERS]
    assert not result.passed and result.warns and "the memory grew" in result.detail


def test_a_model_exchanged_under_the_same_name_is_refused(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    real = LexicalEmbedder.embed
    monkeypatch.setattr(LexicalEmbedder, "embed", lambda self, texts: np.roll(real(self, texts), 7))
    memory.record("The intern starts in May", "intern")
    with pytest.raises(BuildRefused, match=r"same_model: .*mnemolog build --full"):
        memory.build()
    assert memory.build(full=True)[SAME_MODEL].passed


def test_a_projection_that_lost_its_rows_is_refused(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(candidate_checks, "_FEW_ROWS", 5)
    real = catalog.all_projections

    def spoil(hit: Any) -> Any:
        def made(*arguments: Any) -> Any:
            tables = dict(hit.build(*arguments))
            return tables | {
                name: tables[name].slice(0, 0)
                for name in ("entities", "mentions", "edges", "aliases")
            }

        return replace(hit, build=made) if hit.name == "entities" else hit

    monkeypatch.setattr(
        catalog,
        "all_projections",
        lambda model: tuple(spoil(projection) for projection in real(model)),
    )
    with pytest.raises(BuildRefused, match=r"entities has no entities, \d+ are served"):
        memory.build(full=True)
    for thing in THINGS:
        commands.forget(memory.log, thing, memory.at)
    memory.build(full=True)  # the forgotten memories explain it


def test_answers_that_begin_with_another_memory_are_refused(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    def rank(*arguments: Any) -> Any:
        ranked = ranking.rank(*arguments)
        return replace(ranked, order=np.concatenate([ranked.order[1::-1], ranked.order[2:]]))

    monkeypatch.setattr(recall_module, "rank", rank)
    with pytest.raises(BuildRefused, match=r"10 of 10 past .*, 10 with another memory first"):
        memory.build()


def test_a_new_memory_may_come_back_as_often_as_an_old_one(memory: Memory):
    words = ", ".join(f"where is the {thing} worker configured" for thing in THINGS)
    memory.record(f"{words}: ask the captain", "old hub")
    memory.build(accepts=True)
    for thing in THINGS:
        memory.ask(f"where is the {thing} worker configured?")
    memory.record(f"{words}: ask the intern", "hub")
    assert memory.build()[NEWCOMERS].passed


@pytest.mark.parametrize("lost", ["project", "state", "end"])
def test_hidden_memories_are_also_checked(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, lost: str
):
    fields = {"project": "ours", "ttl_s": 1 if lost == "end" else None}
    draft = Draft(content="The pilot is Ada, on the bridge", id="pilot", **fields)
    commands.record(memory.log, draft, memory.at)
    if lost == "state":
        commands.archive(memory.log, "pilot", memory.at)
    memory.at += 10_000_000
    assert memory.build()[ONLY_VISIBLE].passed
    if lost == "project":
        real = Filter.narrow
        broken = lambda self, *arguments: real(replace(self, project=None), *arguments)  # noqa: E731
        monkeypatch.setattr(Filter, "narrow", broken)
    else:
        everything = lambda self, now: self.created_at > 0  # noqa: E731
        monkeypatch.setattr(MemoryRows, "active_at", everything)
    memory.record("The intern starts in May", "intern")
    with pytest.raises(BuildRefused, match=r"only_visible: .* 1 memory came back all the same"):
        memory.build()


def test_inconsistent_tables_are_refused_by_name_with_the_fix(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    draft = Draft(content="The intern starts in May", session="one")  # sessions read postings
    commands.record(memory.log, draft, memory.at)
    real = catalog.all_projections

    def spoil(vector: Any) -> Any:
        def made(*arguments: Any) -> Any:
            tables = vector.build(*arguments)
            return {name: [] if vector.name == "postings" else tables[name] for name in tables}

        return replace(vector, build=made)

    monkeypatch.setattr(
        catalog,
        "all_projections",
        lambda model: tuple(spoil(projection) for projection in real(model)),
    )
    with pytest.raises(
        BuildRefused, match=r"constraints: postings is not as agreed .*mnemolog build --full"
    ):
        memory.build(full=True)
    assert manifests.current(memory.tenant).number == 1


def test_a_few_questions_allow_no_conclusion(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(past_answers, "A_FEW", 7)
    hide_decisions(monkeypatch)
    result = memory.build()[PAST_ANSWERS]
    assert result.passed and result.detail.startswith("2 of 7")


def test_a_month_of_prompts_and_questions_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    speaks_where_recall_is_sure(monkeypatch)
    for session in opened(tmp_path):
        live(session)
        now = session.at
        monkeypatch.setattr(runner, "wall_clock", lambda now=now: now)
        runner.build(session.tenants.settings, "default", lambda text: None)
        results = {check.name: check for check in manifests.current(tenant(tmp_path)).checks}
        assert results[PAST_ANSWERS].detail == "4 of 4 past questions bring back what they did"
        assert results[NEWCOMERS].passed
