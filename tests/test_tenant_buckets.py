"""Builds of many tenants in one run: what is built, recorded and checked, and whose turn it is."""

from collections.abc import Iterator
from datetime import datetime

import dagster as dg
import pytest
from dagster import DagsterEventType
from test_pipelines import NOW, PROJECTIONS, look, remember, run_keys

from pipelines.jobs import runner
from pipelines.orchestration import definitions, tenant_buckets
from pipelines.orchestration.definitions import make_definitions
from serve.evaluation import expectations
from store.embedders.lexical import LexicalEmbedder
from store.home import failures
from store.home.config import Choices, Settings
from store.home.tenant import Tenant, tenant
from store.log import commands
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CANARIES, CheckResult

NAMES = [f"team-{number}" for number in range(5)]


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(tmp_path / "home")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def tenants(settings) -> list[Tenant]:
    return [remember(settings, name, f"what {name} knows", "and more of it") for name in NAMES]


def run(settings: Settings, instance: dg.DagsterInstance, *names: str) -> dg.ExecuteInProcessResult:
    job = make_definitions(settings).resolve_job_def("build_tenants")
    (request,) = [tenant_buckets.request([*names], "key")]
    return job.execute_in_process(
        run_config=request.run_config, instance=instance, raise_on_error=False
    )


def buckets(result: dg.SensorResult) -> list[list[str]]:
    return [
        request.run_config["ops"]["build_bucket"]["config"]["tenants"]
        for request in result.run_requests or []
        if request.job_name == "build_tenants"
    ]


def materialized(instance: dg.DagsterInstance, asset: str) -> set[str]:
    return instance.get_materialized_partitions(dg.AssetKey(asset))


def test_many_tenants_with_something_new_share_a_run(settings, tenants, instance, monkeypatch):
    assert buckets(look(settings, instance)) == [NAMES]
    monkeypatch.setattr(tenant_buckets, "SIZE", 4)
    assert buckets(look(settings, instance)) == [NAMES[:4], NAMES[4:]]


def test_few_tenants_with_something_new_get_runs_of_their_own(settings, instance):
    for name in NAMES[:4]:
        remember(settings, name, f"what {name} knows")
    result = look(settings, instance)
    assert run_keys(result) == [f"{name}:1" for name in NAMES[:4]]
    assert {request.job_name for request in result.run_requests or []} == {"build_memory"}


def test_who_was_built_longest_ago_comes_first(settings, tenants, instance):
    for place, name in enumerate(("team-4", "team-0")):
        owner = tenant(settings.home, name)
        with EventLog(owner.log) as log:
            build.rebuild(owner, log, LexicalEmbedder(), NOW + place)
        remember(settings, name, "something new")
    assert buckets(look(settings, instance)) == [[*NAMES[1:4], "team-4", "team-0"]]


def test_a_bucket_builds_each_tenant_as_a_build_of_its_own_does(settings, tenants, instance):
    result = run(settings, instance, *NAMES)
    assert result.success
    for owner in tenants:
        published = manifests.current(owner)
        with EventLog(owner.log) as log:
            again = build.rebuild(owner, log, LexicalEmbedder(), NOW, full=True)
        assert published.digests == again.digests
    assert buckets(look(settings, instance)) == []


def test_a_bucket_records_the_assets_and_checks_of_each_tenant(settings, tenants, instance):
    run(settings, instance, *NAMES)
    for asset in ("event_log", *PROJECTIONS, CANARIES, "published_manifest"):
        assert materialized(instance, asset) == {*NAMES}, asset
    event = instance.get_latest_materialization_event(dg.AssetKey("memories"))
    assert event and event.asset_materialization
    assert event.asset_materialization.metadata["dagster/row_count"].value == 2
    declared = {
        (key.asset_key.to_user_string(), key.name)
        for key in make_definitions(settings).resolve_asset_graph().asset_check_keys
    }
    recorded = {
        (check.asset_key.to_user_string(), check.check_name, check.partition)
        for check in checks_of(instance)
    }
    assert {check[:2] for check in recorded} <= declared
    assert {check[2] for check in recorded} == {*NAMES}
    assert all(check.passed for check in checks_of(instance))


def checks_of(instance: dg.DagsterInstance) -> list[dg.AssetCheckEvaluation]:
    (newest, *_) = instance.get_runs()
    return [
        record.event_log_entry.dagster_event.asset_check_evaluation_data
        for record in instance.get_records_for_run(
            newest.run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION
        ).records
    ]


def test_a_bucket_with_nothing_new_records_nothing(settings, tenants, instance):
    run(settings, instance, *NAMES)
    result = run(settings, instance, *NAMES)
    assert result.success
    types = {event.event_type for event in result.all_events}
    assert DagsterEventType.ASSET_MATERIALIZATION not in types
    assert manifests.current(tenants[0]).number == 1


