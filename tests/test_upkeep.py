"""A build is due after enough events or a day of waiting; its clock survives restarts."""

import pytest
from msgspec.structs import replace

from store.home.tenant import Tenant
from store.maintenance import build_state
from store.maintenance.build_state import (
    A_FEW,
    DAY,
    MANY,
    MANY_BYTES,
    Backlog,
    BuildStart,
    is_build_due,
)

NOW = 1_790_000_000_000_000
FRESH = Backlog(watermark=1_000, head=1_001, changes=1, since=NOW - DAY + 1)


def due(waiting: Backlog, begun: BuildStart | None = None, build_after: int = 500) -> bool:
    return is_build_due(waiting, begun, NOW, build_after)


@pytest.mark.parametrize(
    ("changes", "events", "age", "expected"),
    [
        (499, 499, 0, False),
        (500, 500, 0, True),
        (1, 1, DAY - 1, False),
        (1, 1, DAY, True),
        (1, 1, -DAY + 1, False),
        (1, 1, -3_650 * DAY, True),  # written by a clock that was ten years ahead
        (0, A_FEW - 1, 9 * DAY, False),
        (0, A_FEW, DAY, True),
        (0, MANY - 1, 0, False),
        (0, MANY, 0, True),
        (0, 0, 9 * DAY, False),
    ],
)
def test_it_is_due_by_number_or_by_age(changes: int, events: int, age: int, expected: bool):
    assert due(Backlog(7, 7 + events, changes, NOW - age)) is expected


def test_it_is_due_by_bytes():
    few = Backlog(7, 20, 3, NOW, bytes=MANY_BYTES - 1)
    assert not due(few)
    assert due(replace(few, bytes=MANY_BYTES))
    refused = BuildStart(at=NOW, head=20, changes=3, bytes=MANY_BYTES)
    assert not due(replace(few, bytes=2 * MANY_BYTES - 1), refused)
    assert due(replace(few, head=21, bytes=2 * MANY_BYTES), refused)


def test_zero_is_never():
    assert not due(Backlog(0, MANY, MANY, 0), build_after=0)


def test_what_was_begun_and_not_published_is_not_begun_again_for_the_same_log():
    waiting = replace(FRESH, head=2_000, changes=900, since=0)
    refused = BuildStart(at=NOW - 30 * DAY, head=2_000, changes=900)
    assert due(waiting)
    assert not due(waiting, refused)


def test_after_a_refusal_what_came_since_is_what_counts():
    refused = BuildStart(at=NOW - DAY + 1, head=2_000, changes=900)
    later = Backlog(1_000, 2_499, 900 + 499, since=0)
    assert not due(later, refused)
    assert due(replace(later, head=2_500, changes=900 + 500), refused)
    assert due(later, BuildStart(NOW - DAY, refused.head, refused.changes))


def test_a_build_that_was_published_counts_no_more():
    waiting = Backlog(2_000, 2_500, 500, since=NOW)
    assert due(waiting, BuildStart(at=NOW - 1, head=2_000, changes=900))


def test_what_was_begun_is_known_after_a_restart(tenant: Tenant):
    assert build_state.last_build_start(tenant) is None
    build_state.record_build_start(tenant, FRESH, NOW)
    assert build_state.last_build_start(tenant) == BuildStart(NOW, 1_001, 1)


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b'{"at": "soon"}'])
def test_a_clock_that_cannot_be_read_is_none(tenant: Tenant, damage: bytes):
    build_state.record_build_start(tenant, FRESH, NOW)
    (tenant.root / "upkeep.json").write_bytes(damage)
    assert build_state.last_build_start(tenant) is None
