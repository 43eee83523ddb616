"""
power_loss: the power is cut at any call of a work, with any possible content of the disk.

A work is recorded once, on an empty disk, with its preparation, which need not be on the disk
either. At a cut the extremes and some random images are laid out, each different, and the memory is
checked; in some the work is done again too, and its build must then equal a build from the log
alone. Controls are the same works done by a weakened program: each must lose something.
"""

import itertools
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from torture import power_loss_files, power_loss_log, work
from torture.disk import EXTREMES, Disk, Image, lay, luck_of
from torture.fault import Call, Kind
from torture.outcome import Outcome, Scale
from torture.recorded import BEGIN, HOME, calls
from torture.work import Work, again

from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home.errors import MnemologError
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots import manifest as manifests
from store.snapshots.projection import digest

SEED = 2014  # any other is as good
A_CUT = 5  # images, where there are as many cuts
TRIES = 4  # to find one more that differs
MEMORY = Path("/dev/shm")  # for the images, if it exists: no disk is worn


def _log_of(events: int) -> Work:
    return Work(
        f"log of {events} events",
        lambda home: None,
        partial(power_loss_log.write, events=events),
        partial(power_loss_log.problems, events=events),
        (),
    )


# 700 events are more than the write-ahead log takes before it is begun anew
_LOGS = [_log_of(events) for events in (40, 150, 300, 310, 700)]
WORKS = work.BY_NAME | {work_.name: work_ for work_ in (*_LOGS, *power_loss_files.WORKS)}


@dataclass(frozen=True, slots=True)
class Trial:
    """The number of images of a work: in the fast tier, in full, and those in which the work is
    done again. `floor` is the promised minimum of the full tier.
    """

    work: str
    fast: int
    full: int
    again: int = 0
    floor: int = 0
    weakness: str = ""


NORMAL, OFF = "synchronous NORMAL", "synchronous OFF"
TRIALS = (
    Trial("log of 40 events", fast=300, full=1_500, floor=1_400),
    Trial("log of 150 events", fast=0, full=3_000, floor=2_900),
    Trial("log of 300 events", fast=0, full=4_000, floor=4_000),
    Trial("log of 310 events", fast=0, full=4_000, floor=4_000),
    Trial("log of 700 events", fast=0, full=3_000, floor=3_000),
    Trial("make", fast=40, full=200, again=10, floor=150),
    Trial("append", fast=0, full=300, again=10, floor=200),
    Trial("batch", fast=0, full=300, again=10, floor=200),
    Trial("import", fast=0, full=300, again=10, floor=200),
    Trial("migrate", fast=0, full=300, again=10, floor=200),
    Trial("ingest", fast=0, full=300, again=10, floor=200),
    Trial("build", fast=0, full=300, again=15, floor=200),
    Trial("publish", fast=24, full=200, again=10, floor=100),
    Trial("archive", fast=0, full=300, again=15, floor=200),
    Trial("erase", fast=0, full=300, again=15, floor=200),
    Trial("replicate", fast=20, full=250, again=12, floor=150),
    Trial("sync", fast=0, full=250, again=12, floor=150),
    Trial("replace", fast=0, full=1_000, floor=200),
    Trial("delete", fast=0, full=200, floor=150),
    Trial("backup", fast=0, full=150, floor=100),
    Trial("restore", fast=0, full=150, floor=80),
    Trial("log of 40 events", fast=50, full=300, weakness=NORMAL),
    Trial("log of 40 events", fast=0, full=300, weakness=OFF),
    Trial("make", fast=0, full=200, weakness="no fsync of folders"),
    Trial("replace", fast=0, full=100, weakness="no fsync of files"),
    Trial("publish", fast=15, full=100, weakness="no fsync of files"),
    Trial("publish", fast=0, full=100, weakness="no fsync of folders"),
    Trial("erase", fast=0, full=50, weakness="no fsync of folders"),
    Trial("restore", fast=0, full=60, weakness="no fsync of folders"),
)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Cut the power of each work; the log takes most of the images."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else folder) as place:
        for number, trial in enumerate(TRIALS):
            if most := scale.of(trial.fast, trial.full):
                yield _tried(trial, Path(place) / str(number), most)


