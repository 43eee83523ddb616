"""
Fit the classifier of authors (store/agents/authorship.py) on labelled prompts.

    make fit

Writes store/agents/author_weights.npz and prints the report of docs/prompts.md. The files in
tests/data/authors hold templates: text in ⟦ ⟧ was pasted, the rest was typed, and a `# program`
family was written by a program throughout. `{t}` (one to three lasting statements), `{o}` (one),
`{a}` (a request) and `{f}` (a remark) are filled from the labelled lines of tests/data/prompts, so
that a text's words do not give away its author; other names are filled from lists.txt, and [[a|b]]
with one of its alternatives.
"""

import random
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from fit_prompts import Line as PromptLine
from fit_prompts import lines as prompt_lines
from sklearn.linear_model import LogisticRegression

from store.agents.authorship import (
    BUCKETS,
    TYPED,
    WEIGHTS,
    WRITERS,
    Part,
    features,
    ids,
    lines,
    neighbour_features,
    parts,
)
from store.agents.prompt_classifier import sentences

TEMPLATES = Path(__file__).parents[1] / "data" / "authors"
TIMES = 6  # fillings of a template, at least: see `times`
STRENGTH = 0.3  # inverse of the regularisation
FOLDS = 4
OWN = ("own", "ownlog")
_SLOT = re.compile(r"\{(\w+)\}")
_CHOICE = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Template:
    family: str
    language: str
    text: str
    number: int


@dataclass(frozen=True)
class Sample:
    """A prompt; `pasted` are the spans that were not typed, `lasting` those of lasting texts."""

    text: str
    pasted: tuple[tuple[int, int], ...]
    lasting: tuple[tuple[int, int], ...]
    family: str
    group: int  # the template, or the block of labelled lines
    language: str


def templates() -> list[Template]:
    result = []
    for path in sorted(TEMPLATES.glob("*.txt")):
        if path.stem == "lists":
            continue
        family = ""
        for section in re.split(
            r"^(?=# (?:program )?[a-z]+$)", path.read_text("utf-8"), flags=re.MULTILINE
        ):
            head, _, body = section.partition("\n")
            family = head.removeprefix("# ")
            language = "en" if path.stem == "program" else path.stem
            for text in body.split("\n%%\n"):
                if text.strip():
                    result.append(Template(family, language, text.strip("\n"), len(result)))
    return result


@cache
def lists() -> dict[str, list[str]]:
    rows = (TEMPLATES / "lists.txt").read_text("utf-8").splitlines()
    pairs = (row.split(" = ", 1) for row in rows if " = " in row)
    return {
        name: [part.replace("\\n", "\n") for part in words.split(" ~ ")] for name, words in pairs
    }


class Texts:
    """Labelled lines to fill templates with, by language: lasting statements, requests, remarks."""

    def __init__(self, lines: list[PromptLine]) -> None:
        self.lasting: dict[str, list[str]] = defaultdict(list)
        self.requests: dict[str, list[str]] = defaultdict(list)
        self.remarks: dict[str, list[str]] = defaultdict(list)
        for line in lines:
            for start, end, _ in line.spans:
                if "\n" not in line.text[start:end]:
                    self.lasting[line.language].append(line.text[start:end].strip())
            if not line.spans and "\n" not in line.text and len(line.text) < 140:
                if line.wants in ("work", "general") and not re.search('[:："“„«]', line.text):
                    self.requests[line.language].append(line.text)
            if line.spans or len(line.text) > 120:
                for sentence in sentences(line.text):
                    text = line.text[sentence.start : sentence.end].strip()
                    if not any(a < sentence.end and sentence.start < b for a, b, _ in line.spans):
                        if 20 < len(text) < 160 and not re.search('[:："“„«]', text):
                            self.remarks[line.language].append(text)

    def pick(self, name: str, language: str, dice: random.Random) -> str:
        if name in "to":
            texts = self.lasting[language if dice.random() < 0.8 else "en"]
            count = 1 if name == "o" else dice.choice((1, 1, 1, 2, 2, 3))
            return " ".join(dice.choice(texts) for _ in range(count))
        pool = self.requests if name == "a" else self.remarks
        return dice.choice(pool[language] or pool["en"])


