"""Importance fades with time, use keeps it up, and the same manifest gives the same order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from serve.formatting import hit_reason
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.analysis import default_question
from serve.recall.recall import recall
from serve.recall.scoring import HALF_LIFE_DAYS, LASTING, USUAL, decay
from store.home.config import Choices
from store.home.instants import new_id
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Hit, Recalled
from store.log.events import Event
from store.maintenance import build

NOW = 1_790_000_000_000_000
DAY = 86_400_000_000
RECALLED = {"mode": "auto", "manifest": 1, "watermark": 1, "dropped": {}, "took_us": 900}


def left(importance: float, days: float, uses: int = 0, *, lasting=False, pinned=False) -> float:
    arrays = ([importance], [round(days * DAY)], [uses], [lasting], [pinned])
    return float(decay(*map(np.array, arrays))[0])


def test_half_of_what_was_said_is_left_after_a_half_life():
    assert left(0.9, 0) == 0.9
    assert left(0.9, HALF_LIFE_DAYS) == pytest.approx(0.7)
    assert left(0.9, 2 * HALF_LIFE_DAYS) == pytest.approx(0.6)


def test_use_and_a_lasting_kind_stretch_it_and_a_pin_stops_it():
    assert left(0.9, 2 * HALF_LIFE_DAYS, uses=1) == pytest.approx(0.7)
    assert left(0.9, LASTING * HALF_LIFE_DAYS, lasting=True) == pytest.approx(0.7)
    assert left(0.9, 10_000, pinned=True) == 0.9


shares, days, uses = st.floats(0, 1), st.floats(0, 50_000), st.integers(0, 10**9)


@given(shares, days, days, uses, st.booleans(), st.booleans())
def test_it_only_ever_falls_and_never_below_the_usual(told, one, other, used, lasting, pinned):
    soon, late = (
        left(told, when, used, lasting=lasting, pinned=pinned) for when in sorted((one, other))
    )
    assert min(told, USUAL) <= late <= soon <= told
    assert left(told, late, used) <= left(told, late, used + 1)


@pytest.fixture
def ask(tenant, log, embedder):
    """Build, and return the importance of each memory in a question's answer, by its id."""

    def answer(now: int = NOW, **fields):
        build.rebuild(tenant, log, embedder, NOW)
        with Reader(tenant, log, embedder).view() as view:
            question = default_question("which pump is it", Filter(now), Choices())
            found = recall(view, replace(question, explain=True, min_confidence=0.0))
        return {hit.memory.id: (hit.why, hit.score) for hit in found.hits}

    return answer


def pumps(log) -> None:
    for name, at in (("old", NOW - 360 * DAY), ("used", NOW - 360 * DAY), ("new", NOW)):
        draft = Draft(id=name, content=f"the pump in the {name} cellar is it", importance=0.9)
        commands.record(log, draft, at)
    at, id_ = NOW - DAY, new_id(NOW - DAY)
    body = Recalled(query="pump", hits=(Hit("used", 1.0, 0.9),), **RECALLED)
    log.append([Event(id_, at, body, id_)])


def test_recall_uses_decayed_importance_and_shows_the_original(log, ask):
    pumps(log)
    seen = {id_: why for id_, (why, _) in ask().items()}
    assert [seen[id_]["importance_told"] for id_ in ("old", "used", "new")] == [0.9] * 3
    faded = {id_: why["signals"]["importance"] for id_, why in seen.items()}
    assert faded["new"] == 0.9 and faded["used"] > 0.89
    assert faded["old"] == pytest.approx(USUAL + 0.4 / 16, abs=1e-3)


def test_an_hour_or_a_year_later_the_same_manifest_answers_the_same(log, ask):
    pumps(log)
    assert ask(NOW) == ask(NOW + 3_600_000_000) == ask(NOW + 365 * DAY)


def test_a_pinned_or_lasting_memory_keeps_more_also_before_it_is_built(log, ask, tenant, embedder):
    for kind, pinned in (("fact", False), ("decision", False), ("fact", True)):
        name = f"{kind}-{pinned}"
        text = f"which pump it is was noted as {name}"
        draft = Draft(id=name, kind=kind, content=text, importance=0.9, pinned=pinned)
        commands.record(log, draft, NOW - 360 * DAY)
    commands.record(log, Draft(content="The kettle in the kitchen was descaled"), NOW)
    built = {id_: why["signals"]["importance"] for id_, (why, _) in ask().items()}
    assert built["fact-False"] < built["decision-False"] < built["fact-True"] == 0.9
    commands.pin(log, "fact-False", NOW)
    with Reader(tenant, log, embedder).view() as view:
        assert view.tail.find("fact-False").pinned


def test_why_tells_a_person_that_it_faded():
    why = {
        "channels": {}, "adds": {}, "signals": {"importance": 0.52}, "importance_told": 0.9,
        "words": {}, "question_words": {}, "coverage": 1.0, "nearness": 0.4, "fresh": False,
    }  # fmt: skip
    assert "importance 0.52 (of 0.90, faded)" in hit_reason(why)
    assert "faded" not in hit_reason(why | {"importance_told": 0.52})
