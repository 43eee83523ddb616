"""Bulk changes: lost past answers are shown, and one undo restores all of them."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipelines.jobs import find_job, runner
from pipelines.jobs.archive import COLD_AFTER_DAYS
from serve.cli import environment, main
from serve.dashboard import changes
from serve.evaluation import bulk
from serve.evaluation.replay import Replayed, ask_now
from serve.reader.reader import Reader
from serve.recall.request import Asker, RecallRequest, answer
from serve.server.open_tenants import OpenTenant
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Settings
from store.home.instants import micros
from store.home.tenant import Tenant, tenant
from store.log import commands, receipts
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild
from store.plans import plans
from store.plans.plans import Plan

NOW = 1_790_000_000_000_000
DAY = 86_400 * 1_000_000
THINGS = """
billing search upload session mail parser ledger deploy cache audit invoice login queue image
report export webhook backup metrics tenant
""".split()
OTHERS = """
sofa lamp carpet window curtain kettle teapot garden bicycle umbrella violin trumpet marble
granite walnut maple cedar birch willow poplar
""".split()


@dataclass
class Memory:
    """A memory of forty notes, held open by a server; half of them answer the questions asked."""

    folder: Path
    tenant: Tenant
    log: EventLog
    served: OpenTenant
    asked: list[Event]
    at: int

    def run(self, *words: str, given: str | None = None) -> Result:
        return CliRunner().invoke(main, words, input=given, catch_exceptions=False)

    def answers(self) -> list[bytes]:
        """Return the current answers to every past recall, as bytes."""
        return [replay.said for replay in self._ask_again(anew=False)]

    def brought(self, *, anew: bool = False) -> dict[str, list[str]]:
        """Return the memories that every past recall now returns, by the recall's id."""
        return {
            replay.receipt.id: [hit.id for hit in replay.hits]
            for replay in self._ask_again(anew=anew)
        }

    def _ask_again(self, *, anew: bool) -> list[Replayed]:
        served = self.served
        if anew:
            reader = Reader(self.tenant, self.log, LexicalEmbedder())
            served = OpenTenant(self.tenant, self.log, reader)
        served.reader.count_ages_to(self.at)
        return list(ask_now(served, self.asked, Choices(), self.at))

    def plan(self) -> Plan | None:
        return next((plan for plan in plans.every(self.log) if plan.body.job == plans.BULK), None)

    def file(self, name: str, lines: Sequence[dict[str, Any]]) -> str:
        path = self.folder / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)

    def build(self, *, accepts: bool = False) -> None:
        settings = Settings(self.folder / "home")
        runner.build(settings, "default", lambda text: None, accepts=accepts)
        self.served.reader.poll()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a memory that was built once and asked twenty questions."""
    folder, at = tmp_path_factory.mktemp("lived"), NOW
    built = tenant(folder / "home")
    with EventLog(built.log, create=True) as log:
        for thing in (*THINGS, *OTHERS):
            has_key = {"key": f"{thing}.owner", "value": "team 4"} if thing in THINGS[:12] else {}
            draft = Draft(
                content=f"The {thing} worker is owned by team 4 and runs on host {thing}-1",
                id=thing,
                tags=("owners",),
                **has_key,
            )
            commands.record(log, draft, at)
            old = Draft(content=f"The {thing} worker was owned by nobody", id=f"{thing}-old")
            commands.record(log, old, at)
            commands.supersede(log, old.id or "", thing, at)
        rebuild(built, log, LexicalEmbedder(), at)
        reader = Reader(built, log, LexicalEmbedder())
        for number, thing in enumerate(THINGS):
            at += 1_000_000
            request = RecallRequest(
                query=f"who owns the {thing} worker?",
                top_k=3,
                profile="wal" if number % 2 else None,
                tags=("owners",) if number % 3 else (),
            )
            _, receipt = answer(reader, request, Choices(), at, Asker(door="mcp"))
            assert receipt is not None and receipt.body.hits[0].id == thing
            log.append([receipt])
            if number < 5:
                commands.rate(log, receipt.id, 1.0, at)
        rebuild(built, log, LexicalEmbedder(), at)  # these recalls count from now on
    return folder


@pytest.fixture
def memory(tmp_path: Path, lived: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    shutil.copytree(lived, tmp_path, dirs_exist_ok=True)
    at = NOW + 60_000_000
    monkeypatch.setattr(environment, "now", lambda: at)
    monkeypatch.setattr(runner, "wall_clock", lambda: at)
    built = tenant(tmp_path / "home")
    with EventLog(built.log) as log:
        served = OpenTenant(built, log, Reader(built, log, LexicalEmbedder()))
        events = list(receipts.page(log, receipts.Wanted(), 100).receipts)
        yield Memory(tmp_path, built, log, served, events, at)


# Harmful changes


def forget(memory: Memory) -> None:
    memory.run("forget", *THINGS)


def archive(memory: Memory) -> None:
    change(memory, "archive", THINGS)


def retag(memory: Memory) -> None:
    change(memory, "untag", THINGS, "owners")


def replace(memory: Memory) -> None:
    memory.run("supersede", *THINGS, "--by", "poplar")


def bring_back_old_ones(memory: Memory) -> None:
    memory.run("restore", *(f"{thing}-old" for thing in THINGS))


def contradict(memory: Memory) -> None:
    lines = [
        {"id": f"{thing}-x{n}", "content": f"The {thing} worker is owned by team {n}", **extra}
        for thing in THINGS
        for n in (7, 8, 9)
        for extra in ({"tags": ["owners"], "importance": 1.0},)
    ]
    memory.run("import", "jsonl", memory.file("notes.jsonl", lines))


def take_keys(memory: Memory) -> None:
    lines = [
        {"content": f"{thing}: see the wiki", "key": f"{thing}.owner", "value": "wiki"}
        for thing in THINGS[:12]
    ]
    memory.run("import", "jsonl", memory.file("keys.jsonl", lines))


def repeat_questions(memory: Memory) -> None:
    lines = [
        {"text": f"who owns the {thing} worker? {thing} worker owned, note {n}", "tags": ["owners"]}
        for thing in THINGS
        for n in range(4)
    ]
    memory.run("record", "--batch", given="".join(json.dumps(line) + "\n" for line in lines))


def move(memory: Memory) -> None:
    """Import a copy of every note into another project, and forget the original."""
    lines = [
        {"id": f"{thing}-moved", "content": f"The {thing} worker is owned by team 4"}
        for thing in THINGS
    ]
    memory.run("import", "jsonl", memory.file("moved.jsonl", lines), "--project", "elsewhere")
    change(memory, "forget", THINGS)


def change(memory: Memory, does: Any, ids: Sequence[str], tag: str = "") -> None:
    """Apply one change to many memories, as the dashboard's list does."""
    outcome = changes.carry_out(memory.served, ids, does, memory.at, tag)
    log, read = memory.log, memory.served.reader.read_past
    bulk.keep(memory.tenant, log, read, Choices(), changes.DONE[does], outcome.events, memory.at)


