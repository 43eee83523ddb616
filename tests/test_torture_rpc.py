"""Some hostile frames, events and lines at every push; `make torture` sends 20,000 of each."""

import sys
from pathlib import Path

import pytest
from torture.outcome import Scale, failures
from torture.rpc import attack

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a host's pipes are POSIX's here")


def test_whatever_is_sent_is_answered_as_agreed(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 1_000
