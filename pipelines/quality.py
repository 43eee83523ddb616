"""
The asset recall_quality: by night, the check set through the write path, the build and recall.

It is about the code and the settings and about no tenant: a home of its own is made and dropped.
The check beside it warns and blocks nothing, for no tenant's build is better or worse for it.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from pipelines import plots
from pipelines.failures import classified
from pipelines.history import past
from pipelines.hooks import HOOKS
from pipelines.metadata import Metadata
from pipelines.resources import OWNERS
from serve.evaluation import selftest
from serve.evaluation.selftest import Quality
from store import config
from store.config import Choices

RECALL = "recall@5"
CHECK = "above_the_floor"


@dg.asset(
    group_name="quality",
    kinds={"python"},
    owners=OWNERS,
    tags={"layer": "quality"},
    check_specs=[
        dg.AssetCheckSpec(
            CHECK,
            asset="recall_quality",
            description="Recall of the check set, in every language, and its silence.",
        )
    ],
    description="How recall answers the check set under the settings in use.",
)
def recall_quality(
    context: dg.AssetExecutionContext, choices: dg.ResourceParam[Choices]
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with it, Dagster wants a tuple
    with classified(context.retry_number):
        began = time.perf_counter()
        # Windows deletes no file that is still mapped
        with tempfile.TemporaryDirectory(
            prefix="mnemolog-quality-", ignore_cleanup_errors=True
        ) as home:
            cache = config.cache_folder() / "vectors"
            found = selftest.measure_quality(choices, Path(home), cache=cache)
        for one in found.shortfalls:
            context.log.warning(one)
        shown: Metadata = {
            "seconds": dg.MetadataValue.float(round(time.perf_counter() - began, 3)),
            "embedder": dg.MetadataValue.text(choices.embedder),
        }
        return dg.MaterializeResult(
            metadata=shown | _metadata(found, past(context, RECALL)), check_results=[_check(found)]
        )


check_recall = dg.define_asset_job(
    "check_recall",
    selection=dg.AssetSelection.assets(recall_quality),
    hooks=HOOKS,
    description="Ask the check set and compare with the floors.",
)

nightly_quality = dg.ScheduleDefinition(
    name="nightly_quality",
    job=check_recall,
    cron_schedule="15 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Asks the check set every night: what changed with an update or a setting?",
)


def _check(found: Quality) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=CHECK,
        passed=not found.shortfalls,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(found.shortfalls) or "every figure is above its floor",
    )


def _metadata(found: Quality, before: list[tuple[int, float]]) -> Metadata:
    recall = found.project.measures[RECALL]
    history = [*before, (round(time.time() * 1_000_000), recall)]
    silence = found.silence
    return {
        RECALL: dg.MetadataValue.float(recall),
        "mrr@10": dg.MetadataValue.float(found.project.measures["mrr@10"]),
        "false injections": dg.MetadataValue.float(silence.injected_all if silence else 0.0),
        "correct answers kept": dg.MetadataValue.float(silence.kept if silence else 0.0),
        "notices": dg.MetadataValue.json(list(found.notices)),
        "figures": dg.MetadataValue.md("\n".join(_table(found))),
        "plot": plots.line(
            "recall@5 of the check set", [at for at, _ in history], [share for _, share in history]
        ),
    }


def _table(found: Quality) -> Iterator[str]:
    """Yield the lines of a Markdown table of all that was measured."""
    yield "| | queries | recall@1 | recall@5 | mrr@10 |"
    yield "|---|---|---|---|---|"
    rows = {
        "project": found.project,
        **found.categories,
        **found.languages,
        **found.harder,
    }
    for name, one in rows.items():
        values = (f"{one.measures[measure]:.3f}" for measure in ("recall@1", RECALL, "mrr@10"))
        yield f"| {name} | {one.queries} | {' | '.join(values)} |"
    if found.silence is not None:
        yield "\n| deserves silence | injected |"
        yield "|---|---|"
        for kind, share in found.silence.injected.items():
            yield f"| {kind} | {share:.0%} |"
