"""
Builds of many tenants in one run: a bucket of tenants instead of a run for each.

A run of its own costs a process, Dagster's imports and some sixty events, whatever there is to
build. So where many tenants have something new, the sensor requests one run for a bucket of them,
the longest unbuilt first. Each is built as `mnemolog build --quick` builds it, and each gets its
materializations and checks, those of the assets that changed. A tenant that fails stops no other.

A run that is killed leaves its record as it was. It holds a lock file while it lives, by which the
sensor tells whether it does.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import filelock
from dagster._core.definitions.data_version import DATA_VERSION_TAG
from dagster._core.definitions.events import AssetMaterialization
from pydantic import Field

from pipelines.jobs import runner
from pipelines.orchestration.metadata import ROWS, Metadata, snapshot_metadata
from pipelines.orchestration.run_resources import QUIET, TENANTS, UNFINISHED
from store.embedders.embedder import Embedder, make_embedder
from store.home import failures
from store.home.config import Settings
from store.home.errors import BuildBusy, BuildRefused, MnemologError, NotFound, SnapshotError
from store.home.files import make_folder
from store.home.tenant import Tenant, list_tenants, tenant
from store.log.event_clock import wall_clock
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CANARIES, EXPECTED, CheckResult, Manifest

JOB = "build_tenants"
SIZE = 32  # tenants of a bucket
OWN_RUN = 4  # so many tenants at once get runs of their own, with plots and samples
REST_S = 3600.0  # a tenant that failed is not requested again for so long


class BucketConfig(dg.Config):
    tenants: list[str] = Field([], description="The tenants to build, in order; empty: all.")


@dg.op(description="Builds one tenant after the other; one that fails stops no other.")
def build_bucket(
    context: dg.OpExecutionContext, config: BucketConfig, settings: dg.ResourceParam[Settings]
) -> None:
    names = config.tenants or [each.name for each in list_tenants(settings.home)]
    context.instance.add_dynamic_partitions(str(TENANTS.name), names)
    embedder = make_embedder(settings.choices.embedder, settings.home)
    failed = {}
    with _lock(settings.home, context.run_id, wait_s=_LOOKED_AT_S):
        for place, name in enumerate(names, 1):
            where = f"{name}, {place} of {len(names)}"
            try:
                for event in _build(settings, name, embedder, context):
                    context.log_event(event)  # type: ignore[arg-type]  # it takes checks too
            except (BuildBusy, NotFound) as error:  # another builds it, or it was deleted
                context.log.info(f"{where}: {error}")
            except (MnemologError, OSError) as error:
                failed[name] = f"{type(error).__name__}: {error}"
                context.log.error(f"{where}: {failed[name]}")
            else:
                context.log.info(f"{where}: built")
    if failed:
        reasons = "\n".join(f"- {name}: {reason}" for name, reason in failed.items())
        raise dg.Failure(
            f"{len(failed)} of {len(names)} tenants were not built: {', '.join(failed)}",
            metadata={"why": dg.MetadataValue.md(reasons)},
            allow_retries=False,
        )


Event = AssetMaterialization | dg.AssetCheckEvaluation


def _build(
    settings: Settings, name: str, embedder: Embedder, context: dg.OpExecutionContext
) -> Iterator[Event]:
    """Build a tenant and yield what that materialized and checked, also if it is refused."""
    owner = tenant(settings.home, name)
    before, quotes = _published(owner), settings.choices.dagster_texts
    try:
        manifest = runner.build(settings, name, context.log.debug, embedder=embedder)
    except BuildRefused:  # the reason is kept beside the manifest
        if refusal := manifests.last_refusal(owner):
            yield from _checks(name, refusal.checks, quotes=quotes)
        raise
    except (BuildBusy, NotFound):
        raise
    except (MnemologError, OSError) as error:
        failures.keep(owner.root, JOB, wall_clock(), f"{error}", context.run_id)
        raise
    failures.forget(owner.root, JOB)
    if before is None or before.number != manifest.number:
        yield from _changes(name, manifest, before, quotes=quotes)


def _changes(
    name: str, manifest: Manifest, before: Manifest | None, *, quotes: bool
) -> Iterator[Event]:
    """Yield the log, the manifest, and the projections and checks that differ from `before`."""
    old = before.digests if before else {}
    refs = manifest.projections
    changed = {
        ref.projection: ref for ref in refs.values() if ref.digest != old.get(ref.projection)
    }
    up_to: Metadata = {"watermark": manifest.watermark}
    yield _materialization(name, "event_log", str(manifest.watermark), up_to)
    for ref in changed.values():
        yield _materialization(name, ref.projection, ref.digest, snapshot_metadata(ref))
    same = refs.keys() - changed.keys()
    checks = [check for check in manifest.checks if check.projection not in same]
    yield _materialization(name, CANARIES, str(manifest.number), up_to)
    yield from _checks(name, checks, quotes=quotes)
    whole: Metadata = {
        ROWS: refs["memories"].rows["memories"],
        "manifest": manifest.number,
        "watermark": manifest.watermark,
        "bytes": manifest.bytes,
        "digests": manifest.digests,
    }
    yield _materialization(name, "published_manifest", str(manifest.number), whole)


def _materialization(name: str, asset: str, version: str, values: Metadata) -> AssetMaterialization:
    tags = {DATA_VERSION_TAG: version}
    return AssetMaterialization(asset, partition=name, metadata=values, tags=tags)


def _checks(
    name: str, results: Iterable[CheckResult], *, quotes: bool
) -> Iterator[dg.AssetCheckEvaluation]:
    for result in results:
        severity = dg.AssetCheckSeverity.WARN if result.warns else dg.AssetCheckSeverity.ERROR
        yield dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(result.projection),
            check_name=result.name,
            passed=result.passed,
            severity=severity,
            # pinned questions are quoted only where texts may be
            description=result.reason if quotes or result.name != EXPECTED else "",
            partition=name,
        )


def requests(
    due: Mapping[str, int], home: Path, instance: dg.DagsterInstance
) -> list[dg.RunRequest]:
    """Return a request for each bucket of the tenants that are `due`, by the seq to build to.

    Those of a bucket that waits or runs, those that were refused at that seq, and those that failed
    within REST_S are not requested again.
    """
    unfinished = instance.get_runs(dg.RunsFilter(job_name=JOB, statuses=UNFINISHED))
    taken = {name for run in unfinished for name in _tenants_of(run)}
    waiting = [
        tenant(home, name)
        for name, seq in due.items()
        if name not in taken and not _rests(tenant(home, name), seq)
    ]
    order = [each.name for each in sorted(waiting, key=_published_at)]
    again = int(time.time() / REST_S)  # Dagster makes one run of a key
    return [
        request(bucket, _digest(f"{again} {name}:{due[name]}" for name in bucket))
        for bucket in split(order)
    ]


def split(names: list[str]) -> list[list[str]]:
    """Return the tenants in buckets, in their order."""
    return [names[at : at + SIZE] for at in range(0, len(names), SIZE)]


def request(names: list[str], key: str) -> dg.RunRequest:
    """Return the request for a run that builds these tenants."""
    return dg.RunRequest(key, job_name=JOB, run_config=_config(names))


def _config(names: list[str]) -> dict[str, object]:
    return {"ops": {"build_bucket": {"config": {"tenants": names}}}, **QUIET}


@dg.job(
    name=JOB,
    config=_config([]),
    description="Build a bucket of tenants in one run, each as `mnemolog build --quick` does; "
    "without names, all of them.",
)
def build_tenants() -> None:
    build_bucket()


def _tenants_of(run: dg.DagsterRun) -> list[str]:
    """Return the tenants that the configuration of a bucket's run names."""
    ops: Any = run.run_config.get("ops", {})
    return list(ops.get("build_bucket", {}).get("config", {}).get("tenants", ()))


