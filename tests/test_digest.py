"""The digest of each day, a session's brief, and the open items: from the log, without a model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import answer, run, succeed
from test_app import TOKEN, get

from serve.app import create_app
from serve.cli import environment
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reports.overviews import digest, digest_payload
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant
from store.home.config import Settings
from store.home.instants import moment
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Acted, Body, Prompted, Revised, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild

DAY = 86_400_000_000
NOW = 1_790_000_000_000_000  # 21 September 2026, 13:33 UTC
MODEL = LexicalEmbedder()


@pytest.fixture(params=["fresh", "built"])
def log(request: pytest.FixtureRequest, home: Path, monkeypatch) -> Iterator[EventLog]:
    """A memory of three days of work, from the log's tail or from a build."""
    monkeypatch.setattr(environment, "now", lambda: NOW)
    place = tenant.tenant(home)
    with EventLog(place.log, create=True) as log:
        work(log)
        if request.param == "built":
            rebuild(place, log, MODEL, NOW)
        yield log


def work(log: EventLog) -> None:
    def remember(days_ago: int, kind: str, id_: str, **fields: object) -> None:
        draft = Draft(id=id_, content=f"what {id_} says", kind=kind, **fields)
        commands.record(log, draft, NOW - days_ago * DAY)

    def tell(days_ago: int, body: Body, project: str | None = None, name: str = "s1") -> None:
        at = NOW - days_ago * DAY + log.head()
        log.append([Event(f"e{log.head()}", at, body, "e", project, name)])

    remember(9, "decision", "old")
    remember(2, "decision", "d1")
    remember(2, "lesson", "l1", trust="web")
    remember(2, "preference", "p1")
    remember(2, "fact", "f1")
    tell(2, Prompted(prompt="add the\nretry", intent="work"))
    tell(2, Prompted(prompt="thanks", intent="small_talk"))
    tell(2, Acted(tool="Edit", doing="edit", files=("up.py",)))
    tell(2, Acted(tool="Bash", doing="run", effort="test", command="pytest", passed=True))
    tell(2, Acted(tool="Bash", doing="run", effort="test", command="pytest -x", passed=False))
    tell(1, Prompted(prompt="of another project", intent="work"), "acme/api", "s2")
    tell(1, SessionTold(stage="ended"))
    remember(5, "goal", "g1", progress=0.5)
    remember(5, "goal", "g2", metadata={"due": "2026-09-20"})
    remember(5, "goal", "g3", metadata={"due": "2026-12-24"})
    remember(5, "goal", "g4")
    commands.revise(log, "g4", Revised(status="done"), NOW - DAY)
    remember(3, "milestone", "m1", chain="queue")
    remember(1, "milestone", "m2", chain="queue")


def told(log: EventLog, home: Path, since: int, project: str | None = None) -> dict:
    with Reader(tenant.tenant(home), log, MODEL).view() as view:
        return digest_payload(digest(view, log, Filter(NOW, project, since=since)), NOW)


def ids(notes: list[dict]) -> list[str]:
    return [note["id"] for note in notes]


def test_a_digest_lists_decisions_lessons_and_work_by_day(log: EventLog, home: Path):
    days = told(log, home, NOW - 7 * DAY)["days"]
    assert [day["day"] for day in days] == ["2026-09-18", "2026-09-19", "2026-09-20"]
    assert [ids(day.get("decided", [])) for day in days] == [[], ["d1"], []]
    assert [ids(day.get("learned", [])) for day in days] == [[], ["p1"], []]
    assert [ids(day.get("done", [])) for day in days] == [["m1"], [], ["m2", "g4"]]
    assert days[1]["others"] == 2  # a fact, and a lesson with the web as its source


def test_a_digest_lists_prompts_and_acts_of_agents(log: EventLog, home: Path):
    day = told(log, home, NOW - 7 * DAY)["days"][1]
    assert day["asked"] == ["add the retry"] and day["sessions"] == 1
    assert day["edited"] == [{"file": "up.py", "times": 1}]
    assert day["ran"] == [{"for": "test", "passed": 1, "failed": 1}]
    assert day["failing"] == [{"for": "test", "command": "pytest -x"}]


