"""
Builds: what was published last and what was refused; what waits; what went wrong unseen.
"""

from dataclasses import dataclass
from pathlib import Path

from serve.reader.view import View
from store.home import failures
from store.home.failures import Failure
from store.home.tenant import Tenant
from store.log.event_log import EventLog
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CheckResult, Manifest, Refusal


@dataclass(frozen=True, slots=True)
class Published:
    """One manifest that is kept. `took_s` is what its projections took, those taken over too."""

    number: int
    at: int  # microseconds UTC
    watermark: int
    memories: int
    bytes: int
    took_s: float
    checks: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(one for one in self.checks if not one.passed)


@dataclass(frozen=True, slots=True)
class Builds:
    """`kept` are the manifests, the newest first. `tail` are the events after the one served,
    `changes` those of them that change a memory. `notices` say what of it could not be used.
    """

    kept: tuple[Published, ...]
    refusal: Refusal | None
    tail: int
    changes: int
    notices: tuple[str, ...]
    failures: tuple[Failure, ...]

    @property
    def served(self) -> Published | None:
        return self.kept[0] if self.kept else None


def builds(home: Path, tenant: Tenant, log: EventLog, view: View) -> Builds:
    """Return how builds stand, and what failed below the home and the tenant."""
    return Builds(
        kept=tuple(map(_published, manifests.list_manifests(tenant))),
        refusal=manifests.last_refusal(tenant),
        tail=tail(log.head(), view),
        changes=view.tail.changes,
        notices=view.notices,
        failures=(*failures.every(tenant.root), *failures.every(home)),
    )


def tail(head: int, view: View) -> int:
    """Return how many events up to a log's head wait for the next build."""
    return max(0, head - view.snapshots.watermark)


def _published(one: Manifest) -> Published:
    memories = one.projections.get("memories")
    return Published(
        one.number,
        one.at,
        one.watermark,
        memories.rows["memories"] if memories else 0,
        one.bytes,
        sum(ref.seconds for ref in one.projections.values()),
        one.checks,
    )
