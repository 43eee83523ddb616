"""
Histories: does an imported git history answer the questions of the project's developers?

    python tests/bench/histories.py CLONE [CLONE ...] [--embedder NAME] [--show]

A clone is a folder whose path contains the name of a set in tests/data/histories (attrs, git-cliff,
kind); otherwise name the set with `NAME=CLONE`. Its history goes into a throwaway home, and each
question is asked twice: as a search with the default settings, and as the first prompt of a
session.

@1, @3, @5: an answering commit is among the first 1, 3 or 5 hits of the search. near: it is among
the five nearest, at any confidence. kept: it is in the block of the prompt. spoke: the prompt of a
question with an answer got a block. silent: the prompt of a question without an answer got none.
stored: the answer is a memory at all.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from serve.hooks.answer import Hooks
from serve.hosts import HOSTS
from serve.recall.context_block import short_id
from serve.recall.request import RecallRequest, answer
from serve.server.open_tenants import OpenTenants
from store.embedders.embedder import make_embedder
from store.home import tenant
from store.home.config import Choices, Settings
from store.home.instants import micros
from store.home.projects import project_of
from store.importers import git
from store.log import commands
from store.log.event_log import EventLog
from store.maintenance import build

SETS = Path(__file__).parents[1] / "data" / "histories"
TOP = 5


@dataclass(frozen=True)
class Outcome:
    """The outcome of one question: the hits of the search, and the notes of the prompt."""

    question: dict[str, Any]
    hits: Sequence[tuple[str, str, float]]  # commit, text, confidence
    nearest: Sequence[tuple[str, str, float]]
    notes: Sequence[tuple[str, str]]  # commit, text
    is_stored: bool

    @property
    def rank(self) -> int | None:
        """The rank of the first answering hit, from 1; None without one."""
        answers = self.question["answers"]
        return next((at for at, hit in enumerate(self.hits, 1) if hit[0] in answers), None)

    @property
    def is_near(self) -> bool:
        """Return True if one of the nearest hits answers, at any confidence."""
        return any(hit[0] in self.question["answers"] for hit in self.nearest)

    @property
    def is_kept(self) -> bool:
        return any(commit in self.question["answers"] for commit, _ in self.notes)

    def within(self, places: int) -> bool:
        return self.rank is not None and self.rank <= places


def ask(clone: Path, questions: Sequence[dict[str, Any]], embedder: str) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        Path(work, ".git").mkdir(parents=True)
        Path(work, ".git", "HEAD").write_text("ref: refs/heads/main\n")
        settings = Settings(home=Path(folder, "home"), choices=Choices(embedder=embedder))
        project = project_of(work)
        commits = load(settings, clone, project)
        tenants = OpenTenants(settings)
        hooks = Hooks(tenants, lambda: micros(datetime.now(UTC)), deadline_s=60.0)
        try:
            return [
                _ask(question, tenants, hooks, work, project, commits) for question in questions
            ]
        finally:
            hooks.close()
            tenants.close()


def load(settings: Settings, clone: Path, project: str | None) -> dict[str, str]:
    """Import a history and build; return each memory's commit by its id."""
    now = micros(datetime.now(UTC))
    began = time.perf_counter()
    home = tenant.tenant(settings.home)
    home.log.parent.mkdir(parents=True, exist_ok=True)
    with EventLog(home.log, create=True) as log:
        drafts = list(git.drafts(clone, project=project))
        counts = commands.import_drafts(log, drafts, now)
        commits = {str(draft.id): draft.metadata.get("commit", "") for draft in drafts}
        model = make_embedder(settings.choices.embedder, settings.home)
        build.rebuild(home, log, model, now)
    seconds = time.perf_counter() - began
    print(f"{clone.name}: {counts.added} memories in {seconds:.0f} s", file=sys.stderr)
    return commits


