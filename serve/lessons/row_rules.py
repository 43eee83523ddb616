"""
RowRules: the rules among the rows of one snapshot, read once for as long as it is served.
"""

from functools import cached_property

import numpy as np

from serve.lessons.matching import Rules
from serve.rules import role
from store.memories.memory import ACTIVE, Memory
from store.memories.rows import MemoryRows
from store.text.text_features import MAY_RULE, RULE_KINDS

KINDS = (*sorted(RULE_KINDS), "insight")


class RowRules:
    """The rules among the rows of one snapshot. Threads may share it."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    @cached_property
    def memories(self) -> list[Memory]:
        rows = self._rows
        mask = rows.equal("kind", KINDS) & rows.equal("trust", tuple(sorted(MAY_RULE)))
        mask &= rows.equal("state", (ACTIVE,))
        return [one for one in rows.take(np.flatnonzero(mask).tolist()) if role(one) == "rule"]

    @cached_property
    def named(self) -> Rules:
        return Rules(self.memories)
