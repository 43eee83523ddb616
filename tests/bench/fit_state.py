"""
Fit the classifier of claim pairs (store/text/claim_pairs.py); report it on families held out.

    make fit LIVES=FOLDER

Writes store/text/state_weights.npz and prints the report of docs/time.md: every figure is of pairs
with a slot and a template that the model that judged them had not seen. Nothing is fitted on
tests/data/state/lookalikes.tsv.

FOLDER has the session histories in which readers labelled sentences that counted as replaced or
ended, tests/data/lives/changes.tsv, by the digests of the older and the newer one. Each of these
lives is judged by a fit to the others.
"""

import argparse
import sys
from collections import Counter, defaultdict
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import lives
import numpy as np
import numpy.typing as npt

from store.derived.claim_links import Claims
from store.derived.state import claims_of
from store.importers import specstory
from store.log.event_kinds import EPISODE
from store.text import frame
from store.text.claim_pairs import (
    MOST_DEVIATIONS,
    RELATIONS,
    SURE,
    UNSURE,
    WEIGHTS,
    Around,
    Model,
    features,
    is_doubtful,
    judge,
    likelihood,
    may_be_over,
    rarity_of,
)
from store.text.claims import parse

sys.path.insert(0, str(Path(__file__).parent))
from state_pairs import FOLDER, SOURCES, Pair, pairs

NETWORKS, HIDDEN, EPOCHS, BATCH, RATE, DECAY = 6, 40, 45, 128, 0.003, 3e-4
FOLDS = 4
LOOKALIKES = FOLDER / "lookalikes.tsv"
WEIGHT = {
    "none": 1.5,
    "refines": 1.3,
    "repeats": 1.3,
    "hand": 5.0,
}  # of a pair that changes nothing; of a hand-written one
# the weight of a pair of a real life by its label, UNREAD where it has none: of those, one in
# ONE_IN is taken. More weight costs changes that people announce, which these lives hardly have.
UNREAD, ONE_IN = "-", 16
LIVED = {"none": 0.3, "replaces": 1.0, "ends": 1.0, UNREAD: 0.1}
Floats = npt.NDArray[np.float32]


class Lived(NamedTuple):
    """A pair of sentences of a real life with its label: a relation, or UNREAD."""

    life: str
    label: str
    older: str
    newer: str
    around: Around
    features: list[float]


def digest() -> str:
    """Return the digest of the files behind the pairs, which the weights record."""
    sources = [
        Path(__file__).with_name("state_pairs.py"),
        *(FOLDER / name for name in SOURCES),
        lives.CHANGES,
    ]
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def of_lives(folder: Path) -> list[Lived]:
    """Return the pairs that are judged in the labelled lives: those with a label, each once in its
    life, and a part of the others.
    """
    pairs: list[Lived] = []
    for life, labels in lives.labelled(folder, lives.CHANGES):
        left = dict(labels)
        claims = Claims()
        for number, transcript in enumerate(specstory.find(life, print)):
            for turn in specstory.turns(transcript, print):
                if turn.is_unattended:
                    continue
                prompt, at = frame.strip(turn.request.text), turn.request.at
                id_ = f"{number}-{at}"
                for statement in claims_of(id_, EPISODE, prompt, "", str(number), at):
                    claims.add(statement, ())
                    pairs += _judged(life.name, claims, left)
        if left:
            print(f"{life.name}: {len(left)} of {len(labels)} labelled pairs are not judged now")
    return pairs


def _judged(name: str, claims: Claims, left: dict[str, str]) -> list[Lived]:
    """Return the pairs of the last claim, and take their labels out of those that are `left`."""
    place = len(claims.said) - 1
    newer = claims.said[place]
    if not newer.is_own:
        return []
    pairs = []
    for claim, around, row in claims.pairs(place).values():
        id_ = f"{lives.digest(claim.text)}:{lives.digest(newer.text)}"
        label = left.pop(id_, UNREAD)
        if label != UNREAD or int(lives.digest(id_), 16) % ONE_IN == 0:
            pairs.append(Lived(name, label, claim.text, newer.text, around, row))
    return pairs


def matrix_of_lives(some: list[Lived]) -> tuple[Floats, npt.NDArray[np.int64], Floats]:
    """Return features [pairs, features], classes and weights [pairs] of pairs of real lives."""
    x = np.array([pair.features for pair in some], np.float32)
    labels = ["none" if pair.label == UNREAD else pair.label for pair in some]
    y = np.array([RELATIONS.index(label) for label in labels])
    return x, y, np.array([LIVED[pair.label] for pair in some], np.float32)


