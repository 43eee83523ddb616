"""
Work on machines that sync: another machine's events are received, new ones are sent, parts with
erased texts are replaced, small ones merged.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from torture import work_checks as checks
from torture.work_checks import NOW
from torture.work_memory import Acknowledge, Work, drafts, log_of, record_before, texts

from store.home import tenant as tenants
from store.home.files import make_folder
from store.log import commands, erasing
from store.replica import sender
from store.replica.remote import open_remote
from store.sync import membership, sealed
from store.sync import sync as syncing
from store.sync.membership import Place
from store.sync.sealed import Sealed
from store.sync.sync import TenantSync

_PLACE, _OTHER, _AGAIN = "elsewhere", "other", "again"
_KEY = bytes(32)
_PARTS = 5  # parts sent before, merged at the next sync


def _sync(home: Path, place: Path, name: str) -> syncing.Synced:
    """Sync a home with the folder `place`, as the machine `name`; it joins first if it has not."""
    tenant = tenants.tenant(home)
    remote = Sealed(open_remote(str(place)), _KEY)
    at = Place(url=str(place), machine=name, name=name)
    if membership.read_place(tenant) is None:
        if not sealed.is_begun(remote):
            sealed.begin(remote)
        log_of(home, create=True).close()
        membership.join(tenant, at, _KEY)
    outcome = TenantSync(tenant, at, remote, NOW).sync(NOW, anew=True)
    assert outcome is not None
    return outcome


def _prepare(home: Path) -> None:
    """Make a log that is behind another machine's, and has new events itself."""
    record_before(home)
    place, other = home / _PLACE, home.with_name(_OTHER)
    make_folder(place)
    for number in range(_PARTS):
        with log_of(home) as log:
            commands.record_batch(log, drafts(texts(f"d{number}x", 3)), NOW)
        _sync(home, place, "one")
    _sync(other, place, "two")
    with log_of(other) as log:
        commands.record_batch(log, drafts(texts("o", 3)), NOW)
        commands.forget(log, "d1x0", NOW)
    _sync(other, place, "two")
    shutil.rmtree(other)
    with log_of(home) as log:
        erasing.erase(log, ["d0x0"], NOW)
        commands.record_batch(log, drafts(texts("e", 3)), NOW)


def _do(home: Path, acknowledge: Acknowledge) -> None:
    sender._MOST_SMALL = _PARTS  # in a process of its own
    _sync(home, home / _PLACE, "one")
    acknowledge("synced")


def _check(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Check that the log is sound, and that another sync brings a new machine in step with it."""
    with log_of(home) as log:
        before = [event.id for event in log.read()]
    wrong = []
    if acknowledged and not {"o0", "o1", "o2"} <= {*before}:
        wrong.append("what was received is gone")
    again = home.with_name(_AGAIN)
    shutil.rmtree(again, ignore_errors=True)
    outcome = _sync(home, home / _PLACE, "one")
    wrong += outcome.problems
    if acknowledged and (outcome.received or outcome.sent.events):
        wrong.append(f"what was in step is not any more: {outcome}")
    wrong += _sync(again, home / _PLACE, "three").problems
    with log_of(home) as log, log_of(again) as other:
        ids, there = ({event.id for event in each.read()} for each in (log, other))
        if ids != there or syncing.digest(log) != syncing.digest(other):
            wrong.append(f"a machine that joins has {len(there)} of {len(ids)} events")
    shutil.rmtree(again)
    return wrong + checks.of_the_log(home, (), before, (), and_others=True)


WORKS = (Work("sync", _prepare, _do, _check, ("synced",)),)
