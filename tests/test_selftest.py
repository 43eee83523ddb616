"""The selftest: an intact memory passes and nothing is written; each fault is named."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from serve.cli import main
from serve.evaluation import canaries
from serve.evaluation.canaries import Canary, Outcome
from serve.evaluation.selftest import Selftest, selftest
from serve.hooks import prompt, speaking
from store.agents.prompt_classifier import Reading
from store.embedders.embedder import SilentEmbedder
from store.home.config import Choices, Settings
from store.log import integrity
from store.log.commands import Draft
from store.log.commands import record as remember
from store.log.event_kinds import Forgotten
from store.log.log_head import Gap
from store.maintenance.checkup import checkup
from store.memories.fold import Fold
from store.snapshots import manifest as manifests
from store.snapshots.manifest import Manifest

NOW = 1_790_000_000_000_000
ALL = {"log", "recall", "trend", "vectors", "round trip", "silence"}


def tried(built, embedder=None, manifest: Manifest | None = None) -> Selftest:
    model = embedder or built.embedder
    return selftest(
        built.tenant, built.log, manifest or built.manifest, model, Choices(), NOW + 1_000_000
    )


def failed(selftest: Selftest) -> dict[str, str]:
    return {probe.name: probe.detail for probe in selftest.probes if not probe.ok}


def with_builds(manifest: Manifest, *outcomes: Outcome) -> Manifest:
    """Return the manifest as the last of several builds with these canary outcomes."""
    for at, outcome in enumerate(outcomes):
        check = canaries.result(outcome, at, manifest)
        values = {name: getattr(manifest, name) for name in Manifest.__struct_fields__}
        manifest = Manifest(**values | {"checks": (check,)})
    return manifest


def missing(count: int) -> Outcome:
    return Outcome(30, (Canary("a", "b"),) * count)


def test_an_intact_memory_passes_and_nothing_is_written(built):
    before, files = built.log.head(), sorted(built.tenant.root.rglob("*.json"))
    checks = tried(built)
    assert {probe.name for probe in checks.probes} == ALL
    assert failed(checks) == {}
    assert built.log.head() == before
    assert sorted(built.tenant.root.rglob("*.json")) == files


def test_a_damaged_event_is_named(built, tamper):
    tamper(built.tenant.log, "UPDATE events SET body = replace(body, 'Redis', 'Rabbit')")
    failures = failed(tried(built))
    assert "hash" in failures["log"] or "event" in failures["log"]


def test_events_that_are_missing_are_counted(built, tamper):
    tamper(built.tenant.log, "DELETE FROM events WHERE seq IN (3, 4)")
    head = built.log.head()
    assert failed(tried(built))["log"] == f"2 of the newest {head} events are missing"


def test_events_recorded_as_lost_are_not_missing(built):
    head = built.log.head()
    integrity.state_gap(built.log, Gap(head + 1, head + 3), NOW)
    assert "log" not in failed(tried(built))


def test_a_model_that_is_away_or_another_is_named(built):
    away = SilentEmbedder(built.embedder.model, built.embedder.dimension, "nobody there")
    assert "nobody there" in failed(tried(built, away))["vectors"]
    other = SilentEmbedder("other", 8, "nobody there")
    assert "were made by" in failed(tried(built, other))["vectors"]


def test_a_vector_of_another_length_is_named(built, monkeypatch):
    embed = type(built.embedder).embed
    monkeypatch.setattr(
        type(built.embedder), "embed", lambda self, texts: np.float32(2) * embed(self, texts)
    )
    assert "of length 2.000" in failed(tried(built))["vectors"]


def test_a_forgotten_memory_that_still_comes_back_is_noticed(built, monkeypatch):
    apply = Fold.apply
    monkeypatch.setattr(
        Fold,
        "apply",
        lambda self, event: () if isinstance(event.body, Forgotten) else apply(self, event),
    )
    assert (
        failed(tried(built))["round trip"] == "a memory that was just forgotten is still recalled"
    )


def test_a_hook_that_answers_small_talk_is_noticed(built, monkeypatch):
    remember(built.log, Draft(content="thanks, that looks great: what the reviewer says"), NOW)
    manifest = built.rebuild()
    monkeypatch.setattr(prompt, "read_intent", lambda text, before: Reading("work"))
    sure = replace(speaking.MODELS["note"], bar=0.0)
    monkeypatch.setattr(speaking, "MODELS", dict.fromkeys(speaking.MODELS, sure))
    assert "'thanks, that looks great'" in failed(tried(built, manifest=manifest))["silence"]


@pytest.mark.parametrize(
    ("before", "now", "fell"),
    [
        ((0, 0, 0, 0), 3, True),  # 27 of 30 after 120 of 120
        ((0, 0, 0, 0), 1, False),
        ((3, 3, 3, 3), 4, False),  # it was never better
        ((), 9, False),  # no earlier builds
    ],
)
def test_a_fall_is_distinguished_from_chance_by_earlier_builds(built, before, now, fell):
    manifest = with_builds(built.manifest, *map(missing, before))
    check = canaries.check_of(manifest) if before else None
    trend = canaries.trend(check) if check else ()
    assert canaries.has_fallen(missing(now), trend) is fell


def test_doctor_and_status_report_a_fall(built, home):
    fallen = with_builds(built.manifest, *map(missing, (0, 0, 0, 0, 3)))
    manifests.publish(built.tenant, fallen)
    (finding,) = [finding for finding in checkup(Settings(home)) if "canaries" in finding.what]
    assert finding.severity == "warn"
    assert finding.what.endswith("significantly fewer than in the builds before")
    text = CliRunner().invoke(main, ["status"]).stdout
    assert "recall    27 of 30 canaries came back" in text


def test_the_command_lists_its_probes_without_a_server(built):
    result = CliRunner().invoke(main, ["selftest"])
    assert result.exit_code == 0, result.output
    assert (
        "ok      round trip: written, recalled, forgotten, and no longer recalled" in result.stdout
    )
    payload = json.loads(CliRunner().invoke(main, ["selftest", "--json"]).stdout)
    assert payload["ok"] and {probe["name"] for probe in payload["probes"]} == ALL


def test_the_command_fails_with_any_probe(built, tamper):
    tamper(built.tenant.log, "DELETE FROM events WHERE seq = 3")
    result = CliRunner().invoke(main, ["selftest", "--json"])
    assert result.exit_code == 1
    assert not json.loads(result.stdout)["ok"]


def test_before_the_first_build_a_temporary_memory_is_tested(tmp_path, monkeypatch):
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "fresh"))
    result = CliRunner().invoke(main, ["selftest"])
    assert result.exit_code == 0, result.output
    assert "nothing is built here yet" in result.stderr
    assert "ok      recall: 3 of 3 canaries came back" in result.stdout
    assert not (tmp_path / "fresh").exists()
    assert CliRunner().invoke(main, ["--tenant", "none", "selftest"]).exit_code == 3
