"""Episodes past their retention: their text is erased, the lessons from them stay."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from plain_receipt import plain_receipt

from serve.cli import main
from store.embedders.lexical import LexicalEmbedder
from store.home.instants import DAY, new_id
from store.home.tenant import Tenant
from store.log import commands, compaction, integrity
from store.log.commands import Draft
from store.log.event_kinds import Acted, Made, Prompted, Recorded, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build, retention

NOW = time.time_ns() // 1000
OLD = b"zanzibar"


def episode(log: EventLog, session: str, at: int, word: str) -> str:
    """Append a turn of a session; return the id of its episode."""

    def event(body: Any, after: int) -> Event:
        id_ = new_id(at + after)
        return Event(id_, at + after, body, id_, "acme/shop", session, "plain", "agent")

    events = [
        event(Prompted(prompt=f"fix the {word} job"), 0),
        event(Acted(tool="Bash", doing="run", command=f"make {word}", output=f"ok {word}"), 1),
        event(plain_receipt(query=f"fix the {word} job"), 2),
        event(SessionTold(stage="stopped", said=f"The {word} job is fixed."), 3),
    ]
    log.append(events)
    return events[0].id


def rebuild(whose: Tenant, log: EventLog, days: int, now: int = NOW, *, full: bool = False) -> Any:
    return build.rebuild(whose, log, LexicalEmbedder(), now, keep_days=days, full=full)


def files_with(folder: Path, word: bytes = OLD) -> list[str]:
    return sorted(
        path.name for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()
    )


def recalled(query: str) -> list[str]:
    words = ["recall", query, "--min-confidence", "0", "--no-touch", "--all-projects", "--json"]
    hits = json.loads(CliRunner().invoke(main, words).stdout)["hits"]
    return [hit["id"] for hit in hits]


def test_by_default_episodes_are_kept_for_ever(log: EventLog, tenant: Tenant):
    episode(log, "s1", NOW - 4_000 * DAY, "zanzibar")
    rebuild(tenant, log, 0)
    assert recalled("fix the zanzibar job")


@pytest.mark.parametrize("put_away", [False, True])
def test_an_old_episode_is_gone_from_every_file_and_a_young_one_stays(
    log: EventLog, tenant: Tenant, put_away: bool, monkeypatch: pytest.MonkeyPatch
):
    old = episode(log, "s1", NOW - 100 * DAY, "zanzibar")
    young = episode(log, "s2", NOW - 10 * DAY, "xylophone")
    rebuild(tenant, log, 0)
    if put_away:
        monkeypatch.setattr(compaction, "LEAST", 1)
        assert compaction.compact(log, log.head(), NOW).events == 1
    assert recalled("fix the zanzibar job")[0] == old
    assert retention.count_waiting(tenant, log, 30, NOW) == 1
    rebuild(tenant, log, 30)
    assert files_with(tenant.root) == []
    assert recalled("fix the zanzibar job") in ([], [young])
    assert recalled("fix the xylophone job") == [young]
    assert retention.count_waiting(tenant, log, 30, NOW) == 0
    assert "zanzibar" not in repr([*log.read()])  # archived events are compressed
    assert integrity.problems(log) == []
    assert CliRunner().invoke(main, ["verify"]).exit_code == 0


def test_lessons_from_an_erased_episode_stay(log: EventLog, tenant: Tenant):
    old = episode(log, "s1", NOW - 100 * DAY, "zanzibar")
    statement = Draft(id="quote", content="we say xylophone", kind="statement", source_ids=(old,))
    lesson = Recorded(
        content="restart the narwhal before the quetzal",
        kind="lesson",
        source_ids=(old,),
        made=Made(job="distill"),
    )
    commands.record(log, statement, NOW - 99 * DAY)
    log.append([Event("lesson", NOW - 99 * DAY, lesson, "lesson", trust="agent")])
    for full in (False, True):
        rebuild(tenant, log, 30, full=full)
        assert recalled("restart the narwhal")[0] == "lesson"
        assert recalled("we say xylophone")[0] == "quote"


def test_erasing_by_age_twice_changes_nothing_more(log: EventLog, tenant: Tenant):
    episode(log, "s1", NOW - 100 * DAY, "zanzibar")
    assert retention.erase_old(tenant, log, NOW - 30 * DAY, NOW) == 1
    head = log.head()
    (tenant.root / "retention.json").unlink()
    assert retention.erase_old(tenant, log, NOW - 30 * DAY, NOW) == 0
    assert log.head() == head


def test_it_is_due_once_a_day_and_only_for_something(log: EventLog, tenant: Tenant):
    assert not retention.is_due(tenant, log, 30, NOW)
    episode(log, "s1", NOW - 30 * DAY - 1, "zanzibar")
    assert not retention.is_due(tenant, log, 0, NOW)
    assert retention.is_due(tenant, log, 30, NOW)
    retention.erase_old(tenant, log, NOW - 30 * DAY, NOW)
    episode(log, "s2", NOW - 30 * DAY + 1, "xylophone")
    assert not retention.is_due(tenant, log, 30, NOW + DAY // 2)
    assert retention.is_due(tenant, log, 30, NOW + DAY)


@pytest.mark.usefixtures("jobs_here")
def test_the_command_line_and_dagster_erase_what_is_over(log: EventLog, tenant: Tenant, home: Path):
    episode(log, "s1", NOW - 100 * DAY, "zanzibar")
    (home / "config.toml").write_text("episodes_days = 30\n")
    counts = json.loads(CliRunner().invoke(main, ["status", "--json"]).stdout)["episodes"]
    assert (counts["days"], counts["over"]) == (30, 1)
    output = CliRunner().invoke(main, ["doctor"]).stdout
    assert "kept for 30 days: the next build erases 1" in output
    result = CliRunner().invoke(main, ["build"])
    assert result.exit_code == 0, result.output
    assert files_with(tenant.root) == []
    counts = json.loads(CliRunner().invoke(main, ["status", "--json"]).stdout)["episodes"]
    assert (counts["count"], counts["over"]) == (0, 0)


def test_a_session_read_again_does_not_come_back(home: Path, tenant: Tenant):
    sessions = Path(__file__).parent / "data" / "sessions"
    words = ["import", "claude-code", str(sessions), "--json"]

    def imported() -> dict[str, Any]:
        payload: dict[str, Any] = json.loads(CliRunner().invoke(main, words).stdout)
        return payload

    assert imported()["added"]
    (home / "config.toml").write_text("episodes_days = 1\n")
    assert imported()["added"] == 0
    with EventLog(tenant.log) as log:
        assert retention.erase_old(tenant, log, NOW, NOW)
    os.remove(home / "config.toml")
    again = imported()
    assert (again["added"], again["refused"]) == (0, 0)


def test_status_says_what_episodes_take(log: EventLog, tenant: Tenant):
    for number in range(20):
        episode(log, f"s{number}", NOW - DAY, f"zanzibar {number}")
    commands.record(log, Draft(content="a short note"), NOW)
    rebuild(tenant, log, 0)
    counts = json.loads(CliRunner().invoke(main, ["status", "--json"]).stdout)["episodes"]
    assert counts["count"] == 20
    assert 0.5 < counts["log_share"] < 1 and 0.5 < counts["snapshots_share"] < 1
    assert counts["log"] and counts["snapshots"]
    output = CliRunner().invoke(main, ["status"]).stdout
    assert "episodes  20: about " in output


def test_a_number_of_days_that_is_none_is_named(home: Path, log: EventLog):
    (home / "config.toml").write_text("episodes_days = -1\n")
    result = CliRunner().invoke(main, ["status"])
    assert result.exit_code == 2
    assert "episodes_days" in result.stderr and "config.toml" in result.stderr
