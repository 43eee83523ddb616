"""
Fit how sure the memory must be to speak unasked (serve/hooks/speaking.py) on the stories.

    make fit-speaking

Each story is lived through alone and in a crowd of the others (stories.py); each hit that a
prompt's hook might say is labelled by whether its note holds anything of what the probe needs.
Prints the coefficients of LETTERS and, where --meaning names a sentence model, of MEANING; and what
each bar would let through, every story judged by a fit to the others.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stories import Served, holds, plain, stories, told, touches

from serve.hooks import speaking
from serve.recall.context_block import block, note
from store.text import tokenizer

STRENGTH = 0.1  # inverse of the regularisation
BARS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Said:
    """A hit that might be said: its signs, whether its note helps, and serves the probe alone."""

    signs: tuple[float, ...]
    helps: bool
    serves: bool


@dataclass(frozen=True)
class Prompt:
    story: str
    probe: Served
    hits: tuple[Said, ...]


def lived(
    story: dict[str, object], *, embedder: str, crowd: Sequence[dict[str, object]]
) -> list[Prompt]:
    """Return what might be said at each probe of a story."""
    found = []
    for one in told(story, embedder, crowd=crowd):
        hits = tuple(said for asked in one.asked for said in _hits(one, asked))
        bare = Served(one.id, one.kind, one.prompt, one.needs, one.brief, one.block)
        found.append(Prompt(str(story["name"]), bare, hits))
    return found


def _hits(probe: Served, asked: tuple) -> list[Said]:
    view, prompt, reading, hits, known = asked
    signs = speaking.features(view, prompt, reading, hits, known)
    about = tokenizer.terms(prompt)
    notes = [plain(block([note(hit.memory, about=about)]).text) for hit in hits[: len(signs)]]
    return [
        Said(one, touches(said, probe.needs), bool(probe.needs) and holds(said, probe.needs))
        for one, said in zip(signs, notes, strict=True)
    ]


def model() -> object:
    return make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=500))


def fitted(prompts: Sequence[Prompt]) -> object:
    rows = [said for one in prompts for said in one.hits]
    found = model()
    return found.fit([said.signs for said in rows], [said.helps for said in rows])


def chances(found: object, one: Prompt) -> list[float]:
    return found.predict_proba([said.signs for said in one.hits])[:, 1].tolist() if one.hits else []


def judged(prompts: Sequence[Prompt]) -> None:
    """Print what each bar lets through, every story judged by a fit to the others."""
    by_story = {}
    for name in sorted({one.story for one in prompts}):
        others = fitted([one for one in prompts if one.story != name])
        by_story |= {id(one): chances(others, one) for one in prompts if one.story == name}
    needed = [one for one in prompts if one.probe.needs]
    silent = [one for one in prompts if one.probe.kind == "silent"]
    idle = [one for one in prompts if one.probe.kind == "plain"]
    print("| bar | served | noise | spoke of plain work | beside |\n|---|---|---|---|---|")
    for bar in BARS:
        said = {id(one): _chosen(one, by_story[id(one)], bar) for one in prompts}
        served = sum(
            holds(one.probe.brief, one.probe.needs) or any(hit.serves for hit in said[id(one)])
            for one in needed
        )
        notes = [hit for some in said.values() for hit in some]
        beside = sum(not hit.helps for hit in notes)
        print(
            f"| {bar} | {served / len(needed):.3f} | {_spoke(silent, said)} | {_spoke(idle, said)} "
            f"| {beside / max(1, len(notes)):.3f} of {len(notes)} |"
        )


def _chosen(one: Prompt, likely: Sequence[float], bar: float) -> list[Said]:
    order = sorted(range(len(likely)), key=lambda at: -likely[at])
    if not order or likely[order[0]] < bar:
        return []
    least = max(bar * speaking.SHARE, speaking.SHARE * likely[order[0]])
    return [one.hits[at] for at in order[: speaking.MOST] if likely[at] >= least]


def _spoke(some: Sequence[Prompt], said: dict[int, list[Said]]) -> str:
    return f"{sum(bool(said[id(one)]) for one in some) / max(1, len(some)):.3f}"


def printed(name: str, found: object) -> None:
    scaler, last = found[0], found[-1]
    weights: Numbers = last.coef_[0] / scaler.scale_
    bias = float(last.intercept_[0] - (weights * scaler.mean_).sum())
    print(
        f"{name}: "
        f"{dict(zip(speaking.FEATURES, weights.round(3).tolist(), strict=True))}, {bias:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--meaning", help="a sentence model: onnx:FOLDER")
    asked = parser.parse_args()
    every = list(stories())
    for name, embedder in (("LETTERS", "lexical"), ("MEANING", asked.meaning)):
        if embedder is None:
            continue
        prompts: list[Prompt] = []
        for crowd in ([], every):
            with Pool(2) as pool:
                for some in pool.imap(partial(lived, embedder=embedder, crowd=crowd), every):
                    prompts += some
        print(f"{name}: {len(prompts)} prompts, {sum(len(one.hits) for one in prompts)} hits")
        judged(prompts)
        printed(name, fitted(prompts))


if __name__ == "__main__":
    main()
