"""State at a moment: a memory knows its end, and one value of a key holds at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.home.instants import moment
from store.log.event_kinds import Archived, Body, Forgotten, Recorded, Restored, Revised, Superseded
from store.log.events import Event
from store.memories.fold import Fold
from store.memories.memory import SUPERSEDED, Memory

DAY = 86_400_000_000
JANUARY = 1_767_225_600_000_000  # microseconds UTC: the first of January 2026

DAYS = st.integers(0, 20)
VALUES = st.lists(DAYS, min_size=1, max_size=8)  # the days they became true, in writing order
FATES = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from(
            [Forgotten(), Archived(), Restored(), Superseded(by="m0"), Revised(ttl_s=3 * 86_400)]
        ),
    ),
    max_size=8,
)


def value(day: int | None = None) -> Recorded:
    at = None if day is None else moment(JANUARY + day * DAY)
    return Recorded(content="the port is known", key="db.port", created_at=at)


def folded(*steps: tuple[int, str, Body]) -> dict[str, Memory]:
    """Return the memories after some steps: the day, the memory's id and the event's body."""
    fold = Fold()
    for seq, (day, subject, body) in enumerate(steps, start=1):
        id_ = subject if isinstance(body, Recorded) else f"e{seq}"
        fold.apply(Event(id_, JANUARY + day * DAY, body, subject, seq=seq))
    return fold.rows


def valid_ids(rows: dict[str, Memory], day: float) -> list[str]:
    return [id_ for id_, memory in rows.items() if memory.holds_at(JANUARY + round(day * DAY))]


@pytest.mark.parametrize("fate", [Superseded(by="b"), Archived(), Forgotten()])
def test_a_memory_ends_when_it_is_put_aside_and_a_restore_undoes_it(fate: Body):
    note = Recorded(content="we use SQLite")
    assert folded((0, "a", note), (3, "a", fate))["a"].ended_at == JANUARY + 3 * DAY
    assert folded((0, "a", note), (3, "a", fate), (5, "a", Restored()))["a"].ended_at is None


def test_what_ended_ends_once():
    rows = folded((0, "a", value()), (3, "a", Archived()), (5, "a", Superseded(by="b")))
    assert rows["a"].ended_at == JANUARY + 3 * DAY


def test_a_newer_value_takes_over_when_it_became_true():
    rows = folded((9, "a", value(1)), (9, "b", value(5)))
    assert (rows["a"].state, rows["a"].ended_at) == (SUPERSEDED, JANUARY + 5 * DAY)
    assert [valid_ids(rows, day) for day in (0, 1, 4.9, 5)] == [[], ["a"], ["a"], ["b"]]


def test_a_value_written_later_holds_though_it_became_true_earlier():
    rows = folded((9, "a", value(2)), (9, "b", value(6)), (9, "c", value(4)))
    assert [valid_ids(rows, day) for day in (2, 4, 6, 9)] == [["a"], ["c"], ["c"], ["c"]]


def test_what_is_superseded_later_still_held_then():
    note = Recorded(content="we use SQLite")
    rows = folded((0, "a", note), (1, "b", note), (4, "a", Superseded(by="b")))
    assert [valid_ids(rows, day) for day in (3, 4)] == [["a", "b"], ["b"]]


def test_what_was_forgotten_never_held():
    assert valid_ids(folded((0, "a", value()), (4, "a", Forgotten())), 2) == []


def test_a_ttl_ends_what_it_is_of():
    rows = folded((0, "a", Recorded(content="the freeze is on", ttl_s=2 * 86_400)))
    assert [valid_ids(rows, day) for day in (1, 2)] == [["a"], []]


def test_a_restored_value_counts_as_never_having_ended():
    rows = folded((0, "a", value()), (2, "b", value()), (4, "a", Restored()))
    assert [valid_ids(rows, day) for day in (1, 3, 5)] == [["a"], ["a"], ["a"]]


@settings(max_examples=300, deadline=None)
@given(VALUES, DAYS)
def test_one_value_of_a_key_held_at_any_moment_since_the_first(days: list[int], day: int):
    rows = folded(*((30, f"m{n}", value(day)) for n, day in enumerate(days)))
    assert len(valid_ids(rows, day)) == (day >= min(days))


@settings(max_examples=300, deadline=None)
@given(VALUES, FATES, VALUES, st.integers(0, 60))
def test_no_two_values_of_a_key_ever_held_together(
    days: list[int], fates: list[tuple[int, Body]], later: list[int], day: int
):
    first = [(30, f"m{n}", value(day)) for n, day in enumerate(days)]
    changed = [(31 + n, f"m{which}", body) for n, (which, body) in enumerate(fates)]
    last = [(40, f"n{n}", value(day)) for n, day in enumerate(later)]
    for steps in (first + changed + last, first + changed + last + changed):
        assert len(valid_ids(folded(*steps), day)) <= 1


@given(VALUES, FATES)
def test_what_holds_now_is_what_is_active_and_not_expired(
    days: list[int], fates: list[tuple[int, Body]]
):
    steps = [(30, f"m{n}", value(day)) for n, day in enumerate(days)]
    steps += [(31 + n, f"m{which}", body) for n, (which, body) in enumerate(fates)]
    rows, now = folded(*steps), JANUARY + 60 * DAY
    living = [
        id_
        for id_, memory in rows.items()
        if memory.state == "active" and (memory.expires_at or now + 1) > now
    ]
    assert valid_ids(rows, 60) == living


@given(VALUES, FATES)
def test_only_what_is_active_has_not_ended(days: list[int], fates: list[tuple[int, Body]]):
    steps = [(day, f"m{n}", value()) for n, day in enumerate(days)]
    steps += [(31 + n, f"m{which}", body) for n, (which, body) in enumerate(fates)]
    for memory in folded(*steps).values():
        assert (memory.state == "active") == (memory.ended_at is None)
