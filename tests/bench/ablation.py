"""
The gain of each layer of recall on a labelled dataset: words alone, then one more layer a row.

`python tests/bench/ablation.py DIR` takes the folder that `mnemolog eval` takes and prints the
table of docs/recall.md. Rows are compared query by query: a layer's row with the row before it, an
"all without" row with the full pipeline. An interval that contains zero shows no difference.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from serve.evaluation import dataset, report
from serve.evaluation.dataset import Result, Workspace
from serve.evaluation.harness import run_queries
from serve.evaluation.report import Difference, Scores
from serve.recall import evidence
from serve.recall.recall import Mode
from store.home import config
from store.home.config import Choices
from store.index import postings
from store.memories.table import indexed_texts

# words are the first row, and entities add nothing beside words
LAYERS = tuple(name for name in evidence.WEIGHTS if name not in ("lexical", "entity"))

Results = Mapping[str, Result]


@dataclass(frozen=True)
class Row:
    """A pipeline, its results, and the row it is compared with, None for none."""

    name: str
    results: Results
    against: str | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="workspaces whose name starts so")
    parser.add_argument("--embedder", default="lexical", help="as in config.toml")
    parser.add_argument(
        "--cache", type=Path, default=config.cache_folder() / "vectors", help="of vectors"
    )
    args = parser.parse_args()
    workspaces = dataset.read_workspaces(args.folder, args.only)
    choices = config.change_choices(Choices(), {"embedder": args.embedder})
    names = ["all", *sorted({workspace.source for workspace in workspaces})]
    print(f"| layer | {' | '.join(names)} | against | recall@5 | recall@10 |")
    print("|---" * (len(names) + 4) + "|")
    results: dict[str, Results] = {}
    with tempfile.TemporaryDirectory() as home:
        for row in rows(workspaces, Path(home), choices, args.cache):
            results[row.name] = row.results
            print(line(workspaces, row, results), flush=True)


def rows(
    workspaces: tuple[Workspace, ...], home: Path, choices: Choices, cache: Path
) -> Iterator[Row]:
    def results(where: Path, mode: Mode, without: tuple[str, ...] = ()) -> Results:
        weights = evidence.WEIGHTS | dict.fromkeys(without, 0.0)
        with mock.patch.object(evidence, "WEIGHTS", weights):
            of_mode = run_queries(workspaces, where, choices, mode, cache=cache).results
        return {result.query_id: result for result in of_mode}

    with mock.patch.object(postings, "searched_texts", indexed_texts):
        yield Row(before := "BM25 of the text", results(home / "plain", "lexical"), None)
    name = "speaker and date in the text"
    yield Row(name, results(home, "lexical"), before)
    for number, layer in enumerate(LAYERS, 1):
        before, name = name, f"+ {layer}"
        yield Row(name, results(home, "auto", LAYERS[number:]), before)
    for layer in LAYERS[:-1]:  # not the last: that is the row before the full one
        yield Row(f"all without {layer}", results(home, "auto", (layer,)), name)


def line(workspaces: tuple[Workspace, ...], row: Row, results: Mapping[str, Results]) -> str:
    report_ = report.score_report(workspaces, row.results, "memory")
    cells = [row.name, *map(cell, (report_.overall, *report_.datasets.values()))]
    if row.against is None:
        return f"| {' | '.join([*cells, '', '', ''])} |"
    compared = report.compare_results(workspaces, results[row.against], row.results, "memory")
    return f"| {' | '.join([*cells, row.against, *map(interval, compared.differences)])} |"


def cell(scores: Scores) -> str:
    return f"{scores.measures['recall@5']:.3f} / {scores.measures['recall@10']:.3f}"


def interval(difference: Difference) -> str:
    return f"{difference.mean:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"


if __name__ == "__main__":
    main()
