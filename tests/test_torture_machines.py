"""The attack `machines_apart` of `make torture`, at the scale of each push."""

from pathlib import Path

from torture import machines_apart
from torture.outcome import Scale, failures


def test_machines_that_a_folder_brings_together_have_the_same_memories(tmp_path: Path) -> None:
    assert failures(machines_apart.attack(tmp_path, Scale.FAST)) == []
