"""
Fit the classifier of prompts (store/agents) on labelled lines; report it on lines held out.

    make fit LIVES=FOLDER

Writes store/agents/weights.npz, and prints the report of docs/prompts.md: every figure is of
lines held out from the model that judged them, with the nineteen lines around them, which may be
on the same matter. A line has five fields separated by tabs: language, kind of request, 1 for a
correction or 0 (`-`: not labelled), the agent's message before, and the prompt with its lasting
parts marked. FOLDER has the session histories that tests/data/lives/fitted.tsv labels, one folder
for each repository, as tests/bench/lives.py takes them.
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import lives
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from store.agents.prompt_classifier import (
    BUCKETS,
    LASTS,
    MAX_PROMPT,
    WANTS,
    WEIGHTS,
    Features,
    prompt_features,
    sentence_features,
    sentences,
)

LINES = Path(__file__).parents[1] / "data" / "prompts"
WANTED = dict(zip("wgscr", WANTS, strict=True))
MARKED = dict(zip("RPDF", LASTS, strict=True))
FOLDS, BLOCK = 5, 20
# inverse of the regularisation
STRENGTH = {"wants": 20.0, "corrects": 10.0, "lasts": 8.0, "lived": 1.5, "written": 1.0}
BALANCE = {
    "wants": "balanced",
    "corrects": None,
    "lasts": None,
    "lived": None,
    "written": "balanced",
}
LENGTH = 1.8  # of a feature vector; the strengths above were chosen with it
RATES = (0.02, 0.05, 0.1)
REAL = 3.0  # weight of a line in the style of real sessions (real-*.tsv); others weigh 1
CLOSE = 0.5  # weight of a sentence that one reader in two would call lasting
# Log-odds added to the model of lives, where one sentence in sixteen lasts: the surest ones would
# hardly pass a threshold chosen for written lines; and to the model of written sentences, before
# its output is doubled. Without the latter a seventh more lasting sentences of twelve real lives is
# kept, but of the rules in tests/data/stories a sixth fewer comes to the next session.
ADDED = {"lived": 1.5, "written": 1.0}
SHARPNESS = {"written": 2.0}

_MARK = re.compile(r"⟦([RPDF]) ?(.*?)⟧", re.DOTALL)
Matrix = sp.csr_matrix
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Line:
    """A labelled prompt; `spans` are its lasting parts: start, end and kind."""

    language: str
    wants: str
    corrects: bool | None
    before: str
    text: str
    spans: tuple[tuple[int, int, str], ...]
    block: int
    weight: float = 1.0


def lines() -> list[Line]:
    """Return all labelled lines, each text once."""
    lines: dict[str, Line] = {}
    for number, path in enumerate(sorted(LINES.glob("*.tsv"))):
        for row, raw in enumerate(path.read_text(encoding="utf-8").splitlines()):
            language, wanted, corrects, before, marked = raw.split("\t")
            text, spans = _unmarked(marked.replace("\\n", "\n"))
            block = number * 10_000 + row // BLOCK
            before = before.replace("\\n", "\n")
            weight = REAL if path.stem.startswith("real-") else 1.0
            is_one = {"1": True, "0": False, "-": None}[corrects]
            line = Line(language, WANTED[wanted], is_one, before, text, tuple(spans), block, weight)
            lines.setdefault(text, line)
    return list(lines.values())


def digest() -> str:
    """Return the digest of the lines and labels, which the fitted weights name."""
    files = [*sorted(LINES.glob("*.tsv")), lives.FITTED]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _unmarked(marked: str) -> tuple[str, list[tuple[int, int, str]]]:
    text, spans, at = "", [], 0
    for mark in _MARK.finditer(marked):
        text += marked[at : mark.start()]
        spans.append((len(text), len(text) + len(mark[2]), MARKED[mark[1]]))
        text, at = text + mark[2], mark.end()
    return text + marked[at:], spans


def _lasts(line: Line, start: int, end: int) -> str:
    """Return the kind marked on much of a sentence, or by a mark mostly inside it, "" for none."""
    best, lasts = 0, ""
    for first, last, kind in line.spans:
        shared = min(end, last) - max(start, first)
        is_it = shared >= 0.35 * (end - start) or shared >= 0.6 * (last - first)
        if shared > best and is_it:
            best, lasts = shared, kind
    return lasts


@dataclass(frozen=True)
class Samples:
    """Feature vectors [n, buckets], with their classes, line numbers and weights, all [n]."""

    features: Matrix
    classes: Codes
    line: Codes
    weights: npt.NDArray[np.float64]


def _matrix(vectors: Sequence[Features]) -> Matrix:
    starts = np.cumsum([0, *(len(ids) for ids, _ in vectors)])
    ids = np.concatenate([ids for ids, _ in vectors]).astype(np.int64)
    values = np.concatenate([values for _, values in vectors])
    return sp.csr_matrix((values, ids, starts), shape=(len(vectors), BUCKETS))


def samples(lines: Sequence[Line]) -> dict[str, Samples]:
    """Return the samples of each of the three models of lines."""
    whole = _matrix([prompt_features(line.text, line.before) for line in lines])
    numbers = np.arange(len(lines))
    parts, classes, of = [], [], []
    for number, line_ in enumerate(lines):
        for sentence in sentences(line_.text):
            kind = _lasts(line_, sentence.start, sentence.end)
            parts.append(sentence_features(line_.text, sentence, line_.before))
            classes.append(LASTS.index(kind) + 1 if kind else 0)  # type: ignore[arg-type]
            of.append(number)
    wants = np.array([WANTS.index(line.wants) for line in lines])
    corrects = np.array([int(line.corrects or 0) for line in lines])
    is_known = np.array([float(line.corrects is not None) for line in lines])
    weights, line = np.array([line.weight for line in lines]), np.array(of)
    return {
        "wants": Samples(whole, wants, numbers, np.ones(len(lines))),
        "corrects": Samples(whole, corrects, numbers, is_known),
        "lasts": Samples(_matrix(parts), np.array(classes), line, weights[line]),
    }


def of_lives(folder: Path) -> Samples:
    """Return the labelled sentences of lives, each once in its life; class 1 is lasting."""
    parts, classes, weights = [], [], []
    for life, labels in lives.labelled(folder, lives.FITTED):
        left = dict(labels)
        for prompt, before in lives.prompts(life):
            typed = lives.typed(prompt)[:MAX_PROMPT]
            for sentence in sentences(typed):
                label = left.pop(lives.digest(typed[sentence.start : sentence.end]), None)
                if label is not None:
                    parts.append(sentence_features(typed, sentence, before))
                    classes.append(int(label != "none"))
                    weights.append(CLOSE if label.endswith("?") else 1.0)
        if left:
            print(f"{life.name}: {len(left)} labelled sentences are not in its histories")
    return Samples(_matrix(parts), np.array(classes), np.arange(len(parts)), np.array(weights))


def written_or_lived(lines: Sequence[Line], of: dict[str, Samples]) -> Samples:
    """Return the sentences of lines that follow no real session as class 1, those of lives as 0."""
    is_written = np.array([line.weight == 1 for line in lines])[of["lasts"].line]
    features = sp.vstack([of["lasts"].features[is_written], of["lived"].features])
    classes = np.arange(features.shape[0]) < is_written.sum()
    size = len(classes)
    return Samples(features, classes.astype(np.int64), np.arange(size), np.ones(size))


def telling(features: Matrix) -> npt.NDArray[np.float64]:
    """Return the inverse document frequency of each bucket, [buckets]."""
    counts = np.asarray((features > 0).sum(0)).ravel()
    return np.log((1 + features.shape[0]) / (1 + counts)) + 1


def weighed(features: Matrix, weights: npt.NDArray[np.float64]) -> Matrix:
    return normalize(features @ sp.diags(weights)) * LENGTH


def fitted(
    name: str, some: Samples, features: Matrix, rows: npt.NDArray[np.bool_]
) -> LogisticRegression:
    model = LogisticRegression(C=STRENGTH[name], max_iter=500, class_weight=BALANCE[name])
    return model.fit(features[rows], some.classes[rows], sample_weight=some.weights[rows])


def held_out(lines: Sequence[Line], of: dict[str, Samples]) -> dict[str, npt.NDArray[np.float64]]:
    """Return each sample's class probabilities, by a model that saw nothing near it."""
    blocks = np.array([line.block for line in lines])
    kinds = np.unique(blocks)
    fold_of = dict(zip(kinds, np.random.default_rng(7).integers(0, FOLDS, len(kinds)), strict=True))
    folds = np.array([fold_of[block] for block in blocks])
    result = {}
    for name, some in of.items():
        features = weighed(some.features, telling(of["lasts"].features))
        chances = np.zeros((len(some.classes), some.classes.max() + 1))
        for fold in range(FOLDS):
            rows = folds[some.line] != fold
            chances[~rows] = fitted(name, some, features, rows).predict_proba(features[~rows])
        result[name] = chances
    return result


