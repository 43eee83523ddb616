"""
Fit the models by which the memory speaks unasked (serve/hooks/speaking.py).

    make fit-speaking ARGS="[--lives FOLDER ...] [--notes FILE] [--graded FOLDER ...]
                            [--agents FOLDER] [NAME=CLONE ...]"

Each story is replayed with rules and ordinary days in between (`ordinary.life`): 60, then 200. The
options add further stories, notes with a question each, real lives whose turns have grades in
`tests/data/lives/told.tsv` (`unasked.py`), transcripts of agents with issues that came later, and
clones of projects with a set of questions in tests/data/histories. A memory that the prompt hook
might show is labelled 1 if its note contains anything the prompt needs, if readers found it useful,
or if its session edited what the issue's solution did. Prints the coefficients of every kind of
memory, and the memories that pass several bars, each source judged by a fit to the others.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import histories
import numpy as np
import ordinary
import unasked
from lives import DATA, digest, read_labels
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stories import (
    Asked,
    Served,
    World,
    holds,
    import_transcripts,
    listening,
    plain,
    stories,
    told,
    touches,
)

from serve.hooks import speaking
from serve.recall.context_block import block, note
from store.home import tenant
from store.home.config import Choices, Settings
from store.home.instants import micros
from store.home.projects import project_of
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.text import tokenizer

STRENGTH = 0.1  # inverse of the regularisation
DAYS = (60, 200)
# weights of our prompts, with needs hard on purpose, of others, and of graded ones of real lives
OWN, OTHERS, REAL = 0.6, 3.0, 1.0
MOST_ISSUE = 2_000  # characters of an issue
BARS = (0.15, 0.2, 0.25, 0.3, 0.33, 0.36, 0.4)
# the features of each kind; a commit and a tool's text use those of a note
SIGNS = {
    "turn": """confidence place asked done rarest second work general small_talk length size
        near""",
    "statement": """confidence place work general question length found words topics share before
        lead among lasts""",
    "note": "confidence place said rarest second work general question length size",
}


@dataclass(frozen=True)
class Said:
    """A candidate memory: its features, and whether its note helps and serves the prompt."""

    kind: str
    signs: tuple[float, ...]
    helps: bool
    serves: bool


@dataclass(frozen=True)
class Prompt:
    source: str
    kind: str
    needs_any: bool
    weight: float
    said: tuple[Said, ...]


def live(story: dict[str, Any], days: int = 0, weight: float = OTHERS) -> list[Prompt]:
    """Return the candidates at each probe of a story with ordinary days in between."""
    lived = ordinary.life(story, days) if days else story
    cases = []
    for probe in told(lived, nights=20):
        sentences = tuple(
            sentence for question in probe.asked for sentence in _score_sentences(probe, question)
        )
        cases.append(Prompt(str(story["name"]), probe.kind, bool(probe.needs), weight, sentences))
    return cases


def _score_sentences(probe: Served, question: Asked) -> Iterator[Said]:
    about = tokenizer.terms(question[1])
    for hit, signs in speaking.features(*question):
        text = plain(block([note(hit.memory, about=about)]).text)
        serves = bool(probe.needs) and holds(text, probe.needs)
        kind = speaking.kind_of(hit.memory).replace("quote", "note")
        yield Said(kind, signs, touches(text, probe.needs), serves)


def ask_history(text: str) -> list[Prompt]:
    """Return the candidates for questions to a project's history."""
    name, clone = histories.find_set(text)
    lines = (histories.SETS / f"{name}.jsonl").read_text().splitlines()
    questions = {question["query"]: question["answers"] for question in map(json.loads, lines)}
    cases: list[Asked] = []
    with listening(cases.append):
        histories.ask(clone, [json.loads(line) for line in lines], "lexical")
    sentences = []
    for case in cases:
        answers = questions[case[1]]
        chosen = []
        for hit, signs in speaking.features(*case):
            is_right = json.loads(hit.memory.metadata or "{}").get("commit") in answers
            chosen.append(Said("note", signs, is_right, is_right))
        sentences.append(Prompt(name, "commit", bool(answers), OTHERS, tuple(chosen)))
    return sentences


