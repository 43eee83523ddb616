"""
Bit rot: every file of a memory is damaged in every way, and a fresh process checks the result.

Damage must be named, by the doctor or by recall itself, or be proven harmless: events and answers
are those of the undamaged memory. Recall still answers; if a log cannot be opened at all, from the
published snapshot. Writing on to a damaged log must not make it worse.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
from torture import crash_points, rot_home, rot_memory, work_repair
from torture.outcome import Outcome, Scale
from torture.rot_damage import Damage, flips, mishaps
from torture.rot_memory import NOW, Seen, copied, files, seen
from torture.shim import is_possible
from torture.work_process import forks

from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import MnemologError
from store.log import integrity, log_queries, salvage
from store.log.event_kinds import Rated
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.repair import repair
from store.snapshots import manifest

_MINE, _OTHERS = Path("tenants/default"), Path("tenants/other")
_LOG = ("log.sqlite", "log.sqlite-wal")
_BESIDE = ("HEAD", "log.head", "ingest.sqlite")
_EVENTS = 208  # in the log
_HEADER = 100  # bytes: https://www.sqlite.org/fileformat.html#the_database_header
_BUDGET_S = 5.0  # of one answer, on a machine with other load
_FELL = (LookupError, ValueError, TypeError, OSError, AssertionError, apsw.Error, pa.ArrowException)


@dataclass
class Tally:
    """The results for one kind of damage."""

    points: int = 0
    detected: int = 0
    harmless: int = 0
    unopened: int = 0  # logs that could not be opened
    slowest_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def outcome(self, tried: str, of: str, floor: int = 0) -> Outcome:
        note = f"{self.detected} detected, {self.harmless} harmless"
        if self.unopened:
            note += f", {self.unopened} logs not opened: answered from what was published"
        note += f"; slowest answer {self.slowest_s * 1000:.0f} ms"
        return Outcome(tried, self.points, of, self.wrong, note, floor=floor)


@dataclass(frozen=True)
class Base:
    """The undamaged memory as seen, and its answers from the published snapshot alone."""

    whole: Seen
    published: tuple[Any, ...]


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    home, copy = folder / "home", folder / "copy"
    older = rot_memory.make(home)
    logs = [rot_memory.tail(tenants.tenant(home, name)) for name in ("default", "other")]
    try:
        yield from _flipped(home, copy, scale)
        yield from _mishaps(home, older, copy, scale)
        yield _headless(home, older, copy, scale)
        yield rot_home.damaged(home, copy, scale)
        yield from _repaired(home, copy, scale)
        yield _by_sqlite_alone(home, copy, scale)
        yield from _killed(folder, scale)
    finally:
        for log in logs:
            log.close()


def _flipped(home: Path, copy: Path, scale: Scale) -> Iterator[Outcome]:
    chance = random.Random(8)
    base = _undamaged(home, copy)
    groups = {
        "log": ([_MINE / name for name in _LOG], scale.of(6, 400)),
        "head, HEAD, queue": ([_MINE / name for name in _BESIDE], scale.of(2, 40)),
        "manifests": (files(home, "tenants/default/manifests/*"), scale.of(1, 20)),
        "cold": (files(home, "tenants/default/cold/*/*"), scale.of(1, 25)),
        "snapshots": (_live(home), scale.of(0, 5)),
    }
    for what, (paths, count) in groups.items():
        if not count:  # one bit of a few of them
            paths, count = chance.sample(paths, 6), 1
        damages = (flip for file in paths for flip in flips(home, file, count, chance))
        tally = _tried(damages, home, copy, base)
        floor = {"log": 800, "snapshots": 250}.get(what, 0)  # 1,000 of them promised
        yield tally.outcome(f"bits flipped: {what}", "flips", floor)


def _live(home: Path) -> list[Path]:
    """Return the files of the current manifest."""
    served = manifest.current(tenants.tenant(home)).projections.values()
    return [_MINE / "snapshots" / file.path for ref in served for file in ref.files]


def _repaired(home: Path, copy: Path, scale: Scale) -> Iterator[Outcome]:
    """Damage the log, have the doctor repair it, and check the result."""
    chance = random.Random(10)
    count = scale.of(2, 30)
    wrong, points, set_aside, lost = [], 0, 0, 0
    for file in (_MINE / name for name in _LOG):
        damages = [*flips(home, file, count, chance), *mishaps(home, file, {})]
        for damage in chance.sample(damages, min(len(damages), 2 * count)):
            settings = copied(home, copy)
            damage.do(copy)
            points += 1
            path = tenants.tenant(copy).log
            there = {row[1] for row in salvage.salvage(path).rows}
            steps = list(repair(settings, NOW + 300, may_touch_log=True))
            failed = [step.how for step in steps if step.state != "mended"]
            wrong += [f"{damage}: {fault}" for fault in failed]
            wrong += [f"{damage}: {fault}" for fault in _after(path, there)]
            with EventLog(path) as log:
                set_aside += log_queries.row_count(log)
                lost += sum(last - first + 1 for first, last in integrity.gaps(log))
    note = f"{set_aside} events kept, {lost} lost and said so"
    yield Outcome("doctor --repair of a damaged log", points, "logs", wrong, note)


def _killed(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Kill the repair at calls that change a file, and tear its writes."""
    if not is_possible():
        return
    (below := folder / "killed").mkdir()
    place = crash_points.Place(below)
    with forks(place.fault) as processes:
        for work in work_repair.WORKS:
            yield crash_points.broken_off(place, processes, work.name, scale.of(4, 300))


