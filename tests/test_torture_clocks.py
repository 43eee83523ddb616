"""A wall clock that is wrong and jumps: `make torture` has more moments, starts and zones."""

from pathlib import Path

import pytest
from torture import clocks, shim
from torture.outcome import Scale, failures

pytestmark = pytest.mark.skipif(not shim.is_possible(), reason="needs Linux and a C compiler")


def test_a_clock_that_jumps_changes_no_recall_and_delays_nothing(tmp_path: Path):
    outcomes = list(clocks.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) >= 50
