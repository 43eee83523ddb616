"""The fast tier of the attack `erasing`: no bytes are left, and a mere forgetting is detected."""

from pathlib import Path

import pytest
from torture import shim
from torture.erasing import attack
from torture.outcome import Scale, failures


@pytest.mark.skipif(not shim.is_possible(), reason="needs Linux and a C compiler")
def test_nothing_of_what_was_erased_is_left(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    before, remaining, answers, *_ = outcomes
    assert (before.points, remaining.points, answers.points) >= (500, 50, 20)
