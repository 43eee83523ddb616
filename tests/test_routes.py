"""The router serves the adopted policy, explores a little, records the propensity, and learns."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result
from flask.testing import FlaskClient
from hook_session import Session, ids, notes, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from plain_receipt import plain_receipt

from pipelines.jobs import find_job
from pipelines.jobs.route import propose_policy, tier_for
from pipelines.jobs.runner import open_memory as opened_context
from pipelines.jobs.runner import write_plan
from serve.app import create_app
from serve.cli import main
from serve.cli.group import Commands
from serve.evaluation.off_policy import worth
from serve.hooks import speaking
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.analysis import default_question
from serve.recall.recall import confidence_floor, recall, result_limit
from serve.server.open_tenants import OpenTenants
from store.derived import routing as projection
from store.derived.routing import (
    ALPHA,
    DEFAULTS,
    EPSILON,
    LEVELS,
    ROUTES_PROJECTION,
    STATES,
    Router,
    Routes,
    complete_policy,
)
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home.config import Choices, Settings
from store.home.errors import PlanRefused
from store.home.instants import moment, new_id
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Adopted, Hit, Judged, Rated, Recalled, Route
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import SOON_US
from store.maintenance import build
from store.plans import plans
from store.snapshots.projection import Inputs, Previous, build_checked, digest

NOW = 1_790_000_000_000_000
HEADERS = {"Host": "127.0.0.1:7437", "Authorization": "Bearer token"}
EMBEDDER = LexicalEmbedder()


def adopted(**changes: dict[str, str]) -> Adopted:
    return Adopted(policy=changes, recalls=1, value=0.1, served=0.0, low=0.0)


def adopt(log: EventLog, at: int = NOW, **changes: dict[str, str]) -> None:
    id_ = new_id(at)
    log.append([Event(id_, at, adopted(**changes), id_)])


def recalled(
    id_: str,
    actions: dict[str, str],
    *,
    state: str = "debug",
    propensity: float = 1.0,
    tried: str | None = None,
    hits: tuple[str, ...] = ("m",),
    at: int = NOW,
) -> Event:
    route = Route(state, actions, propensity, tried)
    body = plain_receipt(hits=tuple(Hit(hit, 1.0, 0.5) for hit in hits), route=route)
    return Event(id_, at, body, id_)


def folded(events: list[Event], until: int | None = None, previous: Previous | None = None) -> Any:
    numbered = [event.with_seq(seq) for seq, event in enumerate(events, 1)]
    end = len(events) if until is None else until
    inputs = Inputs(end, lambda after: iter(numbered[after:end]))
    return build_checked(ROUTES_PROJECTION, inputs, previous)


def rated(subject: str, verdict: float, at: int = NOW, **more: Any) -> Event:
    return Event(new_id(at), at, Rated(verdict=verdict), subject, **more)


# Selection


def test_all_defaults_are_recall_as_it_is():
    for state in STATES:
        chosen = Router().route(state)
        search = chosen.actions["search"]
        assert (confidence_floor(search, 0.3), result_limit(search, 8)) == (0.3, 8)
        assert chosen.propensity == 1.0
    assert {default["context"] for default in DEFAULTS.values()} == {"raw"}
    assert {default["proactivity"] for default in DEFAULTS.values()} == {"proactive"}
    assert (
        confidence_floor("low_threshold", 0.3) < 0.3 < confidence_floor("high_threshold", 0.3) < 1.0
    )
    assert result_limit("high_threshold", 8) < 8 < result_limit("low_threshold", 8)


def test_unknown_policy_values_fall_back_to_defaults():
    policy = complete_policy(
        {"debug": {"search": "telepathy", "context": "summarize"}, "dreams": {}}
    )
    assert policy["debug"] == DEFAULTS["debug"] | {"context": "summarize"}
    assert set(policy) == set(STATES)


def test_one_level_is_tried_as_often_as_its_receipt_says():
    levels = ("search", "context", "proactivity")
    served = Router(levels=levels).route("plan").actions
    routes = [
        Router(levels=levels, explore=EPSILON, receipt=f"r{number}").route("plan")
        for number in range(20_000)
    ]
    tried = [other for other in routes if other.tried]
    assert len(tried) / len(routes) == pytest.approx(EPSILON, abs=0.01)
    counts = Counter((other.tried, other.actions[other.tried]) for other in tried if other.tried)
    assert len(counts) == 4  # two alternatives for search, one for each other level
    for route in tried[:100]:
        assert route.tried is not None
        others = {**route.actions, route.tried: served[route.tried]}
        assert others == served and route.actions != served
        count = counts[route.tried, route.actions[route.tried]]
        assert route.propensity == pytest.approx(count / len(routes), rel=0.12)
    assert {other.propensity for other in routes if not other.tried} == {1 - EPSILON}


def test_a_receipt_always_tries_the_same_and_without_one_nothing_is_tried():
    router = Router(explore=0.5, receipt="r1")
    assert router.route("debug") == router.route("debug")
    for receipt in (f"r{number}" for number in range(50)):
        assert Router(explore=0.0, receipt=receipt).route("debug").tried is None
    assert Router(explore=0.5).route("debug").tried is None


# Action values and rewards


def test_q_moves_by_alpha_of_the_difference_in_the_order_of_the_recalls():
    log = [recalled("r1", {"search": "low_threshold"}), recalled("r2", {"search": "low_threshold"})]
    entries = Routes(folded([*log, rated("r2", 1.0), rated("r1", -1.0)])).action_values
    entry = entries["debug", "search", "low_threshold"]
    assert (entry.recalls, entry.rated) == (2, 2)
    assert entry.q == pytest.approx(-ALPHA + ALPHA * (1.0 + ALPHA))


def test_the_reward_prefers_recall_ratings_then_hit_ratings_then_judgments():
    def reward(*verdicts: Event, **more: Any) -> float | None:
        return (
            Routes(folded([recalled("r", {"context": "raw"}, **more), *verdicts])).recalls[0].reward
        )

    judged = Event("j", NOW, Judged(verdicts={"m": 0.5, "n": -0.05}), "r")
    assert reward() is None
    assert reward(hits=()) == 0.0  # silence neither helps nor harms
    assert reward(judged) == 0.45
    assert reward(judged, rated("m", -1.0)) == -1.0
    assert reward(judged, rated("m", -1.0), rated("r", 0.5), rated("r", 1.0)) == 0.75
    assert reward(rated("m", 1.0, NOW + SOON_US + 1)) is None
    assert reward(rated("r", 1.0, trust="web"), rated("m", 1.0, trust="tool")) is None


def test_a_recall_in_which_one_level_was_tried_says_nothing_of_the_others():
    actions = {"search": "low_threshold", "context": "raw"}
    entries = Routes(
        folded([recalled("r", actions, tried="search"), rated("r", 1.0)])
    ).action_values
    assert set(entries) == {("debug", "search", "low_threshold")}


RECEIPTS = [f"e{seq}" for seq in range(1, 26)]
ACTIONS = st.fixed_dictionaries(
    {}, optional={level: st.sampled_from([*of, "unknown"]) for level, of in LEVELS.items()}
)
STEPS = st.one_of(
    st.tuples(st.just(None), ACTIONS, st.sampled_from([None, "search"]), st.sampled_from("mno")),
    st.tuples(st.sampled_from([*RECEIPTS, *"mno"]), st.floats(-1, 1), st.booleans()),
    st.just("adopt"),
)


def logged(steps: list[Any]) -> list[Event]:
    events = []
    for seq, step in enumerate(steps, 1):
        id_, at = f"e{seq}", NOW + seq
        if step == "adopt":
            events.append(Event(id_, at, adopted(debug={"search": "low_threshold"}), id_))
        elif len(step) == 4:
            _, actions, tried, hit = step
            event = recalled(id_, actions, tried=tried, hits=(hit,), propensity=0.5, at=at)
            events.append(event)
        else:
            subject, verdict, is_judged = step
            body = Judged(verdicts={"m": verdict}) if is_judged else Rated(verdict=verdict)
            events.append(Event(id_, at, body, subject))
    return events


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25), st.data())
def test_previous_never_changes_what_is_held(steps: list[Any], data: st.DataObject):
    events = logged(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "KEPT", 4)
        patch.setattr(projection, "RECENT", 2)
        split = data.draw(st.integers(0, len(events)))
        before = Previous(split, folded(events, split))
        assert digest(folded(events, previous=before)) == digest(folded(events))


# Effects on recall


NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()


@pytest.fixture
def home_of_errors(home: Path) -> Path:
    """A memory with a dozen notes about one error, at different confidences."""
    with EventLog(tenants.tenant(home).log, create=True) as log:
        for number, word in enumerate(NUMBERS):
            more = "in the login handler of the billing service " if number % 2 else ""
            text = f"The timeout error {more}was seen on host {word}"
            commands.record(log, Draft(id=f"m{number:02}", content=text), NOW)
        text = "The billing service sends a timeout mail to the host of the day"
        commands.record(log, Draft(id="mail", content=text), NOW)
        rebuild(home, log)
    return home


def rebuild(home: Path, log: EventLog, now: int = NOW) -> None:
    build.rebuild(tenants.tenant(home), log, EMBEDDER, now)


DEBUG = "why does the login handler fail with a timeout error"
PLAIN = "who is the host of the day"


@dataclass
class Server:
    """The routes over a memory that can be rebuilt while they serve it."""

    home: Path
    tenants: OpenTenants
    client: FlaskClient

    @property
    def log(self) -> EventLog:
        return self.tenants.get("default").log

    def build(self, now: int = NOW + 1) -> None:
        self.tenants.get("default").notes.write()
        rebuild(self.home, self.log, now)
        self.tenants.get("default").reader.poll()

    def ask(self, query: str, **more: Any) -> Any:
        return self.client.post("/v1/recall", json={"query": query, **more}, headers=HEADERS).json

    def receipts(self) -> list[Recalled]:
        self.tenants.get("default").notes.write()
        return [event.body for event in self.log.read() if isinstance(event.body, Recalled)]


@pytest.fixture
def serve(home_of_errors: Path) -> Iterator[Callable[..., Server]]:
    started: list[OpenTenants] = []

    def start(**choices: Any) -> Server:
        started.append(OpenTenants(Settings(home_of_errors, Choices(**choices))))
        client = create_app(started[-1], "token", lambda: NOW).test_client()
        return Server(home_of_errors, started[-1], client)

    yield start
    for open_tenants in started:
        open_tenants.close()


def test_thresholds_and_k_are_the_modes_own(serve):
    server = serve(min_confidence=0.02)
    usual_debug, usual_plain = server.ask(DEBUG), server.ask(PLAIN)
    adopt(server.log, debug={"search": "low_threshold"}, none={"search": "high_threshold"})
    assert server.ask(DEBUG)["min_confidence"] == 0.01  # served at once
    server.build()
    low, high = server.ask(DEBUG), server.ask(PLAIN)
    assert (low["min_confidence"], high["min_confidence"]) == (0.01, pytest.approx(0.314))
    assert len(usual_debug["hits"]) < len(low["hits"]) <= 12
    assert len(usual_plain["hits"]) > len(high["hits"])
    why = server.ask(DEBUG, explain=True)["why"]
    assert why["route"] == {"mode": "debug", "actions": {"search": "low_threshold"}}
    # a request with its own `min_confidence` or `top_k` is not routed
    assert server.ask(PLAIN, min_confidence=0.3)["min_confidence"] == 0.3
    assert len(server.ask(DEBUG, top_k=8)["hits"]) <= 8 < len(low["hits"])


def test_kinds_come_in_the_order_of_the_mode(log, tenant):
    for kind, place in (("milestone", "east"), ("bugfix", "west")):
        text = f"The sync worker of the billing queue was rewritten in the {place}"
        commands.record(log, Draft(id=kind, kind=kind, content=text), NOW)
    build.rebuild(tenant, log, EMBEDDER, NOW)
    with Reader(tenant, log, EMBEDDER).view() as view:

        def best(query: str) -> str:
            question = replace(default_question(query, Filter(NOW), Choices()), profile="match")
            return recall(view, question).hits[0].memory.id

        assert best("the sync worker of the billing queue crashes with an error") == "bugfix"
        assert best("plan the sync worker of the billing queue for the next sprint") == "milestone"


def test_the_past_is_asked_under_the_policy_of_then_and_tries_nothing(serve):
    server = serve(explore=0.5, min_confidence=0.3)
    adopt(server.log, NOW + 10, debug={"search": "low_threshold"})
    server.build(NOW + 20)
    before, since = (server.ask(DEBUG, as_of=moment(NOW + at).isoformat()) for at in (5, 15))
    assert (before["min_confidence"], since["min_confidence"]) == (0.3, 0.15)
    assert [receipt.route for receipt in server.receipts()] == [None, None]


def test_only_what_leaves_a_receipt_tries_something_and_says_so(serve):
    server = serve(explore=0.5, min_confidence=0.3)
    quiet = [server.ask(DEBUG, touch=False)["min_confidence"] for _ in range(20)]
    assert set(quiet) == {0.3} and server.receipts() == []
    bars = {server.ask(DEBUG)["recall"]: 0 for _ in range(40)}
    routes = [receipt.route for receipt in server.receipts()]
    assert len(routes) == len(bars) and {route.state for route in routes} == {"debug"}
    assert {route.propensity for route in routes} == {0.5, 0.25}
    assert {route.actions["search"] for route in routes} == set(LEVELS["search"])


def test_without_being_asked_to_nothing_is_tried(serve):
    server = serve(min_confidence=0.3)
    for _ in range(20):
        assert server.ask(DEBUG)["min_confidence"] == 0.3
    assert {receipt.route.propensity for receipt in server.receipts()} == {1.0}


# Injected context


LONG = "The package manager we use in this repository is pnpm. " + "It saves much disk space. " * 9
ASKED = "which package manager do we use in this repository?"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose hooks inject any match by words, independent of the fitted model."""
    by_words = tuple(5.0 * (name == "said") for name in speaking.FEATURES)
    model = speaking.Model(by_words, bias=-3.0, bar=0.4)
    monkeypatch.setattr(speaking, "MODELS", dict.fromkeys(speaking.MODELS, model))
    for session in opened(tmp_path):
        session.remember(LONG, kind="decision", id="why", context="asked by the team")
        yield session