def _after(path: Path, there: set[str]) -> Iterator[str]:
    """Yield the faults of a repaired log; `there` are the ids that could be read before."""
    with EventLog(path) as log:
        yield from integrity.problems(log)
        if missing := there - log.present_ids(sorted(there)):
            yield f"{len(missing)} events that could be read are gone"
        event = Event("repaired", NOW + 400, Rated(verdict=1.0), "default-m01")
        head = log.head()
        if log.append([event])[0].event.seq <= head:
            yield "a number was given twice"


def _by_sqlite_alone(home: Path, copy: Path, scale: Scale) -> Outcome:
    """Return the damage that SQLite's own check misses: the control for the use of hashes."""
    chance = random.Random(8)
    points, unseen = 0, []
    for damage in flips(home, _MINE / "log.sqlite-wal", scale.of(6, 200), chance):
        copied(home, copy)
        damage.do(copy)
        points += 1
        connection = apsw.Connection(str(copy / _MINE / "log.sqlite"))
        try:
            rows = connection.execute("PRAGMA integrity_check").fetchall()
            count = connection.execute("SELECT count(*) FROM events").fetchall()[0][0]
        except apsw.Error:
            continue
        finally:
            connection.close()
        if rows == [("ok",)] and count < _EVENTS:
            unseen.append(f"{damage}: {_EVENTS - count} events gone, and SQLite says ok")
    return Outcome("control: SQLite's own check", points, "flips", unseen, is_control=True)


def _mishaps(home: Path, older: Path, copy: Path, scale: Scale) -> Iterator[Outcome]:
    """Cut, zero, exchange and remove files; in the fast tier only some."""
    chance = random.Random(9)
    base = _undamaged(home, copy)
    beside = [_MINE / name for name in (*_LOG, *_BESIDE)]
    derived = files(home, "tenants/default/manifests/*", "tenants/default/cold/*/*")
    snapshots = chance.sample(_live(home), scale.of(2, 25))
    for what, paths in {"log and beside": beside, "built": [*derived, *snapshots]}.items():
        damages = (copy for file in paths for copy in _of(home, older, file, chance, scale))
        yield _tried(damages, home, copy, base).outcome(f"mishaps: {what}", "mishaps")


