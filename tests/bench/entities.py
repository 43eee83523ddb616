"""
Precision and recall of the entities found in ordinary notes, by the notes' owner.

`python tests/bench/entities.py [dev|aside]`, with `--show` also the notes with differences. Each
life in tests/data/entities is a memory of its own, since a build compares its texts. A line has a
life, a note and the names in it: people, products, places, hosts, files, symbols, tickets. `aside`
was written before the rules and first measured after them.
"""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa

from store.derived.entities import FOUND, GUESS, settle_names
from store.text.mentions import guesses, mentions

FOLDER = Path(__file__).parents[1] / "data" / "entities"
Note = tuple[str, frozenset[str]]  # a text, and its names in folded case


def read_notes(part: str) -> dict[str, list[Note]]:
    """Return the notes of a part by life."""
    notes: dict[str, list[Note]] = defaultdict(list)
    for line in (FOLDER / f"{part}.tsv").read_text(encoding="utf-8").splitlines():
        life, text, written = line.split("\t")
        names = frozenset(name.casefold() for name in written.split(" | ") if name)
        notes[life].append((text, names))
    return notes


def find_names(notes: list[Note]) -> list[list[frozenset[str]]]:
    """Return the entities of each note of one memory, each as the set of its names."""
    rows = [
        (number, kind, mention.name, mention.alias)
        for number, (text, _) in enumerate(notes)
        for some, guess in ((mentions(text), ""), (guesses(text), GUESS))
        for mention in some
        for kind in [guess or mention.kind]
    ]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    settled = settle_names(pa.table(list(map(pa.array, columns)), schema=FOUND))
    names: list[list[frozenset[str]]] = [[] for _ in notes]
    for row in settled.to_pylist():
        names[row["document"]].append(frozenset((row["name"].casefold(), row["alias"].casefold())))
    return names


def count(notes: list[Note], found: list[list[frozenset[str]]]) -> Counter[str]:
    """Return the numbers of notes, names, names found, entities found and wrong entities."""
    counts: Counter[str] = Counter(notes=len(notes))
    for (_, names), entities in zip(notes, found, strict=True):
        hits = sum(any(name in called for called in entities) for name in names)
        wrong = sum(called.isdisjoint(names) for called in entities)
        counts += Counter(names=len(names), hits=hits, found=len(entities), wrong=wrong)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", default="dev", choices=["dev", "aside"])
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    total: Counter[str] = Counter()
    print("| life | notes | names | precision | recall |\n|---|---|---|---|---|")
    for life, notes in read_notes(args.part).items():
        entities_ = find_names(notes)
        for (text, names), entities in zip(notes, entities_, strict=True):
            if args.show and {name for called in entities for name in called} != names:
                print(f"{text!r}: {sorted(names)}, found {[sorted(called) for called in entities]}")
        counts = count(notes, entities_)
        total += counts
        print_row(life, counts)
    print_row("all", total)


def print_row(life: str, counts: Counter[str]) -> None:
    precision = 1 - counts["wrong"] / max(1, counts["found"])
    recall = counts["hits"] / max(1, counts["names"])
    print(f"| {life} | {counts['notes']} | {counts['names']} | {precision:.3f} | {recall:.3f} |")


if __name__ == "__main__":
    main()
