"""
Signals: what became of a memory, as an amount that its importance gains or loses.

Ratings tell most. A turn that only asks holds less than its answer, and where a user says what
always or never is to be done, that holds longer than the talk around it. What people and agents
linked to a memory tells that it is built upon; what jobs made of it tells nothing, or a job would
feed on what jobs did. That it was recalled often tells little, for importance
makes it be recalled: alone it never moves anything.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.jobs.context import Context
from store.derived.usage import Usage
from store.memories.rows import Mask

_OF_RATINGS = 0.3  # at most, either way
_OF_A_SUPPORT = 0.05  # each memory that is linked to it
_OF_SUPPORTS = 0.2  # at most
_OF_WORDS = 0.15  # a question less, an order more
_SAID = ("raw_turn", "fact", "context", "observation", "decision")  # kinds that may hold an order
_OF_USE = 0.1  # at most, and less than LEAST
_MANY = 64  # recalls: what more there are count for nothing
_DOUBTS = 2.0  # ratings without effect that each memory starts with
LEAST = 0.15  # a change below it is not worth an event

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Signals:
    """What tells of the memories of a context, by row."""

    context: Context

    @property
    def rows(self) -> Rows:
        """The living memories that anything tells of, ascending."""
        told = {int(row) for row in self._usage.documents} | set(self._supports)
        wanted = np.array(sorted(told | self._questions | self._orders), np.int64)
        found: Rows = wanted[np.isin(wanted, self.context.living)]
        return found

    def of(self, row: int, *, of_words: bool) -> tuple[float, dict[str, Any]]:
        """Return how much a memory gains, negative for a loss, and the figures behind it.

        Without `of_words` what its text shows is left out.
        """
        asks, orders = (of_words and row in one for one in (self._questions, self._orders))
        at = np.array([row], np.int64)
        recalled, ratings, verdicts = (
            int(self._usage.counts(name, at)[0]) for name in ("recalled", "ratings", "verdicts")
        )
        supports = self._supports[row]
        gain = _OF_RATINGS * (verdicts / 1_000) / (ratings + _DOUBTS)
        gain += min(_OF_SUPPORTS, _OF_A_SUPPORT * supports)
        gain += _OF_USE * min(1.0, log2(1 + recalled) / log2(1 + _MANY))
        gain += _OF_WORDS * (orders - asks)
        figures: dict[str, Any] = {
            "asks": asks,
            "orders": orders,
            "recalled": recalled,
            "ratings": ratings,
            "supports": supports,
        }
        if ratings:
            figures["verdict"] = round(verdicts / 1_000 / ratings, 2)
        return gain, {name: value for name, value in figures.items() if value}

    @cached_property
    def _questions(self) -> set[int]:
        return self._of_trait("asks", self.context.rows.equal("kind", ("raw_turn",)))

    @cached_property
    def _orders(self) -> set[int]:
        rows = self.context.rows
        return self._of_trait("rule", rows.equal("kind", _SAID) & rows.equal("trust", ("user",)))

    def _of_trait(self, name: str, among: Mask) -> set[int]:
        """Return the rows whose text shows a sign of `store.text.text_features`."""
        shown = self.context.tables("sessions")["turns"].column(name).to_numpy() == 1
        return set(np.flatnonzero(shown & among).tolist())

    @cached_property
    def _usage(self) -> Usage:
        return Usage.open(self.context.tables("usage"))

    @cached_property
    def _supports(self) -> Counter[int]:
        """How many living memories that no job made are linked to each row in agreement."""
        rows, living = self.context.rows, set(self.context.living.tolist())
        living -= set(rows.sources.documents.tolist())  # what jobs made
        found: set[tuple[int, int]] = set()  # the row, and the one that is linked to it
        for edge in rows.edges.to_pylist():
            target, source = rows.row(edge["target"]), rows.row(edge["source"])
            if edge["relation"] != "conflict" and target is not None and source is not None:
                found.add((target, source))
        return Counter(row for row, other in found if other in living and other != row)