def test_without_names_every_tenant_is_built(settings, tenants, instance):
    job = make_definitions(settings).resolve_job_def("build_tenants")
    assert job.execute_in_process(instance=instance).success
    assert all(manifests.current(owner).number == 1 for owner in tenants)
    assert set(instance.get_dynamic_partitions("tenants")) == {*NAMES}


def test_no_event_of_a_bucket_quotes_a_memory(settings, tenants, instance):
    with EventLog(tenants[0].log) as log:
        id_ = log.ids_with_prefix("", 1)[0]
        expectations.expect(log, "what was recorded first?", id_, None, NOW)
        commands.forget(log, id_, NOW)
    result = run(settings, instance, *NAMES)
    (pinned,) = [check for check in checks_of(instance) if check.check_name == "expected"]
    assert not pinned.passed and pinned.severity is dg.AssetCheckSeverity.WARN
    texts = [dg.serialize_value(event) for event in result.all_events]
    assert any("manifest" in event for event in texts)
    assert [event for event in texts if "knows" in event or "recorded first" in event] == []


def test_a_tenant_that_fails_stops_no_other(settings, tenants, instance):
    tenants[1].log.write_bytes(b"no database" * 1_000)
    result = run(settings, instance, *NAMES)
    assert not result.success
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert "1 of 5 tenants were not built: team-1" in str(failed.event_specific_data)
    assert materialized(instance, "published_manifest") == {*NAMES} - {"team-1"}
    (failure,) = failures.every(tenants[1].root)
    assert failure.what == "build_tenants" and failure.run == result.run_id


def test_a_tenant_that_failed_rests_and_then_is_tried_again(
    settings, tenants, instance, monkeypatch
):
    failures.keep(tenants[1].root, "build_tenants", definitions.wall_clock(), "a full disk")
    assert buckets(look(settings, instance)) == [[NAMES[0], *NAMES[2:]]]
    monkeypatch.setattr(tenant_buckets, "REST_S", 0.001)
    assert buckets(look(settings, instance)) == [NAMES]
    run(settings, instance, *NAMES)
    assert not list(failures.every(tenants[1].root))


def test_a_refused_tenant_shows_why_and_rests_until_something_is_new(
    settings, tenants, instance, monkeypatch
):
    def ask(choices: Choices, candidate: build.Build) -> list[CheckResult]:
        is_fine = candidate.tenant.name != "team-2"
        return [CheckResult(CANARIES, is_fine, "most are lost", CANARIES)]

    monkeypatch.setattr(runner, "_ask_canaries", ask)
    assert not run(settings, instance, *NAMES).success
    (failed,) = [check for check in checks_of(instance) if not check.passed]
    assert (failed.partition, failed.check_name) == ("team-2", CANARIES)
    assert failed.description == "most are lost"
    for name in (*NAMES[:2], *NAMES[3:]):
        remember(settings, name, "something new")
    assert buckets(look(settings, instance)) == [[*NAMES[:2], *NAMES[3:]]]
    remember(settings, "team-2", "something new")
    assert "team-2" in buckets(look(settings, instance))[0]


def test_tenants_of_a_bucket_that_waits_are_not_requested_again(settings, tenants, instance):
    (request,) = look(settings, instance).run_requests or []
    waiting = dg.DagsterRun(
        "build_tenants", run_config=request.run_config, status=dg.DagsterRunStatus.NOT_STARTED
    )
    instance.add_run(waiting)
    for number in range(5):
        remember(settings, f"late-{number}", "a newcomer")
    remember(settings, "team-0", "something new")
    assert buckets(look(settings, instance)) == [[f"late-{number}" for number in range(5)]]


def test_a_killed_bucket_is_reported_and_its_tenants_requested_again(
    settings, tenants, instance, monkeypatch
):
    (request,) = look(settings, instance).run_requests or []
    killed = dg.DagsterRun(
        "build_tenants", run_config=request.run_config, status=dg.DagsterRunStatus.STARTED
    )
    instance.add_run(killed)
    monkeypatch.setattr(definitions, "DEAD_AFTER_S", -1)
    with tenant_buckets._lock(settings.home, killed.run_id):
        assert buckets(look(settings, instance)) == []
    assert buckets(look(settings, instance)) == [NAMES]
    assert instance.get_run_by_id(killed.run_id).is_failure


def test_many_tenants_are_built_by_night_in_buckets(settings, tenants, instance):
    at = datetime(2026, 11, 20, 3, 30)
    with dg.build_schedule_context(instance, at, {"memory_home": settings.home}) as context:
        (request,) = definitions.nightly_tenants(context)
        assert request.run_key == "team-0:2026-11-20"
        assert isinstance(definitions.nightly(context), dg.SkipReason)
        for owner in tenants[4:]:
            owner.root.rename(settings.home / owner.name)
        assert isinstance(definitions.nightly_tenants(context), dg.SkipReason)