FEW = 5  # notes in a small home; one more home has them all


def ask_notes(path: Path) -> list[Prompt]:
    """Return the candidates for questions that notes answer, and for prompts about nothing."""
    data = json.loads(path.read_text())
    notes, others = data["notes"], data["others"]
    quiet = [p["prompt"] for story in stories() for p in story["probes"] if not p["needs"]]
    homes = [notes, *(notes[at : at + FEW] for at in range(0, len(notes), FEW))]
    prompts = []
    for number, some in enumerate(homes):
        texts = [row["text"] for row in some]
        cases = _ask_home(
            [*texts, *(others if not number else others[:FEW])],
            [*(row["question"] for row in some), *quiet[number :: len(homes)]],
        )
        wanted = {row["question"]: row["text"] for row in some}
        for case in cases:
            chosen = []
            for hit, signs in speaking.features(*case):
                is_right = hit.memory.content == wanted.get(case[1])
                chosen.append(Said("note", signs, is_right, is_right))
            kind = "note" if case[1] in wanted else "silent"
            prompts.append(
                Prompt(f"notes {number % 4}", kind, case[1] in wanted, 2.0, tuple(chosen))
            )
    return prompts


def ask_graded(folder: Path) -> list[Prompt]:
    """Return the turns with a grade that might be told at the prompts of a real life."""
    grades = read_labels(DATA / "told.tsv")[folder.name]
    prompts = []

    def score(question: Asked) -> None:
        asked = digest(question[1][: unasked.MOST_PROMPT])
        turns = [
            Said("turn", signs, grade == "useful", grade == "useful")
            for hit, signs in speaking.features(*question)
            if (grade := grades.get(f"{asked}:{digest(hit.memory.content)}"))
        ]
        if turns:
            prompts.append(Prompt(f"life {folder.name}", "real", True, REAL, tuple(turns)))

    with listening(score):
        unasked.live(folder, grades)
    return prompts


def ask_agents(folder: Path, repository: str) -> list[Prompt]:
    """Return the turns that might be told at issues, in a memory of earlier transcripts.

    `queries.jsonl` has the issues with the names of the transcripts that edited a file which the
    issue's solution changed.
    """
    lines = (folder / "queries.jsonl").read_text().splitlines()
    issues = [issue for issue in map(json.loads, lines) if issue["repo"] == repository]
    with tempfile.TemporaryDirectory(prefix="mnemolog-agents-") as name:
        home, project, scratch = (Path(name) / part for part in ("home", "project", "scratch"))
        scratch.mkdir()
        (project / ".git").mkdir(parents=True)
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        world = World(Settings(home, Choices()), project, ())
        with EventLog(tenant.tenant(home).log, create=True) as log:
            transcripts = folder / "transcripts" / repository
            import_transcripts(log, transcripts, project_of(project), scratch, world.at)
        sessions = {
            json.loads(line)["sessionId"]: path.stem
            for path in scratch.iterdir()
            for line in path.read_text().splitlines()
            if "sessionId" in line
        }
        world.night()
        prompts: list[Prompt] = []

        def score(question: Asked) -> None:
            gold = set(asked["gold"])
            turns = []
            for hit, signs in speaking.features(*question):
                if speaking.kind_of(hit.memory) == "turn":
                    is_right = sessions.get(hit.memory.session or "") in gold
                    turns.append(Said("turn", signs, is_right, is_right))
            prompts.append(Prompt(f"agents {repository}", "issue", True, OTHERS, tuple(turns)))

        with world.awake() as hooks, listening(score):
            for asked in issues:  # `score` reads it
                payload = {"prompt": asked["prompt"][:MOST_ISSUE], "prompt_id": asked["id"]}
                world.tell(hooks, asked["id"], "UserPromptSubmit", **payload)
    return prompts


