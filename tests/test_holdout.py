"""Sessions that get no memories, compared with those that do."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run, succeed
from hook_session import Session, ids, notes, speaks_where_recall_is_sure

from serve.cli import environment
from serve.cli.presence import Presence
from serve.evaluation import holdout
from serve.hooks.answer import Hooks
from serve.hosts.event import HookEvent, ToolUse
from serve.hosts.host import Host
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Choices, Settings
from store.log.event_kinds import Acted, Prompted, Recalled, SessionTold, Surfaced
from store.log.event_log import EventLog

SHARE = 0.5


@pytest.fixture
def session(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session in a home where half of the new sessions are held out."""
    speaks_where_recall_is_sure(monkeypatch)
    EventLog(tenant.tenant(home).log, create=True).close()
    tenants = OpenTenants(Settings(home, Choices(holdout=SHARE)))
    session = Session(tenants)
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    yield session
    tenants.close()


def begun(session: Session, *, held_out: bool) -> Session:
    """Start sessions until one is drawn into the wanted arm; return it."""
    for number in range(100):
        candidate = replace(session, name=f"{number}-{held_out}", at=session.at)
        candidate.start()
        if candidate.events(SessionTold)[0].body.is_held_out == held_out:
            return candidate
    raise AssertionError("no such session was drawn")


def test_a_held_out_session_is_told_nothing_and_recorded_as_usual(session):
    told, silent = begun(session, held_out=False), begun(session, held_out=True)
    session.remember("The upload is retried five times with backoff", kind="decision", id="retry")
    prompt = "how often is the upload retried with backoff?"
    for arm, injected in ((told, ["retry"]), (silent, [])):
        assert ids(arm.ask(prompt)) == injected
        arm.use(doing="run", command="pnpm test", passed=True)
        arm.stop("Five times.")
        assert [event.body.prompt for event in arm.events(Prompted)] == [prompt]
        assert [event.body.passed for event in arm.events(Acted)] == [True]
        assert bool(arm.events(Recalled)) == bool(arm.events(Surfaced)) == bool(injected)
    assert ids(told.start("compact")) and not silent.start("compact")
    assert silent.start("resume") == ""
    # an answer to the user's own question about the memory is no unsolicited hint
    assert notes(silent.ask("where did we leave off in the last session?"))


def test_a_held_out_session_gets_no_advice_before_a_tool(session):
    session.remember("Run make lint before git push", kind="lesson", id="lint")
    advised = [
        begun(session, held_out=held_out).tell(
            "before_tool", tool=ToolUse("Bash", doing="run", command="git push")
        )
        for held_out in (False, True)
    ]
    assert list(map(ids, advised)) == [["lint"], []]


def test_an_enforced_rule_holds_in_a_held_out_session(home):
    EventLog(tenant.tenant(home).log, create=True).close()
    tenants = OpenTenants(Settings(home, Choices(holdout=SHARE, enforce="deny")))
    session = Session(tenants)
    session.remember("Use pnpm, never npm", kind="lesson", id="rule")
    silent = begun(session, held_out=True)
    tool = ToolUse("Bash", doing="run", command="npm install lodash")
    event = HookEvent("plain", "before_tool", silent.name, tool=tool, decides=frozenset({"deny"}))
    host = Host("plain", lambda _: event, lambda _, reply: {"decision": reply.decision})
    hooks = Hooks(tenants, lambda: silent.at, silent.deadline_s)
    assert hooks.answer(host, {}) == {"decision": "deny"}
    hooks.close()
    tenants.close()


def test_a_session_is_drawn_once_and_by_its_name(session):
    silent = begun(session, held_out=True)
    for start in ("compact", "resume", "startup"):
        silent.start(start)
    drawn = [event.body.drawn for event in silent.events(SessionTold)]
    assert drawn == [SHARE, None, None, None]
    names = [f"session {number}" for number in range(400)]
    for name in names:
        replace(session, name=name).start()
    held_out = sum(
        event.body.is_held_out
        for name in names
        for event in replace(session, name=name).events(SessionTold)
    )
    assert abs(held_out / len(names) - SHARE) < 0.1


def test_a_held_out_session_is_told_again_once_the_trial_ends(session):
    silent = begun(session, held_out=True)
    session.remember("The upload is retried five times with backoff", kind="decision", id="retry")
    prompt = "how often is the upload retried with backoff?"
    assert silent.ask(prompt) == ""
    silent.tenants = OpenTenants(Settings(silent.tenants.settings.home))
    assert ids(silent.ask(f"{prompt} say")) == ["retry"]
    silent.tenants.close()


def test_without_the_setting_no_session_is_drawn(home):
    EventLog(tenant.tenant(home).log, create=True).close()
    tenants = OpenTenants(Settings(home))
    session = Session(tenants)
    session.start()
    assert [event.body.drawn for event in session.events(SessionTold)] == [None]
    tenants.close()


# The results of the two arms.


def drawn(
    chance: np.random.Generator, count: int, told: float, held_out: float, share: float = 0.2
) -> list[holdout.Session]:
    """Return sessions with so many failures on average in each arm: few in most, many in some."""
    sessions = []
    for _ in range(count):
        silent = bool(chance.random() < share)
        mean = chance.gamma(2.0, (held_out if silent else told) / 2.0)
        values = {"failures": float(chance.poisson(mean))}
        sessions.append(holdout.Session(share, silent, values))
    return sessions


