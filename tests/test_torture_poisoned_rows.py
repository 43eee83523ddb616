"""Some of the poisoned memories at every push; `make torture` tries all of them."""

from pathlib import Path

from torture.outcome import Scale, failures
from torture.poisoned_rows import attack


def test_no_memory_stops_the_builds_of_others(tmp_path: Path):
    assert failures(attack(tmp_path, Scale.FAST)) == []
