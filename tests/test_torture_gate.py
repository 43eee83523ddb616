"""Some of the gate's combinations at every push; `make torture` tries all of them."""

from pathlib import Path
from types import ModuleType

import pytest
from torture import dagster_pages, gate
from torture.outcome import Scale, failures


@pytest.mark.parametrize("pages", [gate, dagster_pages], ids=["ours", "Dagster's"])
def test_nothing_outside_the_allowlist_gets_in(tmp_path: Path, pages: ModuleType):
    outcomes = list(pages.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 1_000
