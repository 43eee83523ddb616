"""`list` and a timeline show the newest matches of the snapshot and the tail together."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import newest
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild
from store.memories.memory import Memory

NOW = 1_800_000_000_000_000
BUILT, FRESH = 30, 6


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A memory whose rows share a few timestamps; some rows are built, some are in the tail."""
    place, chance = tenant(tmp_path), random.Random(3)
    with EventLog(place.log, create=True) as log:
        for number in range(BUILT + FRESH):
            if number == BUILT:
                rebuild(place, log, LexicalEmbedder(), NOW)
            at = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=chance.randrange(5))
            fields = {"project": "shop" if number % 3 else None, "created_at": at}
            commands.record(log, Draft(id=f"m{number}", content=f"note {number}", **fields), NOW)
        commands.forget(log, "m4", NOW)
        yield Reader(place, log, LexicalEmbedder())


@pytest.mark.parametrize("limit", [1, 5, 29, 200])
@pytest.mark.parametrize("project", [None, "shop"])
def test_the_newest_come_first_and_of_one_moment_the_last_recorded(
    reader: Reader, limit: int, project: str | None
):
    conditions = Filter(now=NOW, project=project)
    with reader.view() as view:
        every = [view.tail.find(f"m{number}") for number in range(BUILT + FRESH)]
        memories = newest(view, conditions, limit)

    def age(memory: Memory) -> tuple[int, int]:
        return -memory.created_at, -memory.seq

    assert (
        memories
        == sorted((memory for memory in every if conditions.accepts(memory)), key=age)[:limit]
    )


def test_what_was_forgotten_is_listed_where_it_is_asked_for(reader: Reader):
    with reader.view() as view:
        assert [memory.id for memory in newest(view, Filter(now=NOW), 5, "forgotten")] == ["m4"]
