"""A few simulated lives of a memory at every push; `make torture` runs 300."""

from pathlib import Path

from torture.outcome import Scale, failures
from torture.state import attack


def test_any_order_of_things_leaves_what_a_dictionary_says(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert outcomes[0].points > 100