def fill(template: Template, texts: Texts, dice: random.Random) -> Sample:
    """Return a template filled with texts."""
    chosen = _CHOICE.sub(lambda match: dice.choice(match[1].split("|")), template.text)
    pieces: list[str] = []
    lasting: list[tuple[int, int]] = []

    def put(text: str, depth: int = 0) -> None:
        at = 0
        for slot in _SLOT.finditer(text):
            name = slot[1]
            words = lists().get(f"{name}_{template.language}") or lists().get(name)
            pieces.append(text[at : slot.start()])
            at = slot.end()
            if name in ("t", "o", "a", "f"):
                filling = texts.pick(name, template.language, dice)
                start = sum(map(len, pieces))
                lasting.append((start, start + len(filling))) if name in "to" else None
                pieces.append(filling)
            elif words and depth < 3:
                put(dice.choice(words), depth + 1)
            else:
                pieces.append(slot[0])
        pieces.append(text[at:])

    put(chosen)
    text = "".join(pieces)
    lower = dice.random()
    clean, pasted = "", []
    for character in text:
        if character == "⟦":
            pasted.append([len(clean), 0])
        elif character == "⟧":
            pasted[-1][1] = len(clean)
        else:
            clean += character
    moved = [(a - _marks(text, a), b - _marks(text, b)) for a, b in lasting]
    if lower < 0.3 and not pasted:
        clean = clean[:1].lower() + clean[1:]
    if template.family.startswith("program"):
        pasted = [[0, len(clean)]]
    spans = tuple((a, b) for a, b in pasted)
    return Sample(clean, spans, tuple(moved), template.family, template.number, template.language)


def _marks(text: str, end: int) -> int:
    return text.count("⟦", 0, end) + text.count("⟧", 0, end)


def typed_lines(lines: list[PromptLine]) -> list[Sample]:
    """Return the labelled lines as typed samples: plain lines, and lines with lasting spans.

    In a line that is not plain only the lasting spans are surely typed: the rest has no label.
    """
    result = []
    for line in lines:
        plain = not re.search('[:："“„«`\t]|^[ >\\[({|@+-]', line.text, re.MULTILINE)
        if plain or line.spans:
            lasting = tuple((a, b) for a, b, _ in line.spans)
            family = "plain" if plain else "marked"
            result.append(Sample(line.text, (), lasting, family, -1 - line.block, line.language))
    return result


def label(sample: Sample, part: Part) -> int:
    """Return the author of a part as an index into WRITERS, -1 if unknown."""
    if sample.family == "marked" and not any(
        a < part.end and part.start < b for a, b in sample.lasting
    ):
        return -1
    inside = sum(max(0, min(part.end, b) - max(part.start, a)) for a, b in sample.pasted)
    if inside < 0.5 * (part.end - part.start):
        return 0
    return 2 if sample.family.startswith("program") else 1


class Corpus:
    """The parts of all samples: their features, labels, and the sample of each."""

    def __init__(self, samples: list[Sample]) -> None:
        self.samples = samples
        self.rows = [lines(sample.text) for sample in samples]
        self.parts = [
            parts(sample.text, rows) for sample, rows in zip(samples, self.rows, strict=True)
        ]
        self.names = [
            features(sample.text, rows, some)
            for sample, rows, some in zip(samples, self.rows, self.parts, strict=True)
        ]
        self.labels = np.array(
            [
                label(sample, part)
                for sample, some in zip(samples, self.parts, strict=True)
                for part in some
            ]
        )
        self.of = np.array([n for n, some in enumerate(self.parts) for _ in some])
        self.open = np.array([part.author is None for some in self.parts for part in some])
        self.known = self.open & (self.labels >= 0)
        self.first = matrix([names for name in self.names for names in name])

    def second(self, shares: Shares) -> sp.csr_matrix:
        """Return the features of the second model, given the shares by the first."""
        result, at = [], 0
        for rows, some, names in zip(self.rows, self.parts, self.names, strict=True):
            here = shares[at : at + len(some)].astype(np.float32)
            more = neighbour_features(rows, some, here)
            result += [a + b for a, b in zip(names, more, strict=True)]
            at += len(some)
        return matrix(result)


def matrix(names: list[list[str]]) -> sp.csr_matrix:
    buckets = [ids(name) for name in names]
    starts = np.cumsum([0, *map(len, buckets)])
    flat = np.concatenate(buckets)
    return sp.csr_matrix((np.ones(len(flat)), flat, starts), shape=(len(names), BUCKETS))


def fitted(features: sp.csr_matrix, labels: npt.NDArray[np.int64]) -> LogisticRegression:
    return LogisticRegression(C=STRENGTH, max_iter=45).fit(features, labels)


def folded(corpus: Corpus, features: sp.csr_matrix, folds: npt.NDArray[np.int64]) -> Shares:
    """Return each part's shares of authors, by a model that saw no part of its fold."""
    shares = np.zeros((len(corpus.labels), len(WRITERS)))
    of_part = folds[corpus.of]
    for fold in np.unique(folds):
        rows = (of_part != fold) & corpus.known
        model = fitted(features[rows], corpus.labels[rows])
        there = of_part == fold
        shares[np.ix_(there, model.classes_)] = model.predict_proba(features[there])
    shares[~corpus.open] = [0, 1, 0]
    return shares


