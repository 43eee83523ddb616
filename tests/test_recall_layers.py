"""What each layer that may be switched on adds to recall, and that nothing is on by itself."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall import candidates
from serve.recall.recall import Hit, Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Layer
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

TODAY = datetime(2023, 11, 17, 12, tzinfo=UTC)
NOW = int(TODAY.timestamp()) * 1_000_000
EMBEDDER = LexicalEmbedder()

NOTES = {
    "ab": "src/basket.py calls src/rates.py",
    "bc": "src/rates.py reads src/vault.py",
    "bridge": "src/rates.py went to Rust",
    "total1": "loadTotals() was slow",
    "total2": "loadTotals() caches now",
    "gone": "loadTotals() is no more",
    "paint": "Ana painted the fence green",
    "boat": "Tom sold the sailing boat",
}
TURNS = [("q1", "Ana", "Shall we hike on Sunday?"), ("a1", "Tom", "Gladly"), ("a2", "Ana", "Fine")]
FIX = {
    "content": "the harbour crane stood still",
    "context": "its brake resistor had burnt through in the heat of the day",
    "action": "fitted two resistors in parallel and a fan",
    "result": "loading of containers went on after the lunch break",
}
OLD, NEW = "thick paper jams the printer", "the printer jams upstairs too"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    place = tenant(tmp_path_factory.mktemp("home"))
    drafts = [Draft(id=id_, content=text) for id_, text in NOTES.items()]
    drafts += [
        Draft(id=id_, content=text, session="s", created_by=who, created_at=TODAY)
        for id_, who, text in TURNS
    ]
    drafts += [
        Draft(id="crane", **FIX),
        Draft(id="old", content=OLD, created_at=TODAY - timedelta(weeks=1)),
        Draft(id="new", content=NEW, created_at=TODAY),
    ]
    with EventLog(place.log, create=True) as log:
        commands.record_batch(log, drafts, NOW)
        commands.archive(log, "gone", NOW)
        rebuild(place, log, EMBEDDER, NOW)
        with Reader(place, log, EMBEDDER).view() as one:
            yield one


def hits(view: View, text: str, *on: Layer, **choices: object) -> dict[str, Hit]:
    """Return the hits by id, best first."""
    asked = Question(
        text, Filter(now=NOW), 50, explain=True, layers=on, **({"fusion": "weighted"} | choices)
    )
    return {hit.memory.id: hit for hit in recall(view, asked, EMBEDDER).hits}


def share(hit: Hit, layer: str) -> float:
    assert hit.why is not None
    return float(hit.why["evidence"].get(layer, 0.0))


def test_every_layer_that_brings_evidence_of_its_own_has_a_weight():
    assert set(candidates.LAYER_WEIGHTS) | {"siblings", "fields"} == set(get_args(Layer))


def test_parts_find_what_each_half_of_a_question_asks(view: View):
    asked = "What colour did Ana paint the fence and when did Tom sell the boat?"
    found = hits(view, asked, "parts")
    assert share(found["paint"], "parts") == share(found["boat"], "parts") == 1.0
    assert share(hits(view, "When did Tom sell the boat?", "parts")["boat"], "parts") == 0.0


def test_a_hint_names_an_entity_without_its_signs(view: View):
    found = hits(view, "is loadtotals slow", "hints")
    assert {id_ for id_, hit in found.items() if share(hit, "hints")} == {"total1", "total2"}


def test_pagerank_sees_what_lies_between_two_entities(view: View):
    found = hits(view, "how do src/basket.py and src/vault.py meet?", "pagerank")
    assert share(found["ab"], "pagerank") > share(found["bridge"], "pagerank") > 0.0
    assert share(hits(view, "src/basket.py?", "pagerank")["ab"], "pagerank") == 0.0


def test_siblings_enter_without_a_word_of_the_query(view: View):
    assert "a2" not in hits(view, "gladly", mode="auto")
    assert "a2" in hits(view, "gladly", "siblings")


def test_how_many_brings_all_there_is_of_an_entity(view: View):
    found = hits(view, "how many changes did loadTotals() see?", "aggregate")
    assert {id_ for id_, hit in found.items() if share(hit, "aggregate")} == {"total1", "total2"}
    assert not share(hits(view, "why is loadTotals() slow?", "aggregate")["total1"], "aggregate")


def test_a_time_in_the_query_favours_what_was_made_then(view: View):
    asked = "which printer jams were there last week?"
    assert next(iter(hits(view, asked))) == "new"
    assert next(iter(hits(view, asked, "dates"))) == "old"


def test_a_field_lifts_its_memory_to_its_own_nearness(view: View):
    plain, lifted = (hits(view, FIX["action"], *on)["crane"] for on in ((), ("fields",)))
    assert share(lifted, "vector") > 1.2 * share(plain, "vector") > 0.0
    for text in (" ".join(FIX.values()), NOTES["paint"]):  # no field is nearer than the whole
        assert hits(view, text, "fields") == hits(view, text)


def test_no_layer_brings_back_what_the_filter_holds_off(view: View):
    every = get_args(Layer)
    assert "gone" not in hits(view, "how many times is loadTotals() no more today?", *every)


def test_nothing_is_on_by_itself_and_other_modes_have_no_layers(view: View):
    every, asked = get_args(Layer), "how many changes did loadTotals() see today? Gladly"
    plain = hits(view, asked)
    assert all(not share(hit, name) for hit in plain.values() for name in every)
    for choices in ({"mode": "lexical"}, {"mode": "entity"}, {"fusion": "rrf"}):
        assert list(hits(view, asked, *every, **choices)) == list(hits(view, asked, **choices))


def test_the_tail_has_the_layers_that_need_no_build(tmp_path_factory: pytest.TempPathFactory):
    place = tenant(tmp_path_factory.mktemp("home"))
    with EventLog(place.log, create=True) as log:
        drafts = [Draft(id="t", content=NOTES["total1"]), Draft(id="crane", **FIX)]
        commands.record_batch(log, drafts, NOW)
        with Reader(place, log, EMBEDDER).view() as fresh:
            found = hits(fresh, "how many loadTotals today?", *get_args(Layer))
            near = [hits(fresh, FIX["action"], *on)["crane"] for on in ((), ("fields",))]
    assert share(found["t"], "hints") == share(found["t"], "dates") == 1.0
    assert share(near[1], "vector") > 1.2 * share(near[0], "vector")