def matrix(some: list[Pair]) -> tuple[Floats, npt.NDArray[np.int64], Floats]:
    """Return features [pairs, features], classes and weights [pairs] of pairs."""
    rng = np.random.default_rng(3)
    counts: Counter[str] = Counter()
    for pair in some:
        counts.update(parse(pair.older).terms | parse(pair.newer).terms)
    rows = []
    for pair in some:
        # projects have few claims or many, so a term's rarity varies
        size = int(rng.integers(2, 400))
        share = size / (2 * len(some))

        def rarity(term: str, share: float = share, size: int = size) -> float:
            return rarity_of(round(counts[term] * share), size)

        rows.append(features(parse(pair.older), parse(pair.newer), rarity, pair.around))
    classes = np.array([RELATIONS.index(pair.relation) for pair in some])
    weights = [
        WEIGHT.get(pair.relation, 1.0) * (WEIGHT["hand"] if pair.domain == "hand" else 1.0)
        for pair in some
    ]
    return np.array(rows, np.float32), classes, np.array(weights, np.float32)


def fit(x: Floats, y: npt.NDArray[np.int64], weight: Floats, seed: int = 0) -> Model:
    """Return a network fitted by Adam on cross entropy."""
    rng = np.random.default_rng(seed)
    mean, scale = x.mean(0), x.std(0) + 0.05
    x = np.clip((x - mean) / scale, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    n, m, k = x.shape[1], HIDDEN, len(RELATIONS)
    parts = [
        rng.normal(0, 1 / np.sqrt(n), (n, m)), np.zeros(m), rng.normal(0, 1 / np.sqrt(m), (m, k)),
        np.zeros(k), np.zeros((n, k)),
    ]  # fmt: skip
    parts = [part.astype(np.float32) for part in parts]
    first = [np.zeros_like(part) for part in parts]
    second = [np.zeros_like(part) for part in parts]
    step = 0
    for epoch in range(EPOCHS):
        rate = RATE * (1 - epoch / EPOCHS) + 1e-4
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            some = order[start : start + BATCH]
            a, b, w = x[some], y[some], weight[some]
            w1, b1, w2, b2, direct = parts
            hidden = np.tanh(a @ w1 + b1)
            keep = (rng.random(hidden.shape) > 0.15).astype(np.float32) / 0.85
            scores = (hidden * keep) @ w2 + b2 + a @ direct
            scores -= scores.max(1, keepdims=True)
            p = np.exp(scores)
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(b)), b] -= 1
            g = p * (w / len(b))[:, None]
            back = (g @ w2.T) * keep * (1 - hidden**2)
            grads = [a.T @ back, back.sum(0), (hidden * keep).T @ g, g.sum(0), a.T @ g]
            step += 1
            for i, grad in enumerate(grads):
                grad = grad + (DECAY * parts[i] if parts[i].ndim == 2 else 0)
                first[i] = 0.9 * first[i] + 0.1 * grad
                second[i] = 0.999 * second[i] + 0.001 * grad**2
                corrected = np.sqrt(second[i] / (1 - 0.999**step)) + 1e-8
                parts[i] = parts[i] - (rate / (1 - 0.9**step)) * first[i] / corrected
                parts[i] = parts[i].astype(np.float32)
    return Model(mean, scale, *parts)


def fit_all(x: Floats, y: npt.NDArray[np.int64], weight: Floats) -> list[Model]:
    return [fit(x, y, weight, seed) for seed in range(NETWORKS)]


def average(models: list[Model], x: Floats) -> Floats:
    return np.mean([judge(model, x) for model in models], 0)


