"""A few of the backups that `make torture` forges, at every push."""

from pathlib import Path

from torture import archives
from torture.outcome import Scale, failures


def test_a_forged_backup_is_restored_whole_or_not_at_all(tmp_path: Path):
    outcomes = list(archives.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert sum(outcome.points for outcome in outcomes) > 100