HARMFUL = (
    *(forget, archive, retag, replace, bring_back_old_ones),
    *(contradict, take_keys, repeat_questions, move),
)


@pytest.mark.parametrize("harm", HARMFUL)
def test_a_harmful_bulk_change_shows_lost_answers_and_one_undo_restores_them(
    memory: Memory, harm: Callable[[Memory], None]
):
    before, brought = memory.answers(), memory.brought()
    harm(memory)
    plan = memory.plan()
    assert plan is not None and plan.body.replay is not None
    now = memory.brought()
    lost = {id_ for id_, ids in brought.items() if now[id_][:1] != ids[:1]}
    assert len(lost) >= 5 and bulk.regret(plan.body.replay)
    assert lost <= {changed_answer.recall for changed_answer in plan.body.replay.answers}
    result = memory.run("plans", "show", plan.id)
    assert " worker was owned by nobody" in result.output or " is owned by team" in result.output
    assert f"plans undo {plan.id[:6]}" in result.output
    for plan in plans.every(memory.log):
        assert memory.run("plans", "undo", plan.id).exit_code == 0
    assert memory.brought() == brought == memory.brought(anew=True)
    memory.build()
    assert memory.answers() == before


# Harmless changes


def import_unrelated(memory: Memory) -> None:
    lines = [{"content": f"Chapter {n} is about {thing}s"} for n, thing in enumerate(OTHERS)]
    memory.run("import", "jsonl", memory.file("others.jsonl", lines))


def archive_unasked(memory: Memory) -> None:
    change(memory, "archive", OTHERS)


def forget_unasked(memory: Memory) -> None:
    memory.run("forget", *OTHERS)


def tag_all(memory: Memory) -> None:
    change(memory, "tag", THINGS, "reviewed")


def pin_all(memory: Memory) -> None:
    memory.run("pin", *THINGS, *OTHERS)


def import_notes(memory: Memory) -> None:
    text = "\n\n".join(f"## {thing}\n\nThe {thing} stands in the hall." for thing in OTHERS)
    (memory.folder / "house.md").write_text(text)
    memory.run("import", "markdown", str(memory.folder / "house.md"))


HARMLESS = import_unrelated, archive_unasked, forget_unasked, tag_all, pin_all, import_notes


@pytest.mark.parametrize("does", HARMLESS)
def test_a_harmless_bulk_change_warns_of_nothing(memory: Memory, does: Callable[[Memory], None]):
    then = memory.brought()
    does(memory)
    plan = memory.plan()
    assert plan is not None and plan.body.replay is not None
    assert bulk.regret(plan.body.replay) == "" and not plan.failed
    now = memory.brought()
    assert all(now[id_][0] == ids[0] for id_, ids in then.items())


def test_a_few_memories_are_no_bulk_change(memory: Memory):
    result = memory.run("forget", *THINGS[:9])
    assert "undo" not in result.output and memory.plan() is None


