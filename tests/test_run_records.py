"""Runs in our own process leave the records Dagster's would, and close their files at the end."""

import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

from pipelines.orchestration import dagster_home
from pipelines.orchestration.definitions import prune_runs
from pipelines.orchestration.run_records import EventLog, with_open_files
from store.home.config import Settings


@dg.asset(check_specs=[dg.AssetCheckSpec("is_even", asset="answer")])
def answer():
    yield dg.MaterializeResult(
        metadata={"value": 42}, check_results=[dg.AssetCheckResult(passed=True)]
    )


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home")


def test_dagsters_own_storages_read_what_a_run_wrote(settings):
    with dagster_home.instance(settings) as ours:
        run = dg.materialize([answer], instance=ours).run_id
    plain = InstanceRef.from_dir(str(dagster_home.prepare_home(settings)))
    with dg.DagsterInstance.from_ref(plain) as theirs:
        assert type(theirs.event_log_storage) is SqliteEventLogStorage
        assert [run.status for run in theirs.get_runs()] == [dg.DagsterRunStatus.SUCCESS]
        kinds = [entry.dagster_event.event_type_value for entry in theirs.all_logs(run)]
        assert kinds.count("ASSET_MATERIALIZATION") == kinds.count("ASSET_CHECK_EVALUATION") == 1
        materialization = theirs.get_latest_materialization_event(dg.AssetKey("answer"))
        assert materialization.asset_materialization.metadata["value"].value == 42
        # and the reverse: the next run continues from Dagster's records
        dg.materialize([answer], instance=theirs)
    with dagster_home.instance(settings) as ours:
        assert ours.get_runs_count() == 2


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are looked at under /proc")
def test_files_are_open_while_a_run_lasts_and_closed_after(settings):
    def opened() -> set[str]:
        links = list(Path("/proc/self/fd").iterdir())
        return {link.readlink().name for link in links if link.is_symlink()} & wanted

    wanted = {"index.db", "runs.db"}
    with dagster_home.instance(settings) as instance:
        runs = {prune_runs.execute_in_process(instance=instance).run_id for _ in range(3)}
        wanted |= {f"{run}.db" for run in runs}
        assert opened() >= {"index.db", "runs.db"}
        assert len(opened() - {"index.db", "runs.db"}) == 1  # not one for each run
    assert opened() == set()


def test_another_storage_that_a_person_chose_stays(settings):
    home = dagster_home.prepare_home(settings)
    chosen = {"storage": {"sqlite": {"base_dir": str(settings.home / "elsewhere")}}}
    moved = with_open_files(InstanceRef.from_dir(str(home), overrides=chosen))
    with dg.DagsterInstance.from_ref(moved) as instance:
        dg.materialize([answer], instance=instance)
        assert isinstance(instance.event_log_storage, EventLog)
    assert (settings.home / "elsewhere" / "history" / "runs.db").exists()
    custom = {"storage": {"postgres": {"postgres_url": "postgresql://nowhere"}}}
    other = InstanceRef.from_dir(str(home), overrides=custom)
    assert other.storage_data.class_name != DagsterSqliteStorage.__name__
    assert with_open_files(other) == other
