"""
A memory queried over months, then every recall asked again: the same answers?

`python tests/same_answers.py 3000` simulates so many recalls: gaps of minutes to days, builds
published days after the last event, three profiles, four doors, restarts, a backup restored into
another home, and full rebuilds. Then each receipt is asked again (`serve.evaluation.replay`) and
compared byte for byte. It prints how many differ, by profile and by the memory's last change.
"""

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from hook_session import Session
from msgspec.structs import replace

from serve.evaluation.replay import Replayed, replay
from serve.recall.request import Asker, RecallRequest, answer
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home.config import Settings, load
from store.home.instants import moment
from store.log import commands, receipts
from store.log.event_kinds import Recalled, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import Wanted
from store.maintenance import backup
from store.maintenance.build import rebuild

EMBEDDER = LexicalEmbedder()
PROFILES = ("balanced", "wal", "match")
DOORS = ("mcp", "cli", "rest")
DAY = 86_400 * 1_000_000
START = 1_760_000_000_000_000
TOPICS = (
    *("billing worker", "search index", "upload limit", "session store", "mail queue", "parser"),
    *("invoice export", "login page", "rate limiter", "image cache", "audit trail", "nightly sync"),
)
FACTS = (
    "The {} retries a failed job {} times before it gives up",
    "The {} is owned by team {} and nobody else deploys it",
    "We moved the {} to host {} because the old one ran out of disk",
    "Never restart the {} before {} o'clock",
    "The {} has a timeout of {} seconds",
)
QUESTIONS = (
    "how often does the {} retry a failed job?",
    "which team owns the {}",
    "on which host does the {} run?",
    "what did we note about the {} last week?",
    "{} timeout yesterday",
    "what do I have to know before I restart the {}?",
    "everything on the {}",
)
KINDS = ("fact", "decision", "lesson", "preference", "context")


@dataclass
class Life:
    """A memory and its clock."""

    home: Path
    seed: int = 1
    at: int = START
    profile: str = "balanced"
    gap: int = 3 * DAY  # at most, from the last event to the publication of a build
    stages: dict[str, str] = field(default_factory=dict)  # by receipt: the last change before it

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        EventLog(tenants.tenant(self.home).log, create=True).close()
        self.ids: list[str] = []
        self.stage = "tail only"
        self._open()

    def _open(self) -> None:
        (self.home / "config.toml").write_text(f'profile = "{self.profile}"\n')
        self.session = Session(
            OpenTenants(load(environ={"MNEMOLOG_HOME": str(self.home)})), at=self.at
        )

    @property
    def log(self) -> EventLog:
        return self.session.log

    def wait(self, most: int = 4 * DAY) -> None:
        """Advance the clock by minutes or days."""
        self.at += int(self.chance.choice((0.0005, 0.01, 0.3, 1.0)) * most * self.chance.random())
        self.session.at = self.at

    def restart(self, profile: str | None = None) -> None:
        self.session.tenants.close()
        self.profile = profile or self.profile
        self._open()

    def build(self, *, full: bool = False) -> None:
        """Publish the current memories, up to days after the last event."""
        self.at += self.chance.randrange(self.gap)
        served = self.session.tenants.get("default")
        rebuild(served.tenant, served.log, EMBEDDER, self.at, full=full)
        served.reader.poll()
        self.stage = "built in full" if full else "built"

    def restore(self) -> None:
        """Continue in another home, from a backup of this one."""
        kept, there = self.home / "kept.zip", self.home.with_name(self.home.name + "-again")
        backup.make_backup(tenants.tenant(self.home), kept, "1", self.at)
        self.session.tenants.close()
        there.mkdir()
        backup.restore_backup(Settings(there), kept, "default", self.at, replace=False)
        self.home = there
        self._open()
        self.build()
        self.stage = "restored"

    def change(self) -> None:
        """Record, revise, rate, pin, supersede or archive a memory."""
        self.wait(DAY)
        act = self.chance.random()
        if act < 0.6 or len(self.ids) < 20:
            topic, text = self.chance.choice(TOPICS), self.chance.choice(FACTS)
            draft = commands.Draft(
                content=text.format(topic, self.chance.randrange(1, 90)),
                kind=self.chance.choice(KINDS),
                importance=self.chance.choice((None, 0.2, 0.7, 0.9, 1.0)),
                created_at=moment(self.at - self.chance.randrange(90 * DAY))
                if self.chance.random() < 0.2
                else None,
                ttl_s=86_400 * self.chance.randrange(2, 60) if self.chance.random() < 0.1 else None,
            )
            self.ids.append(commands.record(self.log, draft, self.at).event.id)
            return
        id_ = self.chance.choice(self.ids)
        if act < 0.7:
            self.ids.remove(id_)
            said = commands.Draft(
                content=f"{self.chance.choice(TOPICS)} changed: see {self.chance.randrange(99)}"
            )
            new = commands.record(self.log, said, self.at).event.id
            commands.supersede(self.log, id_, new, self.at)
            self.ids.append(new)
        elif act < 0.8:
            text = self.chance.choice(FACTS).format(self.chance.choice(TOPICS), 99)
            commands.revise(self.log, id_, Revised(content=text), self.at)
        elif act < 0.9:
            commands.rate(self.log, id_, self.chance.choice((-1.0, 0.5, 1.0)), self.at)
        elif act < 0.95:
            commands.pin(self.log, id_, self.at)
        else:
            self.ids.remove(id_)
            commands.archive(self.log, id_, self.at)

    def ask(self) -> None:
        """Ask through one of the doors, with the configured settings or others."""
        self.wait()
        text = self.chance.choice(QUESTIONS).format(self.chance.choice(TOPICS))
        if self.chance.random() < 0.3:
            self.session.name = f"s{self.at // DAY}"
            self.session.ask(text)
            self.at = self.session.at
            return
        served, choices = self.session.tenants.get("default"), self.session.tenants.settings.choices
        wants: dict[str, Any] = {}
        if self.chance.random() < 0.2:
            wants["profile"] = self.chance.choice(PROFILES)
        if self.chance.random() < 0.2:
            wants["top_k"] = self.chance.choice((1, 3, 20))
        if self.chance.random() < 0.1:
            wants["min_confidence"] = 0.3
        if self.chance.random() < 0.1:
            wants["as_of"] = moment(self.at - self.chance.randrange(20 * DAY))
        request = RecallRequest(query=text, **wants)
        asker = Asker(door=self.chance.choice(DOORS))
        _, receipt = answer(served.reader, request, choices, self.at, asker)
        assert receipt is not None
        served.log.append([receipt])
        self.stages[receipt.id] = self.stage

    def receipts(self) -> Sequence[Event]:
        self.session.tenants.get("default").notes.write()
        events: list[Event] = []
        after = None
        while True:
            page = receipts.page(self.log, Wanted(), 1_000, after)
            events += page.receipts
            if (after := page.last) is None:
                return events

    def close(self) -> None:
        self.session.tenants.close()


