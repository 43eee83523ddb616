"""
A home as after months of use, for the dashboard: memories that name files and people, receipts with
ratings, plans, recommendations, drafts, lessons, goals, failures and tokens.

The same size gives the same home, except for the timestamps, which lead up to now.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec
from corpus import WORDS, texts
from process import run

from store.home import failures, tokens
from store.home import tenant as tenants
from store.log.commands import Draft, import_drafts
from store.log.event_kinds import (
    Accepted,
    Applied,
    Called,
    Followed,
    Hit,
    Outcome,
    Planned,
    Prompted,
    Proposed,
    Rated,
    Recalled,
    Recorded,
    Step,
    Surfaced,
    Undone,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.plans.recommendations import Change

DAY = 86_400_000_000  # microseconds
DAYS = 100
LESSONS, GOALS, RECEIPTS = 300, 200, 12_000
PLANS, WAITING, STEPS, LARGE = 300, 60, 20, 1_000
KEYED = 5  # waiting plans that propose values of keys
RECOMMENDED, DRAFTS = 200, 200
_FILES, _PEOPLE, _NAMING = 8_000, 400, 0.6
_AT_ONCE = 1_000


@dataclass(frozen=True)
class Seed:
    """The parameters of a home: number of memories, random source, end (microseconds UTC)."""

    size: int
    chance: random.Random
    now: int

    def memory(self) -> str:
        return f"m{self.chance.randrange(self.size)}"

    def moment(self) -> int:
        return self.now - self.chance.randrange(DAYS * DAY)

    def words(self, count: int) -> str:
        return " ".join(self.chance.choices(WORDS[:20_000], k=count))


def made(home: Path, size: int) -> None:
    """Make a home of `size` memories, and build it."""
    home.mkdir(parents=True, exist_ok=True)
    seed = Seed(size, random.Random(29), time.time_ns() // 1_000)
    tenant = tenants.tenant(home)
    with EventLog(tenant.log, create=True) as log:
        drafts = _drafts(seed)
        for start in range(0, size, _AT_ONCE):
            at = seed.now - DAYS * DAY + start * DAYS * DAY // (size + 1)
            import_drafts(log, islice(drafts, _AT_ONCE), at)
        watermark = log.head()
        for events in (_rules(seed), _receipts(seed), _lessons_shown(seed), _paid(seed)):
            _append(log, events)
        _append(log, _plans(seed, watermark))
        _append(log, _recommended(seed, watermark))
        _append(log, _proposed(seed))
    for number in range(6):
        root = home if number % 2 else tenant.root
        failures.keep(root, f"job-{number}", seed.now, f"the model did not answer: {number}")
    for number in range(20):
        wanted = tokens.Wanted(name=f"program {number}", scopes=("read",))
        tokens.make(home, tenant.name, wanted, seed.now)
    run(home, "build", "--quick")


def _append(log: EventLog, events: Iterator[Event]) -> None:
    while some := list(islice(events, _AT_ONCE)):
        log.append(some)


def _drafts(seed: Seed) -> Iterator[Draft]:
    """Yield memories; most name two files of the same or the next folder, some the speaker."""
    chance = seed.chance
    for number, text in enumerate(texts(seed.size)):
        if chance.random() < _NAMING:
            first = int(_FILES * chance.random() ** 2)
            second = (first + 1 + int(12 * chance.random() ** 2)) % _FILES
            text = f"{_file(first)} and {_file(second)}: {text}"
        if chance.random() < 0.1:
            text = f"@{WORDS[300 + chance.randrange(_PEOPLE)]} says {text}"
        project = f"team{number % 7}/app" if number % 3 else None
        yield Draft(id=f"m{number}", content=text, project=project, tags=(f"tag{number % 50}",))


def _file(number: int) -> str:
    return f"{WORDS[number // 20]}/{WORDS[200 + number]}.py"


def _rules(seed: Seed) -> Iterator[Event]:
    for number in range(LESSONS):
        body = Recorded(content=f"Never touch {_file(number)} by hand", kind="lesson")
        yield Event(f"lesson{number}", seed.moment(), body, f"lesson{number}")
    for number in range(GOALS):
        status = seed.chance.choice(("open", "open", "blocked", "done"))
        body = Recorded(content=f"Ship {seed.words(6)}", kind="goal", status=status, progress=0.4)
        yield Event(f"goal{number}", seed.moment(), body, f"goal{number}")


def _receipts(seed: Seed) -> Iterator[Event]:
    """Yield recalls of sessions in order of time, a sixth of them rated, a quarter with tests."""
    for number in range(RECEIPTS):
        at = seed.now - (RECEIPTS - number) * 30 * DAY // RECEIPTS
        id_, session = f"recall{number}", f"session{number // 12}"
        count = 0 if number % 9 == 0 else 5
        sure = sorted((seed.chance.random() for _ in range(count)), reverse=True)
        hits = tuple(Hit(seed.memory(), 10 * confidence, confidence) for confidence in sure)
        body = Recalled(
            query=seed.words(8),
            mode="auto",
            manifest=1,
            watermark=seed.size,
            hits=hits,
            dropped={"below_confidence": 3},
            took_us=seed.chance.randrange(800, 9_000),
        )
        yield Event(f"{id_}p", at, Prompted(prompt=body.query), f"{id_}p", session=session)
        yield Event(id_, at + 1, body, id_, "team1/app", session)
        if number % 6 == 0:
            yield Event(f"{id_}r", at + 2, Rated(verdict=seed.chance.choice((-1.0, 1.0))), id_)
        if number % 4 == 0:
            passed = Outcome(effort="test", passed=number % 8 == 0)
            yield Event(f"{id_}o", at + 3, passed, f"{id_}o", session=session)


def _lessons_shown(seed: Seed) -> Iterator[Event]:
    for number in range(4_000):
        lesson = f"lesson{int(LESSONS * seed.chance.random() ** 2)}"
        at, session = seed.now - 20 * DAY + number * DAY // 250, f"agent{number // 5}"
        yield Event(f"s{number}", at, Surfaced(place="prompt"), lesson, session=session)
        if number % 2:
            verdict = seed.chance.choice(("followed", "ignored", "not_applicable"))
            body = Followed(verdict=verdict, place="prompt", stood={"test": number % 3 > 0})
            yield Event(f"f{number}", at + 1, body, lesson, session=session)


def _paid(seed: Seed) -> Iterator[Event]:
    for number in range(2_000):
        body = Called(
            purpose=seed.chance.choice(("distill", "facts", "judge")),
            model="a/model",
            tier="cheap",
            prompt_sha256="0" * 64,
            prompt_tokens=900,
            answer_tokens=80,
            cost_usd=0.0004,
            took_ms=700,
        )
        yield Event(f"call{number}", seed.now - number * 30 * DAY // 2_000, body, f"call{number}")


def _plans(seed: Seed, watermark: int) -> Iterator[Event]:
    """Yield plans; the last WAITING are pending, and one of these has the most steps allowed."""
    for number in range(PLANS):
        id_, at = f"PLAN{number:04}", seed.now - (PLANS - number) * DAYS * DAY // PLANS
        is_large, is_keyed = number == PLANS - 1, PLANS - 1 - KEYED <= number < PLANS - 1
        steps = tuple(_step(seed) for _ in range(LARGE if is_large else STEPS))
        if is_keyed:
            steps = tuple(_fact(seed, id_, place) for place in range(STEPS))
        body = Planned(
            job="facts" if is_keyed else seed.chance.choice(("consolidate", "archive")),
            watermark=watermark * 9 // 10 if is_keyed else watermark,
            steps=steps,
            looked_at=seed.size,
        )
        yield Event(id_, at, body, id_)
        if number >= PLANS - WAITING:
            continue
        wrote = tuple(f"{id_}e{place}" for place in range(STEPS))
        yield Event(f"{id_}a", at + 1, Applied(events=wrote), id_)
        if number % 20 == 0:
            yield Event(f"{id_}u", at + 2, Undone(events=wrote), id_)


def _step(seed: Seed) -> Step:
    return Step(
        event="superseded",
        subject=seed.memory(),
        body={"by": seed.memory(), "reason": "says the same"},
        why="two say the same",
        before={"content": seed.words(30), "state": "active"},
        evidence={"by_says": seed.words(30), "nearness": 0.93},
    )


def _fact(seed: Seed, plan: str, place: int) -> Step:
    return Step(
        event="recorded",
        subject=f"{plan}f{place}",
        body={
            "content": f"the region of {seed.words(2)} is {place}",
            "key": f"{plan.lower()}.k{place}",
            "value": str(place),
            "source_ids": [seed.memory()],
        },
        why="one memory says so",
    )


def _recommended(seed: Seed, watermark: int) -> Iterator[Event]:
    for number in range(RECOMMENDED):
        id_, steps = f"RECOMMEND{number:04}", (_step(seed), _step(seed))
        draft = msgspec.to_builtins(Change(watermark, steps))
        ids = tuple(step.subject for step in steps)
        body = Proposed(what="merge", draft=draft, because="nobody asked", source_ids=ids)
        yield Event(id_, seed.moment(), body, id_)
        if number % 2:
            yield Event(f"{id_}y", seed.now, Accepted(plan=f"PLAN{number:04}"), id_)


def _proposed(seed: Seed) -> Iterator[Event]:
    for number in range(DRAFTS):
        rule = f"Always run {_file(number)} first"
        id_, draft = f"DRAFT{number:04}", {"content": rule, "kind": "lesson"}
        proposed = Proposed(what="lesson", draft=draft, because="a person said so")
        yield Event(id_, seed.moment(), proposed, id_)
        if number % 2:
            yield Event(f"{id_}y", seed.now, Accepted(memory=f"lesson{number}"), id_)
