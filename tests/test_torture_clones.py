"""Some of the clones at every push; `make torture` tries all of them."""

from pathlib import Path

from torture.clones import attack
from torture.outcome import Scale, failures


def test_no_clone_is_taken_for_the_project_it_claims(tmp_path: Path):
    assert failures(attack(tmp_path, Scale.FAST)) == []