def report(lines: Sequence[Line], of: dict[str, Samples]) -> None:
    """Print the figures of all lines but those in the style of real sessions: many are alike."""
    chances = held_out(lines, of)
    languages = np.array([line.language for line in lines])
    judged = np.array([line.weight == 1 for line in lines])
    print(f"{len(lines):,} lines: {dict(Counter(languages.tolist()).most_common())}")
    print(f"judged: {judged.sum():,}")
    wanted, likely = of["wants"].classes[judged], chances["wants"][judged]
    print("\n| wanted | lines | found | right where said |\n|---|---|---|---|")
    guess = likely.argmax(1)
    for place, name in enumerate(WANTS):
        there, guessed = wanted == place, guess == place
        both = (there & guessed).sum()
        print(f"| {name} | {there.sum()} | {both / there.sum():.3f} | {both / guessed.sum():.3f} |")
    is_known = of["corrects"].weights > 0
    corrects, sure = of["corrects"].classes[is_known], chances["corrects"][is_known, 1]
    order = np.argsort(-sure)
    first = order[: corrects.sum()]
    print(f"\ncorrections: {corrects[first].mean():.3f} right of as many as there are")
    some = of["lasts"]
    lasts = 1 - chances["lasts"][:, 0]
    of_line, marked = np.zeros(len(lines)), np.zeros(len(lines), np.bool_)
    np.maximum.at(of_line, some.line, lasts)
    np.logical_or.at(marked, some.line, some.classes > 0)
    of_line, marked, languages = of_line[judged], marked[judged], languages[judged]
    print(
        "\n| lines kept by mistake | bar | kept of those that last | "
        + " | ".join(sorted(set(languages)))
    )
    for rate in RATES:
        bar = np.quantile(of_line[~marked], 1 - rate)
        by = [
            f"{(of_line[marked & (languages == language)] >= bar).mean():.2f}"
            f" / {(of_line[~marked & (languages == language)] >= bar).mean():.2f}"
            for language in sorted(set(languages))
        ]
        print(
            f"| {rate:.2f} | {bar:.3f} | {(of_line[marked] >= bar).mean():.3f} | {' | '.join(by)} |"
        )
    kinds = chances["lasts"][:, 1:].argmax(1) + 1
    there = (some.classes > 0) & judged[some.line]
    print(f"\nkinds of those that last: {(kinds == some.classes)[there].mean():.3f} right")


