"""Some prompts to servers that are new, cold, killed and hung; `make torture` sends 200."""

import os
from pathlib import Path

import pytest
from torture.outcome import Scale, failures
from torture.undelivered import attack


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGSTOP")
def test_no_prompt_is_lost_or_recorded_twice(tmp_path: Path):
    assert failures(attack(tmp_path, Scale.FAST)) == []