def live(home: Path, recalls: int, seed: int = 1) -> Life:
    """Return a memory after so many recalls, a third of them under each profile."""
    life = Life(home, seed)
    builds = max(4, recalls // 40)
    for number in range(recalls):
        if number % (recalls // 3 + 1) == 0:
            life.restart(PROFILES[number // (recalls // 3 + 1)])
        if number % 3 == 0:
            life.change()
        if number == recalls // 2:
            life.restore()
        elif number and number % (recalls // builds) == 0:
            life.build(full=life.chance.random() < 0.3)
            if life.chance.random() < 0.3:
                life.restart()
        life.ask()
    return life


def replayed(life: Life, events: Sequence[Event] | None = None) -> list[Replayed]:
    return list(
        replay(life.log, EMBEDDER, events or life.receipts(), life.session.tenants.settings.choices)
    )


def without_moments(events: Sequence[Event]) -> list[Event]:
    """Return receipts of older versions, which measured ages up to the publication of a build."""
    found = []
    for event in events:
        body = event.body
        assert isinstance(body, Recalled) and body.basis
        basis = msgspec.structs.replace(body.basis, moment=0)
        found.append(msgspec.structs.replace(body, basis=basis))
    return [replace(one, body=body) for one, body in zip(events, found, strict=True)]


def profile_of(one: Replayed) -> str:
    return (one.before.basis and one.before.basis.profile) or "balanced"


def main() -> None:
    recalls, began = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        life = live(Path(folder, "home"), recalls, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        replays = replayed(life)
        asked = Counter(profile_of(one) for one in replays)
        for verdict in ("same", "changed", "skipped"):
            some = [one for one in replays if one.verdict == verdict]
            print(verdict, len(some), dict(Counter(map(profile_of, some))))
        for one in [one for one in replays if one.verdict == "changed"][:10]:
            print(one.receipt.id, one.before.door, profile_of(one), one.before.query)
        print(
            dict(Counter(one.before.door for one in replays)), dict(Counter(life.stages.values()))
        )
        span = (replays[-1].receipt.at - replays[0].receipt.at) // DAY
        spoke = sum(bool(one.before.hits) for one in replays)
        print(f"{len(replays)} receipts, {spoke} brought something, {span} days, {dict(asked)}")
        print(f"{time.monotonic() - began:.0f} s")
        life.close()
        shutil.rmtree(life.home, ignore_errors=True)


if __name__ == "__main__":
    main()