def serving(session: Session, tmp_path: Path, **actions: str) -> None:
    adopt(session.log, session.at, **dict.fromkeys(STATES, actions))
    rebuild(tmp_path, session.log, session.at)
    session.tenants.get("default").reader.poll()


def test_a_summarising_policy_puts_one_sentence_of_each_note(session: Session, tmp_path: Path):
    raw = notes(session.ask(ASKED))[0]
    assert (len(raw["decision"]), raw["context"]) == (len(LONG.strip()), "asked by the team")
    serving(session, tmp_path, context="summarize")
    session.name = "s2"
    (short,) = notes(session.ask(ASKED))
    assert short["decision"] == "The package manager we use in this repository is pnpm. ..."
    assert "context" not in short


def test_a_passive_policy_says_less_unasked_but_rules_still_come(session: Session, tmp_path: Path):
    vague = "is there anything on the package manager that a newcomer to the repository must read"
    assert ids(session.ask(vague)) == ["why"]
    serving(session, tmp_path, proactivity="passive")
    session.name = "s2"
    assert session.ask(vague) == ""
    assert ids(session.ask(ASKED)) == ["why"]  # confident enough
    receipt = session.events(Recalled)[0].body
    assert receipt.hits == () and receipt.route.actions["proactivity"] == "passive"
    session.remember("Never run npm here", kind="preference", id="rule")
    assert ids(session.ask("run npm for the dashboard")) == ["rule"]