def test_a_bulk_change_of_a_small_share_is_undone_but_asks_nothing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "SHARE", 0.5)
    result = memory.run("forget", *THINGS[:10])
    assert "forgot: 10 memories" in result.stderr and "past recalls" not in result.stderr
    assert memory.plan() is not None and memory.plan().body.replay is None


def test_without_past_recalls_no_reader_is_opened(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def opens(*_: object) -> None:
        raise AssertionError("a reader is opened")

    monkeypatch.setattr(environment, "open_reader", opens)
    lines = tmp_path / "notes.jsonl"
    lines.write_text(
        "".join(json.dumps({"content": f"the {thing} is ours"}) + "\n" for thing in THINGS)
    )
    imported = CliRunner().invoke(main, ["import", "jsonl", str(lines)], catch_exceptions=False)
    assert "import jsonl: 20 memories\nto undo all of it: `mnemolog plans undo" in imported.stderr
    with EventLog(tenant(home).log) as log:
        (plan,) = plans.every(log)
        plans.undo(log, plan.id, NOW)
        assert len(plan.events) == len(log.undone_ids(log.head())) == 20


def test_a_script_gets_its_result_alone_and_is_asked_nothing(memory: Memory):
    result = memory.run("forget", "--json", *THINGS)
    assert result.exit_code == 0 and len(json.loads(result.stdout)["memories"]) == 20
    assert "fall silent" in result.stderr or "begin with another" in result.stderr


def test_a_person_is_asked_and_may_decline(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    before = memory.brought()
    monkeypatch.setattr(environment, "can_ask", lambda: True)
    result = memory.run("forget", *THINGS, given="n\n")
    assert result.exit_code == 1 and "as it was" in result.output
    assert memory.brought() == before and memory.plan().state == "undone"
    assert memory.run("forget", *THINGS, given="y\n").exit_code == 0
    assert memory.plan().state == "applied"


def test_a_harmless_change_asks_nobody(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environment, "can_ask", lambda: True)
    assert memory.run("forget", *OTHERS, given="").exit_code == 0


def test_an_import_into_an_empty_memory_can_be_undone(tmp_path: Path):
    path = tmp_path / "notes.jsonl"
    lines = [{"content": f"The {thing} worker is owned by team 4"} for thing in THINGS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = CliRunner().invoke(main, ["import", "jsonl", str(path)])
    assert result.exit_code == 0 and "import jsonl: 20 memories" in result.stderr
    assert "mnemolog plans undo" in result.stderr


def test_an_undone_bulk_change_can_be_applied_again(memory: Memory):
    before = memory.brought()
    contradict(memory)
    plan = memory.plan()
    assert plan is not None
    memory.run("plans", "undo", plan.id)
    result = memory.run("import", "jsonl", str(memory.folder / "notes.jsonl"))
    assert f"`mnemolog plans apply {plan.id[:6]}` brings it back" in result.stderr
    assert "was undone: `mnemolog plans apply" in memory.run("forget", "mail-x7").output
    plans.apply(memory.log, plan.id, memory.at)
    memory.build(accepts=True)
    assert any("-x" in ids[0] for ids in memory.brought().values())
    memory.run("plans", "undo", plan.id)
    assert memory.plan().state == "undone" and memory.brought() == before


def test_a_failed_import_keeps_a_plan_of_what_was_written(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    lines = [{"content": f"Note {n} on the {thing}"} for n, thing in enumerate(THINGS)]
    monkeypatch.setattr(commands, "BATCH", 12)
    path = Path(memory.file("broken.jsonl", lines))
    path.write_text(path.read_text() + "no JSON\n")
    assert memory.run("import", "jsonl", str(path)).exit_code != 0
    assert memory.plan() is not None and len(memory.plan().events) == 12


@pytest.mark.parametrize("is_asked", [True, False])
def test_an_archive_that_past_answers_need_waits_for_a_person(memory: Memory, is_asked: bool):
    later = max(memory.at, micros(datetime.now(UTC))) + (COLD_AFTER_DAYS + 30) * DAY  # of arrival
    for number, thing in enumerate(THINGS):
        draft = Draft(content=f"today Ann looks after {thing}", id=f"{thing}-t", ttl_s=60)
        commands.record(memory.log, draft, memory.at)
        if not is_asked:
            commands.pin(memory.log, thing, memory.at)
        commands.record(memory.log, Draft(content=f"Release {number} is out"), later)
    settings = Settings(memory.folder / "home")
    plan = runner.run(find_job("archive"), settings, "default", later, apply=True)
    assert plan is not None and {"sofa", "mail-t"} <= {step.subject for step in plan.body.steps}
    assert plan.body.replay is not None
    assert plan.state == ("waiting" if is_asked else "applied")
    if is_asked:
        assert "begin with another" in bulk.regret(plan.body.replay) or plan.body.replay.silenced
        assert "is owned by team 4" in memory.run("plans", "show", plan.id).output
    else:
        assert bulk.regret(plan.body.replay) == ""
