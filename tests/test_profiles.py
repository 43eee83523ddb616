"""Each profile's ranking, and the bounds of its weights."""

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from plain_receipt import plain_receipt

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall import scoring
from serve.recall.recall import Answer, Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home import config
from store.home.config import Balanced, Choices, Match, Profiles, Wal
from store.home.errors import ConfigError
from store.home.instants import new_id
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Hit, Judged, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild

NOW = 1_800_000_000_000_000
HOUR = 3_600_000_000
EMBEDDER = LexicalEmbedder()
BOILER = "the copper boiler runs at {} bar and 60 degrees"


def ask(view: View, text: str, now: int = NOW, **choices: object) -> Answer:
    question = Question(text, Filter(now=now), 8, fusion="weighted")
    return recall(view, replace(question, **choices))


def ids(answer: Answer) -> list[str]:
    return [hit.memory.id for hit in answer.hits]


def built(tenant: Tenant, log: EventLog, now: int = NOW) -> View:
    rebuild(tenant, log, EMBEDDER, now)
    with Reader(tenant, log, EMBEDDER).view() as view:
        return view


def record(log: EventLog, id_: str, content: str, at: int = NOW, **fields: object) -> None:
    commands.record(log, Draft(id=id_, content=content, **fields), at)


def use(log: EventLog, id_: str, at: int) -> None:
    hits = (Hit(id_, 1.0, 0.5),)
    log.append([Event(f"r{at}", at, plain_receipt(hits=hits), f"r{at}")])


def test_recency_halves_in_138_hours_and_the_future_is_now():
    last = np.array([0, -138 * HOUR, HOUR], np.int64)
    assert scoring.recency(last, 0).tolist() == pytest.approx([1.0, 0.5007, 1.0], abs=1e-4)


def test_relevance_is_the_share_of_the_best():
    none = np.zeros(3, np.bool_)
    assert scoring.relevance(np.array([4.0, 1.0, 0.0]), none).tolist() == [1.0, 0.25, 0.0]
    assert scoring.relevance(np.zeros(2), none[:2]).tolist() == [0.0, 0.0]
    assert scoring.relevance(np.empty(0), none[:0]).tolist() == []


def test_duplicates_do_not_set_the_scale_of_relevance():
    scores, repeats = np.array([4.0, 2.0, 1.0]), np.array([True, False, False])
    assert scoring.relevance(scores, repeats).tolist() == [1.0, 1.0, 0.5]
    assert scoring.relevance(scores, repeats | True).tolist() == [1.0, 0.5, 0.25]


def test_few_ratings_move_usefulness_less_than_many():
    values = scoring.usefulness(np.array([0.0, 1.0, 20.0, -1.0]), np.array([0.0, 1.0, 20.0, 1.0]))
    assert values.tolist() == pytest.approx([0.0, 1 / 3, 20 / 22, -1 / 3])


def test_the_weighted_mean_is_a_mean():
    signals = {"recency": np.array([1.0, 0.0]), "relevance": np.array([0.5, 1.0])}
    values = scoring.weighted_mean(signals, {"recency": 1.0, "relevance": 3.0})
    assert values.tolist() == pytest.approx([0.625, 0.75])


def test_priors_change_a_score_by_their_bounds_at_most():
    priors = {"importance": np.array([1.0, -1.0, 0.0]), "usefulness": np.array([1.0, -1.0, 0.0])}
    bounds = {"importance": 0.02, "usefulness": 0.03}
    values = scoring.with_priors(np.array([2.0, 2.0, 0.7]), priors, bounds)
    assert values.tolist() == pytest.approx([2.1, 1.9, 0.7])
    assert values[2] == 0.7


def test_balanced_leaves_the_order_of_the_evidence_where_nothing_was_rated(tenant, log):
    for bar in range(10, 30):
        record(log, f"n{bar}", BOILER.format(bar), NOW + bar)
        use(log, f"n{bar}", NOW + 100 + bar)
    answer = ask(built(tenant, log), "copper boiler 60 degrees", explain=True)
    assert all(hit.score == hit.why["fused"] for hit in answer.hits)


