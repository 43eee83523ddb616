"""
A quick build: the steps, audits and canaries of the job, in this process and without Dagster.

What it publishes is the same to the digest. It is none of Dagster's runs and retries nothing, and
of what it takes over from the last build it looks at sizes and times instead of hashing all again,
and it asks for a few canaries: refreshing a thousand memories then costs their work and not a
scheduler's start.
"""

import time
from functools import partial

from serve.evaluation import canaries
from store.embedders.embedder import make_embedder
from store.home.config import Choices, Settings
from store.home.tenant import find_tenant
from store.log.event_log import EventLog
from store.maintenance import build as builds
from store.maintenance.build import Build, Progress
from store.snapshots.manifest import CheckResult, Manifest


def build(
    settings: Settings,
    tenant_name: str,
    report: Progress,
    *,
    full: bool = False,
    wait_s: float = 0.0,
) -> Manifest:
    """Build, check and publish a tenant; return the manifest.

    `report` is told each step as it begins. Raise NotFound, BuildBusy, or BuildRefused naming every
    check that failed; whatever is raised, what was served still is.
    """
    tenant = find_tenant(settings.home, tenant_name)
    with EventLog(tenant.log) as log:
        return builds.rebuild(
            tenant,
            log,
            make_embedder(settings.choices.embedder, settings.home),
            _now(),
            on_progress=report,
            on_whole=partial(_asked, settings.choices),
            wait_s=wait_s,
            full=full,
            thorough=False,
            keep_days=settings.choices.episodes_days,
        )


def _asked(choices: Choices, made: Build) -> list[CheckResult]:
    """Ask recall itself over the candidate."""
    now = _now()
    candidate = builds.candidate_manifest(made, (), now)
    found = canaries.over(made.tenant, candidate, made.embedder, choices, now, most=canaries.A_FEW)
    return [canaries.result(found, now, *builds.last_published(made.tenant))]


def _now() -> int:
    return time.time_ns() // 1_000
