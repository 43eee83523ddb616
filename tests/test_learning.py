"""Learning jobs never make recall worse: the check set, asked before and after them."""

from pathlib import Path

import pytest

from pipelines import jobs
from pipelines.jobs.reflect import findings, generated_text
from serve.evaluation import dataset
from store.home.config import Settings

BENCH = Path(__file__).resolve().parent / "bench"


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import the benchmark by its name, as its script does."""
    monkeypatch.syspath_prepend(BENCH)


def test_recall_of_the_check_set_is_what_it_was_or_better(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    import learning

    # its notes differ on purpose: only a job with too low thresholds finds similar ones
    monkeypatch.setattr(findings, "LEAST_LETTERS", 0.2)
    monkeypatch.setattr(findings, "SMALLEST", 2)
    monkeypatch.setattr(generated_text, "OWN", 99)
    workspaces = dataset.read_workspaces(dataset.CHECK_SET, dataset.PROJECT)
    names = [name for name in learning.LEARNING if name in jobs.JOBS]
    before, after = learning.learnt(workspaces, Settings(home), names)
    assert learning.worse(workspaces, before.results, after.results) == []
    assert after.steps["reflect: recorded"] >= 3


def test_the_benchmark_says_where_it_got_worse(home: Path):
    import learning

    (project,) = dataset.read_workspaces(dataset.CHECK_SET, dataset.PROJECT)
    (learning_round,) = learning.learnt([project], Settings(home), [])
    removed = {
        id_: result for id_, result in learning_round.results.items() if not id_.endswith("1")
    }
    lost = learning.worse([project], learning_round.results, removed)
    assert any(line.startswith("WORSE all recall@5") for line in lost)
    assert learning.worse([project], removed, learning_round.results) == []
    (head, _, line, *_) = learning.lines([project], [learning_round])
    assert head.startswith("| recall@5 / @10 | all |") and line.startswith("| before | ")
