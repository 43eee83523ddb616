"""
The assets: the log, one for each projection, and the published manifest downstream of them all.

A projection is audited in the step that builds it. A failing audit is a failed blocking check, so
Dagster runs nothing downstream of it and the manifest served until then stays; why is kept beside
it the moment it is seen. Memories that fail alone are quarantined: the next run builds without
them, which the CLI starts at once, and the sensor at its next look. Snapshots are files that
store.build writes, so there is no IO manager.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
from pydantic import Field

from pipelines import metadata
from pipelines.canaries import canaries_asset
from pipelines.failures import classified
from pipelines.history import past
from pipelines.metadata import QUARANTINED
from pipelines.resources import GROUP, OWNERS, TENANTS, TenantStore
from pipelines.vector_table import vector_table
from store import build
from store.audits.audit import AUDITS
from store.errors import SnapshotError
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CANARIES, CheckResult
from store.snapshots.projection import Projection
from store.snapshots.snapshot import SnapshotRef

# the nightly build comes daily: one that was missed is a warning, two are a failure
_FRESH = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=26), fail_window=timedelta(hours=50)
)


class BuildConfig(dg.Config):
    full: bool = Field(False, description="Build from the log alone; take nothing over.")


def assets_of(projections: Sequence[Projection]) -> list[dg.AssetsDefinition]:
    """Return the log, the projections in build order, the canaries, the manifest, its table."""
    return [
        event_log,
        *map(_projection_asset, projections),
        canaries_asset(projections),
        _manifest_asset(projections),
        vector_table,
    ]


@dg.asset(
    group_name=GROUP,
    partitions_def=TENANTS,
    kinds={"sqlite"},
    owners=OWNERS,
    tags={"layer": "truth"},
    description="The append-only log up to its head: the one truth, and the build's watermark.",
)
def event_log(
    context: dg.AssetExecutionContext, config: BuildConfig, tenant_store: TenantStore
) -> dg.MaterializeResult[None]:
    with classified(context.retry_number):
        began = time.perf_counter()
        made = tenant_store.start(full=config.full)
        shown = metadata.of_log(made.log.counts(made.watermark))
        context.log.info(f"{made.tenant.name}: building up to event {made.watermark}")
        return dg.MaterializeResult(
            metadata=shown
            | {
                "watermark": dg.MetadataValue.int(made.watermark),
                "bytes": dg.MetadataValue.int(made.tenant.log.stat().st_size),
                "seconds": dg.MetadataValue.float(round(time.perf_counter() - began, 3)),
                "path": dg.MetadataValue.path(made.tenant.log),
            },
            data_version=dg.DataVersion(str(made.watermark)),
        )


def _projection_asset(projection: Projection) -> dg.AssetsDefinition:
    """Return the asset that builds one projection and audits it."""

    @dg.asset(
        name=projection.name,
        deps=[_asset_name(name) for name in projection.inputs],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={"arrow"},
        owners=OWNERS,
        tags={"layer": "projection"},
        metadata=metadata.columns(projection),
        code_version=projection.version,
        check_specs=[
            dg.AssetCheckSpec(
                one.name, asset=projection.name, blocking=True, description=one.description
            )
            for one in AUDITS
            if one.projection == projection.name
        ],
        description=f"The projection {projection.name}: from {', '.join(projection.inputs)} to "
        f"{', '.join(projection.schemas)}.",
    )
    def one_projection(
        context: dg.AssetExecutionContext, tenant_store: TenantStore
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with it, Dagster wants a tuple
        with classified(context.retry_number):
            began = time.perf_counter()
            made = tenant_store.resume()
            wanted = next(one for one in made.projections if one.name == projection.name)
            ref, tables = build.step(made, wanted, context.log.info)
            results = build.check(made, wanted, tables)
            for failed in (one for one in results if one.stops):
                context.log.error(f"{failed.name}: {failed.reason}")
            if any(one.stops for one in results):
                now = time.time_ns() // 1_000
                build.refuse(made, now)
                for one in build.take_out(made, results, now):
                    context.log.error(f"quarantined {one.id}: the next run builds without it")
            return dg.MaterializeResult(
                metadata=metadata.of_projection(
                    made,
                    ref,
                    tables,
                    time.perf_counter() - began,
                    reused=_is_served(made, ref),
                    quotes=tenant_store.quotes,
                ),
                check_results=[_shown(one) for one in results],
                data_version=dg.DataVersion(ref.digest),
            )

    return one_projection


def _manifest_asset(projections: Sequence[Projection]) -> dg.AssetsDefinition:
    """Return the asset that publishes a candidate whose checks all passed."""

    @dg.asset(
        name="published_manifest",
        deps=[*(projection.name for projection in projections), CANARIES],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={"json"},
        owners=OWNERS,
        tags={"layer": "served"},
        freshness_policy=_FRESH,
        description="What is served: the snapshots that belong together and passed every check.",
    )
    def published_manifest(
        context: dg.AssetExecutionContext, tenant_store: TenantStore
    ) -> dg.MaterializeResult[None]:
        with classified(context.retry_number):
            made = tenant_store.resume()
            published = build.publish(made, build.kept_checks(made), time.time_ns() // 1_000)
            return dg.MaterializeResult(
                metadata=metadata.of_manifest(made, published, past(context, metadata.ROWS)),
                data_version=dg.DataVersion(str(published.number)),
            )

    return published_manifest


def _asset_name(of_input: str) -> str:
    return "event_log" if of_input == "log" else of_input


def _shown(result: CheckResult) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=result.name,
        asset_key=result.projection,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.WARN if result.warns else dg.AssetCheckSeverity.ERROR,
        description=result.reason,
        metadata=dict(result.metadata) | ({QUARANTINED: [*result.alone]} if result.alone else {}),
    )


def _is_served(made: build.Build, ref: SnapshotRef) -> bool:
    """Whether the step took the served snapshot over, because nothing it depends on changed."""
    try:
        served = manifests.current(made.tenant).projections.get(ref.projection)
    except SnapshotError:
        return False
    return served is not None and served.parts == ref.parts
