"""The power is cut during writes: nothing acknowledged is lost, nothing is half written."""

from pathlib import Path

import pytest
from torture import power_loss, shim
from torture.outcome import Scale, failures

pytestmark = pytest.mark.skipif(
    not shim.is_possible(), reason="the shim needs Linux and a C compiler"
)


def test_no_power_cut_loses_what_was_acknowledged(tmp_path: Path):
    outcomes = list(power_loss.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes if not outcome.is_control) >= 350
    assert any(outcome.is_control for outcome in outcomes)


def test_the_trials_promise_what_the_table_of_threats_does():
    assert sum(trial.floor for trial in power_loss.TRIALS) >= 15_000
