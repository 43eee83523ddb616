"""
Work on a replica: a log's new events are sent to a folder elsewhere, parts with erased texts are
replaced, small ones merged.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from torture import work_checks as checks
from torture.work_checks import NOW
from torture.work_memory import Acknowledge, Work, drafts, log_of, record_before, texts

from store.home import tenant as tenants
from store.home.config import DEFAULT_TENANT, Settings
from store.home.files import make_folder
from store.log import commands, erasing
from store.replica import restore, sender
from store.replica.remote import Remote, open_remote
from store.replica.replica import TenantReplica

_PLACE, _AGAIN = "elsewhere", "again"
_PARTS = 5  # parts sent before, merged at the next sync


def _place(home: Path) -> Remote:
    return open_remote(str(home / _PLACE))


def _prepare(home: Path) -> None:
    """Make a log with a replica that is behind: some events are new, some erased."""
    record_before(home)
    make_folder(home / _PLACE)
    keeper = TenantReplica(tenants.tenant(home), _place(home))
    for number in range(_PARTS):
        with log_of(home) as log:
            commands.record_batch(log, drafts(texts(f"d{number}x", 3)), NOW)
        keeper.sync(NOW)
    with log_of(home) as log:
        erasing.erase(log, ["d0x0"], NOW)
        commands.record_batch(log, drafts(texts("e", 3)), NOW)


def _do(home: Path, acknowledge: Acknowledge) -> None:
    sender._MOST_SMALL = _PARTS  # in a process of its own
    TenantReplica(tenants.tenant(home), _place(home)).sync(NOW, anew=True)
    acknowledge("sent")


def _check(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Check that the replica is a prefix of the log, and all of it once acknowledged."""
    again = home.with_name(_AGAIN)
    shutil.rmtree(again, ignore_errors=True)
    restore.restore_replica(Settings(again), _place(home), DEFAULT_TENANT, NOW)
    with log_of(home) as log, log_of(again) as other:
        whole, there = list(log.read()), list(other.read())
    shutil.rmtree(again)
    wrong = []
    if [event.id for event in there] != [event.id for event in whole[: len(there)]]:
        wrong.append("what was sent is no beginning of the log")
    if len(there) < 3 * (_PARTS + 1):
        wrong.append("what had been sent is gone")
    if acknowledged and there != whole:
        wrong.append("what was sent is not what the log says")
    return wrong + checks.of_the_log(home, (), [event.id for event in whole], (), and_others=True)


WORKS = (Work("replicate", _prepare, _do, _check, ("sent",)),)
