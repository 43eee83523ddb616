"""Some of the gate's combinations at every push; `make torture` tries all of them."""

from pathlib import Path

from torture import dagster_pages, gate
from torture.outcome import Scale, told


def test_nothing_outside_the_allowlist_gets_in(tmp_path: Path):
    outcomes = list(gate.attack(tmp_path, Scale.FAST))
    assert told(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 1_000


def test_nothing_outside_the_allowlist_reaches_dagster(tmp_path: Path):
    outcomes = list(dagster_pages.attack(tmp_path, Scale.FAST))
    assert told(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 1_000