def cellars(log: EventLog, at: int = NOW) -> None:
    for name in ("east", "west"):
        record(log, name, f"the steel pump stands in the {name} cellar", at)


@pytest.mark.parametrize("what", ["importance", "rating", "judgment"])
def test_balanced_swaps_near_equals_and_nothing_else(tenant, log, what: str):
    cellars(log)
    record(log, "better", "the steel pump of Ana needs oil")
    first, second = ids(ask(built(tenant, log), "steel pump in which cellar"))[:2]
    for _ in range(5):
        if what == "rating":
            commands.rate(log, second, 1.0, NOW)
        elif what == "judgment":
            log.append([Event(new_id(NOW), NOW, Judged(verdicts={second: 0.5}), "r")])
        else:
            commands.revise(log, second, Revised(importance=1.0), NOW)
    view = built(tenant, log)
    assert ids(ask(view, "steel pump in which cellar"))[:2] == [second, first]
    off = Profiles(Balanced(0.0, 0.0))
    assert ids(ask(view, "steel pump in which cellar", profiles=off))[:2] == [first, second]
    assert ids(ask(view, "steel pump of Ana: which oil"))[0] == "better"


def test_a_memory_ignored_a_thousand_times_is_still_found(tenant, log):
    cellars(log)
    record(log, "oil", "the copper boiler needs oil every spring")
    for number in range(1_000):
        body = Judged(verdicts={"oil": -0.1, "east": -0.1})
        log.append([Event(f"j{number}", NOW, body, "r")])
    answer = ask(built(tenant, log), "which oil for the copper boiler", explain=True)
    best = answer.hits[0]
    assert best.memory.id == "oil"
    assert best.score >= best.why["fused"] * (1 - 0.025 * 0.1)


def test_wal_prefers_recently_used_memories(tenant, log):
    cellars(log, NOW - 2_000 * HOUR)
    first, second = ids(ask(built(tenant, log), "steel pump"))
    use(log, second, NOW - HOUR)
    view = built(tenant, log)
    answer = ask(view, "steel pump", profile="wal", explain=True)
    assert ids(answer) == [second, first]
    assert ids(ask(view, "steel pump")) == [first, second]
    recency = [hit.why["signals"]["recency"] for hit in answer.hits]
    assert recency == pytest.approx([1.0, 0.0], abs=1e-3)  # its use is the newest event


def test_wal_is_the_weighted_mean_of_the_signals_it_shows(tenant, log):
    for name in ("east", "west"):
        record(log, name, f"the pump in the {name} cellar is steel", importance=0.8)
    for hit in ask(built(tenant, log), "steel pump", profile="wal", explain=True).hits:
        signals_ = hit.why["signals"]
        expected = (
            0.1 * signals_["recency"] + 0.8 * signals_["relevance"] + 0.1 * signals_["importance"]
        )
        assert hit.score == pytest.approx(expected, abs=1e-4)


def test_match_adds_the_words_covered_and_a_neutral_route(tenant, log):
    record(log, "pump", "the steel pump stands in the cellar")
    (hit,) = ask(built(tenant, log), "steel pump", profile="match", explain=True).hits
    assert hit.why["signals"] == {
        "recency": 1.0,
        "relevance": 1.0,
        "importance": 0.5,
        "query_overlap": 1.0,
        "route_fit": 0.5,
    }


@pytest.mark.parametrize("is_built", [True, False])
def test_match_prefers_the_kind_that_helps_with_what_the_asker_is_at(tenant, log, is_built: bool):
    record(log, "fix", "checkout timeout came from the payment worker", kind="bugfix")
    record(log, "aim", "payment worker without a checkout timeout", kind="goal")
    if is_built:
        built(tenant, log)
    with Reader(tenant, log, EMBEDDER).view() as view:
        query = "debug the crash: checkout timeout error"
        hits = ask(view, query, profile="match", explain=True).hits
    fits = {hit.memory.id: hit.why["signals"]["route_fit"] for hit in hits}
    assert fits == {"fix": 1.0, "aim": 0.0}