# Learning


BEST = {
    "debug": "low_threshold",
    "architecture": "low_threshold",
    "coding": "medium_threshold",
    "review": "high_threshold",
    "plan": "low_threshold",
    "routine": "high_threshold",
    "none": "medium_threshold",
}
GOOD, POOR = 0.8, 0.35  # the chance that a person rates the recall as helpful


def true_reward(policy: Any) -> float:
    """Return a person's mean verdict under a policy: 1 for a helpful recall, else -0.5."""
    chances = [GOOD if policy[state]["search"] == BEST[state] else POOR for state in STATES]
    return sum(1.5 * chance - 0.5 for chance in chances) / len(chances)


def simulated(log: EventLog, policy: Any, chance: random.Random, count: int, at: int) -> None:
    """Append recalls as the router makes them, and a person's ratings of them."""
    events: list[Event] = []
    for _ in range(count):
        id_ = f"r{chance.getrandbits(64):016x}"
        state = chance.choice(STATES)
        route = Router(policy, ("search",), EPSILON, id_).route(state)
        event = recalled(id_, route.actions, at=at)
        events.append(replace(event, body=msgspec.structs.replace(event.body, route=route)))
        likely = GOOD if route.actions["search"] == BEST[state] else POOR
        events.append(rated(id_, 1.0 if chance.random() < likely else -0.5, at))
    log.append(events)


