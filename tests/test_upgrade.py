"""Our own new version: its answers are compared with those of the version before."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hook_session import SURE, Session, opened, speaks_where_recall_is_sure
from msgspec.structs import replace
from test_replay import TOPICS, search

from pipelines.jobs import runner
from serve.cli import main, processes
from serve.evaluation import upgrade
from serve.evaluation.expectations import expect
from serve.hooks import speaking
from serve.recall import request
from store.home.errors import BuildRefused, PlanRefused
from store.log import log_file, receipts
from store.log.erasing import erase
from store.log.event_kinds import Recalled
from store.log.receipts import Wanted
from store.plans import plans, proposals
from store.plans.plans import Plan
from store.snapshots import manifest as manifests
from store.snapshots.manifest import UPGRADE, CheckResult

MUTE = speaking.Model(SURE.coefficients, -30.0, 0.5)


@dataclass
class Home:
    """A memory built by an earlier version of mnemolog, which also answered its prompts."""

    session: Session
    path: Path

    def build(self, **options: Any) -> CheckResult:
        runner.build(self.session.tenants.settings, "default", lambda text: None, **options)
        return next(check for check in self.manifest.checks if check.name == UPGRADE)

    @property
    def manifest(self) -> manifests.Manifest:
        return manifests.current(self.session.tenants.get("default").tenant)

    def plan(self) -> Plan:
        served, settings = self.session.tenants.get("default"), self.session.tenants.settings
        earlier = upgrade.list_earlier(self.session.log, 1_000)
        planned = upgrade.upgrade_plan(
            settings, served.tenant, self.session.log, earlier, self.session.at
        )
        return plans.propose(self.session.log, planned, self.session.at)

    def run(self, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["--home", str(self.path), *words])
        return result.exit_code, result.output


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    speaks_where_recall_is_sure(monkeypatch)
    for session in opened(tmp_path):
        home = Home(session, tmp_path)
        monkeypatch.setattr(runner, "wall_clock", lambda at=session: at.at)
        with monkeypatch.context() as before:
            before.setattr(upgrade, "version", lambda: "0.0.9")
            before.setattr("serve.recall.request.version", lambda: "0.0.9")
            for number, topic in enumerate(TOPICS):
                session.remember(f"The {topic} is owned by team {number}", id=f"m{number}")
            home.build()
            session.tenants.get("default").reader.poll()
            for number, topic in enumerate(TOPICS * 2):
                session.name = f"s{number}"
                session.ask(f"which team owns the {topic}?")
            search(session, "who owns the mail queue")
        yield home


def refit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upgrade to a version whose hooks inject nothing."""
    monkeypatch.setattr(speaking, "MODELS", dict.fromkeys(speaking.MODELS, MUTE))
    under_code(monkeypatch, "muted")