def _rests(tenant: Tenant, seq: int) -> bool:
    """Return True if building the tenant up to `seq` was refused, or failed within REST_S."""
    refusal = manifests.last_refusal(tenant)
    if refusal is not None and refusal.watermark >= seq:
        return True
    since = wall_clock() - REST_S * 1_000_000
    return any(each.what == JOB and each.at > since for each in failures.every(tenant.root))


def _published_at(tenant: Tenant) -> int:
    manifest = _published(tenant)
    return manifest.at if manifest else 0


def _published(tenant: Tenant) -> Manifest | None:
    try:
        return manifests.current(tenant)
    except SnapshotError:
        return None


def _digest(parts: Iterable[str]) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


# A run's lock, which the system releases with its process.


_LOOKED_AT_S = 10.0  # a look at a lock holds it


@contextmanager
def _lock(home: Path, run_id: str, *, wait_s: float = 0.0) -> Iterator[None]:
    make_folder(home / "buckets")
    path = home / "buckets" / f"{run_id}.lock"
    with filelock.FileLock(path, timeout=wait_s, mode=0o600):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def is_dead(home: Path, run_id: str) -> bool:
    """Return True if no process runs the bucket of a run that began."""
    try:
        with _lock(home, run_id):
            return True
    except filelock.Timeout:
        return False