def learnt(home: Path, now: int) -> Any:
    """Run the job; return the policy that is served afterwards."""
    with opened_context(Settings(home), "default", now) as context:
        plan = write_plan(find_job("route"), context, apply=True)
        before = Routes(context.tables("routes")).policy()
    return plan.body.steps[0].body["policy"] if plan else before


def served(home: Path, now: int) -> Any:
    with opened_context(Settings(home), "default", now) as context:
        return Routes(context.tables("routes")).policy()


def test_within_2000_rated_recalls_the_policy_has_nine_tenths_of_the_oracles_reward(home, log):
    chance, policy = random.Random(7), complete_policy({})
    began = true_reward(policy)
    for now in range(NOW, NOW + 4):
        simulated(log, policy, chance, 500, now)
        policy = learnt(home, now)
    oracle = true_reward({state: {"search": BEST[state]} for state in STATES})
    assert served(home, NOW + 4) == policy
    assert began < 0.4 * oracle
    assert true_reward(policy) >= 0.9 * oracle


def evidence(
    verdicts: list[float], served_verdicts: int = 60, tried: str = "low_threshold"
) -> list[Event]:
    """Return recalls that tried a threshold, with these ratings, and served recalls rated 0."""
    events = []
    for number, verdict in enumerate([*[0.0] * served_verdicts, *verdicts]):
        is_tried = number >= served_verdicts
        events += [
            recalled(
                f"r{number}",
                {"search": tried if is_tried else "medium_threshold"},
                propensity=0.075 if is_tried else 0.85,
                tried="search" if is_tried else None,
            ),
            rated(f"r{number}", verdict),
        ]
    return events


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        ([1.0] * 6, "too few"),  # six lucky ratings
        ([-1.0] * 30 + [1.0] * 10, "may lose"),  # Q has forgotten the early ratings
        ([1.0, -1.0] * 8 + [1.0], "may lose"),  # inconclusive
    ],
)
def test_a_policy_that_may_lose_is_refused_and_the_note_says_why(verdicts: list[float], why: str):
    routes = Routes(folded(evidence(verdicts)))
    assert routes.action_values["debug", "search", "low_threshold"].q > 0
    proposal = propose_policy(routes)
    assert proposal.steps == () and why in proposal.notes[0]


