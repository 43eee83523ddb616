"""A memory's default importance and tier: immediate, moderate, and never in the log."""

import json
from collections.abc import Callable

import msgspec
import pytest
from click.testing import CliRunner
from folds import fold_log

from serve.cli import main
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import MEMORY_KINDS, TIERS, TRUSTS, Recorded, Revised
from store.maintenance import export
from store.memories import memory
from store.memories.memory import Memory, default_importance, default_tier


def answer(*words: str) -> dict:
    result = CliRunner().invoke(main, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def remember(log, clock) -> Callable[..., Memory]:
    """Record a memory; return it as folded from the log."""

    def made(content: str = "Rollbacks are forward fixes", **fields: object) -> Memory:
        id_ = commands.record(log, Draft(content=content, **fields), clock()).event.id
        return fold_log(log).rows[id_]

    return made


def test_a_recorded_decision_matters_more_than_what_merely_happened():
    answer("record", "We deploy with blue and green", "--kind", "decision", "--id", "said")
    answer("record", "Ran the deploy of Tuesday", "--kind", "activity", "--id", "done")
    answer("record", "The deploy takes nine minutes", "--id", "fact")
    answer("record", "The deploy is at noon", "--importance", "0.1", "--id", "given")
    payload = {id_: answer("show", id_)["importance"] for id_ in ("said", "fact", "done", "given")}
    assert payload == {"said": 0.65, "fact": 0.5, "done": 0.4, "given": 0.1}


def test_a_tier_that_nobody_gave_goes_by_kind_session_key_and_pin(remember):
    assert remember(kind="decision").tier == "semantic"
    assert remember(kind="bugfix").tier == "episodic"
    assert remember(kind="goal").tier == "working"
    assert remember(kind="context").tier == "episodic"
    assert remember(kind="context", session="s1").tier == "working"
    assert remember(kind="context", session="s1", key="deploy.now").tier == "semantic"
    assert remember(kind="context", session="s1", pinned=True).tier == "semantic"
    assert remember(kind="decision", tier="working").tier == "working"


def test_pinning_later_changes_the_tier_until_unpinned(remember, log, clock):
    memory, other = remember(kind="bugfix"), remember(kind="bugfix", tier="working")
    for id_, tier in ((memory.id, "semantic"), (other.id, "working")):
        commands.pin(log, id_, clock())
        assert fold_log(log).rows[id_].tier == tier
    commands.pin(log, memory.id, clock(), pinned=False)
    assert fold_log(log).rows[memory.id].tier == "episodic"
    commands.revise(log, other.id, Revised(tier="auto"), clock())
    assert fold_log(log).rows[other.id].tier == "semantic"


def test_the_log_holds_only_what_was_said(remember, log):
    memory = remember(kind="decision")
    (event,) = log.events_for(memory.id)
    assert isinstance(event.body, Recorded)
    assert (event.body.importance, event.body.tier) == (None, "auto")
    (line,) = export.export(log, memory.created_at)
    assert "importance" not in msgspec.json.decode(line)
    assert msgspec.json.decode(line).get("tier", "auto") == "auto"


def test_every_kind_has_a_tier_and_stays_near_the_middle():
    assert memory.IMPORTANCE_BY_KIND.keys() == set(MEMORY_KINDS)
    for kind in MEMORY_KINDS:
        for trust in TRUSTS:
            for key in (None, "a.b"):
                assert 0.3 <= default_importance(kind, trust, key) <= 0.75
            assert default_tier(kind, "s", None, pinned=False) in TIERS[1:]


def test_tool_content_has_lower_importance_than_user_content(remember):
    assert remember(trust="web").importance < remember(trust="user").importance


def test_goals_are_at_hand_milestones_happened_and_facts_hold(built):
    rows = fold_log(built.log).rows
    tiers = {rows[id_].tier for id_ in ("g1", "s1", "k2", "m00")}
    assert tiers == {"working", "episodic", "semantic"}
