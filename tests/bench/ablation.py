"""
What each layer of recall brings on a labelled dataset: from the words alone, one layer more a row.

`python tests/bench/ablation.py DIR`, the folder `mnemolog eval` takes, prints the table of
docs/recall.md.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from serve import candidates
from serve.evaluation import dataset, report
from serve.evaluation.report import Report
from serve.evaluation.run import run
from serve.recall import Mode
from store.config import Choices
from store.projections import memories

LAYERS = ("vector", "speaker", "before", "after", "question", "session")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="workspaces whose name starts so")
    asked = parser.parse_args()
    workspaces = dataset.read(asked.folder, asked.only)
    with tempfile.TemporaryDirectory() as home:
        for name, found in rows(workspaces, Path(home)):
            scores = {"all": found.overall, **found.datasets}
            cells = (
                f"{one.measures['recall@5']:.3f} / {one.measures['recall@10']:.3f}"
                for one in scores.values()
            )
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def rows(workspaces: tuple[dataset.Workspace, ...], home: Path) -> Iterator[tuple[str, Report]]:
    def measured(mode: Mode, without: tuple[str, ...] = ()) -> Report:
        weights = candidates.WEIGHTS | dict.fromkeys(without, 0.0)
        with mock.patch.object(candidates, "WEIGHTS", weights):
            results = run(workspaces, home, Choices(), mode).results
        return report.report(workspaces, {one.query_id: one for one in results}, "memory")

    plain = home / "plain"
    with mock.patch.object(memories, "searched_texts", memories.texts):
        results = run(workspaces, plain, Choices(), "lexical").results
        found = report.report(workspaces, {one.query_id: one for one in results}, "memory")
    yield "BM25 of the text", found
    yield "speaker and date in the text", measured("lexical")
    for number, layer in enumerate(LAYERS, 1):
        yield f"+ {layer}", measured("auto", LAYERS[number:])
    yield "all without vector", measured("auto", ("vector",))
    yield "all without session", measured("auto", ("session",))


if __name__ == "__main__":
    main()
