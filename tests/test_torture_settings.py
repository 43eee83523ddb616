"""A few of the settings that `make torture` spoils, at every push."""

from pathlib import Path

from torture import settings
from torture.outcome import Scale, failures


def test_spoilt_settings_are_given_back_or_left_alone(tmp_path: Path):
    outcomes = list(settings.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 200
