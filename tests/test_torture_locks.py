"""Other processes at work on the same home: `make torture` runs them for longer."""

import os
from pathlib import Path

import pytest
from torture import locks
from torture.outcome import Scale, failures

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends SIGTERM")


def test_others_at_work_lose_nothing_and_hold_up_no_recall(tmp_path: Path):
    outcomes = list(locks.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert all(outcome.points for outcome in outcomes)
