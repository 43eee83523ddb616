"""A sample of past recalls covers every door, project and outcome, and helpful recalls."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hook_session import Session, opened
from msgspec.structs import replace
from test_replay import TOPICS, search

from serve.evaluation import drift
from serve.evaluation.replay import Replayed
from serve.evaluation.sample import choose_recalls
from store.home.instants import new_id
from store.log import commands, receipts
from store.log.event_kinds import Hit, Recalled
from store.log.events import Event
from store.log.receipts import Wanted


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    for session in opened(tmp_path):
        for number, topic in enumerate(TOPICS):
            session.remember(f"The {topic} is owned by team {number}", id=f"m{number}")
        yield session


def append_receipt(session: Session, query: str, **fields: object) -> Event:
    """Append a receipt of a recall from some door in a project."""
    search(session, "who owns the parser")
    (newest,) = receipts.page(session.log, Wanted(), 1).receipts
    project = fields.pop("project", None)
    id_ = new_id(session.at + 1)
    body = msgspec.structs.replace(newest.body, query=query, **fields)
    event = replace(newest, id=id_, subject=id_, body=body, project=project, at=session.at + 1)
    session.log.append([event])
    return event


def sampled_receipts(session: Session) -> list[Event]:
    return list(receipts.page(session.log, Wanted(), 1_000).receipts)


def test_rare_doors_and_projects_are_in_the_sample_whoever_asked_last(session: Session):
    for number in range(6):
        append_receipt(session, f"prompt {number}", door="prompt", project="shop")
        append_receipt(session, f"silent {number}", door="prompt", project="shop", hits=())
    for number in range(80):
        append_receipt(session, f"question {number}", door="mcp", project="site")
    everything = sampled_receipts(session)
    newest = everything[:20]
    assert {event.body.door for event in newest} == {"mcp"}  # the sample of earlier versions
    chosen = choose_recalls(session.log, everything, 20)
    doors = Counter((event.body.door, bool(event.body.hits)) for event in chosen)
    assert len(chosen) == 20 and doors["prompt", True] >= 5 and doors["prompt", False] >= 5
    assert chosen == choose_recalls(session.log, everything, 20)
    assert chosen == [event for event in everything if event in chosen]


def test_helpful_and_repeated_recalls_are_sampled_first_and_once(session: Session):
    helpful = append_receipt(session, "who owns the mail queue", hits=(Hit("m4", 1.0, 0.9),))
    commands.rate(session.log, helpful.id, 1.0, session.at + 2)
    for _ in range(4):
        append_receipt(session, "again and again")
    for number in range(60):
        append_receipt(session, f"question {number}")
    chosen = choose_recalls(session.log, sampled_receipts(session), 10)
    assert helpful.id in {event.id for event in chosen}
    assert [event.body.query for event in chosen].count("again and again") == 1


def test_fewer_recalls_than_a_sample_are_all_asked(session: Session):
    for number in range(3):
        append_receipt(session, f"question {number}")
    everything = sampled_receipts(session)
    assert choose_recalls(session.log, everything, 50) == everything


def test_changed_answers_are_listed_worst_first_without_repeats(session: Session):
    brought = (Hit("m1", 1.0, 0.9), Hit("m2", 0.9, 0.9))
    reordered = append_receipt(session, "reordered", hits=brought)
    silenced = append_receipt(session, "silenced", hits=brought)
    helpful = append_receipt(session, "helpful", hits=brought)
    repeats = [append_receipt(session, "one left", hits=brought) for _ in range(3)]
    commands.rate(session.log, helpful.id, 1.0, session.at + 2)
    after = {reordered.id: brought[::-1], silenced.id: (), helpful.id: brought[1:]}
    everything = [reordered, silenced, *repeats, helpful]
    pairs = []
    for event in everything:
        assert isinstance(event.body, Recalled)
        then = Replayed(event, "same", event.body.hits)
        pairs.append((then, Replayed(event, "changed", after.get(event.id, brought[:1]))))
    diff = drift.count_changes(session.log, everything, pairs)
    assert diff.changed == 6
    assert [answer.recall for answer in diff.answers] == [
        helpful.id, silenced.id, reordered.id, repeats[0].id,
    ]  # fmt: skip
