"""Settings edited by hand in config.toml: the next build judges them like a plan."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hook_session import Session, opened
from test_replay import TOPICS, search

from pipelines.jobs import runner
from store.home import config
from store.plans import plans, proposals
from store.plans.setting_changes import configure_steps
from store.snapshots import manifest as manifests
from store.snapshots.manifest import SETTINGS, CheckResult

Home = tuple[Session, Path]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    for session in opened(tmp_path):
        monkeypatch.setattr(runner, "wall_clock", lambda at=session: at.at)
        for number, topic in enumerate(TOPICS):
            session.remember(f"The {topic} is owned by team {number}", id=f"m{number}")
        build((session, tmp_path))
        session.tenants.get("default").reader.poll()
        for number in range(20):
            search(session, f"who owns the {TOPICS[number % 6]} on day {number}")
        yield session, tmp_path


def build(home: Home) -> CheckResult:
    session, path = home
    settings = config.load(environ={"MNEMOLOG_HOME": str(path)})
    runner.build(settings, "default", lambda text: None)
    manifest = manifests.current(session.tenants.get("default").tenant)
    return next(check for check in manifest.checks if check.name == SETTINGS)


def edit(home: Home, text: str) -> None:
    (home[1] / "config.toml").write_text(text)


def test_a_harmful_edit_warns_and_one_act_puts_it_back(home: Home):
    assert build(home).passed
    edit(home, "min_confidence = 0.99\n")
    check = build(home)
    assert check.warns and "min_confidence from 0.0 to 0.99" in check.detail
    assert "silence: 20 of 20" in check.detail
    (plan,) = plans.every(home[0].log)
    assert plan.id in check.cure and plan.body.replay.awoken == 20
    assert build(home).warns  # until somebody answers it
    proposals.accept(home[0].log, plan.id, home[0].at)
    assert config.kept_value(home[1], "min_confidence") == 0.0
    assert build(home).passed


def test_an_edit_that_was_meant_is_not_asked_about_again(home: Home):
    build(home)
    edit(home, "min_confidence = 0.99\n")
    build(home)
    (plan,) = plans.every(home[0].log)
    plans.reject(home[0].log, plan.id, home[0].at)
    assert build(home).passed and build(home).passed
    assert config.kept_value(home[1], "min_confidence") == 0.99


@pytest.mark.parametrize("text", ["top_k = 9\n", "port = 7000\nmin_confidence = 0.15\n"])
def test_an_edit_that_keeps_past_answers_passes(home: Home, text: str):
    build(home)
    edit(home, text)
    assert build(home).passed and not plans.every(home[0].log)


def test_what_a_plan_set_is_no_edit_by_hand(home: Home):
    build(home)
    settings = config.load(environ={"MNEMOLOG_HOME": str(home[1])})
    steps = configure_steps(settings, {"min_confidence": "0.99"})
    planned = plans.Planned(job="settings", watermark=home[0].log.head(), steps=steps, looked_at=0)
    plans.apply(home[0].log, plans.propose(home[0].log, planned, home[0].at).id, home[0].at)
    assert build(home).passed
