"""
Recall's quality on a folder of workspaces: builds each, asks every query, writes what came back.

A workspace is a folder with `memories.jsonl` {id, text, ts, session, speaker} and `queries.jsonl`
{id, query}; `index.json` names the workspaces, `silence.jsonl` {id, workspace, query} holds prompts
that deserve nothing. One line of the results is {query_id, ranked: [ids], gate: best confidence}.
`--without before,after` leaves kinds of evidence out, for an ablation.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from serve import candidates
from serve.analysis import Mode
from serve.filters import Filter
from serve.reader import Reader
from serve.recall import Question, recall
from store import build
from store import tenant as tenants
from store.commands import Draft, import_drafts
from store.config import Choices
from store.embedding import embedder
from store.log import EventLog

NOW = 1_900_000_000_000_000  # after every memory
TOP_K = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder with index.json")
    parser.add_argument("results", type=Path, help="where to write the results")
    parser.add_argument("--mode", default="auto", choices=("auto", "lexical", "vector", "entity"))
    parser.add_argument("--without", default="", help="kinds of evidence, separated by commas")
    parser.add_argument("--min-confidence", type=float, default=0.0)
    parser.add_argument("--homes", type=Path, help="keep what is built here, for the next run")
    asked = parser.parse_args()
    workspaces = json.loads((asked.data / "index.json").read_text())["workspaces"]
    with tempfile.TemporaryDirectory() as folder, Pool() as pool, asked.results.open("w") as out:
        run = partial(
            results,
            data=asked.data,
            homes=asked.homes or Path(folder),
            mode=asked.mode,
            without=frozenset(asked.without.split(",")),
            min_confidence=asked.min_confidence,
        )
        for rows in pool.imap_unordered(run, workspaces):
            out.writelines(json.dumps(row) + "\n" for row in rows)


def results(
    workspace: str,
    *,
    data: Path,
    homes: Path,
    mode: Mode,
    without: frozenset[str],
    min_confidence: float,
) -> list[dict[str, Any]]:
    for kind in without & candidates.WEIGHTS.keys():
        candidates.WEIGHTS[kind] = 0.0
    model = embedder(Choices().embedder)
    place = tenants.tenant(homes / workspace.replace("/", "-"))
    is_new = not place.log.exists()
    with EventLog(place.log, create=True) as log:
        if is_new:
            import_drafts(log, map(draft, lines(data / workspace / "memories.jsonl")), NOW)
        build.rebuild(place, log, model, NOW)
        found = []
        with Reader(place, log, model).view() as view:
            for id_, query in prompts(data, workspace):
                question = Question(
                    query, Filter(now=NOW), TOP_K, mode, Choices().fusion, min_confidence
                )
                hits = recall(view, question, model).hits
                gate = max((hit.confidence for hit in hits), default=-1.0)
                ranked = [hit.memory.id for hit in hits]
                found.append({"query_id": id_, "ranked": ranked, "gate": gate})
    print(workspace, len(found), file=sys.stderr)
    return found


def draft(line: dict[str, str]) -> Draft:
    at = datetime.fromisoformat(line["ts"].replace("Z", "+00:00"))
    return Draft(
        id=line["id"],
        content=line["text"],
        kind="raw_turn",
        created_at=at if at.tzinfo else at.replace(tzinfo=UTC),
        created_by=line.get("speaker"),
        session=line["session"],
    )


def prompts(data: Path, workspace: str) -> Iterator[tuple[str, str]]:
    for line in lines(data / workspace / "queries.jsonl"):
        yield line["id"], line["query"]
    for line in lines(data / "silence.jsonl"):
        if line["workspace"] == workspace:
            yield line["id"], line["query"]


def lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


if __name__ == "__main__":
    main()