def _ask(
    question: dict[str, Any],
    tenants: OpenTenants,
    hooks: Hooks,
    work: Path,
    project: str | None,
    commits: dict[str, str],
) -> Outcome:
    hits = _search(question["query"], tenants, project, commits)
    nearest = _search(question["query"], tenants, project, commits, min_confidence=0.0, top_k=TOP)
    payload = {
        "session_id": question["id"],
        "cwd": str(work),
        "hook_event_name": "UserPromptSubmit",
        "prompt": question["query"],
        "prompt_id": question["id"],
    }
    output = (hooks.answer(HOSTS["claude-code"], payload) or {}).get("hookSpecificOutput", {})
    lines = str(output.get("additionalContext", "")).splitlines()
    read = [msgspec.json.decode(line) for line in lines if line.startswith("{")]
    by_short = {short_id(id_): id_ for id_ in commits}
    notes = [
        (
            commits.get(by_short.get(str(memory["id"]), str(memory["id"])), ""),
            str(memory.get("text", memory)),
        )
        for memory in read
    ]
    is_stored = bool(set(question["answers"]) & set(commits.values()))
    return Outcome(question, hits, nearest, notes, is_stored)


def _search(
    query: str, tenants: OpenTenants, project: str | None, commits: dict[str, str], **settings: Any
) -> list[tuple[str, str, float]]:
    opened, now = tenants.get("default"), micros(datetime.now(UTC))
    request = RecallRequest(query=query, project=project, touch=False, **settings)
    recalled, _ = answer(opened.reader, request, tenants.settings.choices, now)
    return [
        (commits.get(hit["id"], ""), hit["text"], hit["confidence"])
        for hit in recalled["hits"][:TOP]
    ]


def row(name: str, outcomes: Sequence[Outcome]) -> str:
    answerable = [outcome for outcome in outcomes if outcome.question["answers"]]
    none = [outcome for outcome in outcomes if not outcome.question["answers"]]
    cells = [sum(answer.within(places) for answer in answerable) for places in (1, 3, 5)]
    cells += [
        sum(answer.is_near for answer in answerable),
        sum(answer.is_kept for answer in answerable),
        sum(bool(answer.notes) for answer in answerable),
        sum(not answer.notes for answer in none),
        sum(answer.is_stored for answer in answerable),
    ]
    return f"| {name} | {' | '.join(map(str, cells))} | {len(answerable)} + {len(none)} |"


def show(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        mark = (
            f"@{outcome.rank}" if outcome.rank else ("-" if outcome.question["answers"] else "none")
        )
        stored = "" if outcome.is_stored or not outcome.question["answers"] else " NOT STORED"
        fate = "kept" if outcome.is_kept else "spoke" if outcome.notes else "silent"
        print(f"{outcome.question['id']} {mark} {fate}{stored}: {outcome.question['query']}")
        if outcome.rank != 1 or not outcome.is_kept:
            for commit, text, confidence in outcome.nearest:
                print(f"      {commit} {confidence:.2f} {text.splitlines()[0][:100]}")


def find_set(text: str) -> tuple[str, Path]:
    """Return the name of a clone's question set, and the clone's folder."""
    name, is_named, path = text.partition("=")
    folder = Path(path if is_named else text)
    names = (
        [name] if is_named else [other.stem for other in SETS.glob("*.jsonl") if other.stem in text]
    )
    if len(names) != 1:
        sys.exit(f"{text}: say which set it is for, as NAME=CLONE")
    return names[0], folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", nargs="+", metavar="CLONE")
    parser.add_argument("--embedder", default="lexical")
    parser.add_argument("--show", action="store_true", help="each question and what came")
    args = parser.parse_args()
    every: list[Outcome] = []
    rows = []
    for words in args.clones:
        name, clone = find_set(words)
        lines = (SETS / f"{name}.jsonl").read_text().splitlines()
        outcomes = ask(clone, [json.loads(line) for line in lines], args.embedder)
        if args.show:
            show(outcomes)
        rows.append(row(name, outcomes))
        every += outcomes
    print(
        "| set | @1 | @3 | @5 | near | kept | spoke | silent | stored | asked |\n|---"
        + "|---" * 9
        + "|"
    )
    print("\n".join([*rows, row("all", every)]))


if __name__ == "__main__":
    main()
