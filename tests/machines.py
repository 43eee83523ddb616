"""A person's machines for the tests of sync, and the events that may befall them in any order."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result
from dashboard_page import application, browser

from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import RemoteError
from store.home.tenant import Tenant
from store.log import commands, integrity
from store.log.commands import Draft
from store.log.event_kinds import Body, Forgotten, Pinned, Restored, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.replica.remote import Remote, open_remote
from store.sync import membership, sealed
from store.sync import sync as syncing
from store.sync.membership import Place
from store.sync.sealed import Sealed
from store.sync.sync import TenantSync

NOW = 1_790_000_000_000_000
KEY = bytes(range(32))
SECOND = 1_000_000


@dataclass
class Laptop:
    """One of a person's machines."""

    name: str
    home: Path
    place: Path

    @property
    def tenant(self) -> Tenant:
        return tenants.tenant(self.home)

    def run(self, *words: str, given: str | None = None) -> Result:
        """Run a command as the person at this machine."""
        told = {"MNEMOLOG_HOME": str(self.home)}
        return CliRunner().invoke(main, words, env=told, input=given, catch_exceptions=False)

    def join(self) -> None:
        """Sync from now on, with a key that all machines share."""
        remote = Sealed(open_remote(str(self.place)), KEY)
        if not sealed.is_begun(remote):
            sealed.begin(remote)
        with EventLog(self.tenant.log, create=True) as log:
            adopted = syncing.orphans(log, remote, membership.own_home(self.tenant, NOW))
        place = Place(url=str(self.place), machine=self.name, name=self.name, adopted=adopted)
        membership.join(self.tenant, place, KEY)

    def sync(self, now: int = NOW, *, anew: bool = False) -> syncing.Synced:
        opened = syncing.open_sync(self.tenant, now)
        assert opened is not None
        done = opened.sync(now, anew=anew)
        assert done is not None
        return done

    def record(self, text: str, at: int = NOW, *, key: str | None = None) -> str:
        with EventLog(self.tenant.log, create=True, wall=lambda: at) as log:
            draft = Draft(content=text, key=key, value=text if key else None)
            return commands.record(log, draft, at).event.subject

    def tell(self, subject: str, body: Body, at: int) -> None:
        with EventLog(self.tenant.log, wall=lambda: at) as log:
            log.append([Event(f"{self.name}-{at}", at, body, subject)])

    def events(self) -> list[Event]:
        with EventLog(self.tenant.log) as log:
            assert integrity.problems(log) == []
            return list(log.read())

    def jobs_page(self) -> str:
        """Return the text of the dashboard's page of jobs."""
        opened = OpenTenants(Settings(self.home))
        try:
            page = browser(application(opened)).get("/t/default/jobs")
            return " ".join(page.get_data(as_text=True).split())
        finally:
            opened.close()

    def digest(self) -> str:
        with EventLog(self.tenant.log) as log:
            return syncing.digest(log)


def spread(chance: random.Random, seen: dict[str, Path], *, everything: bool = False) -> None:
    """Copy some files between the copies of a folder, in any order; a file that a machine deleted
    may come back from another copy.
    """
    for source in seen.values():
        for target in seen.values():
            if source is target:
                continue
            for path in sorted(source.rglob("*")):
                there = target / path.relative_to(source)
                if path.is_file() and not there.exists() and (everything or chance.random() < 0.4):
                    there.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, there)


class Cut:
    """A remote that fails at one of its calls, before or after carrying it out."""

    def __init__(self, remote: Remote, at: int, *, done: bool) -> None:
        self.url, self._remote, self._left, self._done = remote.url, remote, at, done

    def _call(self, call: Callable[[], object]) -> object:
        self._left -= 1
        if self._left == 0 and not self._done:
            raise RemoteError("cut off")
        result = call()
        if self._left == 0:
            raise RemoteError("cut off")
        return result

    def list(self, folder: str):  # type: ignore[no-untyped-def]
        return self._call(lambda: self._remote.list(folder))

    def get(self, name: str):  # type: ignore[no-untyped-def]
        return self._call(lambda: self._remote.get(name))

    def put(self, name: str, data: bytes) -> None:
        self._call(lambda: self._remote.put(name, data))

    def delete(self, names) -> None:  # type: ignore[no-untyped-def]
        self._call(lambda: self._remote.delete(names))


