"""
The points where another implementation may take a built-in's place, by configuration alone.

Each is an interface of one to three methods; what is behind it never changes what a caller sees.
The built-in ones are our own projections for vectors and facts, and rules for questions. What a
model may do beside a rule (importance, reading facts) is a job's business: `pipelines`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]


class VectorStore(Protocol):
    """Keeps float vectors by a text's hash and a model's id: Lance, or a service like Qdrant."""

    def get(self, text_hashes: Sequence[bytes], model: str) -> Mapping[bytes, Matrix]:
        """Return the vectors it has of these texts by this model; the others are left out."""
        ...

    def put(self, text_hashes: Sequence[bytes], model: str, vectors: Matrix) -> None:
        """Keep vectors [n, dimension]; a text and model that are there already are replaced."""
        ...


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation that held of an entity from `valid_from` until `valid_to` (microseconds UTC)."""

    entity: str
    relation: str
    value: str
    valid_from: int
    valid_to: int | None
    source_id: str


class FactStore(Protocol):
    """Answers what held of an entity: the built-in projection, or a graph like Neo4j."""

    def facts(self, entity: str, at: int) -> Sequence[Fact]:
        """Return the facts that held at a moment, newest first; empty for an unknown entity."""
        ...


class Decomposer(Protocol):
    """Splits a compound question; on the recall path only by rule, never by a model."""

    def __call__(self, question: str) -> Sequence[str]:
        """Return the questions it is made of; a simple one comes back alone."""
        ...