@pytest.mark.parametrize("name", ["balanced", "wal", "match"])
def test_a_question_asked_a_year_later_gets_the_same_order(tenant, log, name: str):
    for bar in range(10, 20):
        record(log, f"n{bar}", BOILER.format(bar), NOW - bar * 20 * HOUR)
    view = built(tenant, log)
    now, later = (ask(view, "boiler degrees", at, profile=name) for at in (NOW, NOW + 9_000 * HOUR))
    assert now.hits == later.hits


@pytest.mark.parametrize("name", ["balanced", "wal", "match"])
def test_every_profile_answers_from_the_tail_alone(tenant, log, name: str):
    record(log, "pump", "the steel pump stands in the cellar", importance=0.9)
    with Reader(tenant, log, EMBEDDER).view() as view:
        assert ids(ask(view, "steel pump", profile=name)) == ["pump"]
        assert ids(ask(view, "wooden boat", profile=name, min_confidence=0.3)) == []


def test_ratings_of_a_memory_revised_since_the_build_still_count(tenant, log):
    cellars(log)
    for _ in range(5):
        commands.rate(log, "east", 1.0, NOW)
    built(tenant, log)
    commands.revise(log, "east", Revised(importance=0.5), NOW)
    with Reader(tenant, log, EMBEDDER).view() as view:
        hit = ask(view, "steel pump", explain=True).hits[0]
    assert (hit.memory.id, hit.why["fresh"]) == ("east", True)
    assert hit.why["signals"]["usefulness"] == pytest.approx(5 / 7, abs=1e-4)


def settings(home: Path, text: str) -> Choices:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    return config.load(None, {"MNEMOLOG_HOME": str(home)}).choices


def test_weights_come_from_the_settings_and_the_rest_keeps_its_default(home: Path):
    choices = settings(home, "profile = 'wal'\n[profiles.wal]\nrecency = 0.5\n")
    assert choices.profile == "wal"
    assert choices.profiles.wal == Wal(recency=0.5)
    assert choices.profiles.match == Match()


def test_a_weight_may_be_tried_by_its_dotted_name():
    choices = config.change_choices(Choices(), {"profiles.wal.recency": "0.4", "profile": "wal"})
    assert choices.profiles.wal == Wal(recency=0.4)
    for wrong in ("profiles.best.recency", "profiles.wal.freshness", "top_k.a", "profile.wal"):
        with pytest.raises(ConfigError, match=wrong):
            config.change_choices(Choices(), {wrong: "1"})


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("[profiles.wal]\nrecency = -1.0", r"profiles\.wal\.recency"),
        ("[profiles.wal]\nrecency = nan", r"profiles\.wal\.recency"),
        ("[profiles.match]\nroute_fit = inf", r"profiles\.match.*finite"),
        ("[profiles.balanced]\nimportance = nan", r"profiles\.balanced\.importance"),
        ("[profiles.balanced]\nimportance = 0.9", r"profiles\.balanced\.importance"),
        ("[profiles.wal]\nrecency = 0\nrelevance = 0\nimportance = 0", r"profiles\.wal.*over 0"),
        ("[profiles.wal]\nfreshness = 1", "freshness"),
        ("[profiles.best]", "best"),
        ("profile = 'best'", "best"),
    ],
)
def test_wrong_weights_are_refused_with_their_name(home: Path, line: str, named: str):
    with pytest.raises(ConfigError, match=named):
        settings(home, line)


def test_the_default_weights_of_wal_and_match_sum_to_one():
    for weights in (Wal(), Match()):
        assert math.fsum(msgspec.structs.astuple(weights)) == pytest.approx(1.0)
