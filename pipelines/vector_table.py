"""
The asset vector_table: the published vectors as a Lance table, for jobs that search by distance.

A build keeps it in step once it is there. Before that it costs nothing: the first job that asks for
it has it made, and so does this asset where it is told to, by `make` in its configuration.
"""

import dagster as dg
from pydantic import Field

from pipelines.failures import classified
from pipelines.metadata import ROWS
from pipelines.resources import GROUP, OWNERS, TENANTS, TenantStore
from store import vector_table as table
from store.snapshots import manifest as manifests


class VectorTableConfig(dg.Config):
    make: bool = Field(False, description="Make the table where it is not there yet.")


@dg.asset(
    deps=["published_manifest"],
    group_name=GROUP,
    partitions_def=TENANTS,
    kinds={"lance"},
    owners=OWNERS,
    tags={"layer": "jobs"},
    description="The published vectors in Lance, for jobs; made when one first asks for it.",
)
def vector_table(
    context: dg.AssetExecutionContext, config: VectorTableConfig, tenant_store: TenantStore
) -> dg.MaterializeResult[None]:
    with classified(context.retry_number):
        tenant = tenant_store.resume().tenant
        if not (config.make or table.exists(tenant)):
            return dg.MaterializeResult(metadata={"made": dg.MetadataValue.bool(False)})
        changed = table.sync(tenant)
        rows = manifests.current(tenant).projections["vectors"].rows["rows"]
        return dg.MaterializeResult(
            metadata={
                "made": dg.MetadataValue.bool(True),
                ROWS: dg.MetadataValue.int(rows),
                "parts changed": dg.MetadataValue.int(changed),
                "path": dg.MetadataValue.path(tenant.root / "lance"),
            }
        )
