"""
Profiles: which signals order the candidates, and how much each weighs.

`wal` and `match` are those of Pali (https://github.com/pali-mem/pali) with its default weights;
only their proportions count. `balanced` is our own: by how much a prior may change a score.
"""

import math
from typing import Annotated, Literal

import msgspec

Profile = Literal["balanced", "wal", "match"]
Weight = Annotated[float, msgspec.Meta(ge=0.0)]
Bound = Annotated[float, msgspec.Meta(ge=0.0, le=0.25)]


def _check(weights: msgspec.Struct) -> None:
    """Raise ValueError, which msgspec reports with the table's name, for weights of no order."""
    values = msgspec.structs.astuple(weights)
    if not any(values) or math.inf in values:
        raise ValueError("weights must be finite, and one at least over 0")


class Wal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recency: Weight = 0.1
    relevance: Weight = 0.8
    importance: Weight = 0.1

    def __post_init__(self) -> None:
        _check(self)


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recency: Weight = 0.05
    relevance: Weight = 0.7
    importance: Weight = 0.1
    query_overlap: Weight = 0.1
    route_fit: Weight = 0.05

    def __post_init__(self) -> None:
        _check(self)


class Balanced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The greatest share of its score that each prior may add to a memory, or take; 0 is off."""

    importance: Bound = 0.025
    usefulness: Bound = 0.025


class Profiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of every profile, one settings table each: `[profiles.wal]`."""

    balanced: Balanced = Balanced()
    wal: Wal = Wal()
    match: Match = Match()

    def weights(self, profile: Profile) -> dict[str, float]:
        """Return the weight of each signal of a profile."""
        chosen: msgspec.Struct = getattr(self, profile)
        return msgspec.structs.asdict(chosen)
