"""
The guarantees of the jobs: the same manifest as a plain rebuild, nothing published that failed a
check, and a build if and only if a log has new events.
"""

import json
import os
import re
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import dagster as dg
import msgspec
import numpy as np
import pytest
from dagster import DagsterEventType
from job_here import JobHere
from msgspec.structs import replace
from plain_receipt import plain_receipt

import pipelines
from pipelines.orchestration import (
    dagster_home,
    definitions,
    descriptions,
    in_process,
    metadata,
    plots,
)
from pipelines.orchestration.definitions import make_definitions, prune, prune_runs
from pipelines.orchestration.run_resources import PARTITION, retry_or_fail
from serve.evaluation import expectations
from serve.reader.reader import Reader
from serve.recall.request import Asker, RecallRequest, answer
from store.derived import catalog
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Settings
from store.home.errors import BuildBusy, BuildRefused, EmbedderError, NotFound
from store.home.tenant import Tenant, tenant
from store.log import commands, events
from store.log.event_kinds import Surfaced, Undone
from store.log.event_log import EventLog
from store.maintenance import build, quarantine
from store.memories.memory import Memory
from store.snapshots import manifest as manifests
from store.text import frame

NOW = 1_790_000_000_000_000
PROJECTIONS = [projection.name for projection in catalog.all_projections(LexicalEmbedder())]
ROOT = Path(pipelines.__file__).resolve().parent.parent


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home")


@pytest.fixture
def default(settings: Settings) -> Tenant:
    return remember(settings, "default", "we chose SQLite for the log", "tests run on real files")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def served(default: Tenant) -> manifests.Manifest:
    """The published manifest of a plain rebuild; Dagster publishes the same, but slower."""
    with EventLog(default.log) as log:
        return build.rebuild(default, log, LexicalEmbedder(), NOW)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dg.ExecuteInProcessResult:
    """The result of one good build, for tests that only read it."""
    settings = Settings(tmp_path_factory.mktemp("built"))
    remember(settings, "default", "we chose SQLite for the log", "tests run on real files")
    with dg.DagsterInstance.ephemeral() as instance:
        return build_in_process(settings, instance)


def remember(settings: Settings, name: str, *contents: str) -> Tenant:
    tenant_ = tenant(settings.home, name)
    with EventLog(tenant_.log, create=True) as log:
        commands.record_batch(log, [commands.Draft(content=content) for content in contents], NOW)
    return tenant_


def build_in_process(
    settings: Settings, instance: dg.DagsterInstance, name: str = "default", **options: object
) -> dg.ExecuteInProcessResult:
    instance.add_dynamic_partitions("tenants", [name])
    loggers = {"console": in_process.logger(lambda event: None)}
    job = make_definitions(settings, loggers=loggers, lock_wait_s=0.1).resolve_job_def(
        "build_memory"
    )
    return job.execute_in_process(
        run_config={"loggers": {"console": {}}},
        instance=instance,
        partition_key=name,
        raise_on_error=False,
        **options,
    )


def metadata_of(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, object]:
    (materialization,) = result.asset_materializations_for_node(asset)
    return {name: entry.value for name, entry in materialization.metadata.items()}


def look(settings: Settings, instance: dg.DagsterInstance) -> dg.SensorResult:
    with dg.build_sensor_context(
        instance=instance, resources={"memory_home": settings.home}, definitions=None
    ) as context:
        result = definitions.log_head(context)
    assert isinstance(result, dg.SensorResult)
    return result


def run_keys(result: dg.SensorResult) -> list[str | None]:
    return [request.run_key for request in result.run_requests or []]


