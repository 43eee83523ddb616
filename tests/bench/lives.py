"""
Statements kept from real lives: how many of those found in people's own session histories a reader
calls lasting, and how many of the lasting sentences are found.

    git clone https://github.com/OWNER/NAME mirror/NAME
    python tests/bench/lives.py --take mirror/NAME lives/NAME    # every version's histories, once
    python tests/bench/lives.py lives/* [--show]
    python tests/bench/lives.py lives/* --model openai/qwen3 --api-base http://127.0.0.1:11434/v1

With `--model` each life is imported into a memory of its own, and `mnemolog distill` has the model
read what its user typed; the figures are those of the statements that are then active. With
`--brief`, with or without a model, they are those of the statements that a new session is told.

`tests/data/lives/held_out.tsv` has every sentence of twelve lives, and `fitted.tsv` those of the
lives that `make fit` learns from, by repository, commit and digest: the texts are other people's
and are not copied here. A question mark after a kind is a close call: one reader in two would not
call the sentence lasting. A kept statement is lasting if one of its sentences is, and unknown if
none is labelled; `--show` prints those sentences, for a reader to label.
"""

import argparse
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from store.agents.authorship import mask, read_authors
from store.agents.prompt_classifier import LASTS, read
from store.agents.prompt_statements import find_statements
from store.importers import specstory
from store.text import frame

DATA = Path(__file__).parents[1] / "data" / "lives"
FITTED, HELD_OUT = DATA / "fitted.tsv", DATA / "held_out.tsv"
CHANGES = DATA / "changes.tsv"
RUNS = 3  # of distill, which asks at most twenty questions about statements
LIMITS = ("usd_a_run", "usd_a_day", "tokens_a_run", "tokens_a_day", "calls_a_run", "calls_a_day")
SHORTEST = 4  # letters of a sentence that is looked for in a statement


@dataclass
class Life:
    """The statements kept from one life with their labels, and each labelled sentence's share.

    A label is one of LASTS, with a question mark for a close call, or "none".
    """

    kept: dict[str, str | None] = field(default_factory=dict)  # by text: its label, if it has one
    found: set[str] = field(default_factory=set)  # the sentences of the statements
    shares: dict[str, float] = field(default_factory=dict)  # lasting probability, if labelled
    unknown: dict[str, str] = field(default_factory=dict)  # sentences to label, by digest


def plain(text: str) -> str:
    """Return the letters and digits of a text in lower case, the same in any formatting."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text)).lower()


def digest(sentence: str) -> str:
    return hashlib.sha256(plain(sentence).encode()).hexdigest()[:8]


def read_labels(path: Path) -> dict[str, dict[str, str]]:
    """Return the labels by repository name and sentence digest."""
    labels: dict[str, dict[str, str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            name = row["repository"].rpartition("/")[2]
            labels.setdefault(name, {}).update(dict.fromkeys(row["digests"].split(), row["kind"]))
    return labels


def labelled(folder: Path, path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the folder of each life that `path` labels, in `folder`, and its labels."""
    for name, labels in read_labels(path).items():
        if not (folder / name).is_dir():
            raise SystemExit(
                f"{folder / name} is missing: clone each repository that {path.name} names, and "
                f"take its histories with tests/bench/lives.py --take CLONE {folder / name}"
            )
        yield folder / name, labels


def surest(labels: Iterable[str]) -> str:
    """Return the label that is the surest sign of a lasting statement."""
    return min(labels, key=lambda label: (label == "none", label.endswith("?")))