def _headless(home: Path, older: Path, copy: Path, scale: Scale) -> Outcome:
    """Damage the header of a log in one file: many of these cannot be opened."""
    chance, log = random.Random(11), _MINE / "log.sqlite"
    settled = copied(home, home.with_name("settled")).home
    with EventLog(settled / log) as opened:
        opened.settle()
    base = _undamaged(settled, copy)
    damages = [
        *flips(settled, log, scale.of(4, 300), chance, within=_HEADER),
        *_of(settled, older, log, chance, scale),
        Damage(log, "no database", b"no database"),
        Damage(log, "missing", None),
    ]
    tally = _tried(damages, settled, copy, base)
    if not tally.unopened:
        tally.wrong.append("every log could be opened: nothing was tried")
    return tally.outcome("a log in one file: its header", "mishaps")


def _of(
    home: Path, older: Path, file: Path, chance: random.Random, scale: Scale
) -> Iterable[Damage]:
    places = {
        "another tenant's": home / _OTHERS / file.relative_to(_MINE),
        "an older one": older / file,
    }
    others = {place: path.read_bytes() for place, path in places.items() if path.exists()}
    all_of = list(mishaps(home, file, others))
    return all_of if scale is Scale.FULL else chance.sample(all_of, min(2, len(all_of)))


def _tried(
    damages: Iterable[Damage],
    home: Path,
    copy: Path,
    base: Base,
    look: Callable[[Settings], Seen] = seen,
) -> Tally:
    tally = Tally()
    for damage in damages:
        settings = copied(home, copy)
        damage.do(copy)
        tally.points += 1
        try:
            _judge(tally, damage, look(settings), base)
            if damage.file.name in _LOG:
                _goes_on(tally, damage, settings)
        except _FELL as error:
            tally.wrong.append(f"{damage}: fell over: {error!r}")
    return tally


def _undamaged(home: Path, copy: Path) -> Base:
    whole = seen(copied(home, copy))
    assert whole.answers and not whole.alarms, whole.alarms
    published = rot_memory.published(copied(home, copy))
    assert published != whole.answers, "the log knows more than what was published"
    return Base(whole, published)


def _judge(tally: Tally, damage: Damage, seen: Seen, base: Base) -> None:
    alarms, whole = seen.alarms - base.whole.alarms, base.whole
    is_same = seen.events == whole.events and _comparable(damage, seen) == _comparable(
        damage, whole
    )
    tally.slowest_s = max(tally.slowest_s, seen.slowest_s)
    if seen.answers is None:
        tally.wrong.append(f"{damage}: recall does not answer: {seen.refused}")
    elif not seen.is_open:
        tally.unopened += 1
        if seen.answers != base.published:
            tally.wrong.append(f"{damage}: recall does not answer what was published")
    if seen.slowest_s > _BUDGET_S:
        tally.wrong.append(f"{damage}: an answer took {seen.slowest_s:.1f} s")
    if alarms:
        tally.detected += 1
    elif is_same:
        tally.harmless += 1
    else:
        tally.wrong.append(f"{damage}: silently wrong")


def _comparable(damage: Damage, seen: Seen) -> object:
    """Return the part of the answers that must be equal: an older manifest and the tail may rank in
    another order and add other memories marked unsure, as similar spellings are looked up in the
    snapshot first.
    """
    if damage.file.name != "HEAD" or seen.answers is None:
        return seen.answers
    return [
        {(hit["id"], hit["text"]) for hit in hits if "unsure" not in hit} for hits in seen.answers
    ]


def _goes_on(tally: Tally, damage: Damage, settings: Settings) -> None:
    """Append to the damaged log, as a server would: readable events stay readable."""
    path = tenants.tenant(settings.home).log
    late = Event("after", NOW + 200, Rated(verdict=1.0), "default-m01")
    try:
        with EventLog(path) as log:
            before = {event.seq: event for event in integrity.readable_events(log, 0)[0]}
            log.append([late])
    except MnemologError:
        return
    with EventLog(path) as log:
        after = {event.seq: event for event in integrity.readable_events(log, 0)[0]}
    if any(after.get(seq) != event for seq, event in before.items()):
        tally.wrong.append(f"{damage}: what could be read is gone after one more event")
