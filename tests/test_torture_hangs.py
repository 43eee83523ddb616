"""Some prompts before each kind of hung server; `make torture` sends more of them."""

from pathlib import Path

from torture.hangs import attack
from torture.outcome import Scale, failures


def test_no_hook_waits_twice_for_a_server_that_hangs(tmp_path: Path):
    assert failures(attack(tmp_path, Scale.FAST)) == []
