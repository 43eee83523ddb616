"""Some of the gate's combinations at every push; `make torture` tries all of them."""

from pathlib import Path

from torture.gate import attack
from torture.outcome import Scale, told


def test_nothing_outside_the_allowlist_gets_in(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert told(outcomes) == []
    assert sum(one.points for one in outcomes) > 1_000
