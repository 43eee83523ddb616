"""
The candidate: what a build has made so far, one reference for each projection, and what was said of
it. It lies in a folder of the tenant, so that steps in other processes go on with it, until all of
it is published.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from store.home.files import replace_file, sweep
from store.home.tenant import Tenant
from store.snapshots.manifest import CheckResult
from store.snapshots.snapshot import SnapshotRef


class Start(msgspec.Struct, frozen=True):
    """What every step of a build must know; see `store.build.Build`."""

    watermark: int
    full: bool = False
    thorough: bool = True


def begin(tenant: Tenant, start: Start) -> None:
    """Begin a candidate, and forget what an earlier build left unpublished."""
    sweep(tenant.candidate, older_than_s=0.0)
    for path in tenant.candidate.glob("*.json"):
        path.unlink()
    replace_file(tenant.candidate / "start.json", msgspec.json.encode(start))


def begun(tenant: Tenant) -> Start | None:
    """Return what the candidate was begun with; None where there is none."""
    try:
        return msgspec.json.decode((tenant.candidate / "start.json").read_bytes(), type=Start)
    except FileNotFoundError:
        return None


def put(tenant: Tenant, ref: SnapshotRef) -> None:
    """Put a projection in; what was said of an earlier one, and of the whole, holds no longer."""
    _checks(tenant, ref.projection).unlink(missing_ok=True)
    _whole(tenant).unlink(missing_ok=True)
    replace_file(tenant.candidate / f"{ref.projection}.json", msgspec.json.encode(ref))


def refs(tenant: Tenant, names: Iterable[str]) -> dict[str, SnapshotRef]:
    """Return the projections that are there of those named, in that order."""
    paths = ((name, tenant.candidate / f"{name}.json") for name in names)
    return {
        name: msgspec.json.decode(path.read_bytes(), type=SnapshotRef)
        for name, path in paths
        if path.exists()
    }


def keep_checks(tenant: Tenant, results: Sequence[CheckResult], name: str | None = None) -> None:
    """Keep what was said of a projection; without a name, of the candidate as a whole."""
    path = _whole(tenant) if name is None else _checks(tenant, name)
    replace_file(path, msgspec.json.encode(results))


def is_checked(tenant: Tenant, name: str) -> bool:
    return _checks(tenant, name).exists()


def kept_checks(tenant: Tenant, names: Iterable[str]) -> list[CheckResult]:
    """Return what was said of the projections named, in that order, and then of the whole."""
    paths = [*(_checks(tenant, name) for name in names), _whole(tenant)]
    return [
        result
        for path in paths
        if path.exists()
        for result in msgspec.json.decode(path.read_bytes(), type=list[CheckResult])
    ]


def _checks(tenant: Tenant, name: str) -> Path:
    return tenant.candidate / f"{name}.checks.json"


def _whole(tenant: Tenant) -> Path:
    return tenant.candidate / "checks.json"