def under_code(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Simulate code with the given digest."""
    for of in (request, upgrade):
        monkeypatch.setattr(of, "code", lambda: code)


def test_a_version_with_the_same_answers_builds_and_reports_it(home: Home):
    check = home.build()
    assert check.passed and "answers 0 of 11 past recalls otherwise than 0.0.9" in check.detail
    home.session.remember("The mail queue moved", id="moved")
    again = home.build()
    assert again.detail == f"built by mnemolog {upgrade.running()}"  # compared once


def test_a_version_that_silences_past_answers_is_refused_and_the_old_build_served(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    refit(monkeypatch)
    with pytest.raises(BuildRefused, match=r"upgrade: .*silence: 10 of 11.*propose --upgrade"):
        home.build()
    assert home.manifest.number == 1
    search(home.session, "who owns the mail queue")
    (newest,) = receipts.page(home.session.log, Wanted(), 1).receipts
    assert newest.body.manifest == 1 and newest.body.hits
    check = home.build(accepts=True)
    assert check.warns and home.manifest.number == 2
    assert home.build().passed  # this build is the new baseline


def test_a_plan_shows_both_answers_and_is_applied_by_force_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    refit(monkeypatch)
    head = home.session.log.head()
    plan = home.plan()
    assert home.session.log.head() == head + 1 and home.manifest.number == 1
    diff = plan.body.replay
    assert diff is not None and (diff.asked, diff.silenced) == (11, 10)
    assert all(answer.before and not answer.after for answer in diff.answers)
    assert plan.body.steps[0].why.startswith("mnemolog from 0.0.9 to")
    with pytest.raises(PlanRefused, match="silence"):
        plans.apply(home.session.log, plan.id, home.session.at)
    forced = plans.apply(home.session.log, plan.id, home.session.at, force=True)
    assert "silence" in forced.forced and home.build().warns
    assert home.manifest.number == 2 and not (home.path / "config.toml").exists()


def test_an_undone_acceptance_no_longer_counts(home: Home, monkeypatch: pytest.MonkeyPatch):
    refit(monkeypatch)
    plan = plans.apply(home.session.log, home.plan().id, home.session.at, force=True)
    proposals.undo(home.session.log, plan.id, home.session.at)
    with pytest.raises(BuildRefused, match="upgrade"):
        home.build()


def test_a_plan_of_one_version_accepts_no_other(home: Home, monkeypatch: pytest.MonkeyPatch):
    refit(monkeypatch)
    plans.apply(home.session.log, home.plan().id, home.session.at, force=True)
    under_code(monkeypatch, "third")
    with pytest.raises(BuildRefused, match="upgrade"):
        home.build()


def test_memories_erased_since_are_no_fault_of_a_version(home: Home):
    erase(home.session.log, [f"m{number}" for number in range(5)], home.session.at)
    assert home.build().passed


def test_a_version_that_misses_a_pinned_question_fails_the_check(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    expect(home.session.log, "which team owns the parser", "m5", None, home.session.at)
    (check,) = [other for other in home.plan().body.checks if other.name == "expected"]
    assert check.passed
    real = upgrade.expectations.ask

    def ask(*arguments: Any) -> Any:
        return [msgspec.structs.replace(outcome, rank=None) for outcome in real(*arguments)]

    monkeypatch.setattr(upgrade.expectations, "ask", ask)
    under_code(monkeypatch, "other")
    (check,) = [other for other in home.plan().body.checks if other.name == "expected"]
    assert not check.passed and "which team owns the parser" in check.detail


def test_the_commands_propose_apply_and_undo_an_upgrade(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    def build(settings: Any, *words: str, quiet: bool = False) -> int:
        home.build()
        return 0

    monkeypatch.setattr(processes, "build", build)
    refit(monkeypatch)
    code, text = home.run("plans", "propose", "--upgrade")
    assert (
        code == 0 and "FAILED  silence: 10 of 11" in text and "set  mnemolog from 0.0.9 to" in text
    )
    assert "ms a recall" not in text
    (plan,) = plans.every(home.session.log)
    assert home.run("plans", "apply", plan.id)[0] == 2 and home.manifest.number == 1
    assert home.run("plans", "apply", plan.id, "--force")[0] == 0 and home.manifest.number == 2
    code, text = home.run("plans", "undo", plan.id)
    assert code == 0 and "pip install mnemolog==0.0.9" in text
    code, text = home.run("plans", "propose", "--upgrade", "--set", "top_k=3")
    assert code == 2 and "--upgrade goes alone" in text


def test_without_recalls_of_another_version_there_is_no_plan(tmp_path: Path):
    for session in opened(tmp_path):
        session.remember("The parser is generated", id="m")
        search(session, "is the parser generated")
        code, text = Home(session, tmp_path).run("plans", "propose", "--upgrade")
        assert code == 2 and "there is nothing to compare" in text


def test_trying_a_version_changes_no_schema(home: Home, monkeypatch: pytest.MonkeyPatch):
    home.session.tenants.close()
    monkeypatch.setattr(log_file, "SCHEMA_VERSION", log_file.SCHEMA_VERSION + 1)
    log = home.session.tenants.get("default").tenant.log
    before = log.read_bytes()
    code, text = home.run("plans", "propose", "--upgrade")
    assert code == 2 and "mnemolog backup make" in text and log.read_bytes() == before


def test_recalls_of_a_version_without_a_basis_are_counted(home: Home):
    for event in upgrade.list_earlier(home.session.log, 2):
        assert isinstance(event.body, Recalled)
        old = msgspec.structs.replace(event.body, basis=None)
        home.session.log.append([replace(event, id=f"x{event.id}", subject="x", body=old)])
    plan = home.plan()
    assert any("2 not asked" in note for note in plan.body.notes)


@pytest.mark.parametrize("newest_alone", [False, True])
def test_silenced_prompts_are_found_behind_a_hundred_newer_questions(
    home: Home, monkeypatch: pytest.MonkeyPatch, newest_alone: bool
):
    with monkeypatch.context() as before:
        before.setattr(upgrade, "version", lambda: "0.0.9")
        before.setattr("serve.recall.request.version", lambda: "0.0.9")
        for number in range(upgrade.ASKED):
            search(home.session, f"who owns the {TOPICS[number % 6]}, and who did on day {number}")
    refit(monkeypatch)
    if newest_alone:  # as in earlier versions
        monkeypatch.setattr(upgrade, "choose_recalls", lambda log, earlier, most: earlier[:most])
        assert home.build().passed
    else:
        with pytest.raises(BuildRefused, match=r"upgrade: .*silence"):
            home.build()
