"""The same question gets the same answer: every recall of a long life is repeated."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hook_session import speaks_where_recall_is_sure
from same_answers import DAY, PROFILES, Life, live, profile_of, replayed, without_moments

from serve.recall.request import RecallRequest, answer
from store.home import tenant as tenants
from store.log import log_queries
from store.snapshots import manifest as manifests

Hits = list[dict[str, object]]


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    speaks_where_recall_is_sure(monkeypatch)
    life = Life(tmp_path / "home")
    for _ in range(30):
        life.change()
    yield life
    life.close()


def hits(life: Life, profile: str) -> Hits:
    """Return the answer to a question without leaving a receipt."""
    served = life.session.tenants.get("default")
    request = RecallRequest(query="everything on the parser", profile=profile, touch=False)
    payload, _ = answer(served.reader, request, life.session.tenants.settings.choices, life.at)
    return payload["hits"]


def test_months_of_recalls_with_restarts_restores_and_full_builds_are_answered_again_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    life = live(tmp_path / "home", 300)
    replays = replayed(life)
    assert len(replays) > 270 and {profile_of(replay) for replay in replays} == set(PROFILES)
    assert {replay.before.door for replay in replays} == {"prompt", "mcp", "cli", "rest"}
    assert {*life.stages.values()} == {"tail only", "built", "built in full", "restored"}
    assert sum(bool(replay.before.hits) for replay in replays) > 100
    assert [replay.receipt.id for replay in replays if replay.verdict != "same"] == []
    life.close()


def test_ages_counted_to_the_publication_of_a_build_would_change_past_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_queries, "moment_at", lambda log, seq: 0)  # as in earlier versions
    life = live(tmp_path / "home", 100)
    monkeypatch.undo()
    manifests.expire(tenants.tenant(life.home), keep=0)
    replays = replayed(life, without_moments(life.receipts()))
    assert sum(replay.verdict == "changed" for replay in replays) >= 5
    replayed_again = replayed(life)  # with the moments in their receipts, the answers are the same
    assert {replay.verdict for replay in replayed_again} == {"same"}
    life.close()


@pytest.mark.parametrize("profile", PROFILES)
def test_a_build_published_days_later_answers_as_one_published_at_once(life: Life, profile: str):
    life.gap = 1
    life.build()
    before = hits(life, profile)
    life.at += 9 * DAY
    life.build(full=True)
    assert before and hits(life, profile) == before


def test_the_moment_is_the_latest_of_the_newest_events(life: Life):
    log = life.log
    times = [event.at for event in log.read()]
    for seq in (1, 10, len(times)):
        assert log_queries.moment_at(log, seq) == max(times[:seq][-100:])
    assert log_queries.moment_at(log, 0) == 0


def test_a_receipt_of_an_earlier_version_takes_the_time_of_the_build_that_is_still_kept(
    life: Life, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as earlier:
        earlier.setattr(log_queries, "moment_at", lambda log, seq: 0)  # earlier builds stored none
        life.restart("wal")
        life.build()
        for _ in range(20):
            life.ask()
    events = without_moments(life.receipts())
    assert {replay.verdict for replay in replayed(life, events)} == {"same"}
