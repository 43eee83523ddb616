"""
Compaction: move the bodies of old receipts to a segment, and shrink the log's file.

The order makes it safe: a segment is whole on the disk before the rows are blanked, in one
transaction that also lists it. If it is interrupted anywhere, every event reads as before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from store.home.errors import LogBusy
from store.home.files import translate_disk_errors
from store.home.instants import DAY
from store.log import segments
from store.log.event_log import EventLog
from store.log.log_file import Row
from store.log.rows import BODY, PUT_AWAY, decode_row

# Events that are reported once and then only counted. Plans, drafts and judgements may be needed
# any day, and the events of a turn are a memory.
KINDS = ("called", "followed", "outcome", "recalled", "surfaced")
AFTER_DAYS = 90
MOST = 20_000  # events a segment: a transaction of this size holds writers up for half a second
LEAST = 100  # events worth a file of their own


class Compacted(msgspec.Struct, frozen=True):
    """The archived events, or those that would be. `bytes` is the size of the bodies; then come the
    sizes of the log's file, before and after.

    `is_settled` is False if others held the file, which shrinks the next time.
    """

    events: int
    bytes: int
    segments: tuple[str, ...] = ()
    bytes_before: int = 0
    bytes_after: int = 0
    is_settled: bool = True


def compact(log: EventLog, until: int, now: int, *, dry_run: bool = False) -> Compacted:
    """Archive the receipts up to a seq that are older than AFTER_DAYS; return the result.

    `until` is the seq of the last build, so that no build and no answer has to read them again.
    Raise LogBusy if another process compacts or erases, or LogFull; segments written until then
    stay.
    """
    if dry_run:
        rows = [row for some in _old(log, until, now) for row in some]
        events = len(rows) if len(rows) >= LEAST else 0
        return Compacted(events, sum(len(row[BODY].encode()) for row in rows) if events else 0)
    folder = segments.folder_of(log.path)
    log.settle()  # the write-ahead log counts towards its size
    before = log.path.stat().st_size
    events, size, names = 0, 0, []
    with alone(log.path):
        segments.sweep(folder, log.segments())
        for rows in _old(log, until, now):
            if len(rows) < LEAST and not events:
                break
            for row in rows:
                decode_row(row)  # damage must be found here, and stay where it is
            segment = segments.write(folder, rows)
            log.rewrite([(row, PUT_AWAY) for row in rows], adding=[segment])
            events, size = events + len(rows), size + sum(len(row[BODY].encode()) for row in rows)
            names.append(segment.name)
        is_settled = log.settle(shrink=True) if events else True
    return Compacted(events, size, tuple(names), before, log.path.stat().st_size, is_settled)


@contextmanager
def alone(log: Path) -> Iterator[None]:
    """Hold the lock for rewriting the log or writing below `cold`.

    Raise LogBusy if another process holds it, another LogError if the disk does not take the
    block's writes beside the log.
    """
    import filelock  # rewriting is rare, and it costs a tenth of a server's start

    try:
        with (
            translate_disk_errors(log.parent),
            filelock.FileLock(log.with_name("rewrite.lock"), timeout=10.0, mode=0o600),
        ):
            yield
    except filelock.Timeout:
        raise LogBusy(f"{log} is being rewritten by another process: try again later") from None


def _old(log: EventLog, until: int, now: int) -> Iterator[list[Row]]:
    """Yield the rows to archive, a segment's at a time."""
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    after = 0
    while rows := log.select_rows(
        f"seq > ? AND seq <= ? AND at < ? AND kind IN ({kinds}) AND body != ?",
        (after, until, now - AFTER_DAYS * DAY, PUT_AWAY),
        limit=MOST,
    ):
        yield rows
        after = rows[-1][0]
