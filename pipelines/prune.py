"""
Dropping what Dagster keeps of old runs: some 200 KB each, and nothing else ever deletes it.
"""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field

from pipelines.resources import PARTITION

KEEP_RUNS = 200
KEEP_DAYS = 7


class PruneConfig(dg.Config):
    days: int = Field(KEEP_DAYS, ge=0, description="Runs younger than this are kept.")
    keep: int = Field(KEEP_RUNS, ge=0, description="So many of the newest runs are always kept.")


@dg.op(description="Deletes the events and files of old finished runs.")
def drop_old_runs(context: dg.OpExecutionContext, config: PruneConfig) -> None:
    dropped = prune(context.instance, days=config.days, keep=config.keep)
    context.log.info(f"dropped {len(dropped)} runs")


@dg.job(description="Drop what Dagster kept of runs that are old and not among the newest.")
def prune_runs() -> None:
    drop_old_runs()


def prune(
    instance: dg.DagsterInstance, *, days: int = KEEP_DAYS, keep: int = KEEP_RUNS
) -> list[str]:
    """Delete finished runs that are older than `days` and not among the `keep` newest.

    The newest run of every tenant that succeeded stays, so that its assets keep their story.
    Return the ids of the runs deleted.
    """
    if instance.get_runs_count() <= keep:
        return []
    before = datetime.now(UTC) - timedelta(days=days)
    last_good: set[str] = set()
    dropped = []
    for place, record in enumerate(instance.get_run_records()):  # newest first
        run = record.dagster_run
        tenant = run.tags.get(PARTITION, "")
        is_last_good = run.is_success and tenant not in last_good
        if is_last_good:
            last_good.add(tenant)
        is_old = record.create_timestamp.replace(tzinfo=UTC) < before
        if place >= keep and is_old and run.is_finished and not is_last_good:
            instance.delete_run(run.run_id)
            _drop_files(Path(instance.root_directory), run.run_id)
            dropped.append(run.run_id)
    return dropped


def _drop_files(dagster_home: Path, run_id: str) -> None:
    """Delete the run's own database, which `delete_run` only empties, and its captured output."""
    for path in (dagster_home / "history" / "runs").glob(f"{run_id}.db*"):
        path.unlink(missing_ok=True)
    shutil.rmtree(dagster_home / "storage" / run_id, ignore_errors=True)
