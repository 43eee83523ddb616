"""Events survive JSON unchanged, and their ids and times mean the same everywhere."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.home.instants import derived_id, isoformat, micros, moment, new_id
from store.log import event_kinds
from store.log.event_kinds import (
    Accepted,
    Acted,
    Adopted,
    Applied,
    Body,
    Called,
    ChangedAnswer,
    Configured,
    Expected,
    Followed,
    Hit,
    Judged,
    Linked,
    Outcome,
    Pinned,
    PlanCheck,
    Planned,
    Prompted,
    Proposed,
    Rated,
    Recalled,
    Recorded,
    Rejected,
    ReplayDiff,
    Revised,
    SessionTold,
    Staled,
    Step,
    Superseded,
    Surfaced,
    Undone,
    Unknown,
)
from store.log.events import KINDS, RECEIPTS, Event, decode, encode

NOW = 1_790_000_000_000_000
HIT = Hit(id="a", score=1.5, confidence=0.5)
BODIES = [
    Recorded(
        content="ünï 日本 \x07", tags=("a",), key="a.b", metadata={"n": [1, None, {"x": 2.5}]}
    ),
    Recorded(content="x", created_at=datetime(2020, 1, 2, 3, 4, 5, 678, UTC), ttl_s=60),
    Revised(tags=(), metadata={}),
    Superseded(by="b", reason="newer"),
    event_kinds.Archived(),
    event_kinds.Erased(events=3),
    event_kinds.Lost(gaps=((3, 5), (9, 9)), ids=("m3",)),
    event_kinds.Forgotten(reason="wrong"),
    event_kinds.Restored(),
    event_kinds.Quarantined(check="no_secrets", reason="1 secrets"),
    Pinned(pinned=False),
    Linked(target="b", relation="conflict"),
    Rated(verdict=-0.5),
    Recalled(
        query="q", mode="", manifest=3, watermark=9, hits=(HIT,), dropped={"ttl": 1}, took_us=5
    ),
    Prompted(prompt="why does the login test fail?", intent="question", turn="t1"),
    Acted(tool="Bash", doing="run", effort="test", command="pytest -q", passed=False, error="E"),
    SessionTold(stage="compacted", said="We moved the clock into the login check"),
    Surfaced(place="tool", about="npm install"),
    Followed(verdict="followed", place="tool", evidence="pnpm add lodash", stood={"test": True}),
    Outcome(effort="test", passed=True, before=False),
    Proposed(what="lesson", draft={"content": "use pnpm"}, because="no, use pnpm"),
    Accepted(memory="01KA2B3C4D"),
    Rejected(reason="only this once"),
    Planned(
        job="consolidate",
        watermark=7,
        steps=(Step(event="superseded", subject="a", body={"by": "b"}, why="the same words"),),
    ),
    Planned(
        job="settings",
        watermark=7,
        steps=(),
        replay=ReplayDiff(asked=1, answers=(ChangedAnswer("r", ("a",), ()),)),
        checks=(PlanCheck("silence", False, "1 of 1"),),
    ),
    Applied(events=("e1",), forced=("silence",)),
    Undone(events=("e1", "e2")),
    Staled(reason="its file changed", file="login.py"),
    Judged(verdicts={"a": 0.5}, evidence={"a": "login.py was edited"}),
    Adopted(policy={"debug": {"search": "low"}}, recalls=90, value=0.5, served=0.4, low=0.01),
    Expected(question="which port does the API use?"),
    Configured(name="top_k", value=5),
    Called(purpose="reflect", model="m", tier="cheap", prompt_sha256="00", error="timeout"),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_bodies_survive_encoding_and_decoding(body: Body):
    event = Event("e", NOW, body, "m")
    assert decode(event.kind, encode(body)) == body


def test_every_kind_has_an_example_above():
    assert {type(body) for body in BODIES} == set(KINDS.values())
    assert set(KINDS) > RECEIPTS


def test_defaults_are_left_out_of_the_json():
    assert encode(Recorded(content="x")) == '{"content":"x"}'


def test_a_kind_nobody_knows_is_unknown_and_keeps_its_name():
    body = decode("dreamt", '{"of": "sheep"}')
    assert body == Unknown(kind="dreamt")
    assert Event("e", NOW, body, "m").kind == "dreamt"


def test_a_field_of_a_later_version_is_passed_over():
    assert decode("pinned", '{"pinned": false, "colour": "red"}') == Pinned(pinned=False)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("recorded", "{}"),
        ("recorded", '{"content": 5}'),
        ("recorded", '{"content": "x", "importance": 1.5}'),
        ("recorded", '{"content": "x", "key": "nodot"}'),
        ("recorded", '{"content": "x", "parent_id": "../x"}'),
        ("rated", '{"verdict": 2}'),
        ("recorded", "not JSON"),
    ],
)
def test_an_invalid_body_is_refused(kind: str, body: str):
    with pytest.raises(msgspec.MsgspecError):
        decode(kind, body)


def test_ids_sort_by_time():
    ids = [new_id(NOW + step * 1_000) for step in range(5)]
    assert ids == sorted(ids) and len(set(ids)) == 5


def test_an_id_begins_with_its_moment_as_the_specification_says():
    assert new_id(1_469_918_176_385_000).startswith("01ARYZ6S41")  # github.com/ulid/spec
    assert new_id(((1 << 48) - 1) * 1_000).startswith("7ZZZZZZZZZ")


def test_a_moment_before_1970_gives_an_id_all_the_same():
    assert new_id(-5) < new_id(NOW) and derived_id(-5, "a") == derived_id(-5, "a")


def test_a_derived_id_stands_for_its_parts():
    assert derived_id(NOW, "git", "abc") == derived_id(NOW, "git", "abc")
    different = {derived_id(NOW, "a", "bc"), derived_id(NOW, "ab", "c"), derived_id(NOW, "abc")}
    assert len(different) == 3


@given(st.integers(micros(datetime.min), micros(datetime.max)))
def test_every_moment_is_exact_to_the_microsecond(at: int):
    assert micros(moment(at)) == at


@given(st.datetimes(), st.integers(-14, 14))
def test_a_zone_changes_the_clock_and_not_the_moment(naive: datetime, hours: int):
    zone = timezone(timedelta(hours=hours))
    assert micros(naive.replace(tzinfo=zone)) == micros(naive) - hours * 3_600_000_000


def test_times_are_shown_in_utc_to_the_second():
    assert isoformat(1_795_180_136_999_999) == "2026-11-20T13:08:56Z"
    assert isoformat(micros(datetime(1, 1, 1))) == "0001-01-01T00:00:00Z"


def test_an_event_is_the_same_wherever_it_was_first_written():
    event = Event("a", NOW, Rated(verdict=1.0), "s")
    elsewhere = event.with_stamp("laptop", 7)
    assert event == elsewhere and not event != elsewhere
    assert hash(event) == hash(elsewhere)
    assert event != event.with_seq(2)
