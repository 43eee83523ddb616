"""
What is kept of real lives: of the statements found in people's own session histories, how many a
reader calls lasting, and how many of the lasting sentences are found.

    git clone https://github.com/OWNER/NAME mirror/NAME
    python tests/bench/lives.py --take mirror/NAME lives/NAME    # every version's histories, once
    python tests/bench/lives.py lives/* [--show]

`tests/data/lives/labels.tsv` names sentences by repository, commit, file and digest; their texts
are other people's and stay where they are. A kept statement is lasting where one of its sentences
is, and unknown where none is labelled; `--show` prints those sentences, for a reader to label.
"""

import argparse
import csv
import hashlib
import re
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from store.agents.authorship import mask, read_authors
from store.agents.prompt_classifier import read
from store.agents.prompt_statements import find_statements
from store.importers import specstory
from store.text import frame

LABELS = Path(__file__).parents[1] / "data" / "lives" / "labels.tsv"
SHORTEST = 4  # letters of a sentence that is looked for in a statement


@dataclass
class Life:
    """What is kept of one life: each statement's label, and each labelled sentence's share."""

    kept: dict[str, bool | None] = field(default_factory=dict)  # by text: lasting, or unknown
    found: set[str] = field(default_factory=set)  # the sentences of the statements
    shares: dict[str, float] = field(default_factory=dict)  # how likely each labelled one lasts
    unknown: dict[str, str] = field(default_factory=dict)  # sentences to label, by digest


def plain(text: str) -> str:
    """Return the letters and digits of a text, by which it is known however it is set."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text)).lower()


def digest(sentence: str) -> str:
    return hashlib.sha256(plain(sentence).encode()).hexdigest()[:16]


def read_labels(path: Path) -> dict[str, dict[str, bool]]:
    """Return the labels (true: lasting) by repository name and sentence digest."""
    labels: dict[str, dict[str, bool]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            name = row["repository"].rpartition("/")[2]
            labels.setdefault(name, {})[row["digest"]] = row["kind"] != "none"
    return labels


def prompts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what a life's user asked, and what the agent had said before that."""
    for transcript in specstory.find(folder, print):
        before = ""
        for turn in specstory.turns(transcript, print):
            if not turn.is_unattended:
                yield frame.strip(turn.request.text), before
            before = turn.closing.text if turn.closing else ""


def live(folder: Path, labels: dict[str, bool]) -> Life:
    """Read a life as the importer does, and find its statements."""
    life = Life()
    for prompt, before in prompts(folder):
        authorship = read_authors(prompt)
        statements = read(mask(prompt, authorship), before) if authorship.author == "typed" else []
        for sentence in statements:
            if (id_ := digest(sentence.text)) in labels:
                life.shares[id_] = max(sentence.lasts, life.shares.get(id_, 0.0))
        for statement in find_statements(prompt, before):
            whole = plain(statement.text)
            parts = {plain(statement.text): statement.text for statement in statements}
            inside = {
                digest(part): text
                for part, text in parts.items()
                if len(part) >= SHORTEST and part in whole
            }
            labelled = [labels[id_] for id_ in inside if id_ in labels]
            life.kept[statement.text] = any(labelled) if labelled else None
            life.found |= inside.keys()
            life.unknown |= {} if labelled else inside
    return life


def auc(lasting: list[float], others: list[float]) -> float:
    """Return the AUC: the share of pairs in which the lasting sentence scores higher."""
    won = sum((lasts > other) + (lasts == other) / 2 for lasts in lasting for other in others)
    return won / (len(lasting) * len(others)) if lasting and others else float("nan")


def report(name: str, lives: list[tuple[Life, dict[str, bool]]]) -> str:
    labels_ = [label for life, _ in lives for label in life.kept.values()]
    known_labels = [label for label in labels_ if label is not None]
    lasting = [(life, id_) for life, labels in lives for id_ in life.shares if labels[id_]]
    right_ones = sum(id_ in life.found for life, id_ in lasting)
    shares = [(labels[id_], share) for life, labels in lives for id_, share in life.shares.items()]
    area = auc([s for is_so, s in shares if is_so], [s for is_so, s in shares if not is_so])
    right = f"{sum(known_labels)} of {len(known_labels)}"
    precision = sum(known_labels) / len(known_labels) if known_labels else float("nan")
    recall = right_ones / len(lasting) if lasting else float("nan")
    unknown = len(labels_) - len(known_labels)
    return (
        f"{name:32} {len(labels_):5} {right:>10} {precision:5.2f} "
        f"{f'{right_ones} of {len(lasting)}':>10} {recall:5.2f} {area:5.2f} {unknown:7}"
    )


def take(mirror: Path, folder: Path) -> None:
    """Write the newest version of every history that any commit of a repository has."""
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
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--show", action="store_true", help="print what no label says")
    parser.add_argument("--take", type=Path, metavar="MIRROR", help="fill one folder from this")
    args = parser.parse_args()
    if args.take:
        take(args.take, args.folders[0])
        return
    labels, lives = read_labels(args.labels), list[tuple[Life, dict[str, bool]]]()
    print(f"{'life':32}  kept    lasting             found         auc unknown")
    for folder in args.folders:
        if (folder / specstory.FOLDER).is_dir():
            own = labels.get(folder.name, {})
            lives.append((live(folder, own), own))
            print(report(folder.name, lives[-1:]))
            if args.show:
                for id_, sentence in lives[-1][0].unknown.items():
                    print(f"  unknown: {id_} {sentence[:200]}")
    print(report("all", lives))


if __name__ == "__main__":
    main()
