"""Rot of any file is named or harmless: some of the cases in `make torture`."""

from pathlib import Path

from torture import rot
from torture.outcome import Scale, failures


def test_whatever_rots_is_named_or_harmless(tmp_path: Path):
    outcomes = list(rot.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 80
