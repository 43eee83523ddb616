"""Plans to change settings: judged by past recalls, applied to config.toml, undone at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hook_session import Session, opened, speaks_where_recall_is_sure
from test_replay import live, search

from serve.cli import main
from serve.evaluation import drift
from serve.evaluation.expectations import expect
from serve.reports.proposal_rendering import plan_markdown
from store.embedders.embedder import Matrix
from store.embedders.lexical import LexicalEmbedder
from store.home import config
from store.home.config import Choices, Settings
from store.home.errors import ConfigError, PlanRefused, PlanStale
from store.log import commands, receipts
from store.log.event_kinds import Applied, Planned, ReplayDiff
from store.log.receipts import Wanted
from store.plans import plans, proposals
from store.plans.plans import Plan
from store.plans.setting_changes import configure_steps


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    speaks_where_recall_is_sure(monkeypatch)
    for session in opened(tmp_path):
        live(session, 3)
        yield session


def propose(session: Session, **changes: str) -> Plan:
    served = session.tenants.get("default")
    events = receipts.page(session.log, Wanted(), 1_000).receipts
    steps = configure_steps(session.tenants.settings, changes)
    planned = drift.settings_plan(
        session.tenants.settings, served.tenant, session.log, steps, events, session.at
    )
    return plans.propose(session.log, planned, session.at)


def file_of(session: Session) -> Path:
    return session.tenants.settings.user_file


def test_a_plan_shows_its_effect_on_past_recalls_and_changes_nothing(session: Session):
    plan = propose(session, top_k="1")
    difference = plan.body.replay
    assert difference is not None and difference.asked == 12
    assert difference.gone and not difference.new and difference.answers
    assert all(set(answer.after) <= set(answer.before) for answer in difference.answers)
    assert plan.state == "waiting" and not file_of(session).exists()


def test_a_plan_over_a_single_past_recall_is_kept(tmp_path: Path):
    for session in opened(tmp_path):
        session.remember("The parser is owned by team 5")
        search(session, "who owns the parser")
        plan = propose(session, top_k="7")
        assert plan.body.replay is not None and plan.body.replay.asked == 1


def test_applied_and_undone_it_moves_config_toml_there_and_back(session: Session):
    file_of(session).write_text("# mine\ntop_k = 8\n")
    session.tenants.refresh_settings()
    plan = propose(session, top_k="7")
    assert plan.failed == ()
    assert proposals.accept(session.log, plan.id, session.at).state == "accepted"
    assert file_of(session).read_text() == "# mine\ntop_k = 7\n"
    session.tenants.refresh_settings()
    assert session.tenants.settings.choices.top_k == 7
    proposals.undo(session.log, plan.id, session.at)
    assert file_of(session).read_text() == "# mine\ntop_k = 8\n"


def test_a_plan_whose_checks_fail_is_applied_by_force_alone_which_the_log_keeps(session: Session):
    plan = propose(session, min_confidence="0.99")
    with pytest.raises(PlanRefused, match=r"silence: .* --force"):
        plans.apply(session.log, plan.id, session.at)
    assert not file_of(session).exists() and plans.find(session.log, plan.id).state == "waiting"
    forced = plans.apply(session.log, plan.id, session.at, force=True)
    assert "silence" in forced.forced
    bodies = [event.body for event in session.log.job_events(("applied",))]
    assert [body.forced for body in bodies if isinstance(body, Applied)] == [forced.forced]
    assert config.kept_value(session.tenants.settings.home, "min_confidence") == 0.99


def test_later_edits_of_config_toml_are_kept(session: Session):
    plan = propose(session, profile="wal")
    file_of(session).write_text('profile = "match"\n')
    with pytest.raises(PlanStale, match=r"profile was set to match in config\.toml since"):
        plans.apply(session.log, plan.id, session.at, force=True)
    file_of(session).unlink()
    plans.apply(session.log, plan.id, session.at, force=True)
    file_of(session).write_text('profile = "match"\n')
    with pytest.raises(PlanStale):
        plans.undo(session.log, plan.id, session.at)
    assert file_of(session).read_text() == 'profile = "match"\n'


def test_a_file_that_cannot_be_written_leaves_the_plan_waiting(session: Session):
    plan = propose(session, profile="wal")
    file_of(session).mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        plans.apply(session.log, plan.id, session.at, force=True)
    assert plans.find(session.log, plan.id).state == "waiting"


def test_a_plan_sets_no_setting_that_recall_does_not_use(session: Session):
    step = propose(session, top_k="7").body.steps[0]
    body = {"name": "llm.api_base", "value": "http://elsewhere"}
    planned = Planned(
        job="settings", watermark=9, steps=(msgspec.structs.replace(step, body=body),)
    )
    plan = plans.propose(session.log, planned, session.at)
    with pytest.raises(ConfigError, match=r"llm\.api_base changes no answer"):
        plans.apply(session.log, plan.id, session.at, force=True)
    assert not file_of(session).exists()


def test_unusable_changes_are_refused_before_any_recall_is_asked(tmp_path: Path):
    settings = Settings(tmp_path, Choices(top_k=3), {"top_k": "environment"})
    for changes, text in (
        ({"port": "1"}, "port changes no answer"),
        ({"top_k": "5"}, "MNEMOLOG_TOP_K sets top_k"),
        ({"profile": "loud"}, "profile"),
    ):
        with pytest.raises(ConfigError, match=text):
            configure_steps(settings, changes)
    assert configure_steps(settings, {"profile": "balanced"}) == ()


def test_a_recall_with_its_own_top_k_keeps_it(session: Session):
    plan = propose(session, top_k="2")
    assert plan.body.replay is not None
    three = {  # with a `top_k` of 3, unlike the settings
        receipt.id
        for receipt in receipts.page(session.log, Wanted(), 99).receipts
        if receipt.body.basis.top_k == 3
    }
    assert three and three.isdisjoint(answer.recall for answer in plan.body.replay.answers)


def test_helpful_memories_that_no_longer_come_back_are_counted(session: Session):
    search(session, "who owns the mail queue", top_k=8)
    (newest,) = receipts.page(session.log, Wanted(), 1).receipts
    for hit in newest.body.hits:
        commands.rate(session.log, hit.id, 1.0, session.at + 1)
    plan = propose(session, min_confidence="0.99")
    assert plan.body.replay is not None
    assert plan.body.replay.helpful >= len(newest.body.hits) > 0
    assert plan.body.replay.helpful_gone


def test_a_plan_that_loses_a_pinned_memory_fails_its_check(session: Session):
    expect(session.log, "who owns the mail queue", "m1-4", None, session.at)
    (check,) = [
        other for other in propose(session, top_k="5").body.checks if other.name == "expected"
    ]
    assert check.passed and check.detail.startswith("1 of 1 pinned questions")
    plan = propose(session, min_confidence="0.99")
    (check,) = [plan_check for plan_check in plan.failed if plan_check.name == "expected"]
    assert '"who owns the mail queue" m1-4' in check.detail


def test_a_plan_with_a_model_that_confuses_meanings_fails_its_check(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    class Mute(LexicalEmbedder):
        model = "mute-1"

        def embed(self, texts: Sequence[str]) -> Matrix:
            return np.full((len(texts), self.dimension), self.dimension**-0.5, np.float32)

    embedders = {"lexical": LexicalEmbedder, "table:mute": Mute}
    monkeypatch.setattr(drift, "make_embedder", lambda name, home: embedders[name]())
    plan = propose(session, embedder="table:mute")
    assert plan.body.replay is not None and plan.body.replay.asked == 12
    assert "model" in {check.name for check in plan.failed}


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({}, set()),
        ({"silenced": 5}, set()),
        ({"silenced": 6}, {"silence"}),
        ({"gone": 76}, {"drift"}),
        ({"awoken": 6}, {"noise"}),
        ({"led": 16}, {"order"}),
        ({"characters": (100, 151)}, {"noise"}),
        ({"helpful": 20, "helpful_gone": 3}, {"ratings"}),
        ({"spoke": 3, "hits": 3, "silenced": 1, "gone": 1}, set()),  # too few to judge
    ],
)
def test_changes_beyond_a_bound_fail_its_check(changed: dict[str, object], failed: set[str]):
    usual = ReplayDiff(asked=120, spoke=100, hits=300, characters=(100, 100))
    checks = drift.check_drift(msgspec.structs.replace(usual, **changed))
    assert {check.name for check in checks if not check.passed} == failed


def test_the_commands_propose_show_apply_and_undo(session: Session, tmp_path: Path):
    def run(*words: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(main, ["--home", str(session.tenants.settings.home), *words])
        return result.exit_code, result.stdout, result.stderr

    code, output, _ = run("plans", "propose", "--set", "min_confidence=0.99")
    assert code == 0 and "FAILED  silence" in output and "answers change" in output
    assert "set  min_confidence from 0.0 to 0.99" in output
    id_ = msgspec.json.decode(run("plans", "--json")[1])["plans"][0]["plan"]
    code, _, text = run("plans", "apply", id_, "--dry-run")
    assert code == 2 and "--force" in text
    assert run("plans", "apply", id_)[0] == 2 and not file_of(session).exists()
    assert run("plans", "apply", id_, "--force")[0] == 0 and file_of(session).exists()
    report = tmp_path / "plan.md"
    assert "applied all the same" in run("plans", "show", id_, "--report", str(report))[1]
    assert (
        report.read_text().startswith(f"# Plan {id_}")
        and "| silence | **failed** |" in report.read_text()
    )
    assert run("plans", "undo", id_)[0] == 0 and file_of(session).read_text() == ""


def test_a_report_escapes_quoted_text(session: Session):
    session.remember("The *parser* is <b>owned</b> by team `9`", id="odd")
    search(session, "who owns the *parser* `9`")
    plan = propose(session, min_confidence="0.99")
    text = "\n".join(plan_markdown(session.log, plan))
    assert r"\*parser\* is \<b\>" in text and "<b>" not in text


def test_no_text_goes_to_a_model_elsewhere_unasked(session: Session):
    queries = (
        "plans",
        "propose",
        "--set",
        "embedder=litellm:openai/text-embedding-3-small",
        "--json",
    )
    home = str(session.tenants.settings.home)
    refused = CliRunner().invoke(main, ["--home", home, *queries])
    assert refused.exit_code == 2 and "add --yes" in refused.stderr
    assert plans.every(session.log) == []