def test_what_the_log_bears_out_is_proposed_with_its_estimate():
    (step,) = propose_policy(Routes(folded(evidence([1.0] * 25 + [0.5] * 5)))).steps
    assert step.body["policy"]["debug"]["search"] == "low_threshold"
    assert step.body["value"] == pytest.approx(0.9167, abs=1e-3)
    assert step.body["low"] > 0.5 and step.before["policy"] == complete_policy({})


def test_actions_without_a_comparison_are_not_adopted():
    events = []
    for number in range(60):  # both were served and neither tried: only the days differ
        action = "low_threshold" if number < 30 else "medium_threshold"
        events += [recalled(f"r{number}", {"search": action}), rated(f"r{number}", number < 30)]
    assert propose_policy(Routes(folded(events))).steps == ()


def test_the_estimate_is_that_of_a_user_who_was_asked():
    """Rewards of a served and a tried action are drawn and weighted as in the log."""
    chance = np.random.default_rng(3)
    misses = 0
    for _ in range(300):
        rewards = chance.choice([1.0, 0.0, -0.5], size=40, p=[0.5, 0.3, 0.2])
        weights = chance.choice([1 / 0.075, 1 / 0.05], size=40)
        estimate = worth(rewards, weights)
        misses += abs(estimate.mean - 0.4) > 1.96 * estimate.error
    assert misses <= 300 * 0.08
    assert worth(np.array([1.0, 0.0]), np.array([3.0, 1.0])).mean == 0.75
    assert worth(np.ones(4), np.ones(4)).samples == 4.0
    assert worth(np.array([]), np.array([])).samples == 0.0