_DAY = 24 * 3_600 * SECOND
_CALLS = 8  # of a remote; a pass may be cut off at any of them


def schedule(folder: Path, seed: int, steps: int) -> tuple[list[str], int]:
    """Run three machines for some random steps; return the errors found, in words, and the number
    of
    memories recorded.

    Each has a folder of its own, which something synchronizes in any order, twice, late and without
    the deleted files. Clocks may be a day off, and a pass may be cut off at any call.
    """
    chance = random.Random(seed)
    laptops = [
        Laptop(name, folder / name, folder / f"place-{name}") for name in "red green blue".split()
    ]
    seen = {laptop.name: laptop.place for laptop in laptops}
    skews = {laptop.name: chance.choice((0, 0, _DAY, -_DAY)) for laptop in laptops}
    recorded: list[str] = []
    for one in laptops:
        one.place.mkdir(parents=True)
        one.join()
    shutil.copyfile(laptops[0].place / "sync.json", laptops[1].place / "sync.json")
    shutil.copyfile(laptops[0].place / "sync.json", laptops[2].place / "sync.json")
    for step in range(steps):
        now = NOW + step * SECOND
        one = chance.choice(laptops)
        for number in range(chance.randrange(4)):
            at = now + skews[one.name] + number
            if recorded and chance.random() < 0.4:
                _change(chance, one, recorded, at)
            else:
                key = chance.choice((None, None, "deploy.region"))
                recorded.append(one.record(f"text {len(recorded)}", at, key=key))
        if chance.random() < 0.5:
            _sync(chance, one, now)
        spread(chance, seen)
    for _ in range(4):
        for one in laptops:
            one.sync(NOW + steps * SECOND)
            spread(chance, seen, everything=True)
    return _wrong(laptops, recorded), len(recorded)


def _change(chance: random.Random, laptop: Laptop, recorded: list[str], at: int) -> None:
    """Have a machine record a change of a memory that it knows."""
    with EventLog(laptop.tenant.log) as log:
        known = sorted(log.present_ids(recorded))
    if known:
        bodies = (Revised(content=f"changed {at}"), Forgotten(), Restored(), Pinned())
        laptop.tell(chance.choice(known), chance.choice(bodies), at)


def _sync(chance: random.Random, laptop: Laptop, now: int) -> None:
    place = membership.read_place(laptop.tenant)
    assert place is not None
    remote: Remote = Sealed(open_remote(str(laptop.place)), KEY)
    if chance.random() < 0.5:
        remote = Cut(remote, chance.randrange(1, _CALLS), done=chance.random() < 0.5)
    try:
        TenantSync(laptop.tenant, place, remote, now).sync(now, anew=chance.random() < 0.5)
    except RemoteError:
        pass


def _wrong(laptops: list[Laptop], recorded: list[str]) -> list[str]:
    wrong = []
    for laptop in laptops:
        done = laptop.sync(NOW)
        if done.problems or done.received:
            wrong.append(f"{laptop.name} is not in step: {done}")
        found = [event.id for event in laptop.events() if event.kind == "recorded"]
        if sorted(found) != sorted(recorded):
            wrong.append(f"{laptop.name} has {len(found)} of {len(recorded)} memories")
    if len({frozenset(event.id for event in other.events()) for other in laptops}) > 1:
        wrong.append("the machines have different events")
    if len({other.digest() for other in laptops}) > 1:
        wrong.append("the machines have different memories")
    return wrong
