"""A quick build gives the guarantees of the job: the same manifest, nothing published unchecked."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import pipelines
from pipelines.jobs import runner
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.home.errors import BuildBusy, BuildRefused, NotFound
from store.home.tenant import Tenant, tenant
from store.log import commands
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CANARIES
from store.text import frame

NOW = 1_790_000_000_000_000
ROOT = Path(pipelines.__file__).resolve().parent.parent


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home")


@pytest.fixture
def default(settings: Settings) -> Tenant:
    tenant_ = tenant(settings.home)
    record(tenant_, "we chose SQLite for the log", "tests run on real files", create=True)
    return tenant_


def record(tenant_: Tenant, *contents: str, create: bool = False) -> None:
    with EventLog(tenant_.log, create=create) as log:
        commands.record_batch(log, [commands.Draft(content=content) for content in contents], NOW)


def silent(line: str) -> None:
    pass


def test_a_quick_build_equals_a_full_one_and_continues_the_canaries_trend(settings, default):
    runner.build(settings, "default", silent)
    record(default, "the deploy runs at noon")
    published = runner.build(settings, "default", silent)
    assert (published.number, published.watermark) == (2, 3)
    assert published == manifests.current(default)
    with EventLog(default.log) as log:
        again = build.rebuild(default, log, LexicalEmbedder(), NOW, full=True)
    assert again.digests == published.digests
    *audits, result = published.checks
    assert result.name == CANARIES and all(check.passed for check in published.checks) and audits
    assert [point[1:] for point in result.metadata["trend"]] == [[2, 2], [3, 3]]


def test_a_candidate_that_loses_its_canaries_is_not_served(settings, default, monkeypatch):
    monkeypatch.setattr("serve.evaluation.canaries.FEWEST", 1)
    monkeypatch.setattr("serve.evaluation.canaries.REFUSED_BELOW", 1.1)
    with pytest.raises(BuildRefused, match="canaries: 2 of 2 canaries came back"):
        runner.build(settings, "default", silent)
    assert not default.head.exists()
    refusal = manifests.last_refusal(default)
    assert refusal is not None
    assert refusal.reasons == ["canaries: 2 of 2 canaries came back"]


def test_a_candidate_that_fails_an_audit_is_asked_nothing_and_not_served(
    settings, default, plant, monkeypatch
):
    monkeypatch.setattr(
        "store.maintenance.build.take_out", lambda *arguments: []
    )  # else the build leaves the memory out
    with EventLog(default.log) as log:
        plant(log, "planted", Recorded(content=frame.OPENING))
    steps: list[str] = []
    with pytest.raises(BuildRefused, match="no_self_injection: 1 memory"):
        runner.build(settings, "default", steps.append)
    assert steps[-1] == "publish" and "checks" not in steps
    assert not default.head.exists()


def test_a_build_of_nothing_new_leaves_what_is_served(settings, default):
    first, steps = runner.build(settings, "default", silent), list[str]()
    assert runner.build(settings, "default", steps.append) == first
    assert "vectors" in steps and "checks" not in steps  # files are checked, but no query is run
    assert runner.build(settings, "default", silent, full=True).number == 2
    assert manifests.current(default).number == 2


def test_a_build_of_nothing_new_asks_again_under_other_settings_and_after_a_refusal(
    settings, default, monkeypatch
):
    runner.build(settings, "default", silent)
    other = replace(settings, choices=msgspec.structs.replace(settings.choices, top_k=3))
    assert runner.build(other, "default", silent).number == 2
    assert runner.build(other, "default", silent).number == 2
    with monkeypatch.context() as broken:
        broken.setattr(runner, "code", lambda: "other code")
        assert runner.build(other, "default", silent).number == 3
        broken.setattr(runner, "code", lambda: "worse code")
        broken.setattr("serve.evaluation.canaries.FEWEST", 1)
        broken.setattr("serve.evaluation.canaries.REFUSED_BELOW", 1.1)
        with pytest.raises(BuildRefused):
            runner.build(other, "default", silent)
    assert runner.build(other, "default", silent).number == 4
    assert manifests.last_refusal(default) is None


def test_a_build_of_nothing_new_mends_a_damaged_file(settings, default):
    first = runner.build(settings, "default", silent)
    (damaged,) = first.projections["goals"].files[:1]
    (default.snapshots / damaged.path).write_bytes(b"")
    mended = runner.build(settings, "default", silent)
    assert mended.number == 2 and mended.digests == first.digests
    assert (default.snapshots / mended.projections["goals"].files[0].path).stat().st_size > 0


def test_a_quick_build_waits_its_turn_and_knows_its_tenant(settings, default):
    with build.lock(default), pytest.raises(BuildBusy):
        runner.build(settings, "default", silent)
    with pytest.raises(NotFound):
        runner.build(settings, "nobody", silent)


def test_the_command_builds_without_loading_a_scheduler(settings, default, tmp_path):
    statement = (
        "import sys; sys.argv[1:] = ['build', '--quick', '--json']\n"
        "from pipelines.__main__ import main\n"
        "main()\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    completed = subprocess.run(
        [sys.executable, "-P", "-c", statement],
        cwd=tmp_path,
        env=os.environ | {"MNEMOLOG_HOME": str(settings.home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr
    assert "manifest 1: 2 memories at event 2 in " in completed.stderr
    assert manifests.current(default).watermark == 2
    loaded = set(completed.stderr.splitlines()[-1].split())
    assert loaded.isdisjoint({"dagster", "litellm", "lancedb", "matplotlib", "rich"})
