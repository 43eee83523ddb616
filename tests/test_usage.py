"""Use is counted from receipts and ratings, and only of memories that were there."""

from store import commands
from store.commands import Draft
from store.events import Event, Hit, Recalled
from store.projection import Inputs, Previous, checked_build, digest
from store.projections.memories import MEMORIES_PROJECTION
from store.projections.usage import USAGE_PROJECTION, Usage

NOW = 1_790_000_000_000_000


def recall(log, at: int, *ids: str) -> None:
    hits = tuple(Hit(id=id_, score=1.0, confidence=0.5) for id_ in ids)
    receipt = Recalled(
        query="q", mode="", manifest=None, watermark=0, hits=hits, dropped={}, took_us=1
    )
    log.append([Event(f"r{at}", NOW + at, receipt, f"r{at}")])


def counted(log, watermark: int | None = None, previous: Previous | None = None):
    until = log.head() if watermark is None else watermark
    of_log = Inputs(until, lambda after: log.read(after, until))
    made = {"memories": checked_build(MEMORIES_PROJECTION, of_log, None)}
    return checked_build(USAGE_PROJECTION, Inputs(until, of_log.read, made), previous)


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
