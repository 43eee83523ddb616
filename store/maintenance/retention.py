"""
Retention: episodes older than the limit are forgotten and erased from the log.

An episode is the record of a turn by the hooks: prompt, tools, closing words, and the question of
the receipt. Their rows stay, with ids, times and kinds; their texts are erased, as in any erasing,
archived ones too. Memories learnt from an episode stay, and so do statements: the user did not take
the memory back, the record has grown old. It runs at the start of a build, which then reuses
nothing and drops the earlier snapshots.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from store.home.files import replace_file
from store.home.instants import DAY, new_id
from store.home.tenant import Tenant
from store.log import compaction, erasing, log_queries
from store.log.erasing import Change
from store.log.event_kinds import Acted, Erased, Followed, Prompted, Recalled, SessionTold, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event, decode, encode
from store.log.log_file import Row
from store.log.rows import BODY

KINDS = ("action", "followed", "prompted", "recalled", "session", "surfaced")
_BODIES = (Acted, Followed, Prompted, Recalled, SessionTold, Surfaced)
_MOST = 5_000  # rows a transaction


class RetentionMark(msgspec.Struct, frozen=True):
    """The time up to which episodes were erased, in microseconds UTC."""

    until: int


_decoder = msgspec.json.Decoder(RetentionMark)


def retention_bound(days: int, now: int) -> int:
    """Return the moment before which episodes are erased; 0 if they are kept for ever."""
    return max(0, now - days * DAY) if days else 0


def count_waiting(tenant: Tenant, log: EventLog, days: int, now: int) -> int:
    """Return the number of episodes that the next build erases."""
    if not (before := retention_bound(days, now)):
        return 0
    [counts] = log_queries.tally(
        log, ("prompted",), _last_bound(tenant), max(1, before - _last_bound(tenant)), 1
    ).values()
    return counts[0]


def is_due(tenant: Tenant, log: EventLog, days: int, now: int) -> bool:
    """Return True if a build should begin for it: once a day, if there are episodes to erase."""
    before = retention_bound(days, now)
    return before - _last_bound(tenant) >= DAY and count_waiting(tenant, log, days, now) > 0


def erase_old(tenant: Tenant, log: EventLog, before: int, now: int) -> int:
    """Erase the episodes that began before a moment; return their number.

    Running it again completes an interrupted run. Raise LogBusy if another process is rewriting the
    log, LogCorrupt if a segment is missing.
    """
    if before <= _last_bound(tenant):
        return 0
    count, changed = 0, 0
    with compaction.alone(log.path):
        for rows in log_queries.session_row_batches(log, KINDS, _last_bound(tenant), before, _MOST):
            changes = list(_changes(log, rows))
            prompts = [row for row in rows if row[3] == "prompted"]
            erased = log_queries.erased_ids(log, log.head()) if prompts else frozenset()
            events = [
                Event(new_id(now), now, Erased(aged=True), row[1], row[5])
                for row in prompts
                if row[1] not in erased
            ]
            if changes or events:
                erasing.rewrite(log, changes, events)
            count, changed = count + len(events), changed + len(changes)
        if changed:
            erasing.purge_old_bytes(log)
            shutil.rmtree(tenant.root / "lance", ignore_errors=True)
    replace_file(_file(tenant), msgspec.json.encode(RetentionMark(before)))
    return count


def _changes(log: EventLog, rows: list[Row]) -> Iterator[Change]:
    for row, whole in zip(rows, log.whole(rows), strict=True):
        body = decode(row[3], whole[BODY])
        left = encode(erasing.strip_texts(body)) if isinstance(body, _BODIES) else whole[BODY]
        if left != whole[BODY]:
            yield Change(row, whole[BODY], left)


def _last_bound(tenant: Tenant) -> int:
    try:
        return _decoder.decode(_file(tenant).read_bytes()).until
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return 0


def _file(tenant: Tenant) -> Path:
    return tenant.root / "retention.json"
