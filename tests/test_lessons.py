"""Lessons from a correction to their impact: drafts, counts, intervals, and the output."""

import json
from pathlib import Path

import pytest
from agent import Agent
from click.testing import CliRunner
from hook_session import speaks_where_recall_is_sure
from hypothesis import given, settings
from hypothesis import strategies as st
from test_app import OURS
from test_pretool import RULE, agent, built, learn, tenants

from serve.cli import main
from serve.lessons.impact import difference, impact, is_at_rest, wilson
from store.derived.feedback import LESSONS_PROJECTION, Counts
from store.home import projects
from store.home.errors import InvalidInput, NotFound
from store.home.instants import new_id
from store.log.event_kinds import Accepted, Followed, Proposed, Rejected, Surfaced
from store.log.events import Event
from store.plans import lesson_proposals
from store.snapshots.projection import Inputs, Previous, build_checked, digest

__all__ = ["agent", "tenants"]  # fixtures

NOW = 1_790_000_000_000_000


def command(agent: Agent, *words: str) -> dict:
    """Run the command line on the same home; return its JSON."""
    agent.tenants.get("default").notes.write()
    home = str(agent.tenants.settings.home)
    result = CliRunner().invoke(main, ["--home", home, *words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def table(agent: Agent, *words: str) -> str:
    home = str(agent.tenants.settings.home)
    result = CliRunner().invoke(main, ["--home", home, *words])
    assert result.exit_code == 0, result.output
    return result.output


# The whole story


def test_a_correction_becomes_a_lesson_that_is_said_followed_and_counted(agent: Agent):
    agent.asked("no, use pnpm instead of npm")
    agent.stops()
    (stated,) = command(agent, "lessons")["drafts"]
    assert (stated["text"], stated["session"]) == ("no, use pnpm instead of npm", "s1")
    (memory,) = command(agent, "lessons", "accept", stated["id"][:6])["memories"]

    later = agent.again("s2")
    later.asked("add lodash to the shop")
    assert "use pnpm instead of npm" in later.runs("npm install lodash")
    assert later.runs("npm install lodash") == ""
    later.runs("pnpm add lodash")
    later.edits("src/cart.ts")
    later.runs("pnpm test", fails="E  Error: boom")
    later.edits("src/cart.ts")
    later.runs("pnpm test")
    later.stops("It works.")

    payload = command(agent, "lessons")
    (lesson,) = payload["lessons"]
    assert (lesson["id"], lesson["surfaced"], lesson["followed"]) == (memory["id"], 1, 1)
    assert lesson["turns"]["good_followed"] == 1 and lesson["impact"] is None
    assert lesson["efforts"]["test"]["good_followed"] == 1
    assert payload["drafts"] == []
    (outcome,) = agent.events("outcome")
    assert (outcome.body.before, outcome.body.passed) == (False, True)
    rows = table(agent, "lessons")
    assert "unknown" in rows and "use pnpm instead of npm" in rows


def test_statistics_are_current_before_and_after_a_build(agent: Agent):
    learn(agent, id="pnpm")
    for number in range(3):
        session = agent.again(f"s{number}")
        session.asked("add it")
        session.runs("npm i x")
        session.runs("pnpm add x")
        session.stops()
        before = command(agent, "lessons")["lessons"]
        if number == 1:
            built(agent)
            assert command(agent, "lessons")["lessons"] == before
    assert before[0]["surfaced"] == 3 and before[0]["followed"] == 3


def test_http_says_what_the_command_line_says(agent: Agent):
    learn(agent)
    agent.runs("npm i x")
    answer = agent.client.get("/v1/lessons", headers=OURS)
    assert answer.status_code == 200 and answer.json == command(agent, "lessons")
    assert agent.client.get("/v1/lessons").status_code == 401


def test_lessons_are_those_of_a_project_and_of_none(agent: Agent):
    learn(agent)
    agent.runs("npm i x")
    learn(agent, "Never use yarn", project="acme/other")
    payload = command(agent, "lessons", "--project", "acme/web")
    assert len(payload["lessons"]) == 1 and payload["never_shown"] == 0
    assert command(agent, "lessons")["never_shown"] == 1


# Drafts


def propose(agent: Agent, content: str = "Use pnpm here") -> str:
    """Write a draft as versions before statements did."""
    body = Proposed(what="lesson", draft={"content": content, "kind": "lesson"})
    id_ = new_id(NOW)
    event = Event(id_, NOW, body, id_, "acme/web", "s1", trust="user")
    return agent.tenants.get("default").log.append([event])[0].event.id


def test_a_yes_records_the_lesson_as_the_persons_word(agent: Agent):
    log, id_ = agent.tenants.get("default").log, propose(agent)
    memory = lesson_proposals.accept(log, id_, NOW)
    assert (memory.body.content, memory.body.kind, memory.trust) == (
        "Use pnpm here",
        "lesson",
        "user",
    )
    assert (memory.project, memory.session) == ("acme/web", "s1")
    assert [event.kind for event in log.events_for(id_)] == ["proposed", "accepted"]
    assert lesson_proposals.accept(log, id_, NOW + 9) == memory
    with pytest.raises(InvalidInput, match="was accepted"):
        lesson_proposals.reject(log, id_, NOW)


def test_a_no_records_nothing_and_may_be_thought_over(agent: Agent):
    id_ = propose(agent)
    assert command(agent, "lessons", "reject", id_, "--reason", "once")["rejected"] == [id_]
    assert agent.events("recorded") == [] and command(agent, "lessons")["drafts"] == []
    assert "rejected" in table(agent, "lessons", "reject", id_)
    command(agent, "lessons", "accept", id_)
    assert len(agent.events("recorded")) == 1


def test_an_unknown_or_unclear_draft_changes_nothing(agent: Agent):
    first, second = propose(agent), propose(agent, "Use uv here")
    home = str(agent.tenants.settings.home)
    for prefix, code in (("ZZZZ", 3), ("", 2)):
        words = ["--home", home, "lessons", "accept", first, prefix]
        assert CliRunner().invoke(main, words).exit_code == code
    assert agent.events("accepted") == [] and first != second
    with pytest.raises(NotFound):
        lesson_proposals.reject(agent.tenants.get("default").log, "nobody", NOW)


# Impact


@pytest.mark.parametrize(  # Newcombe's table II, method 10
    ("counts", "interval"),
    [
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((5, 56, 0, 29), (-0.0381, 0.1926)),
        ((10, 10, 0, 10), (0.6075, 1.0000)),
    ],
)
def test_an_interval_is_the_one_of_its_source(counts, interval):
    expected = difference(*counts)
    assert (expected.low, expected.high) == pytest.approx(interval, abs=5e-5)


@given(st.integers(0, 50), st.integers(1, 50), st.integers(0, 50), st.integers(1, 50))
def test_an_interval_holds_its_value_and_turns_with_its_sides(a: int, n: int, b: int, m: int):
    a, b = min(a, n), min(b, m)
    first, other = difference(a, n, b, m), difference(b, m, a, n)
    assert -1 <= first.low <= first.value <= first.high <= 1
    assert (other.low, other.high) == pytest.approx((-first.high, -first.low))


def test_of_few_turns_no_impact_is_told():
    few = Counts(good_followed=9, good_ignored=1, bad_ignored=1)
    assert impact(few) is None
    assert impact(few + Counts(bad_ignored=1)).value == pytest.approx(2 / 3)
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_lesson_that_nobody_goes_by_comes_to_rest(agent: Agent):
    assert not is_at_rest(Counts(ignored=8), pinned=False)
    assert is_at_rest(Counts(ignored=5, in_vain=4), pinned=False)
    assert not is_at_rest(Counts(ignored=9, followed=1), pinned=False)
    assert not is_at_rest(Counts(not_applicable=99), pinned=False)
    assert not is_at_rest(Counts(ignored=99), pinned=True)
    learn(agent, id="dead")
    learn(agent, "Never use yarn", id="alive")
    log = agent.tenants.get("default").log
    log.append([Event(f"f{n}", NOW, Followed(verdict="ignored"), "dead") for n in range(9)])
    built(agent)
    assert agent.runs("npm i x") == "" and agent.runs("yarn add x")


def test_a_lesson_at_rest_opens_no_prompt_and_no_session(agent: Agent):
    project = projects.project_of(agent.cwd)
    learn(agent, id="dead", project=project)
    learn(agent, "Never use yarn here, the lock file is pnpm's", id="alive", project=project)
    learn(agent, "Use pnpm, never npm, says the release team", id="pinned", pinned=True)
    ids = ("dead", "pinned")
    log = agent.tenants.get("default").log
    before = agent.again("before")
    assert RULE in before.tell("SessionStart", source="startup")
    assert RULE in before.again("prompted").asked("install lodash with npm please")
    log.append([Event(f"{id_}{n}", NOW, Followed(verdict="ignored"), id_)
                for id_ in ids for n in range(9)])  # fmt: skip
    built(agent)
    text = agent.again("s2").tell("SessionStart", source="startup")
    assert f'"{RULE}"' not in text and "release team" in text and "never use yarn" in text.lower()
    assert "release team" in agent.again("s3").asked("install lodash with npm please")


def test_a_lesson_at_rest_is_no_reason_to_speak_to_a_prompt(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    learn(agent, "Ferry timetables are parsed with icalendar only", id="dead")
    query = "are ferry timetables parsed with icalendar only?"
    assert "icalendar" in agent.again("s2").asked(query)
    log = agent.tenants.get("default").log
    log.append([Event(f"f{n}", NOW, Followed(verdict="ignored"), "dead") for n in range(9)])
    built(agent)
    assert agent.again("s3").asked(query) == ""
    assert [hit["id"] for hit in command(agent, "recall", query)["hits"]] == ["dead"]


# The projection

IDS = st.sampled_from(["a", "b", "c"])
BODIES = st.one_of(
    st.just(Surfaced(place="tool")),
    st.builds(
        Followed,
        verdict=st.sampled_from(["followed", "ignored", "not_applicable"]),
        place=st.sampled_from(["prompt", "tool"]),
        stood=st.dictionaries(st.sampled_from(["test", "build"]), st.booleans()),
    ),
    st.just(Proposed(what="lesson", draft={"content": "x", "kind": "lesson"})),
    st.just(Accepted(memory="a")),
    st.just(Rejected()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(IDS, BODIES), max_size=20), st.data())
def test_counts_are_the_same_however_often_they_were_built(steps, data: st.DataObject):
    events = [
        Event(id_ if isinstance(body, Proposed) else f"e{seq}", NOW + seq % 3, body, id_, seq=seq)
        for seq, (id_, body) in enumerate(steps, 1)
    ]

    def counted(until: int, previous: Previous | None = None):
        inputs = Inputs(until, lambda after: iter(events[after:until]))
        return build_checked(LESSONS_PROJECTION, inputs, previous)

    split = data.draw(st.integers(0, len(events)))
    before = Previous(split, counted(split))
    assert digest(counted(len(events), before)) == digest(counted(len(events)))


def test_nothing_told_of_lessons_shares_the_tables(tmp_path: Path):
    nothing = Inputs(0, lambda after: iter(()))
    before = build_checked(LESSONS_PROJECTION, nothing, None)
    again = build_checked(LESSONS_PROJECTION, nothing, Previous(0, before))
    assert again.parts == before.parts