def _ask_home(texts: Sequence[str], prompts: Sequence[str]) -> list[Asked]:
    """Return the arguments of each prompt's call to `speaking`, in a home of these texts alone."""
    cases: list[Asked] = []
    with tempfile.TemporaryDirectory(prefix="mnemolog-notes-") as name:
        home, folder = Path(name) / "home", Path(name) / "notes"
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        world = World(Settings(home, Choices()), folder, ())
        drafts = [Draft(content=text, kind="fact", project=project_of(folder)) for text in texts]
        with EventLog(tenant.tenant(home).log, create=True) as log:
            commands.import_drafts(log, drafts, micros(world.at))
        world.night()
        with world.awake() as hooks, listening(cases.append):
            for number, prompt in enumerate(prompts):
                payload = {"prompt": prompt, "prompt_id": str(number)}
                world.tell(hooks, f"s{number}", "UserPromptSubmit", **payload)
    return cases


def fitted(prompts: Sequence[Prompt], kind: str) -> object:
    """Return the model of a kind of memory, fitted on its SIGNS."""
    rows = [
        (prompt.weight, sentence)
        for prompt in prompts
        for sentence in prompt.said
        if sentence.kind == kind
    ]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=800))
    return model.fit(
        [_signs(sentence) for _, sentence in rows],
        [sentence.helps for _, sentence in rows],
        logisticregression__sample_weight=[weight for weight, _ in rows],
    )


def _signs(sentence: Said) -> list[float]:
    by_name = dict(zip(speaking.FEATURES, sentence.signs, strict=True))
    return [by_name[name] for name in SIGNS[sentence.kind].split()]


def judge(prompts: Sequence[Prompt]) -> None:
    """Print the memories that pass each bar: each prompt's best, by a fit to the other sources."""
    print("| kind | bar | right | said | of that with no need |\n|---|---|---|---|---|")
    for kind in SIGNS:
        best: list[tuple[float, bool, bool]] = []
        for source in sorted({other.source for other in prompts}):
            model = fitted([other for other in prompts if other.source != source], kind)
            for prompt in prompts:
                rows = [sentence for sentence in prompt.said if sentence.kind == kind]
                if prompt.source == source and rows:
                    likely = model.predict_proba([_signs(row) for row in rows])[:, 1]
                    at = int(np.argmax(likely))
                    best.append((float(likely[at]), rows[at].helps, prompt.needs_any))
        for bar in BARS:
            chosen = [scored for scored in best if scored[0] >= bar]
            right = sum(helps for _, helps, _ in chosen)
            idle = sum(not needs for _, _, needs in chosen)
            print(f"| {kind} | {bar} | {right} | {len(chosen)} | {idle} |")


def report(prompts: Sequence[Prompt]) -> None:
    """Print the coefficients of every kind."""
    for kind, names in SIGNS.items():
        scaler, last = (model := fitted(prompts, kind))[0], model[-1]
        weights = last.coef_[0] / scaler.scale_
        bias = float(last.intercept_[0] - (weights * scaler.mean_).sum())
        print(
            kind, round(bias, 3), dict(zip(names.split(), weights.round(3).tolist(), strict=True))
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", nargs="*", metavar="NAME=CLONE")
    parser.add_argument("--lives", type=Path, action="append", default=[])
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--graded", type=Path, nargs="*", default=[])
    parser.add_argument("--agents", type=Path)
    args = parser.parse_args()
    prompts: list[Prompt] = []
    with Pool(2) as pool:
        for days in DAYS:
            for some in pool.imap(partial(live, days=days, weight=OWN), list(stories())):
                prompts += some
        for folder in args.lives:
            for some in pool.imap(live, list(stories(folder=folder))):
                prompts += some
        for some in pool.imap(ask_graded, args.graded):
            prompts += some
        if args.agents:
            folders = sorted((args.agents / "transcripts").iterdir())
            for some in pool.map(partial(ask_agents, args.agents), [f.name for f in folders]):
                prompts += some
    for clone in args.clones:
        prompts += ask_history(clone)
    if args.notes:
        prompts += ask_notes(args.notes)
    print(f"{len(prompts)} prompts, {sum(len(prompt.said) for prompt in prompts)} memories")
    judge(prompts)
    report(prompts)


if __name__ == "__main__":
    main()
