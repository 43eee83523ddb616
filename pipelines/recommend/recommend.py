"""
Recommend: look for changes that a person may want, and write down those that are new.
"""

from pathlib import Path

import filelock
import msgspec

from pipelines.jobs.context import Context, Report, opened
from pipelines.recommend.by_likeness import alike
from pipelines.recommend.by_use import helpful, unused
from pipelines.recommend.by_words import unclear
from store.home.config import Settings
from store.home.errors import BuildBusy
from store.home.files import make_folder
from store.home.tenant import find_tenant
from store.log import event_kinds
from store.log.event_kinds import What
from store.log.events import Event
from store.plans import recommendations
from store.plans.recommendations import Change

MOST = 20  # of a sort that are proposed at once: a person is to look at each


class Proposed(msgspec.Struct, frozen=True):
    """What is recommended anew, as programs are told."""

    id: str
    what: What
    because: str
    source_ids: tuple[str, ...]


def refresh(
    settings: Settings,
    tenant_name: str,
    now: int,
    *,
    write: bool,
    project: str | None = None,
    report: Report = lambda what: None,
    wait_s: float = 60.0,
) -> list[Proposed]:
    """Look at a tenant's memory; return what is recommended anew, written down if asked.

    Raise BuildBusy where a job of the tenant is at work, else as `opened` does.
    """
    tenant = find_tenant(settings.home, tenant_name)
    make_folder(tenant.root)
    lock = filelock.FileLock(Path(tenant.root) / "jobs.lock", timeout=wait_s, mode=0o600)
    try:
        with (
            lock,
            opened(
                settings, tenant_name, now, project=project, report=report, no_model=True
            ) as context,
        ):
            context.report("recommendations")
            events = recommended(context)
            if write and events:
                context.log.append(events)
            return [_shown(one) for one in events]
    except filelock.Timeout:
        raise BuildBusy(f"a job of {tenant.name} is running: try again later") from None


def recommended(context: Context) -> list[Event]:
    """Return the proposals that are new and that nobody said no to, one of a memory at a time."""
    known = recommendations.every(context.log)
    declined = recommendations.declined(known)
    busy = {id_ for one in known if one.state == "pending" for id_ in one.source_ids}
    found: list[Event] = []
    for search in (unused, alike, helpful, unclear):
        count = 0
        for one in search(context):
            ids = {memory.id for memory in one.memories}
            change = Change(context.manifest.watermark, one.steps)
            event = recommendations.proposal(
                one.what, one.memories, change, one.because, context.now
            )
            if ids.isdisjoint(busy) and recommendations.is_new(context.log, event, declined):
                busy |= ids
                found.append(event)
                count += 1
            if count == MOST:
                break
    return found


def _shown(event: Event) -> Proposed:
    body = event.body
    assert isinstance(body, event_kinds.Proposed)
    return Proposed(event.id, body.what, body.because or "", body.source_ids)
