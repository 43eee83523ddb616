"""Some hostile queries at every push; `make torture` asks 40,000."""

from pathlib import Path

from torture.outcome import Scale, failures
from torture.queries import attack


def test_whatever_is_asked_recall_answers(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) >= 1_000