def held_out(corpus: Corpus, folds: npt.NDArray[np.int64]) -> Shares:
    """Return the shares by both models; neither saw a part of the same fold."""
    first = folded(corpus, corpus.first, folds)
    return folded(corpus, corpus.second(first), folds)


def figures(corpus: Corpus, shares: Shares) -> dict[str, tuple[int, int]]:
    """Return the lasting texts taken as typed and all of them, by "pasted" or "own" and family."""
    typed = shares[:, 0] >= TYPED
    result: dict[str, tuple[int, int]] = {}
    starts = np.searchsorted(corpus.of, np.arange(len(corpus.samples) + 1))
    for number, sample in enumerate(corpus.samples):
        here = range(starts[number], starts[number + 1])
        for a, b in sample.lasting:
            is_pasted = any(x <= a and b <= y for x, y in sample.pasted)
            over = [
                i
                for i in here
                if corpus.parts[number][i - here.start].start < b
                and a < corpus.parts[number][i - here.start].end
            ]
            if not over:
                continue
            share = (
                np.mean([typed[i] for i in over])
                if not is_pasted
                else float(any(typed[i] for i in over))
            )
            kind = f"{'pasted' if is_pasted else 'own'} {sample.family}"
            right, count = result.get(kind, (0, 0))
            result[kind] = (right + (share >= 0.5), count + 1)
    return result


def report(corpus: Corpus) -> None:
    kinds_ = sorted({sample.family for sample in corpus.samples} - {*OWN, "plain", "marked"})
    fold_of = {family: place % FOLDS for place, family in enumerate(kinds_)}
    by_family = np.array(
        [fold_of.get(sample.family, sample.group % FOLDS) for sample in corpus.samples]
    )
    by_template = np.array([sample.group % FOLDS for sample in corpus.samples])
    tables = {
        "other templates of its kind": figures(corpus, held_out(corpus, by_template)),
        "no template of its kind": figures(corpus, held_out(corpus, by_family)),
    }
    kinds = sorted(set().union(*tables.values()))
    print("| texts that last | of | " + " | ".join(tables) + " |\n|---|---|---|---|")
    for side in ("pasted", "own"):
        these = [kind for kind in kinds if kind.startswith(side)]
        for kind in these:
            cells = [f"{t[kind][0] / t[kind][1]:.3f}" for t in tables.values()]
            print(f"| {kind} | {next(iter(tables.values()))[kind][1]} | {' | '.join(cells)} |")
        sums = [
            tuple(map(sum, zip(*(t[kind] for kind in these), strict=True))) for t in tables.values()
        ]
        print(f"| **{side}** | {sums[0][1]} | {' | '.join(f'{k / n:.3f}' for k, n in sums)} |")


def digest() -> str:
    """Return the digest of the templates, which the fitted weights name."""
    files = sorted(TEMPLATES.glob("*.txt"))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def write(corpus: Corpus) -> None:
    folds = np.array([sample.group % FOLDS for sample in corpus.samples])
    near = folded(corpus, corpus.first, folds)
    saved = {}
    for name, matrix_ in (("first", corpus.first), ("second", corpus.second(near))):
        model = fitted(matrix_[corpus.known], corpus.labels[corpus.known])
        weights = model.coef_.T
        scale = np.abs(weights).max() / 127
        saved[name] = np.round(weights / scale).astype(np.int8)
        saved[f"{name}_scale"] = np.float32(scale)
        saved[f"{name}_bias"] = model.intercept_.astype(np.float32)
    np.savez_compressed(WEIGHTS, templates=np.frombuffer(digest().encode(), np.uint8), **saved)
    print(f"\n{WEIGHTS.name}: {WEIGHTS.stat().st_size:,} bytes")


def times(template: Template) -> int:
    """Return the number of times to fill a template: more for many choices or a single line."""
    choices = max((match[1].count("|") + 1 for match in _CHOICE.finditer(template.text)), default=1)
    times = TIMES * (1 if "\n" in template.text else 3) * (2 if template.family in OWN else 1)
    return max(times, 9 * choices)


def build() -> Corpus:
    lines, dice = prompt_lines(), random.Random(28)
    texts = Texts(lines)
    samples = [
        fill(template, texts, dice) for template in templates() for _ in range(times(template))
    ]
    plain = typed_lines(lines)
    marked = [sample for sample in plain if sample.family == "marked"]
    rest = [sample for sample in plain if sample.family == "plain"]
    return Corpus(samples + dice.sample(rest, 2_000) + dice.sample(marked, min(len(marked), 1_500)))


if __name__ == "__main__":
    corpus = build()
    print(
        f"{len(templates())} templates, {len(corpus.samples):,} prompts,"
        f" {len(corpus.labels):,} parts"
    )
    if "--no-report" not in sys.argv:
        report(corpus)
    write(corpus)
