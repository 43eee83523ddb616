"""
Classifier: what a prompt wants, and which of its sentences say something that lasts.

One linear model over hashed n-grams (`features`), fitted by `make fit` on the labelled lines in
tests/data/prompts, which people of many kinds might have typed, in eleven languages;
docs/prompts.md has what it gets right on lines it never saw. Weights are bytes with a scale for
each class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from store.prompts.features import Features, of_prompt, of_sentence, sentences

WEIGHTS = Path(__file__).with_name("weights.npz")
MAX_PROMPT = 6_000  # characters; a longer one is a pasted document, and nobody's own words

Lasting = Literal["rule", "preference", "decision", "fact"]
WANTS = ("work", "general", "small_talk", "control", "recap")
LASTS: tuple[Lasting, ...] = ("rule", "preference", "decision", "fact")

Values = npt.NDArray[np.float32]


class Wants(NamedTuple):
    """How likely a prompt is each kind of thing; these add up to 1.

    `work` is about this project; `general` is a question or chore that no project can help with;
    `control` steers the agent at this moment; `recap` asks what was done or left open.
    """

    work: float
    general: float
    small_talk: float
    control: float
    recap: float


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence of a prompt: how likely it lasts, and as what of LASTS, most likely."""

    text: str
    start: int
    end: int
    lasts: float
    kind: Lasting


class _Model:
    """The weights, [buckets, classes] each, and how telling each bucket is, [buckets]."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            scale = float(file["telling_scale"])
            self._telling: Values = file["telling"].astype(np.float32) / np.float32(scale)
            self._weights = file["weights"]
            self._scales = file["scales"].astype(np.float32)
            self._bias = file["bias"].astype(np.float32)

    def odds(self, features: Features) -> Values:
        """Return the log-odds of every class, [classes]."""
        ids, values = features
        values = values * self._telling[ids]
        length = float(np.sqrt((values * values).sum())) or 1.0
        summed = (values / np.float32(length)) @ self._weights[ids].astype(np.float32)
        odds: Values = summed * self._scales + self._bias
        return odds


@cache
def _model() -> _Model:
    return _Model(WEIGHTS)


def wants(prompt: str, before: str = "") -> Wants:
    """Return what a prompt wants; `before` is what the agent said last, where that is known."""
    odds = _model().odds(of_prompt(prompt, before))[: len(WANTS)]
    return Wants(*_shares(odds).tolist())


def corrects(prompt: str, before: str = "") -> float:
    """Return how likely a prompt says that what the agent did, or is about to do, is wrong."""
    odds = float(_model().odds(of_prompt(prompt, before))[len(WANTS)])
    return 1.0 / (1.0 + float(np.exp(-odds)))


def read(prompt: str, before: str = "") -> list[Said]:
    """Return the sentences of a prompt in order; none of a pasted document."""
    if len(prompt) > MAX_PROMPT:
        return []
    found = []
    for one in sentences(prompt):
        shares = _shares(_model().odds(of_sentence(prompt, one, before))[len(WANTS) + 1 :])
        kind = LASTS[int(shares[1:].argmax())]
        text = prompt[one.start : one.end].strip()
        found.append(Said(text, one.start, one.end, 1.0 - float(shares[0]), kind))
    return found


def _shares(odds: Values) -> Values:
    """Return the softmax of log-odds."""
    raised = np.exp(odds - odds.max())
    shares: Values = raised / raised.sum()
    return shares