def fooled(sessions: list[holdout.Session], is_over) -> bool:  # type: ignore[no-untyped-def]
    """Return True if a look after every fifth session finds a difference at least once."""
    return any(is_over(sessions[:count]) for count in range(20, len(sessions) + 1, 5))


def is_outside(sessions: list[holdout.Session], true: float = 0.0) -> bool:
    difference = holdout.difference("failures", sessions)
    return difference.low is not None and not difference.low <= true <= difference.high


def is_outside_for_a_t_test(sessions: list[holdout.Session]) -> bool:
    told, silent = (
        np.array([session.values["failures"] for session in sessions if session.is_held_out == arm])
        for arm in (False, True)
    )
    if min(len(told), len(silent)) < holdout.FEWEST:
        return False
    error = math.sqrt(told.var(ddof=1) / len(told) + silent.var(ddof=1) / len(silent))
    return bool(abs(told.mean() - silent.mean()) > 1.96 * error)


def test_a_known_difference_is_recovered_and_no_difference_is_not_seen():
    runs = [np.random.default_rng(seed) for seed in range(100)]
    with_effect = [drawn(chance, 300, told=2.0, held_out=4.0) for chance in runs]
    assert sum(is_outside(sessions, -2.0) for sessions in with_effect) <= 5
    assert sum(holdout.difference("failures", sessions).high < 0 for sessions in with_effect) >= 90
    without = [drawn(chance, 200, told=3.0, held_out=3.0) for chance in runs]
    assert sum(is_outside(sessions) for sessions in without) <= 5
    # daily looks and a stop at a good moment mislead no more often; with a t-test they do
    assert sum(fooled(sessions, is_outside) for sessions in without) <= 7
    assert sum(fooled(sessions, is_outside_for_a_t_test) for sessions in without) >= 15


def test_few_sessions_give_no_verdict_but_the_number_still_needed():
    chance = np.random.default_rng(5)
    few = drawn(chance, 20, 2.0, 4.0)
    assert holdout.difference("failures", few).verdict == "too few to tell"
    assert holdout.difference("failures", few).low is None
    sessions = drawn(chance, 80, 2.0, 4.0)
    needed = holdout.difference("failures", sessions).needed
    assert needed and 10 < needed < 2_000
    many = holdout.difference("failures", drawn(chance, 400, 2.0, 4.0))
    assert (many.verdict, many.needed) == ("fewer where told", None)


def test_the_arms_are_counted_from_the_log_alone(session):
    for held_out in (False, True):
        arm = begun(session, held_out=held_out)
        if not held_out:
            session.remember("The upload is retried five times", kind="decision", id="retry")
        arm.ask("how often is the upload retried?")
        arm.use(doing="run", command="pnpm test", passed=False, output="E: 3 failed")
        arm.stop("It is retried three times.")
        arm.ask("no, that's wrong, it must be five")
        arm.use(doing="run", command="pnpm test", passed=True)
        arm.ask("now write the docs")
        arm.tell("session_end")
        session.at = arm.at
    log = session.log
    comparison = holdout.compare(log, session.at, lambda id_: {"retry": "decision"}.get(id_))
    assert (comparison.told, comparison.held_out) == (1, 1)
    means = {
        difference.measure: (difference.told, difference.held_out)
        for difference in comparison.differences
    }
    assert means == {
        "failures": (1.0, 1.0),
        "known_failures": (0.0, 1.0),  # in the first one
        "corrections": (1.0, 1.0),
        "turns": (3.0, 3.0),
        "turns_to_green": (2.0, 2.0),
    }
    assert comparison.kinds == (holdout.KindCount("decision", 1, 0, 0),)


# The command.


def test_an_agent_cannot_begin_a_holdout(home, monkeypatch):
    EventLog(tenant.tenant(home).log, create=True).close()
    monkeypatch.setattr(environment, "presence", lambda: Presence("agent", "Claude Code"))
    refused = run("trial", "holdout", "--share", "0.5")
    assert refused.exit_code != 0 and "person" in refused.output
    assert not (home / "config.toml").exists()


def test_the_command_begins_shows_and_ends(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("record", "the upload is retried five times")
    assert "No session was drawn yet." in run("trial", "show").output
    begun = run("trial", "holdout", "--share", "0.2")
    assert begun.exit_code == 0 and "20% are told nothing unasked" in begun.output
    assert (home / "config.toml").read_text() == "holdout = 0.2\n"
    assert "20% of new sessions are told nothing: `mnemolog trial`" in run("status").output
    payload = json.loads(run("trial", "show", "--json").stdout)
    assert payload == {
        "told": 0,
        "held_out": 0,
        "under_way": 0,
        "differences": [],
        "kinds": [],
        "share": 0.2,
    }
    succeed("trial", "holdout", "--stop")
    assert "holdout" not in (home / "config.toml").read_text() + run("status").output
    for wrong in ((), ("--share", "0.2", "--stop"), ("--share", "0.9")):
        assert run("trial", "holdout", *wrong).exit_code == 2
    monkeypatch.setenv("MNEMOLOG_HOLDOUT", "0.1")
    refused = run("trial", "holdout", "--share", "0.2")
    assert refused.exit_code != 0 and "MNEMOLOG_HOLDOUT" in refused.output
