"""
Forged snapshots: files with valid hashes and invalid content.

A faulty builder, another program or a half compatible version may write such files. A fresh server
still answers every page, correctly or with a notice that a part is set aside: never with an error,
and no process ends. A wrong schema, number of rows, place or number is found when the file is
opened. Other content (another text, another moment) is not: the hashes are valid and only the log
contradicts it, which `mnemolog verify` compares. It must name each of them; and the next build must
rebuild the parts set aside.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from torture import forged_changes, forged_home, forged_manifest, forged_seen, forged_write
from torture.apart import Answer, Apart
from torture.outcome import Outcome, Scale
from torture.rot_memory import copied

# places that some page follows for any request: they mislead the control
_FOLLOWED = {
    f"{where}: beyond all"
    for where in (
        "facts.facts[0]: document",
        "postings.postings[0]: document",
        "memories.columns[0]: project",
        "entities.mentions[0]: document",
    )
}

Point = tuple[str, Callable[[Path], None], bool]  # name, function, whether it must be seen


@dataclass
class Tally:
    """The results of the forgeries."""

    points: int = 0
    set_aside: int = 0
    harmless: int = 0
    left: int = 0  # found by `verify` alone
    healed: int = 0
    wrong: list[str] = field(default_factory=list)

    def outcome(self, tried: str, floor: int) -> Outcome:
        note = (
            f"{self.set_aside} set aside, {self.harmless} changed no answer, {self.left} named by "
            f"verify alone; {self.healed} healed by a build"
        )
        return Outcome(tried, self.points, "forgeries", self.wrong, note, floor=floor)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    home, copy = folder / "home", folder / "copy"
    forged_home.make(home)
    with Apart(forged_seen.act, ("seen", str(home))) as server:
        base = server.ask(("seen", str(home))).value
        assert not base.failed and not base.notices, (base.failed, base.notices)
        copied(home, copy)
        built = server.ask(("healed", str(copy))).value
        copied(home, copy)
        alarms = server.ask(("told", str(copy))).value[1]
        look = _Look(home, copy, server, base, built, alarms)
        chance = random.Random(11)
        points = list(_of_tables(home))
        columns = _drawn(points, scale.of(18, 600), chance)
        yield look.at(columns, scale.of(9, 10)).outcome("forged tables", 600)
        chosen = _drawn(list(_of_manifests(home)), scale.of(8, 150), chance)
        yield look.blindly([point for point in points if point[0] in _FOLLOWED])
        yield look.at(chosen, scale.of(9, 5)).outcome("forged manifests", 150)


def _of_tables(home: Path) -> Iterator[Point]:
    for place in forged_write.places(home):
        table = forged_write.read(home, place)
        for forgery in forged_changes.forgeries(f"{place.projection}.{place.table}", table):
            forge = partial(forged_write.put, place=place, table=forgery.table)
            yield f"{place}: {forgery.what}", forge, forgery.is_seen


def _of_manifests(home: Path) -> Iterator[Point]:
    for name, forge in forged_manifest.forgeries(home):
        yield name, forge, True


def _drawn(points: list[Point], most: int, chance: random.Random) -> list[Point]:
    return chance.sample(points, most) if len(points) > most else points


@dataclass
class _Look:
    home: Path
    copy: Path
    server: Apart
    base: forged_seen.Seen
    built: forged_seen.Seen  # the same after one more build
    alarms: frozenset[str]  # of the doctor, about the home itself

    def at(self, points: list[Point], every: int) -> Tally:
        """Try each; verify and build every `every`th one, and those with unnoticed changes."""
        tally = Tally()
        for number, (name, forge, is_seen) in enumerate(points):
            self._copy()
            forge(self.copy)
            tally.points += 1
            tally.wrong += [
                f"{name}: {fault}" for fault in self._wrong(tally, is_seen, number % every == 0)
            ]
        return tally

    def blindly(self, points: list[Point]) -> Outcome:
        """Try each with a server that accepts anything: the control."""
        wrong = []
        for name, forge, _ in points:
            self._copy()
            forge(self.copy)
            look = self._asked("blind").value
            if look is None or look.failed or look.answers != self.base.answers:
                wrong.append(name)
        tried = "control: a server that agrees to anything"
        return Outcome(tried, len(points), "forgeries", wrong, is_control=True)

    def _copy(self) -> None:
        copied(self.home, self.copy)
        shutil.copytree(
            self.home / "tenants/other", self.copy / "tenants/other", dirs_exist_ok=True
        )

    def _wrong(self, tally: Tally, must_be_seen: bool, is_asked: bool) -> Iterator[str]:
        answer = self._asked("seen")
        if answer.value is None:
            yield f"the server did not open it: {answer.refused or answer.crash}"
            return
        yield from answer.value.failed[:2]
        is_same = answer.value.answers == self.base.answers
        if answer.value.notices:
            tally.set_aside += 1
        elif is_same:
            tally.harmless += 1
        elif must_be_seen:
            yield f"silently wrong: {_differing(answer.value, self.base)}"
        if is_asked or not (answer.value.notices or is_same):
            is_lie = not answer.value.notices and not is_same and not must_be_seen
            yield from self._told(tally, bool(answer.value.notices), is_lie)

    def _told(self, tally: Tally, is_set_aside: bool, is_lie: bool) -> Iterator[str]:
        """Yield the failures of verify, the doctor and the next build."""
        answer = self._asked("told")
        if answer.value is None:
            yield f"verify or doctor fell: {answer.refused or answer.crash}"
            return
        by_verify, by_doctor = answer.value[0], answer.value[1] - self.alarms
        if is_lie:
            tally.left += by_verify
            if not by_verify:
                yield "silently wrong, and verify does not name it"
        if is_set_aside and not by_verify:
            yield "verify does not name it"
        if is_set_aside and not by_doctor:
            yield "the doctor does not name it"
        if is_set_aside:
            built = self._asked("healed")
            if built.value is None:
                yield f"the build fell: {built.refused or built.crash}"
            elif built.value.notices or built.value.failed:
                yield f"not healed: {[*built.value.notices, *built.value.failed][:2]}"
            elif built.value.answers != self.built.answers:
                yield f"healed to another: {_differing(built.value, self.built)}"
            else:
                tally.healed += 1

    def _asked(self, action: str) -> Answer:
        return self.server.ask((action, str(self.copy)))


def _differing(seen: forged_seen.Seen, base: forged_seen.Seen) -> list[str]:
    return [name for name, answer in base.answers.items() if seen.answers.get(name) != answer][:3]
