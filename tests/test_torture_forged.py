"""Malformed snapshots are set aside despite valid hashes: some of those in `make torture`."""

from pathlib import Path

from torture import forged
from torture.outcome import Scale, failures


def test_what_was_forged_is_set_aside_or_named(tmp_path: Path):
    outcomes = list(forged.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) >= 30
