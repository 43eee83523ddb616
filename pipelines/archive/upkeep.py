"""
What is kept below `cold/`: the file of cold memories, written anew, and the segments that old
receipts go to. Not through plans: neither changes what anybody is told.
"""

from pathlib import Path

import msgspec

from pipelines.jobs.context import Report, opened
from store.cold import memories
from store.cold.memories import ColdFile
from store.erase import wiping
from store.home.config import Settings
from store.log import compaction
from store.log.compaction import Compacted


class Kept(msgspec.Struct, frozen=True):
    """What was written; None where it was not asked for."""

    cold: ColdFile | None = None
    compacted: Compacted | None = None


def keep(
    settings: Settings,
    tenant_name: str,
    now: int,
    report: Report,
    *,
    compact: bool = False,
    dry_run: bool = False,
    only_newest: bool = False,
) -> Kept:
    """Write the cold file, or with `compact` put old receipts away; what is not built is built.

    With `only_newest`, what was served before goes at once, after an erasing. Raise as `opened`
    does, or LogBusy where another process rewrites the log.
    """
    with opened(settings, tenant_name, now, report=report, no_model=True) as context:
        if compact:
            done = compaction.compact(context.log, context.manifest.watermark, now, dry_run=dry_run)
            return Kept(compacted=done)
        if only_newest:
            wiping.drop_derived(context.tenant)
        watermark = context.manifest.watermark
        found = memories.write(context.tenant, context.log, context.rows, watermark, now)
        return Kept(cold=msgspec.structs.replace(found, path=str(Path(found.path).absolute())))
