"""Some hostile forms at every push; `make torture` sends thousands, and to every operation."""

from pathlib import Path

from torture.forms import attack
from torture.outcome import Scale, failures


def test_whatever_a_form_holds_nothing_fails_and_nothing_is_written_unasked(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) >= 500