def write(of: dict[str, Samples]) -> None:
    weights = telling(of["lasts"].features)
    columns, biases = [], []
    for name, some in of.items():
        features = weighed(some.features, weights)
        model = fitted(name, some, features, np.ones(len(some.classes), np.bool_))
        sharpness = SHARPNESS.get(name, 1.0)
        columns.append(model.coef_.T * LENGTH * sharpness)
        biases.append((model.intercept_ + ADDED.get(name, 0.0)) * sharpness)
    every = np.concatenate(columns, 1)
    scales = np.abs(every).max(0) / 127
    scale = 255 / weights.max()
    np.savez_compressed(
        WEIGHTS,
        weights=np.round(every / scales).astype(np.int8),
        scales=scales.astype(np.float32),
        bias=np.concatenate(biases).astype(np.float32),
        telling=np.round(weights * scale).astype(np.uint8),
        telling_scale=np.float32(scale),
        lines=np.frombuffer(digest().encode(), np.uint8),
    )
    print(f"\n{WEIGHTS.name}: {WEIGHTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lives", type=Path)
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    every_line = lines()
    every_sample = samples(every_line)
    if not args.no_report:
        report(every_line, every_sample)
    every_sample["lived"] = of_lives(args.lives)
    every_sample["written"] = written_or_lived(every_line, every_sample)
    write(every_sample)
