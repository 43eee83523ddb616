"""Speaking: how sure the memory must be to say something unasked, and how much it says."""

from collections.abc import Sequence

from serve.query.intent import Reading
from serve.recall import Hit

BAR, SHARE, MOST = 0.1, 0.5, 2


def chosen(
    hits: Sequence[Hit], reading: Reading, *, knows_meaning: bool, is_passive: bool
) -> tuple[Hit, ...]:
    if not hits or max(hit.confidence for hit in hits) < BAR:
        return ()
    best = hits[0].confidence
    return tuple(hit for hit in hits if hit.confidence >= SHARE * best)[:MOST]
