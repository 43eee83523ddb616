"""kill -9 under load: a hundred times in `make torture`, a few times at every push."""

import os
import sys
from pathlib import Path

import pytest
from torture.kills import attack
from torture.outcome import Scale, failures

pytestmark = pytest.mark.skipif(
    os.name != "posix" or sys.platform == "darwin", reason="looks at /proc, and kills with -9"
)


def test_kills_under_load_lose_nothing_and_hinder_nothing(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    kills, events = outcomes[0], outcomes[1]
    assert kills.points >= 4 and events.points > 500
