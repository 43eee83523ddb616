"""Use is counted from receipts and ratings, and only of existing memories."""

from plain_receipt import plain_receipt

from store.derived import feedback
from store.derived.feedback import USAGE_PROJECTION, Usage
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Hit, Judged, Rated
from store.log.events import Event
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.snapshots.projection import Inputs, Previous, build_checked, digest

NOW = 1_790_000_000_000_000


def recall(log, at: int, *ids: str) -> None:
    hits = tuple(Hit(id=id_, score=1.0, confidence=0.5) for id_ in ids)
    log.append([Event(f"r{at}", NOW + at, plain_receipt(hits=hits), f"r{at}")])


def counted(log, watermark: int | None = None, previous: Previous | None = None):
    until = log.head() if watermark is None else watermark
    of_log = Inputs(until, lambda after: log.read(after, until))
    tables = {"memories": build_checked(MEMORIES_PROJECTION, of_log, None)}
    return build_checked(USAGE_PROJECTION, Inputs(until, of_log.read, tables), previous)


def test_recalls_and_ratings_are_counted_by_document(log):
    for id_ in ("a", "b", "c"):
        commands.record(log, Draft(id=id_, content=f"we use {id_}"), NOW)
    recall(log, 5, "c", "a")
    recall(log, 3, "c")
    commands.rate(log, "a", -0.25, NOW)
    commands.rate(log, "a", 1.0, NOW)
    used = Usage.open(counted(log))
    assert used.documents.tolist() == [0, 2]
    assert [used.of(document) for document in range(4)] == [
        (1, NOW + 5),
        (0, 0),
        (2, NOW + 5),
        (0, 0),
    ]
    assert (used.ratings.tolist(), used.verdicts.tolist()) == ([2, 0], [750, 0])


def test_nothing_used_is_an_empty_table(log):
    assert Usage.open(counted(log)).of(0) == (0, 0)


def test_a_receipt_that_names_a_memory_before_there_was_one_counts_in_no_build(log):
    recall(log, 1, "a")
    commands.record(log, Draft(id="a", content="we use SQLite"), NOW)
    recall(log, 2, "a")
    whole = counted(log)
    assert Usage.open(whole).of(0) == (1, NOW + 2)
    assert digest(counted(log, previous=Previous(1, counted(log, 1)))) == digest(whole)


def test_what_is_said_of_a_recall_is_said_of_all_it_brought(log):
    for id_ in ("a", "b", "c"):
        commands.record(log, Draft(id=id_, content=f"we use {id_}"), NOW)
    recall(log, 1, "a", "b")
    before = counted(log)
    watermark = log.head()
    commands.rate(log, "r1", -0.5, NOW)
    whole = counted(log)
    used = Usage.open(whole)
    assert (used.ratings.tolist(), used.verdicts.tolist()) == ([1, 1], [-500, -500])
    assert digest(counted(log, previous=Previous(watermark, before))) == digest(whole)


def test_a_rating_of_a_recall_long_past_says_nothing_however_it_was_built(log, monkeypatch):
    monkeypatch.setattr(feedback, "KEPT_RECEIPTS", 1)
    commands.record(log, Draft(id="a", content="we use apsw"), NOW)
    recall(log, 1, "a")
    before, watermark = counted(log), log.head()
    recall(log, 2, "a")
    commands.rate(log, "r1", 1.0, NOW)
    assert Usage.open(counted(log)).ratings.tolist() == [0]
    assert digest(counted(log, previous=Previous(watermark, before))) == digest(counted(log))


def test_judgments_are_counted_apart_and_only_where_something_told(log):
    for id_ in ("a", "b"):
        commands.record(log, Draft(id=id_, content=f"we use {id_}"), NOW)
    recall(log, 1, "a", "b")
    for number in range(2):
        body = Judged(verdicts={"a": -0.1, "b": 0.0})
        log.append([Event(f"j{number}", NOW, body, "r1")])
    used = Usage.open(counted(log))
    assert (used.judged.tolist(), used.judgments.tolist()) == ([2, 0], [-200, 0])
    assert used.ratings.tolist() == [0, 0]


def test_what_a_tool_or_the_web_says_rates_nothing(log):
    commands.record(log, Draft(id="a", content="we use apsw"), NOW)
    for trust in ("tool", "web"):
        log.append([Event(f"{trust}1", NOW, Rated(verdict=1.0), "a", trust=trust)])
        log.append([Event(f"{trust}2", NOW, Judged(verdicts={"a": 0.5}), "r", trust=trust)])
    assert Usage.open(counted(log)).ratings.tolist() == []
