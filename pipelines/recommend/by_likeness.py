"""
By likeness: two notes that say nearly the same in other words, which strict evidence leaves alone.

What differs in a number, a name or a denial is an update or another fact, and never like enough.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pipelines.jobs.context import Context
from pipelines.recommend.found import Found
from store.memories.memory import Memory
from store.plans import steps
from store.text import tokenizer
from store.text.strict_duplicates import Statement, statement

KINDS = ("fact", "decision", "context", "observation", "lesson", "preference", "pattern")
NEAR = 0.85  # the cosine at least
SHARED = 0.6  # of the words of both, at least
MOST = 5_000  # memories that are compared, the newest
_BLOCK = 1_000

Rows = npt.NDArray[np.int64]


def alike(context: Context) -> Iterator[Found]:
    """Yield pairs that say nearly the same, the nearest first, each memory once."""
    rows = context.living
    rows = rows[context.rows.equal("kind", KINDS)[rows]][-MOST:]
    taken: set[str] = set()
    for likeness, one, other in _pairs(context, rows):
        first, second = context.memories(np.array([one, other]))
        if first.id in taken or second.id in taken or not _may_merge(first, second):
            continue
        taken |= {first.id, second.id}
        yield _merged(first, second, likeness)


def _pairs(context: Context, rows: Rows) -> list[tuple[float, int, int]]:
    """Return the pairs of rows whose vectors are near, and how near, the nearest first."""
    vectors = context.vectors(rows)
    found: list[tuple[float, int, int]] = []
    for start in range(0, len(rows), _BLOCK):
        near = vectors[start : start + _BLOCK] @ vectors.T
        left, right = np.nonzero(near >= NEAR)
        upper = right > left + start
        for a, b in zip(left[upper].tolist(), right[upper].tolist(), strict=True):
            found.append((round(float(near[a, b]), 4), int(rows[a + start]), int(rows[b])))
    return sorted(found, key=lambda one: (-one[0], one[1], one[2]))


def _may_merge(one: Memory, other: Memory) -> bool:
    """Return whether two memories are of one sort and differ in words alone."""
    is_sort = (one.kind, one.project, one.trust) == (other.kind, other.project, other.trust)
    if not is_sort or any(m.key or m.job or m.pinned for m in (one, other)):
        return False
    a, b = statement(one.text), statement(other.text)
    # what says the same by strict evidence is for `consolidate`
    if a.key == b.key or _told_apart(a) != _told_apart(b):
        return False
    words, others = set(tokenizer.terms(one.content)), set(tokenizer.terms(other.content))
    return len(words & others) >= SHARED * len(words | others)


def _told_apart(one: Statement) -> tuple[frozenset[str], int]:
    denials = sum(token in ("not", "no", "never", "without") for token in one.said)
    return frozenset(one.marks), denials


def _merged(one: Memory, other: Memory, likeness: float) -> Found:
    """Return the change that lets the one that says more, or the newer, stand for both."""
    kept, goes = sorted((one, other), key=lambda m: (-len(set(tokenizer.terms(m.content))), -m.seq))
    why = f"it says nearly what {kept.id} says, in other words"
    step = steps.supersede(goes, kept.id, why, likeness=likeness, kept=kept.content[:300])
    return Found("merge", (goes, kept), (step,), why)