def test_a_digest_of_a_project_has_no_work_of_another(log: EventLog, home: Path):
    every = told(log, home, NOW - 7 * DAY)["days"][-1]
    mine = told(log, home, NOW - 7 * DAY, "acme/web")["days"][-1]
    assert every["asked"] == ["of another project"] and "asked" not in mine


def test_open_goals_come_the_next_due_first(log: EventLog, home: Path):
    goals = told(log, home, NOW - DAY)["open"]
    assert [(goal["id"], goal.get("due"), goal.get("overdue")) for goal in goals] == [
        ("g2", "2026-09-20", True),
        ("g3", "2026-12-24", None),
        ("g1", None, None),
    ]


@pytest.mark.parametrize("due", ["soon", 7, None, "2026-13-01", ["2026-12-01"]])
def test_an_invalid_due_day_is_left_out(tenant, embedder, home: Path, due: object):
    with EventLog(tenant.log, create=True) as log:
        commands.record(
            log, Draft(id="g", content="ship it", kind="goal", metadata={"due": due}), NOW
        )
        assert "due" not in told(log, home, 0)["open"][0]


# Over HTTP and on the command line


def test_http_returns_the_same_digest(log: EventLog, home: Path):
    tenants = OpenTenants(Settings(home))
    client = create_app(tenants, TOKEN, lambda: NOW).test_client()
    since = moment(NOW - 7 * DAY).isoformat().replace("+00:00", "Z")
    assert get(client, "/v1/digest").json == told(log, home, NOW - 7 * DAY)
    assert get(client, f"/v1/digest?since={since}").json == told(log, home, NOW - 7 * DAY)
    assert get(client, "/v1/digest?since=tomorrow").status_code == 400
    assert get(client, "/v1/digest?since=2026-09-20&until=2026-09-21").json["days"][0]["done"]
    tenants.close()


def test_the_command_line_prints_a_digest(log: EventLog, home: Path):
    assert answer("digest", "--all-projects") == told(log, home, NOW - 7 * DAY)
    lines = succeed("digest", "--since", "yesterday").stdout.splitlines()
    assert lines[0] == "2026-09-20" and "  Done     m2  what m2 says" in lines
    assert "           g2  [overdue since 2026-09-20] what g2 says" in lines


def test_the_command_line_lists_goals_and_chains_in_order(log: EventLog):
    assert succeed("goals").stdout.splitlines() == [
        "  open     g2  [overdue since 2026-09-20] what g2 says",
        "  open     g3  [due 2026-12-24] what g3 says",
        "  open     g1  [50%] what g1 says",
        "",
        "queue",
        "  2026-09-18 m1  what m1 says",
        "  2026-09-20 m2  what m2 says",
    ]
    succeed("goal", "g1", "--due", "2026-10-01")
    payload = answer("goals")
    assert ids(payload["goals"]) == ["g2", "g1", "g3"] and ids(payload["chains"]["queue"]) == [
        "m1",
        "m2",
    ]


def test_a_goal_is_set_with_the_day_it_is_due(home: Path):
    succeed("record", "Ship the release", "--kind", "goal", "--id", "g1", "--due", "2026-12-01")
    succeed("goal", "g1", "--progress", "0.5")
    assert "[50%, due 2026-12-01] Ship the release" in succeed("goals").stdout
    refused = run("record", "Ship it", "--due", "2026-12-01")
    assert refused.exit_code == 2


def test_brief_prints_the_context_of_a_new_session(home: Path):
    succeed("record", "The port is seven")
    assert succeed("brief").stdout.startswith("nothing")
    succeed("record", "We chose Postgres", "--kind", "decision", "--id", "d1")
    payload = answer("brief")
    assert ids(payload["notes"]) == ["d1"] and succeed("brief").stdout == payload["text"] + "\n"
