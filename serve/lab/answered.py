"""
Answered: a question under one setting, with what every stage made of it.

No model is asked on the way, but the embedder that recall itself asks; nothing is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serve.answers import answer
from serve.hooks.block import Block, block, note
from serve.lab.asked import Asked, Side, request
from serve.reader import Reader, View
from serve.stages.spoken import SPOKEN
from store.config import Choices
from store.embedding import Embedder
from store.projections.memory.memory import Memory


@dataclass(frozen=True, slots=True)
class Stage:
    """How many memories were left after a stage, and what it says of it."""

    name: str
    left: int
    said: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What recall said, `payload`, as the API sends it with `explain`.

    `block` is what a host would put before its model, were it all to be said: `unasked` tells what
    of it would be.
    """

    side: Side
    payload: Mapping[str, Any]
    stages: tuple[Stage, ...]
    block: Block

    @property
    def hits(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.payload["hits"]
        return found

    @property
    def why(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.payload["why"]
        return found

    @property
    def features(self) -> list[str]:
        """The sorts of evidence that add to any hit, what adds most first."""
        sums: dict[str, float] = {}
        for hit in self.hits:
            for name, value in hit["why"]["adds"].items():
                sums[name] = sums.get(name, 0.0) + value
        return sorted(sums, key=lambda name: (-sums[name], name))

    @property
    def signals(self) -> list[str]:
        """The signals of the profile, in its order."""
        return list(self.hits[0]["why"]["signals"]) if self.hits else []

    @property
    def columns(self) -> list[dict[str, str]]:
        """The columns of a table of the features: rank, evidence, signals."""
        said = [{"title": SPOKEN.get(name, name)} for name in self.features]
        weighed = [{"title": name.replace("_", " "), "class": "num"} for name in self.signals]
        return [{"title": "#", "class": "num"}, *said, *weighed]

    def most(self, name: str) -> float:
        """Return the most that a sort of evidence adds to any hit."""
        return max((hit["why"]["adds"].get(name, 0.0) for hit in self.hits), default=0.0)


def answered(
    reader: Reader, embedder: Embedder, asked: Asked, side: Side, usual: Choices, now: int
) -> Answered:
    """Return the answer under one setting; raise InvalidInput, as recall does."""
    payload, _ = answer(reader, embedder, request(asked, side, usual, now), side.choices, now)
    with reader.view() as view:
        made = _block(view, payload["hits"], asked.project or None)
    return Answered(side, payload, tuple(_stages(payload)), made)


def _stages(payload: Mapping[str, Any]) -> list[Stage]:
    why, dropped, hits = payload["why"], payload["why"]["dropped"], len(payload["hits"])
    fused = hits + sum(dropped.values())
    unsure = ("below_bar", "below_score")
    sure = fused - sum(dropped.get(name, 0) for name in unsure)
    channels = ", ".join(f"{name} {count}" for name, count in why["candidates"].items())
    return [
        Stage("In the memory", why["memories"], ""),
        Stage("Passed the filter", why["passed_filter"], ""),
        Stage("Fused", fused, f"from {channels}" if channels else "no channel had any"),
        Stage("Sure enough", sure, f"at the bar of {payload['min_confidence']:.2f}"),
        Stage("Came back", hits, f"{why['top_k']} at most"),
    ]


def _block(view: View, hits: list[Mapping[str, Any]], project: str | None) -> Block:
    """Return what the hits are before a model, as a prompt's hook writes it."""
    found = [(hit, memory) for hit in hits if (memory := view.tail.find(hit["id"])) is not None]
    return block(
        note(
            memory,
            project,
            conflicts_with=hit.get("conflicts_with"),
            history=_history(view, hit),
        )
        for hit, memory in found
    )


def _history(view: View, hit: Mapping[str, Any]) -> list[Memory]:
    found = (view.tail.find(old["id"]) for old in hit.get("history", ()))
    return [one for one in found if one is not None]