def sure_and_unsure(over: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Return the share of pairs shown as over, and the share with both claims shown."""
    return float((over >= SURE).mean()), float(((over >= UNSURE) & (over < SURE)).mean())


def report(some: list[Pair], x: Floats, y: npt.NDArray[np.int64], w: Floats) -> None:
    """Print the judgements of models that saw neither a pair's slot nor its template."""
    by_slot, by_template = (
        np.array([int(sha256(name.encode()).hexdigest(), 16) % FOLDS for name in names])
        for names in (
            [pair.domain for pair in some],
            [pair.template or pair.newer for pair in some],
        )
    )
    p = np.zeros((len(some), len(RELATIONS)), np.float32)
    is_held_out = by_slot == by_template
    for fold in range(FOLDS):
        is_training = (by_slot != fold) & (by_template != fold)
        unseen = is_held_out & (by_slot == fold)
        p[unseen] = average(fit_all(x[is_training], y[is_training], w[is_training]), x[unseen])
    some, y, p = (
        [pair for pair, is_held in zip(some, is_held_out, strict=True) if is_held],
        y[is_held_out],
        p[is_held_out],
    )
    may = [may_be_over(parse(pair.older), parse(pair.newer)) for pair in some]
    doubted = [is_doubtful(parse(pair.older), parse(pair.newer)) for pair in some]
    over = (p[:, 1] + p[:, 2]) * np.array(may)
    over = np.where(doubted, np.minimum(over, UNSURE), over)
    print(f"{'family':34} {'pairs':>5}  over: sure  unsure   relation right")
    by_family: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, pair in enumerate(some):
        by_family[pair.relation, pair.family].append(number)
    for (relation, family), rows in sorted(by_family.items()):
        right = (p[rows].argmax(1) == y[rows]).mean()
        sure, unsure = sure_and_unsure(over[rows])
        print(f"{relation:9} {family:34} {len(rows):5}  {sure:.3f}  {unsure:.3f}  {right:.3f}")
    is_over = (y == 1) | (y == 2)
    for name, mask in (("over", is_over), ("not over", ~is_over)):
        sure, unsure = sure_and_unsure(over[mask])
        print(f"{name}: sure {sure:.3f}, unsure {unsure:.3f} of {mask.sum()}")
    wrong = [(over[i], some[i]) for i in np.flatnonzero(~is_over & (over >= SURE))]
    for value, pair in sorted(wrong, key=lambda scored: -scored[0])[:: max(1, len(wrong) // 25)][
        :25
    ]:
        print(
            f"    wrongly over {value:.2f} {pair.family}: {pair.older} => {pair.newer}",
            file=sys.stderr,
        )


def report_lives(
    lived: list[Lived],
    written: tuple[Floats, npt.NDArray[np.int64], Floats],
    labelled: tuple[Floats, npt.NDArray[np.int64], Floats],
) -> None:
    """Print the labelled pairs that count as over in lives that the model that judged them had not
    seen.
    """
    names = sorted({pair.life for pair in lived})
    fold = np.array([names.index(pair.life) % FOLDS for pair in lived])
    chances = np.zeros(len(lived))
    for held_out in range(FOLDS):
        x, y, w = (
            np.concatenate([ours, theirs[fold != held_out]])
            for ours, theirs in zip(written, labelled, strict=True)
        )
        unseen = np.flatnonzero(fold == held_out)
        judged = average(fit_all(x, y, w), labelled[0][unseen])
        for place, chance in zip(unseen.tolist(), judged[:, 1] + judged[:, 2], strict=True):
            pair = lived[place]
            older, newer = parse(pair.older), parse(pair.newer)
            chance = likelihood(older, newer, pair.around, float(chance))
            # of another session only what is surely over counts
            least = SURE if pair.around.turns < 0 else UNSURE
            chances[place] = chance if chance >= least and may_be_over(older, newer) else 0.0
    labels = np.array([pair.label for pair in lived])
    for name, mask in (
        ("not over", labels == "none"),
        ("over", np.isin(labels, ("replaces", "ends"))),
        ("read by nobody", labels == UNREAD),
    ):
        sure, unsure = (round(share * mask.sum()) for share in sure_and_unsure(chances[mask]))
        print(f"real lives, {name}: {sure} sure, {unsure} unsure of {mask.sum()}")


def report_lookalikes(models: list[Model]) -> None:
    """Print the number of look-alikes shown as over, in both orders, in one session and in two."""
    rows = LOOKALIKES.read_text(encoding="utf-8").splitlines()
    texts = [row.split("\t") for row in rows if not row.startswith("#")]
    counts: Counter[str] = Counter()
    for older, other in texts:
        counts.update(parse(older).terms | parse(other).terms)
    for name, turns in (("in one session", 1), ("in two", -1)):
        x = np.array(
            [
                features(
                    parse(a),
                    parse(b),
                    lambda term: rarity_of(counts[term], len(texts)),
                    Around(turns),
                )
                for pair in texts
                for a, b in (pair, pair[::-1])
            ],
            np.float32,
        )
        may = [may_be_over(parse(a), parse(b)) for p in texts for a, b in (p, p[::-1])]
        p = average(models, x)
        over = (p[:, 1] + p[:, 2]) * np.array(may)
        doubted = [is_doubtful(parse(a), parse(b)) for p in texts for a, b in (p, p[::-1])]
        over = np.where(doubted, np.minimum(over, UNSURE), over)
        sure, unsure = (round(share * len(over)) for share in sure_and_unsure(over))
        print(f"look-alikes {name}: {sure} over, {unsure} unsure of {len(over)}")
        for row in np.flatnonzero(over >= SURE):
            a, b = texts[row // 2][:: -1 if row % 2 else 1]
            print(f"    {over[row]:.2f} {a} => {b}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("lives", type=Path)
    parser.add_argument("--quick", action="store_true", help="fit, and report on look-alikes alone")
    args = parser.parse_args()
    some = pairs()
    written = x, y, w = matrix(some)
    print(
        f"{len(some)} pairs, {x.shape[1]} features: "
        + ", ".join(f"{RELATIONS[k]} {n}" for k, n in sorted(Counter(y.tolist()).items()))
    )
    lived = of_lives(args.lives)
    labelled = matrix_of_lives(lived)
    if not args.quick:
        report(some, x, y, w)
        report_lives(lived, written, labelled)
    models = fit_all(*(np.concatenate(parts) for parts in zip(written, labelled, strict=True)))
    report_lookalikes(models)
    arrays = {
        name: np.stack([getattr(model, name) for model in models]).astype(np.float16)
        for name in Model._fields
    }
    np.savez_compressed(WEIGHTS, digest=np.array(digest()), **arrays)
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