def test_undone_the_policy_before_is_served_again_and_is_not_proposed_again(home, log):
    log.append(evidence([1.0] * 30))
    with opened_context(Settings(home), "default", NOW) as context:
        plan = write_plan(find_job("route"), context, apply=True)
    assert served(home, NOW)["debug"]["search"] == "low_threshold"
    plans.undo(log, plan.id, NOW)
    assert served(home, NOW) == complete_policy({})
    with opened_context(Settings(home), "default", NOW) as context:
        assert write_plan(find_job("route"), context, apply=True) is None


def asked_often(server: Server) -> None:
    for number, word in enumerate(NUMBERS * 2):
        server.ask(f"{DEBUG} on host {word}" + "?" * number)
    server.tenants.get("default").notes.write()


def test_a_policy_that_silences_past_answers_waits_for_a_person(serve):
    server = serve(min_confidence=0.65)
    asked_often(server)
    server.log.append(evidence([1.0] * 30, tried="high_threshold"))
    reports: list[str] = []
    with opened_context(Settings(server.home), "default", NOW, report=reports.append) as context:
        plan = write_plan(find_job("route"), context, apply=True)
    assert plan is not None and plan.state == "waiting" and plan.body.replay is not None
    assert plan.body.replay.asked == 24 and plan.body.replay.silenced
    assert "silence" in {check.name for check in plan.failed}
    assert any("silence" in line and "waits for you" in line for line in reports)
    assert server.ask(DEBUG)["min_confidence"] == 0.65
    with pytest.raises(PlanRefused, match="--force"):
        plans.apply(server.log, plan.id, NOW)
    assert "silence" in plans.apply(server.log, plan.id, NOW, force=True).forced
    assert server.ask(DEBUG)["min_confidence"] > 0.65


def test_a_policy_that_says_more_is_served_and_undone_without_a_build(serve):
    server = serve(min_confidence=0.02)
    asked_often(server)
    server.log.append(evidence([1.0] * 30))
    with opened_context(Settings(server.home), "default", NOW) as context:
        plan = write_plan(find_job("route"), context, apply=False)
    assert plan is not None and plan.body.replay is not None and plan.body.replay.asked == 24
    assert plan.failed == () and server.ask(DEBUG)["min_confidence"] == 0.02
    plans.apply(server.log, plan.id, NOW)
    assert server.ask(DEBUG)["min_confidence"] == 0.01
    server.build()
    assert server.ask(DEBUG)["min_confidence"] == 0.01
    plans.undo(server.log, plan.id, NOW)
    assert server.ask(DEBUG)["min_confidence"] == 0.02


def test_jobs_ask_the_tier_that_is_served(home, log):
    adopt(log, plan={"llm": "expensive"})
    with opened_context(Settings(home), "default", NOW) as context:
        tiers = [tier_for(context, mode) for mode in ("plan", "debug", None)]
    assert tiers == ["expensive", "balanced", "cheap"]


# On the command line


def run(*words: str) -> Result:
    assert isinstance(main, Commands)
    return CliRunner().invoke(main, words)


@pytest.mark.usefixtures("jobs_here")
def test_routes_shows_what_is_held_the_estimate_and_the_policies_before(home, log):
    log.append(evidence([1.0] * 30))
    adopt(log, review={"search": "high_threshold"})
    rebuild(home, log)
    payload = json.loads(run("routes", "--json").stdout)
    assert payload["policy"]["review"]["search"] == "high_threshold"
    rows = {route["action"]: route for route in payload["routes"]}
    assert (rows["low_threshold"]["recalls"], rows["low_threshold"]["rated"]) == (30, 30)
    assert rows["medium_threshold"]["served"] and rows["medium_threshold"]["q"] == 0.0
    assert rows["low_threshold"]["estimate"]["low"] > 0 and rows["high_threshold"]["q"] is None
    assert [policy["low"] for policy in payload["history"]] == [0.0]
    output = run("routes").output
    assert "low_threshold" in output and "+0.958" in output and "explore = 0.15" in output
    learnt = run("routes", "learn", "--dry-run")
    assert learnt.exit_code == 0 and "debug: search low_threshold" in learnt.output
    assert plans.every(log)[0].state == "waiting"


def test_an_empty_memory_has_the_default_routes(home, log):
    payload = json.loads(run("routes", "--json").stdout)
    assert (
        payload["policy"] == complete_policy({}) and payload["routes"] == payload["history"] == []
    )
    assert "proactive" in run("routes").output