def _tried(trial: Trial, folder: Path, most: int) -> Outcome:
    recorded = calls(trial.work, folder, trial.weakness)
    disk, work_ = folder / "disk", WORKS[trial.work]
    every = trial.full // trial.again if trial.again else 0
    wrong, points, times = [], 0, 0
    for cut in cuts(recorded, most):
        lay(cut.image, disk)
        goes_on = every > 0 and points % every == 0
        problems = _looked(work_, disk, cut.acknowledged, goes_on=goes_on)
        wrong += [f"image {points}, before call {cut.number}: {fault}" for fault in problems]
        points += 1
        times += goes_on
    shutil.rmtree(folder)
    return Outcome(
        f"power cut: {trial.work}{', ' if trial.weakness else ''}{trial.weakness}",
        points,
        "images",
        wrong,
        note=f"{times:,} of them gone on with" if times else "",
        is_control=bool(trial.weakness),
        floor=trial.floor,
    )


def _looked(work: Work, disk: Path, acknowledged: Collection[str], *, goes_on: bool) -> list[str]:
    """Return the faults of the memory, also after its work is done again."""
    home = Path(f"{disk}{HOME}")
    try:
        if not goes_on:
            return work.check(home, acknowledged)
        wrong = again(work, home, acknowledged)
        return [*wrong, *(_differing(home) if work.built else ())]
    except MnemologError as error:
        return [f"{type(error).__name__}: {error}"]


def _differing(home: Path) -> list[str]:
    """Return the published projections that differ from a build from the log alone."""
    tenant = tenants.tenant(home)
    published = manifests.current(tenant)
    with EventLog(tenant.log) as log:
        digests = build.digests(log, LexicalEmbedder(), published.watermark)
    return [
        f"{name} is not what a build from the log gives"
        for name, tables in digests.items()
        if digest(tables) != published.digests[name]
    ]


@dataclass(frozen=True, slots=True)
class Cut:
    """A power cut: the number of the next call, the acknowledged ids, the disk's image."""

    number: int
    acknowledged: Sequence[str]
    image: Image


def cuts(recorded: Sequence[Call], most: int) -> Iterator[Cut]:
    """Yield about `most` different images from all over the work, the same every time."""
    begin = next(n for n, call in enumerate(recorded) if call.data == BEGIN.encode())
    chance = Random(SEED)
    moments = _moments(recorded, begin, most // A_CUT, chance)
    disk, acknowledged = Disk(), list[str]()
    points_seen: set[int] = set()
    for number in range(len(recorded) + 1):
        if number in moments:
            for image in _images(
                disk, -(-most // len(moments)), chance, len(acknowledged), points_seen
            ):
                yield Cut(number, tuple(acknowledged), image)
        if number < len(recorded):
            call = recorded[number]
            disk.make(call)
            if call.kind is Kind.MARK and number > begin:
                acknowledged.append(call.data.decode())


def _images(
    disk: Disk, most: int, chance: Random, acknowledged: int, points: set[int]
) -> Iterator[Image]:
    """Yield extreme and random images; `points` are those tried with as many acknowledgements."""
    lucks = itertools.chain(EXTREMES, (luck_of(chance) for _ in range(TRIES * most)))
    remaining = most
    while remaining and (luck := next(lucks, None)):
        image = disk.after(luck, chance)
        mark = hash((acknowledged, frozenset(image.items())))
        if mark not in points:
            points.add(mark)
            remaining -= 1
            yield image


def _moments(recorded: Sequence[Call], begin: int, most: int, chance: Random) -> set[int]:
    """Return the points to cut at: just after an acknowledgement, at the end, and anywhere."""
    moments = range(begin + 1, len(recorded) + 1)
    if len(moments) <= most:
        return set(moments)
    marks = [n for n in moments if n == len(recorded) or recorded[n - 1].kind is Kind.MARK]
    if len(marks) > most // 2:
        marks = chance.sample(marks, most // 2)
    return {*marks, *chance.sample(moments, most - len(marks))}
