"""
The asset canaries: recall asked over the candidate, between its parts and the published manifest.

What it found goes into the manifest as a check, with what earlier builds found, so that `mnemolog
canaries` and `doctor` show the trend without Dagster. A few canaries lost are a warning; most of
them lost is a build that is not served.
"""

import time
from collections.abc import Sequence

import dagster as dg

from pipelines import plots
from pipelines.failures import classified
from pipelines.metadata import Metadata
from pipelines.resources import GROUP, OWNERS, TENANTS, TenantStore
from serve.evaluation import canaries
from serve.evaluation.canaries import Outcome, Point
from store import build
from store.config import Choices
from store.snapshots.manifest import CANARIES
from store.snapshots.projection import Projection


def canaries_asset(projections: Sequence[Projection]) -> dg.AssetsDefinition:
    """Return the asset that asks for canaries; it depends on every projection."""

    @dg.asset(
        name=CANARIES,
        deps=[projection.name for projection in projections],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={"python"},
        owners=OWNERS,
        tags={"layer": "quality"},
        check_specs=[
            dg.AssetCheckSpec(
                CANARIES,
                asset=CANARIES,
                blocking=True,
                description="Memories come back when asked for by their own words.",
            )
        ],
        description="Memories asked for by their own words: does recall work over the candidate?",
    )
    def asked_for(
        context: dg.AssetExecutionContext,
        tenant_store: TenantStore,
        choices: dg.ResourceParam[Choices],
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with it, Dagster wants a tuple
        with classified(context.retry_number):
            made, now = tenant_store.resume(), time.time_ns() // 1_000
            candidate = build.candidate(made, (), now)
            found = canaries.over(made.tenant, candidate, made.embedder, choices, now)
            result = canaries.result(found, now, *build.last_published(made.tenant))
            build.keep_checks(made, [result])
            if not result.passed:
                build.refuse(made, now)
            check = dg.AssetCheckResult(
                check_name=CANARIES,
                passed=not found.is_doubted,
                severity=_severity(found),
                description=result.detail,
            )
            shown = _metadata(found, canaries.trend(result), quotes=choices.dagster_texts)
            return dg.MaterializeResult(metadata=shown, check_results=[check])

    return asked_for


def _severity(found: Outcome) -> dg.AssetCheckSeverity:
    """A blocking check blocks only with an error."""
    return dg.AssetCheckSeverity.ERROR if found.is_refused else dg.AssetCheckSeverity.WARN


def _metadata(found: Outcome, trend: Sequence[Point], *, quotes: bool) -> Metadata:
    """Return what to show of the canaries; a question is made of its memory's own words."""
    lines = (f"- {one.id}: {one.question}" if quotes else f"- {one.id}" for one in found.missed)
    missed = "\n".join(lines)
    return {
        "asked": dg.MetadataValue.int(found.asked),
        "came back": dg.MetadataValue.int(found.found),
        "missed": dg.MetadataValue.md(missed or "none"),
        "plot": plots.line(
            "% of the canaries that came back",
            [at for at, _, _ in trend],
            [100 * back / asked if asked else 100 for _, back, asked in trend],
        ),
    }
