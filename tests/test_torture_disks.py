"""Real disks in trouble: `make torture` has more of them and more commands on each."""

from pathlib import Path

import pytest
from torture import disks
from torture.outcome import Scale, failures


def test_disks_in_trouble_leave_reads_answered_and_recover_by_themselves(tmp_path: Path):
    if not disks.is_possible():
        pytest.skip("a disk cannot be mounted here: needs Linux and root")
    outcomes = list(disks.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) >= 100