def jobs(settings: Settings, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -P -m pipelines` as `mnemolog` does."""
    environment = {**os.environ, "MNEMOLOG_HOME": str(settings.home), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-P", "-m", "pipelines", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_definitions_load_without_a_warning(settings):
    dg.Definitions.validate_loadable(make_definitions(settings))


def test_every_asset_says_what_it_is_and_where_it_comes_from(settings):
    graph = make_definitions(settings).resolve_asset_graph()
    nodes = {key: graph.get(key) for key in graph.get_all_asset_keys()}
    for key, node in nodes.items():
        assert node.description and node.owners and node.kinds and node.tags["layer"], key
    served, truth = dg.AssetKey("published_manifest"), dg.AssetKey("event_log")
    assert nodes[served].freshness_policy is not None
    above = graph.get_ancestor_asset_keys(served)
    assert {dg.AssetKey(name) for name in PROJECTIONS} < above
    assert all(truth in graph.get_ancestor_asset_keys(dg.AssetKey(name)) for name in PROJECTIONS)


def test_a_text_in_a_table_is_shown_and_does_nothing():
    cell = metadata.cell("a `b` | ![x](http://evil/y.png)\n<img>\x1b[2J")
    assert cell == "`a 'b' ¦ ![x](http://evil/y.png) <img>[2J`"
    assert metadata.cell("") == ""


def test_dagster_publishes_what_rebuild_publishes(settings, default, instance, tmp_path):
    assert build_in_process(settings, instance).success
    other = Tenant("other", tmp_path / "other")
    with EventLog(default.log) as log:
        plain = build.rebuild(other, log, LexicalEmbedder(), NOW)
    published = manifests.current(default)
    assert published.digests == plain.digests
    audits, results = published.checks[: len(plain.checks)], published.checks[len(plain.checks) :]
    assert audits == plain.checks
    assert [(result.name, result.passed) for result in results] == [
        ("same_model", True),
        ("upgrade", True),
        ("settings", True),
        ("canaries", True),
    ]


def test_second_build_takes_over_what_did_not_change(settings, served, instance):
    result = build_in_process(settings, instance)
    assert {metadata_of(result, name)["reused"] for name in PROJECTIONS} == {True}


def test_full_build_takes_nothing_over(settings, served):
    manifest = in_process.build(settings, "default", lambda event: None, full=True)
    assert manifest.digests == served.digests
    assert all(
        manifest.projections[name].parts != served.projections[name].parts for name in PROJECTIONS
    )


def test_asset_metadata_names_rows_and_inputs(built):
    values = metadata_of(built, "memories")
    assert values["rows"] == {
        "memories": 2,
        "columns": 2,
        "projects": 0,
        "ids": 2,
        "keys": 0,
        "replaced": 0,
        "made_of": 0,
        "edges": 0,
        "episodes": 0,
    }
    assert values["inputs"] == {"log": "2"}
    assert values["bytes"] > 0
    assert values["seconds"] > 0
    assert values["sample"].count("| fact | active |") == 2
    assert metadata_of(built, "goals")["inputs"] == {"memories": values["digest"]}


def test_no_event_of_a_build_quotes_a_memory(built):
    texts = [dg.serialize_value(event) for event in built.all_events]
    assert any("manifest" in event for event in texts)
    assert [event for event in texts if "SQLite" in event or "real files" in event] == []


def test_a_sample_quotes_memories_where_the_settings_ask_for_it(settings, default, instance):
    chosen = Settings(settings.home, Choices(dagster_texts=True))
    result = build_in_process(chosen, instance)
    assert "| `we chose SQLite for the log` |" in metadata_of(result, "memories")["sample"]


def svg_of(plot) -> str:
    text = plot if isinstance(plot, str) else plot.value
    coded = re.search(r"\]\(data:image/svg\+xml;base64,([^)]+)\)", text)
    svg = b64decode(coded[1]).decode()
    ElementTree.fromstring(svg)  # it is well-formed
    return svg


@pytest.mark.parametrize(
    "asset", ["event_log", "memories", "postings", "canaries", "published_manifest"]
)
def test_assets_show_a_plot(built, asset):
    assert "</svg>" in svg_of(metadata_of(built, asset)["plot"])


def test_a_plot_shows_names_figures_and_days_and_escapes_them():
    bars = svg_of(plots.bar_plot("kinds", {"<b>&": 1_234, "fact": 2}))
    assert "&lt;b&gt;&amp;" in bars
    assert "1,234" in bars
    days = svg_of(plots.stacked_plot("by day", [20_000, 20_001], {"recorded": [3, 4], "x": [0, 1]}))
    assert all(text in days for text in ("5 at most", "2024-10-04", "2024-10-05", "recorded"))
    line = svg_of(plots.line_plot("rows", [0, 86_400_000_000], [1, 2.5]))
    assert all(text in line for text in ("2.5 at most, 2.5 last", "1970-01-01", "1970-01-02"))
    ranks = svg_of(plots.rank_plot("terms", np.array([7, 1_000, 1], np.int32)))
    assert "1,000 to 1" in ranks


def test_a_stack_of_many_names_sums_those_without_a_colour():
    names = {f"kind {number}": [1] for number in range(20)}
    stack = svg_of(plots.stacked_plot("by day", [0], names))
    assert "kind 6" in stack
    assert "kind 7" not in stack
    assert ">other<" in stack
    assert "20 at most" in stack


def test_empty_plots_say_nothing_yet():
    for plot in (
        plots.bar_plot("empty", {}),
        plots.stacked_plot("empty", [], {}),
        plots.line_plot("empty", [], []),
        plots.rank_plot("empty", np.empty(0, np.int32)),
    ):
        assert "nothing yet" in svg_of(plot)


def test_a_plot_of_one_value_has_no_length():
    assert 'cx="260.0"' in svg_of(plots.line_plot("rows", [5], [0]))
    assert "3 to 3" in svg_of(plots.rank_plot("terms", np.array([3], np.int32)))


def test_memories_that_are_forgotten_are_in_no_bar(settings, default, instance, monkeypatch):
    drawn: dict[str, dict[str, int]] = {}
    bars = metadata.bar_plot
    monkeypatch.setattr(
        metadata,
        "bar_plot",
        lambda title, counts: drawn.update({title: counts}) or bars(title, counts),
    )
    kinds = {"chosen": "decision", "liked": "preference", "again": "decision", "fixed": "bugfix"}
    drafts = [commands.Draft(content=id_, kind=kind, id=id_) for id_, kind in kinds.items()]
    with EventLog(default.log) as log:
        commands.record_batch(log, drafts, NOW)
        commands.forget(log, "fixed", NOW)
    build_in_process(settings, instance)
    assert drawn["active memories by kind"] == {"fact": 2, "decision": 2, "preference": 1}


def test_each_manifest_adds_a_point_to_the_growth_plot(settings, default, instance, monkeypatch):
    drawn: dict[str, list[list[float]]] = {}
    line = metadata.line_plot
    monkeypatch.setattr(
        metadata,
        "line_plot",
        lambda title, at, ys: drawn.setdefault(title, []).append(ys) or line(title, at, ys),
    )
    build_in_process(settings, instance)
    remember(settings, "default", "a third memory of something")
    build_in_process(settings, instance)
    assert drawn["memories in each published manifest"] == [[2], [2, 3]]


def test_failing_check_leaves_what_is_served(settings, default, served, instance, plant):
    before = default.head.read_bytes()
    with EventLog(default.log) as log:
        plant(log, "planted", events.Recorded(content=frame.OPENING))
    result = build_in_process(settings, instance)
    assert not result.success
    assert default.head.read_bytes() == before
    steps = [event.step_key for event in result.get_asset_materialization_events()]
    of_the_log_alone = {
        projection.name
        for projection in catalog.all_projections(LexicalEmbedder())
        if set(projection.inputs) <= {"log"}
    }
    assert {*steps} == {"event_log", *of_the_log_alone} - {"memories"} > {"lessons"}


def test_every_asset_check_table_and_column_says_what_it_is(settings):
    defs = make_definitions(settings)
    graph = defs.resolve_asset_graph()
    assert all(graph.get(key).description for key in graph.get_all_asset_keys())
    assert all(graph.get(key).description for key in graph.asset_check_keys)
    for projection in catalog.all_projections(LexicalEmbedder()):
        schemas = descriptions.column_schemas(projection).values()
        columns = (column for schema in schemas for column in schema.columns)
        silent = [column.name for column in columns if not column.description]
        assert [name for name in silent if name not in Memory.__struct_fields__] == []
        text = descriptions.describe(projection)
        assert [name for name in projection.schemas if f"- `{name}`: " not in text] == []


def test_failing_check_is_seen_in_the_ui_and_in_status(settings, default, instance, plant):
    with EventLog(default.log) as log:
        plant(log, "planted", events.Recorded(content=frame.OPENING))
    result = build_in_process(settings, instance)
    logged = instance.all_logs(result.run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION)
    failed = [
        event.dagster_event.asset_check_evaluation_data
        for event in logged
        if event.dagster_event and not event.dagster_event.asset_check_evaluation_data.passed
    ]
    assert [(check.check_name, check.blocking) for check in failed] == [("no_self_injection", True)]
    refusal = manifests.last_refusal(default)
    assert refusal is not None
    assert refusal.reasons == [f"no_self_injection: {failed[0].description}"]


def test_a_build_runs_again_without_a_memory_that_alone_failed(settings, default, plant):
    with EventLog(default.log) as log:
        plant(log, "planted", events.Recorded(content=frame.OPENING))
    published = in_process.build(settings, "default", lambda event: None)
    with EventLog(default.log) as log:
        assert published.watermark == log.head()
        assert [entry.id for entry in quarantine.entries(log)] == ["planted"]
    with dagster_home.instance(settings) as instance:
        runs = instance.get_runs()
        assert [run.status for run in runs] == [
            dg.DagsterRunStatus.SUCCESS,
            dg.DagsterRunStatus.FAILURE,
        ]
        key = dg.AssetKey("published_manifest")
        values = instance.get_latest_materialization_event(key).asset_materialization.metadata
        assert values["quarantined"].value.startswith("- planted: no_self_injection: 1 memory")
        logged = instance.all_logs(runs[1].run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION)
        (failed,) = [
            event.dagster_event.asset_check_evaluation_data
            for event in logged
            if not event.dagster_event.asset_check_evaluation_data.passed
        ]
        assert failed.metadata["quarantined"].value == ["planted"]


def lose_canaries(monkeypatch: pytest.MonkeyPatch, floor: str) -> None:
    """Set a floor that two recalled canaries do not reach."""
    monkeypatch.setattr("serve.evaluation.canaries.FEWEST", 1)
    monkeypatch.setattr(f"serve.evaluation.canaries.{floor}", 1.1)


def test_build_that_loses_most_canaries_is_not_served(settings, default, monkeypatch):
    with monkeypatch.context() as patch:
        lose_canaries(patch, "REFUSED_BELOW")
        with pytest.raises(BuildRefused, match="canaries: 2 of 2 canaries came back"):
            in_process.build(settings, "default", lambda event: None)
    assert not default.head.exists()
    refusal = manifests.last_refusal(default)
    assert refusal is not None
    assert refusal.reasons == ["canaries: 2 of 2 canaries came back"]


def test_build_that_loses_some_canaries_is_served_with_a_warning(
    settings, default, instance, monkeypatch
):
    lose_canaries(monkeypatch, "DOUBTED_BELOW")
    result = build_in_process(settings, instance)
    assert result.success
    checks = {
        evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()
    }
    canaries = checks["canaries"]
    assert (canaries.passed, canaries.severity) == (False, dg.AssetCheckSeverity.WARN)
    build_in_process(settings, instance)
    check = manifests.current(default).checks[-1]
    assert check.passed
    assert [point[1:] for point in check.metadata["trend"]] == [[2, 2], [2, 2]]


def test_a_pinned_question_that_fails_is_a_warning_of_the_canaries(settings, default, instance):
    with EventLog(default.log) as log:
        id_ = log.ids_with_prefix("", 1)[0]
        expectations.expect(log, "what was recorded first?", id_, None, NOW)
        commands.forget(log, id_, NOW)
    result = build_in_process(settings, instance)
    checks = {
        evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()
    }
    check = checks["expected"]
    assert result.success and (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert id_ in check.metadata["missed"].value and "first" not in check.metadata["missed"].value


def test_refused_step_is_not_tried_again(settings, default, instance, plant):
    with EventLog(default.log) as log:
        plant(log, "planted", events.Recorded(content=frame.OPENING))
    result = build_in_process(settings, instance)
    assert not [event for event in result.all_events if event.is_step_up_for_retry]


def test_candidate_with_a_part_missing_is_not_published(settings, default, instance):
    result = build_in_process(
        settings, instance, asset_selection=[dg.AssetKey("published_manifest")]
    )
    assert not result.success
    assert not default.head.exists()
    refusal = manifests.last_refusal(default)
    assert refusal is not None
    assert "whole_candidate" in refusal.reasons[0]


def test_only_a_passing_failure_is_worth_a_retry():
    with pytest.raises(dg.RetryRequested), retry_or_fail(0):
        raise EmbedderError("no answer")
    with pytest.raises(dg.Failure) as refused, retry_or_fail(0):
        raise BuildRefused("no_secrets: 1 secrets")
    assert refused.value.allow_retries is False


def test_step_is_tried_again_when_the_model_did_not_answer(
    settings, default, instance, monkeypatch
):
    step, errors = build.step, [EmbedderError("no answer")]

    def failing_once(made, projection, report):
        if projection.name == "vectors" and errors:
            raise errors.pop()
        return step(made, projection, report)

    monkeypatch.setattr(build, "step", failing_once)
    result = build_in_process(settings, instance)
    assert result.success
    assert [event.step_key for event in result.all_events if event.is_step_up_for_retry] == [
        "vectors"
    ]


def test_interrupted_build_stops(settings, default, monkeypatch):
    def interrupted(made, projection, report):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_process.build(settings, "default", lambda event: None)
    with dagster_home.instance(settings) as instance:
        assert instance.get_runs()[0].is_finished


def test_a_concurrent_build_is_refused(settings, default):
    with build.lock(default), pytest.raises(BuildBusy, match="another build of default"):
        in_process.build(settings, "default", lambda event: None, wait_s=0.1)
    assert not default.head.exists()


def test_run_without_a_tenant_says_what_is_missing(settings):
    with pytest.raises(NotFound, match="nobody"):
        in_process.build(settings, "nobody", lambda event: None)


def test_sensor_adds_tenants_and_asks_for_their_builds(settings, default, instance):
    remember(settings, "work", "another tenant's only memory")
    result = look(settings, instance)
    assert run_keys(result) == ["default:2", "work:1"]
    (added,) = result.dynamic_partitions_requests or []
    assert list(added.partition_keys) == ["default", "work"]


def test_sensor_is_still_when_nothing_changed(settings, served, instance):
    instance.add_dynamic_partitions("tenants", ["default"])
    result = look(settings, instance)
    assert run_keys(result) == []
    assert not result.dynamic_partitions_requests


def test_sensor_asks_once_for_each_mark(settings, served, instance):
    remember(settings, "default", "a third memory of something")
    assert run_keys(look(settings, instance)) == run_keys(look(settings, instance)) == ["default:3"]


def test_recalls_alone_start_no_build(settings, default, served, instance):
    with EventLog(default.log) as log:
        log.append([events.Event("receipt", NOW, plain_receipt(), "receipt")])
    assert run_keys(look(settings, instance)) == []


def test_sensor_leaves_a_tenant_alone_while_it_is_built(settings, default, instance):
    with build.lock(default):
        assert run_keys(look(settings, instance)) == []
    assert run_keys(look(settings, instance)) == ["default:2"]


def test_damaged_log_hides_no_other_tenant(settings, default, instance):
    remember(settings, "broken", "soon to be lost").log.write_bytes(b"no database" * 1_000)
    assert run_keys(look(settings, instance)) == ["default:2"]


def test_sensor_reports_a_killed_run(settings, default, instance, monkeypatch):
    killed = dg.DagsterRun(
        "build_memory", status=dg.DagsterRunStatus.STARTED, tags={PARTITION: "default"}
    )
    instance.add_run(killed)
    look(settings, instance)
    assert not instance.get_run_by_id(killed.run_id).is_finished
    monkeypatch.setattr(definitions, "DEAD_AFTER_S", -1)
    look(settings, instance)
    assert instance.get_run_by_id(killed.run_id).is_failure


def test_every_tenant_is_built_by_night(settings, default):
    remember(settings, "work", "another tenant's only memory")
    at = datetime(2026, 11, 20, 3, 30)
    with (
        dagster_home.instance(settings) as instance,
        dg.build_schedule_context(instance, at, {"memory_home": settings.home}) as context,
    ):
        requests = list(definitions.nightly(context))
        assert [request.run_key for request in requests] == [
            "default:2026-11-20",
            "work:2026-11-20",
        ]
        assert set(instance.get_dynamic_partitions("tenants")) == {"default", "work"}


def test_past_recalls_are_asked_again_and_one_that_changed_is_a_warning(
    settings, default, instance
):
    with EventLog(default.log) as log:
        reader = Reader(default, log, LexicalEmbedder())
        for at, query in enumerate(("what did we choose for the log", "what do tests run on"), NOW):
            request = RecallRequest(query=query)
            receipt = answer(reader, request, Choices(), at, Asker(door="mcp"))[1]
            assert receipt is not None
            log.append([receipt])
        other = msgspec.structs.replace(receipt.body, digest="0" * 16)
        log.append([replace(receipt, id="changed", subject="changed", body=other)])
    instance.add_dynamic_partitions("tenants", ["default"])
    loggers = {"console": in_process.logger(lambda event: None)}
    result = (
        make_definitions(settings, loggers=loggers)
        .resolve_job_def("replay_recalls")
        .execute_in_process(
            {"loggers": {"console": {}}}, instance=instance, partition_key="default"
        )
    )
    (check,) = result.get_asset_check_evaluations()
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description.startswith("2 of 3 recalls are as they were")
    values = metadata_of(result, "past_recalls")
    assert (values["as they were"], values["changed recalls"]) == (2, "- changed")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dg.ExecuteInProcessResult:
    """The result of one run of the check set."""
    return ask_check_set(Settings(tmp_path_factory.mktemp("checked")))


def ask_check_set(settings: Settings) -> dg.ExecuteInProcessResult:
    loggers = {"console": in_process.logger(lambda event: None)}
    with dg.DagsterInstance.ephemeral() as instance:
        job = make_definitions(settings, loggers=loggers).resolve_job_def("check_recall")
        return job.execute_in_process({"loggers": {"console": {}}}, instance=instance)


def test_recall_answers_the_check_set(checked):
    (check,) = checked.get_asset_check_evaluations()
    assert (check.check_name, check.passed, check.blocking) == ("above_the_floor", True, False)
    assert check.description == "every figure is above its floor"
    values = metadata_of(checked, "recall_quality")
    assert values["recall@5"] > values["mrr@10"] > 0.5
    # not 0, because "run the tests again" recalls how they are run
    assert values["false injections"] < 0.05
    assert "| zh | 10 |" in values["figures"]
    assert "| small talk | 0% |" in values["figures"]
    assert "</svg>" in svg_of(values["plot"])


def test_recall_below_its_floor_is_a_warning_and_says_which(settings, tmp_path):
    choices = Choices(min_confidence=0.0, fusion="rrf")
    strict = Settings(settings.home, choices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("serve.evaluation.selftest.LEAST_MRR", 1.01)
        patch.setattr("serve.evaluation.selftest.MOST_INJECTED", -0.01)
        result = ask_check_set(strict)
    (check,) = result.get_asset_check_evaluations()
    assert result.success
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "mrr@10 of the project is" in check.description
    assert "should return nothing return something" in check.description
    assert not settings.home.exists()


def test_prune_leaves_the_newest_runs_and_no_files_of_others(settings):
    with dagster_home.instance(settings) as instance:
        for _ in range(3):
            prune_runs.execute_in_process(instance=instance)
        newest = instance.get_run_records(limit=1)[0].dagster_run.run_id
        assert len(prune(instance, days=0, keep=1)) == 2
        assert [run.run_id for run in instance.get_runs()] == [newest]
    runs = settings.dagster_home / "history" / "runs"
    assert {path.stem for path in runs.glob("*.db")} == {"index", newest}


def test_prune_keeps_young_runs_and_each_tenants_last_good_one(settings, default):
    in_process.build(settings, "default", lambda event: None)
    with dagster_home.instance(settings) as instance:
        for _ in range(2):
            prune_runs.execute_in_process(instance=instance)
        assert prune(instance, days=7, keep=0) == []
        prune(instance, days=0, keep=1)
        job_names = [run.job_name for run in instance.get_runs()]
    assert job_names == ["prune_runs", "build_memory"]


def test_nothing_is_sent_anywhere(settings):
    with dagster_home.instance(settings) as instance:
        assert not instance.telemetry_enabled


def test_dagsters_settings_are_written_once(settings):
    chosen = dagster_home.prepare_home(settings) / "dagster.yaml"
    chosen.write_text("telemetry: {enabled: false}\n")
    dagster_home.prepare_home(settings)
    assert chosen.read_text() == "telemetry: {enabled: false}\n"


def test_build_command_answers_in_json_from_a_hostile_folder(settings, default, tmp_path):
    hostile = tmp_path / "clone"
    for name in ("store", "serve", "pipelines"):
        (hostile / name).mkdir(parents=True)
        (hostile / name / "__init__.py").write_text("raise SystemExit('hostile')\n")
    before = sorted(hostile.rglob("*"))
    completed = jobs(settings, "build", "--tenant", "default", "--json", cwd=hostile)
    assert completed.returncode == 0, completed.stderr
    payload = json.loads(completed.stdout)
    assert (payload["manifest"], payload["watermark"], payload["rows"]) == (1, 2, 2)
    assert {name: projection["digest"] for name, projection in payload["projections"].items()} == (
        manifests.current(default).digests
    )
    assert all(check["passed"] for check in payload["checks"])
    assert "manifest 1: 2 memories at event 2 in " in completed.stderr
    assert "DEBUG" not in completed.stderr
    assert sorted(hostile.rglob("*")) == before


def test_refused_build_command_names_every_failed_check(settings, default, capsys):
    surfaced = events.Event("shown", NOW, Surfaced(place="prompt"), "nobody")
    with EventLog(default.log) as log:  # the log counts it as shown, the build does not
        log.append([surfaced, events.Event("undone", NOW, Undone(events=("shown",)), "undone")])
    assert JobHere(settings, "build", "--json").wait() == 1
    output = capsys.readouterr()
    assert "lessons_match_log: 0 times shown" in output.err
    assert "Traceback" not in output.err
    assert json.loads(output.out)["error"]["code"] == "build_refused"


def test_busy_build_command_says_try_later(settings, default, capsys):
    with build.lock(default):
        assert JobHere(settings, "build", "--wait", "0.5").wait() == 75
    assert "another build of default is running" in capsys.readouterr().err.splitlines()[-1]


def test_two_tenants_are_built_at_the_same_time(settings, tmp_path):
    tenants = [remember(settings, name, f"what {name} remembers") for name in ("one", "two")]
    with ThreadPoolExecutor() as pool, dagster_home.instance(settings) as instance:
        with build.lock(tenants[0]), build.lock(tenants[1]):  # both must begin before one ends
            arguments = [
                ("build", "--tenant", tenant_.name, "--wait", "100") for tenant_ in tenants
            ]
            jobs_of = [
                pool.submit(jobs, settings, *argument, cwd=tmp_path) for argument in arguments
            ]
            under_way = wait_for_runs(instance, 2)
        finished = [job.result() for job in jobs_of]
        runs = {run.run_id: run.status for run in instance.get_runs()}
    assert [completed.returncode for completed in finished] == [0, 0], finished
    assert {run.tags[PARTITION] for run in under_way} == {"one", "two"}
    assert runs == {run.run_id: dg.DagsterRunStatus.SUCCESS for run in under_way}
    assert [manifests.current(tenant_).number for tenant_ in tenants] == [1, 1]


def wait_for_runs(instance: dg.DagsterInstance, count: int) -> list[dg.DagsterRun]:
    """Return the started runs as soon as there are `count` of them."""
    started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    deadline = time.monotonic() + 240
    while len(runs := list(instance.get_runs(started))) < count:
        assert time.monotonic() < deadline, f"{len(runs)} of {count} runs have started"
        time.sleep(0.1)
    return runs


def test_unknown_tenant_is_one_line(settings, default, capsys):
    assert JobHere(settings, "build", "--tenant", "nobody").wait() == 1
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "no tenant 'nobody'" in stderr
