"""
Fit the confidence of a hit (serve/recall/scoring.py) on labelled workspaces.

    python -P tests/bench/fit_confidence.py DIR [DIR ...] [--embedder onnx:FOLDER] [--plot FILE]

Every query and every prompt that deserves silence is asked of its workspace, as `mnemolog eval`
does. The first few hits are rows of a logistic regression: right or not. Every source weighs the
square root of its rows, so that no dataset decides alone; a hit to a prompt that deserves silence
weighs three times a right one, since confidence must separate these two, and a wrong hit to a query
a third. Prints the coefficients and, by fits to the other workspaces, how often hits of each
confidence are right in each source, and the share of silent prompts let through.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from sklearn.linear_model import LogisticRegression

from serve.evaluation import harness
from serve.evaluation.dataset import Query, Workspace, read_workspaces
from serve.recall.request import answer
from store.embedders.embedder import make_embedder
from store.home.config import Choices

HITS = 3  # of each question
SILENCE, WRONG = 3.0, 0.3  # weights beside a right hit's 1
FOLDS = 6
BINS = 10
KEPT = (0.95, 0.9, 0.8)
NAMES = ("near", "words", "rarest", "unknown")

Numbers = npt.NDArray[np.float64]
Bins = dict[str, list[tuple[float, float, int]]]  # of a source: stated, right, hits


@dataclass(frozen=True)
class Row:
    """A hit; `silence` is the kind of a prompt that deserves silence, empty for a query."""

    source: str
    workspace: str
    question: str
    silence: str
    rank: int
    signs: tuple[float, ...]
    right: bool


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    arguments.add_argument("--embedder", default="lexical")
    arguments.add_argument("--cache", type=Path, help="a folder for vectors")
    arguments.add_argument("--keep", type=Path, help="a folder for what is built")
    arguments.add_argument("--plot", type=Path, help="write the reliability diagram here, as SVG")
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = args.keep or Path(temporary)
        workspaces = [read_workspaces(folder) for folder in args.folders]
        rows = [row for some in workspaces for row in ask(some, home, args.embedder, args.cache)]
    signs = np.array([row.signs for row in rows])
    right = np.array([row.right for row in rows])
    fit = _fit(rows, signs, right, np.ones(len(rows), np.bool_))
    print("coefficients", dict(zip(NAMES, fit.coef_[0].round(2).tolist(), strict=True)))
    print("bias", round(float(fit.intercept_[0]), 2))
    stated = _judge(rows, signs, right)
    bins = _reliability(rows, stated, right)
    print("\nheld out: source, hits in first place, and stated / right of each tenth")
    for source, some in bins.items():
        line = "  ".join(
            f"{stated_share:.2f}/{share:.2f} ({hits})" for stated_share, share, hits in some
        )
        print(f"{source:12} {line}")
    _print_silence(rows, stated, right)
    if args.plot:
        args.plot.write_text(_diagram(bins), encoding="utf-8")


def ask(
    workspaces: Sequence[Workspace], home: Path, embedder: str, cache: Path | None
) -> Iterator[Row]:
    """Yield the first hits of every query and silent prompt, with their features."""
    plain = make_embedder(embedder, home)
    model = plain if cache is None or plain.is_cheap else harness.CachedEmbedder(plain, cache)
    choices = Choices(embedder=embedder)
    for workspace in workspaces:
        ids = {harness._id(workspace, memory): memory.id for memory in workspace.memories}
        with harness._build_workspace(workspace, home, model, [], lambda *_: None) as tenant:
            for question in workspace.asked:
                request = replace(harness._request(question, "auto"), explain=True, top_k=HITS)
                at = harness._question_time(workspace, question)
                payload, _ = answer(tenant.reader, request, choices, at)
                is_query = isinstance(question, Query)
                relevant = set(question.relevant) if isinstance(question, Query) else set[str]()
                for rank, hit in enumerate(payload["hits"]):
                    parts = dict(hit["why"]["confidence_from"])
                    parts["words"] = float(np.log1p(parts["words"]))
                    yield Row(
                        workspace.source,
                        workspace.name,
                        question.id,
                        "" if is_query else question.kind,
                        rank,
                        tuple(parts[name] for name in NAMES),
                        ids.get(hit["id"], hit["id"]) in relevant,
                    )
        if isinstance(model, harness.CachedEmbedder):
            model.save()


def _fit(
    rows: Sequence[Row], signs: Numbers, right: npt.NDArray[np.bool_], used: npt.NDArray[np.bool_]
) -> LogisticRegression:
    source = np.array([row.source for row in rows])
    silent = np.array([bool(row.silence) for row in rows])
    weights = np.where(silent, SILENCE, np.where(right, 1.0, WRONG))
    for name in np.unique(source):
        weights[source == name] /= np.sqrt(max(1, int((used & (source == name)).sum())))
    weights *= used.sum() / weights[used].sum()
    return LogisticRegression(max_iter=1_000).fit(signs[used], right[used], weights[used])


def _judge(rows: Sequence[Row], signs: Numbers, right: npt.NDArray[np.bool_]) -> Numbers:
    """Return the confidence of each row by a fit to the workspaces of other folds."""
    names = sorted({row.workspace for row in rows})
    fold = {name: place % FOLDS for place, name in enumerate(names)}
    of_row = np.array([fold[row.workspace] for row in rows])
    stated = np.zeros(len(rows))
    for fold_number in range(FOLDS):
        out = of_row == fold_number
        if out.any():
            stated[out] = _fit(rows, signs, right, ~out).predict_proba(signs[out])[:, 1]
    return stated


def _reliability(rows: Sequence[Row], stated: Numbers, right: npt.NDArray[np.bool_]) -> Bins:
    first = np.array([row.rank == 0 for row in rows])
    source = np.array([row.source for row in rows])
    bins: Bins = {}
    for name in ("all", *np.unique(source).tolist()):
        those = first & ((source == name) | (name == "all"))
        tenth = np.minimum((stated * BINS).astype(int), BINS - 1)
        bins[name] = [
            (float(stated[some].mean()), float(right[some].mean()), int(some.sum()))
            for decile in range(BINS)
            if (some := those & (tenth == decile)).any()
        ]
    return bins


def _print_silence(rows: Sequence[Row], stated: Numbers, right: npt.NDArray[np.bool_]) -> None:
    """Print the share of each silent kind let through by bars that keep most right answers."""
    answered = {
        (row.workspace, row.question) for row, is_right in zip(rows, right, strict=True) if is_right
    }
    first = {
        (row.workspace, row.question): (row.silence, chance)
        for row, chance in zip(rows, stated, strict=True)
        if row.rank == 0
    }
    confidences = np.sort([first[query][1] for query in answered])
    print("\nlet through, without what the prompt hook never asks")
    for share in KEPT:
        least = confidences[int(len(confidences) * (1 - share))]
        kinds: dict[str, list[bool]] = defaultdict(list)
        for kind, confidence in first.values():
            if kind:
                kinds[kind].append(confidence >= least)
        line = "  ".join(f"{kind} {np.mean(some):.3f}" for kind, some in sorted(kinds.items()))
        print(f"kept {share:.0%}, from {least:.3f}: {line}")


def _diagram(bins: Bins) -> str:
    """Return the SVG diagram of the sources: stated confidence on x, share of right hits on y."""
    size, pad = 320, 36
    colours = ("#111827", "#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size + 150} {size + 2 * pad}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{pad} {size + pad}L{size + pad} {pad}" stroke="#9ca3af" stroke-dasharray="4"/>',
        f'<path d="M{pad} {pad}V{size + pad}H{size + pad}" fill="none" stroke="#6b7280"/>',
        f'<text x="{pad + size / 2}" y="{size + 2 * pad - 8}" text-anchor="middle">'
        "stated confidence</text>",
        f'<text transform="translate(14 {pad + size / 2}) rotate(-90)" text-anchor="middle">'
        "share that was right</text>",
    ]
    for place, (name, some) in enumerate(bins.items()):
        colour = colours[place % len(colours)]
        points = " ".join(
            f"{pad + stated_share * size:.1f},{pad + (1 - share) * size:.1f}"
            for stated_share, share, hits in some
            if hits >= 10
        )
        width = 3 if name == "all" else 1.2
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )
        lines.append(
            f'<text x="{size + pad + 8}" y="{pad + 16 * place + 12}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main()
