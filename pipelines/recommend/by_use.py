"""
By use: what nobody ever asked for may go, and what helped whenever it came weighs too little.
"""

from collections.abc import Iterator

import numpy as np

from pipelines.jobs.context import Context
from pipelines.recommend.found import Found
from store.derived.usage import Usage
from store.log.event_kinds import Revised
from store.memories.memory import Memory
from store.plans import steps

USED = 20  # memories recalled in all before "never recalled" says anything
OLD_DAYS = 180
LITTLE = 0.5  # importance at most
PASSING = ("raw_turn", "activity", "observation", "context", "summary")
RECALLED, RATED = 5, 2  # how often at least, to be promoted
GOOD = 0.5  # the mean of its ratings and judgments at least, from -1 to 1
PROMOTED = 0.9

_DAY_US = 86_400 * 1_000_000


def unused(context: Context) -> Iterator[Found]:
    """Yield what was never recalled nor rated, is old and of little weight, the oldest first."""
    usage, rows = _usage(context), context.living
    if int(usage.recalled.sum()) < USED:
        return
    known = context.rows
    is_passing = known.equal("kind", PASSING)[rows] & (known.importance[rows] <= LITTLE)
    is_old = known.updated_at[rows] < context.now - OLD_DAYS * _DAY_US
    is_unused = (usage.counts("recalled", rows) == 0) & (usage.counts("ratings", rows) == 0)
    for memory in context.memories(rows[is_passing & is_old & is_unused]):
        if memory.pinned or memory.key is not None:
            continue
        days = (context.now - memory.updated_at) // _DAY_US
        why = f"never recalled in {days} days, and of little weight"
        step = steps.archive(memory, why, days=days, importance=memory.importance)
        yield Found("archive", (memory,), (step,), why)


def helpful(context: Context) -> Iterator[Found]:
    """Yield what was recalled often and found good, the best first, and weighs as any other.

    A person's rating and what a job judged by the work afterwards count alike.
    """
    usage, rows = _usage(context), context.living
    recalled = usage.counts("recalled", rows)
    words = usage.counts("ratings", rows) + usage.counts("judged", rows)
    sums = usage.counts("verdicts", rows) + usage.counts("judgments", rows)
    means = sums / (1_000 * np.maximum(words, 1))
    is_helpful = (recalled >= RECALLED) & (words >= RATED) & (means >= GOOD)
    is_helpful &= context.rows.importance[rows] < PROMOTED
    order = np.flatnonzero(is_helpful)
    order = order[np.argsort(-means[order], kind="stable")]
    for place, memory in zip(order.tolist(), context.memories(rows[order]), strict=True):
        if not memory.pinned:
            yield _promoted(memory, int(recalled[place]), int(words[place]), float(means[place]))


def _promoted(memory: Memory, recalled: int, words: int, mean: float) -> Found:
    why = f"recalled {recalled} times, and rated or judged {mean:+.2f} in the mean of {words}"
    change = Revised(importance=PROMOTED, reason=why)
    step = steps.revise(memory, change, why, recalled=recalled, verdicts=words, mean=mean)
    return Found("promote", (memory,), (step,), why)


def _usage(context: Context) -> Usage:
    return Usage.open(context.tables("usage"))