def prompts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each prompt of a life's user, and the agent's message before it."""
    for transcript in specstory.find(folder, print):
        before = ""
        for turn in specstory.turns(transcript, print):
            if not turn.is_unattended:
                yield frame.strip(turn.request.text), before
            before = turn.closing.text if turn.closing else ""


def typed(prompt: str) -> str:
    """Return a prompt with the parts masked that its user did not type; "" if nothing is typed."""
    authorship = read_authors(prompt)
    return mask(prompt, authorship) if authorship.author == "typed" else ""


def live(folder: Path, labels: dict[str, str]) -> Life:
    """Read a life as the importer does, and find its statements."""
    life = Life()
    for prompt, before in prompts(folder):
        statements = read(typed(prompt), before)
        for sentence in statements:
            if (id_ := digest(sentence.text)) in labels:
                life.shares[id_] = max(sentence.lasts, life.shares.get(id_, 0.0))
        parts = [statement.text for statement in statements]
        for statement in find_statements(prompt, before):
            keep(life, statement.text, parts, labels)
    return life


def keep(life: Life, text: str, parts: Iterable[str], labels: dict[str, str]) -> None:
    """Add a kept statement, whose sentences are among `parts`, to a life."""
    whole = plain(text)
    inside = {
        digest(part): part
        for part in parts
        if len(plain(part)) >= SHORTEST and plain(part) in whole
    }
    labelled = [labels[id_] for id_ in inside if id_ in labels]
    life.kept[text] = surest(labelled) if labelled else None
    life.found |= inside.keys()
    life.unknown |= {} if labelled else inside


def remembered(folder: Path, labels: dict[str, str], llm: dict[str, str], brief: bool) -> Life:
    """Return a life with the statements that are left once a model, if one is named, has read its
    prompts; of a `brief`, with those that a new session is told.
    """
    life = Life(shares=live(folder, labels).shares)
    parts = {
        statement.text
        for prompt, before in prompts(folder)
        for statement in read(typed(prompt), before)
    }
    with tempfile.TemporaryDirectory() as home:
        values = llm | dict.fromkeys(LIMITS, 0)
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        (Path(home) / "config.toml").write_text("\n".join(["[llm]", *lines, ""]))
        call(home, "import", "specstory", str(folder), "--project", folder.name)
        for _ in range(RUNS if llm["cheap"] else 0):
            call(home, "distill", "--project", folder.name)
        call(home, "build", "--quick")
        texts = told(home, folder.name) if brief else active(home)
    for text in texts:
        keep(life, text, parts, labels)
    return life


def active(home: str) -> list[str]:
    """Return the active statements of a memory."""
    kept = call(home, "list", "--kind", "statement", "--limit", "10000", "--json")
    return [memory["text"] for memory in json.loads(kept)["memories"]]


def told(home: str, project: str) -> list[str]:
    """Return the statements in the brief of a new session of Claude Code."""
    event = {
        "hook_event_name": "SessionStart",
        "source": "startup",
        "session_id": "new",
        "cwd": home,
    }
    answer = call(home, "hook", "claude-code", project=project, given=json.dumps(event))
    brief = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    lines = [json.loads(line) for line in brief.splitlines() if line.startswith("{")]
    return [line["user_said"] for line in lines if "user_said" in line]


def call(home: str, *words: str, project: str = "", given: str = "") -> str:
    """Run the command line on a memory, in a project; return its standard output."""
    command = [sys.executable, "-m", "serve.cli", "--home", home, *words]
    variables = os.environ | ({"MNEMOLOG_PROJECT": project} if project else {})
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, input=given, env=variables
    )
    return done.stdout


def auc(lasting: list[float], others: list[float]) -> float:
    """Return the AUC: the share of pairs in which the lasting sentence scores higher."""
    won = sum((lasts > other) + (lasts == other) / 2 for lasts in lasting for other in others)
    return won / (len(lasting) * len(others)) if lasting and others else float("nan")


def report(name: str, lives: list[tuple[Life, dict[str, str]]]) -> str:
    """Return a line of figures; close calls have a column of their own and are not lasting."""
    kept = [label for life, _ in lives for label in life.kept.values()]
    known = [label for label in kept if label is not None]
    lasting = sum(label in LASTS for label in known)
    close = sum(label.endswith("?") for label in known)
    ids = [(life, id_) for life, labels in lives for id_ in life.shares if labels[id_] in LASTS]
    kept_ids = sum(id_ in life.found for life, id_ in ids)
    shares = [(labels[id_], share) for life, labels in lives for id_, share in life.shares.items()]
    area = auc(
        [share for label, share in shares if label in LASTS],
        [share for label, share in shares if label == "none"],
    )
    precision = lasting / len(known) if known else float("nan")
    recall = kept_ids / len(ids) if ids else float("nan")
    return (
        f"{name:32} {len(kept):5} {f'{lasting} of {len(known)}':>10} {precision:5.2f} {close:5} "
        f"{f'{kept_ids} of {len(ids)}':>10} {recall:5.2f} {area:5.2f} {len(kept) - len(known):7}"
    )


def take(mirror: Path, folder: Path) -> None:
    """Write the newest version of every history in any commit of a repository."""
    git = ["git", "-C", str(mirror)]
    words = ["log", "--all", "-m", "-z", "--no-renames", "--format=@%H", "--name-only"]
    log = subprocess.run(
        [*git, *words, "--diff-filter=AM", "--", f"*{specstory.FOLDER}/*.md"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    commit, paths = "", set[str]()
    for line in re.split(r"[\0\n]+", log):
        if line.startswith("@"):
            commit = line[1:]
        elif line and line not in paths:
            paths.add(line)
            text = subprocess.run([*git, "show", f"{commit}:{line}"], capture_output=True).stdout
            path = folder / specstory.FOLDER / Path(line).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--labels", type=Path, default=HELD_OUT)
    parser.add_argument("--show", action="store_true", help="print what no label says")
    parser.add_argument("--brief", action="store_true", help="only what a new session is told")
    parser.add_argument(
        "--model", default="", help="a model that reads the prompts, as litellm names it"
    )
    parser.add_argument("--api-base", default="", help="of its server, if it has one")
    parser.add_argument("--take", type=Path, metavar="MIRROR", help="fill one folder from this")
    args = parser.parse_args()
    if args.take:
        take(args.take, args.folders[0])
        return
    labels, lives = read_labels(args.labels), list[tuple[Life, dict[str, str]]]()
    print(f"{'life':32}  kept    lasting       close      found         auc unknown")
    for folder in args.folders:
        if (folder / specstory.FOLDER).is_dir():
            own = labels.get(folder.name, {})
            llm = {"cheap": args.model, "api_base": args.api_base}
            is_live = not (args.model or args.brief)
            life = live(folder, own) if is_live else remembered(folder, own, llm, args.brief)
            lives.append((life, own))
            print(report(folder.name, lives[-1:]))
            if args.show:
                for id_, sentence in lives[-1][0].unknown.items():
                    print(f"  unknown: {id_} {sentence[:200]}")
    print(report("all", lives))


if __name__ == "__main__":
    main()
