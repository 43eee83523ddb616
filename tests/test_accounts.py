"""The outcome of a matter ranks first, over notes, statements, commits and turns about it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_selection import EMBEDDER, HOUR
from test_selection import NOW as LATER

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.recall import Question, recall
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Acted, Prompted, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild

DATA = Path(__file__).parent / "data" / "state"
NOW = LATER - 2_000 * HOUR
KINDS = {"note": "fact", "decision": "decision", "milestone": "milestone"}


@dataclass
class Account:
    """A matter: its lines, each with a kind and a text, and questions with the answering ids."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    questions: list[tuple[str, str]] = field(default_factory=list)


def accounts(name: str) -> Iterator[Account]:
    for number, part in enumerate((DATA / name).read_text(encoding="utf-8").split("\n= ")[1:]):
        account, ends = Account(), {}
        for place, line in enumerate(part.splitlines()[1:]):
            mark, _, rest = line.partition(" ")
            if mark in ("?", "^"):
                account.questions.append((rest, ends["*" if mark == "?" else "<"]))
            elif line:
                kind, _, text = (rest if mark in ("*", "<") else line).partition(" ")
                ends[mark] = id_ = f"{number}-{place}"
                account.lines.append((id_, kind, text))
        yield account


def record(log: EventLog, account: Account, at: int) -> None:
    for place, (id_, kind, text) in enumerate(account.lines):
        moment = at + place * 9 * HOUR
        if kind == "episode":
            tell_turn(log, id_, *text.split(" | "), moment)
        else:
            session = f"{id_}-s" if kind == "statement" else None
            kept = Draft(id=id_, content=text, kind=KINDS.get(kind, kind), session=session)
            commands.record(log, kept, moment)


def tell_turn(log: EventLog, id_: str, prompt: str, reply: str, at: int) -> None:
    log.append(
        [
            Event(event_id, moment, body, event_id, None, f"{id_}-s", "plain", "agent")
            for event_id, moment, body in (
                (id_, at, Prompted(prompt=prompt)),
                (f"{id_}-a", at + 1, Acted(tool="Edit", doing="edit", files=("src/app.py",))),
                (f"{id_}-t", at + 2, SessionTold(stage="stopped", said=reply)),
            )
        ]
    )


@pytest.mark.parametrize(("name", "share"), [("accounts.txt", 0.75), ("accounts_more.txt", 0.7)])
def test_the_latest_state_of_a_thing_ranks_first(
    tenant: Tenant, log: EventLog, name: str, share: float
):
    things = list(accounts(name))
    for number, account in enumerate(things):
        record(log, account, NOW + number * HOUR)
    rebuild(tenant, log, EMBEDDER, LATER)
    total, missed = 0, []
    with Reader(tenant, log, EMBEDDER).view() as view:
        for account in things:
            for text, wanted in account.questions:
                question = Question(text, Filter(now=LATER + HOUR), 8, fusion="weighted")
                ids = [hit.memory.id for hit in recall(view, question).hits]
                total += 1
                if ids[:1] != [wanted]:
                    place = ids.index(wanted) + 1 if wanted in ids else 0
                    missed.append(f"{text} (at {place})")
    assert len(missed) <= (1 - share) * total, f"{len(missed)} of {total}: {missed}"
