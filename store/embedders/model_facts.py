"""
Facts about a model: its id and dimension, and the calibration of its cosines.

So a model that is not there at the moment still has its name, and a build keeps the vectors it
made. Nothing is lost with the file: it is learned again.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from store.home.files import replace_file


class KnownModel(msgspec.Struct, frozen=True):
    model: str
    dimension: int


class KnownModels:
    """The file of one home; without a home it remembers for this process alone."""

    def __init__(self, home: Path | None) -> None:
        self._path = home / "cache" / "embedders.json" if home else None
        self._here: dict[str, KnownModel] = {}

    def of(self, name: str) -> KnownModel | None:
        """Return the model that a setting names, if it is known."""
        return self._all().get(name)

    def names(self, model: str) -> list[str]:
        """Return the settings that named a model when it was last made."""
        return [name for name, known_model in self._all().items() if known_model.model == model]

    def keep(self, name: str, model: str, dimension: int) -> None:
        """Record a model's facts; a file that has them already is left alone."""
        learned = KnownModel(model, dimension)
        if self._all().get(name) != learned:
            self._write(self._all() | {name: learned})

    def forget(self, name: str) -> None:
        if name in (models := self._all()):
            self._write({other: model for other, model in models.items() if other != name})

    def _all(self) -> dict[str, KnownModel]:
        if self._path is None:
            return self._here
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, KnownModel])
        except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
            return {}

    def _write(self, models: dict[str, KnownModel]) -> None:
        if self._path is None:
            self._here = models
        else:
            with suppress(OSError):  # where nothing can be written it is learned again
                replace_file(self._path, msgspec.json.encode(models))


# Calibration: the scale of a model's cosines, so that those of different models compare.
#
# The range of cosines differs between models: unrelated texts may be at 0.04 or at 0.6. A few
# fixed questions and their answers are embedded when vectors are built; the evidence of a cosine is
# then 0 at the mean of unrelated pairs and 1/2 at the mean of related ones. If a model's unrelated
# pairs scatter far towards the related ones (E5: .76 +- .026 and .82), the zero is lower: else
# answers in another language, whose cosines are lower, have no evidence, and the best texts all
# have 1. `stretch` is how much wider that makes the range up to 1/2: a rank multiplies by it, so
# that the same step from unrelated to related counts the same with every model.

Matrix = npt.NDArray[np.float32]

# Pairs that answer each other in other words: a model that knows words alone cannot join them.
PAIRS = (
    (
        "Which database do we use for billing?",
        "Billing moved to Postgres because MySQL lost precision in sums.",
    ),
    (
        "Why did the nightly build fail?",
        "The nightly job broke: the runner had no space left for Docker layers.",
    ),
    ("How do I run only the slow tests?", "Slow tests carry a marker and start with make slow."),
    ("Who reviews changes to the parser?", "Elena looks over everything that touches the grammar."),
    ("What port does the proxy listen on?", "The reverse proxy is bound to 8443."),
    ("When is the release planned?", "We ship version two in the second week of May."),
    ("How are passwords stored?", "Credentials are hashed with argon2 and a salt for each user."),
    (
        "What makes the search page slow?",
        "Rendering the result list takes seconds since every row asks the server again.",
    ),
    ("Where do log files go?", "All services write their output below the var directory."),
    (
        "Does the user like tabs or spaces?",
        "She prefers four blanks for indentation and dislikes tabulators.",
    ),
    (
        "What did we decide about caching?",
        "Agreed: no Redis for now, an in-process cache is enough.",
    ),
    ("How do I undo a migration?", "Roll the schema back one step with the downgrade command."),
    ("Why is the mobile app crashing?", "On Android the camera screen dies without permission."),
    ("Which licence does the library have?", "The package is published under MIT terms."),
    ("What should I cook tonight?", "Dinner idea: pasta with tomatoes and basil."),
    ("Where did we go on holiday?", "Last summer the family spent two weeks at a lake in Italy."),
)
# Related pairs this many standard deviations above unrelated ones: more than shared letters do.
_SEPARATION = 2.0
_SPAN = 4.0  # standard deviations of unrelated pairs between evidence 0 and 1/2, at least


class Calibration(msgspec.Struct, frozen=True):
    """The cosines of unrelated and of related texts under a model.

    A model without meaning has no related pairs; the default for them was set to the value at which
    hashed letters help most (docs/recall.md).
    """

    unrelated: float = 0.0
    related: float = 2.0
    knows_meaning: bool = False
    stretch: float = 1.0

    @property
    def usual(self) -> float:
        """The evidence of the mean of unrelated pairs: above 0 if the zero is at a lower cosine."""
        return 0.5 - 0.5 / self.stretch

    def evidence(self, cosines: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the evidence of cosines, in their shape: 0 unrelated, 1/2 related; none below."""
        scaled = (cosines - np.float32(self.unrelated)) / np.float32(
            2.0 * (self.related - self.unrelated)
        )
        positive: npt.NDArray[np.float32] = np.maximum(scaled, np.float32(0.0))
        return positive

    def cosine(self, evidence: float) -> float:
        """Return the cosine of an evidence."""
        return self.unrelated + 2.0 * evidence * (self.related - self.unrelated)


def calibrate(
    embed: Callable[[Sequence[str]], Matrix], embed_queries: Callable[[Sequence[str]], Matrix]
) -> Calibration:
    """Return a model's calibration; exceptions of the two functions pass through."""
    questions = embed_queries([question for question, _ in PAIRS])
    answers = embed([answer for _, answer in PAIRS])
    cosines = np.round((questions @ answers.T).astype(np.float64), 4)
    same = np.eye(len(PAIRS), dtype=np.bool_)
    related, others = float(cosines[same].mean()), cosines[~same]
    unrelated = float(others.mean())
    scatter = float(others.std())
    if related - unrelated <= _SEPARATION * scatter:
        return Calibration()
    stretch = max(1.0, _SPAN * scatter / (related - unrelated))
    nothing = related - stretch * (related - unrelated)
    return Calibration(round(nothing, 4), round(related, 4), True, round(stretch, 4))
