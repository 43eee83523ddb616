"""
The checks of a candidate as a whole: every projection was built and checked, and none shrank much.
"""

from collections.abc import Mapping, Sequence

from store.home.tenant import Tenant
from store.log import integrity
from store.log.event_kinds import (
    Archived,
    Body,
    Erased,
    Forgotten,
    Quarantined,
    Superseded,
    Undone,
)
from store.log.event_log import EventLog
from store.maintenance import build_state
from store.snapshots.manifest import CheckResult, Manifest
from store.snapshots.snapshot import SnapshotRef

# the table of each projection whose rows last as long as their memories
_LASTING = {
    "postings": "terms",
    "sessions": "turns",
    "vectors": "rows",
    "entities": "entities",
    "duplicates": "duplicates",
    "facts": "facts",
    "state": "claims",
    "goals": "goals",
    "usage": "usage",
    "lessons": "lessons",
    "insights": "insights",
    "routes": "policies",
}
_FEW_ROWS = 10  # of a table: fewer may well go at once
_MUCH_PUT_AWAY = 0.1  # of the published memories: so many archived or erased may explain lost rows


def check_completeness(
    tenant: Tenant, names: Sequence[str], refs: Mapping[str, SnapshotRef], watermark: int
) -> CheckResult:
    """Check that each named projection was built up to the watermark, and was checked."""
    missing = [name for name in names if name not in refs]
    other = [name for name, ref in refs.items() if ref.watermark != watermark]
    unchecked = [name for name in names if not build_state.has_checks(tenant, name)]
    detail = "every projection is at the same watermark and was checked"
    if missing or other or unchecked:
        detail = (
            f"not built: {', '.join(missing) or 'none'}; at another watermark: "
            f"{', '.join(other) or 'none'}; not checked: {', '.join(unchecked) or 'none'}: "
            "build the whole group"
        )
    return CheckResult("whole_candidate", not (missing or other or unchecked), detail)


def check_shrinkage(
    log: EventLog, served: Manifest | None, refs: Mapping[str, SnapshotRef], watermark: int
) -> CheckResult:
    """Check that no projection lost half of its rows or more compared with `served`.

    A loss is accepted if many memories were archived or erased since, or were lost with a damaged
    log, as its gaps record. Without a `served` manifest the check passes.
    """
    lost = []
    for name, table in _LASTING.items():
        before, now = served.projections.get(name) if served else None, refs.get(name)
        if before is None or now is None or before.version != now.version:
            continue
        were, are = before.rows.get(table, 0), now.rows.get(table, 0)
        if were >= _FEW_ROWS and 2 * are < were:
            lost.append(f"{name} has {are or 'no'} {table}, {were:,} are served")
    if served and lost:
        gaps = integrity.gaps(log, served.watermark, watermark)
        lost = [] if gaps or _has_put_away(log, served, watermark) else lost
    cure = "`mnemolog build --full` builds it anew, `mnemolog build --accept` publishes it as it is"
    detail = "; ".join(lost) or "nothing that is served is lost"
    return CheckResult("no_projection_emptied", not lost, detail, cure=cure if lost else "")


def _has_put_away(log: EventLog, served: Manifest, watermark: int) -> bool:
    """Return True if enough memories were archived or erased since the build to explain a loss."""
    kinds = (Archived, Erased, Forgotten, Quarantined, Superseded, Undone)
    events = log.bodies(served.watermark, watermark, cold=False)
    memories = served.projections["memories"].rows["memories"]
    gone = sum(_count_gone(body) for _, _, body in events if isinstance(body, kinds))
    return gone > 0 and gone >= _MUCH_PUT_AWAY * memories


def _count_gone(body: Body) -> int:
    """Return the number of events that one undid or erased: an erasing cuts prompts."""
    match body:
        case Undone(events=events):
            return len(events)
        case Erased(events=count):
            return max(1, count)
        case _:
            return 1
