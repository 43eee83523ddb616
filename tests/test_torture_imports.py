"""A few of the sources that `make torture` spoils, at every push."""

import shutil
from pathlib import Path

import pytest
from torture import imports
from torture.outcome import Scale, failures


@pytest.mark.skipif(shutil.which("git") is None, reason="git makes the hostile repositories")
def test_a_spoilt_source_is_read_or_refused_and_nothing_of_it_is_run(tmp_path: Path):
    outcomes = list(imports.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 200
