"""Every refusal of the disk ends in an error of ours, and the same work again mends it."""

from pathlib import Path

import pytest
from torture import shim
from torture.errnos import attack
from torture.outcome import Scale, failures

pytestmark = pytest.mark.skipif(not shim.is_possible(), reason="needs Linux and a C compiler")


def test_nothing_is_lost_and_the_controls_are_seen(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert outcomes[-1].points >= 20
