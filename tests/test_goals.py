"""Open goals come first; milestones are in the order they were reached."""

from datetime import UTC, datetime

from store.derived.listings import GOALS_PROJECTION
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.snapshots.projection import Inputs, build_checked

NOW = 1_790_000_000_000_000


def gathered(log) -> dict[str, list[dict]]:
    head = log.head()
    made = {"memories": build_checked(MEMORIES_PROJECTION, Inputs(head, log.read), None)}
    tables = build_checked(GOALS_PROJECTION, Inputs(head, log.read, made), None)
    return {name: table.to_pylist() for name, table in tables.items()}


def want(log, id_: str, at: int, **fields) -> None:
    commands.record(log, Draft(id=id_, kind="goal", content=f"reach {id_}", **fields), NOW + at)


def test_open_goals_come_first_and_then_the_last_changed(log):
    for at, (id_, status) in enumerate(
        [("a", "done"), ("b", None), ("c", "open"), ("d", "blocked")]
    ):
        want(log, id_, at, status=status)
    commands.revise(log, "b", Revised(progress=0.5), NOW + 9)
    rows = gathered(log)["goals"]
    assert [(row["id"], row["status"]) for row in rows] == [
        ("b", "open"),
        ("c", "open"),
        ("d", "blocked"),
        ("a", "done"),
    ]
    assert rows[0]["progress"] == 0.5 and rows[0]["document"] == 1


def test_goals_that_are_put_away_are_not_listed(log):
    for id_ in ("a", "b", "c"):
        want(log, id_, 0)
    commands.forget(log, "a", NOW)
    commands.archive(log, "b", NOW)
    assert [row["id"] for row in gathered(log)["goals"]] == ["c"]


def test_milestones_are_numbered_in_each_chain_by_when_they_happened(log):
    for id_, chain, project, year in [
        ("late", "queue", None, 2026),
        ("early", "queue", None, 2020),
        ("else", "queue", "acme/web", 2021),
        ("other", "log", None, 2022),
        ("loose", None, None, 2022),
    ]:
        reached = datetime(year, 1, 1, tzinfo=UTC)
        draft = Draft(
            id=id_, kind="milestone", content=f"was {id_}", chain=chain, project=project,
            created_at=reached,
        )  # fmt: skip
        commands.record(log, draft, NOW)
    rows = gathered(log)["milestones"]
    assert [(row["id"], row["position"]) for row in rows] == [
        ("other", 0),
        ("early", 0),
        ("late", 1),
        ("else", 0),
    ]
