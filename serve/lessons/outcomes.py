"""
What a turn came to: how tests, a build, a lint or a deployment stood at its end.
"""

from collections.abc import Iterable, Sequence

from store.log.event_kinds import Acted, Effort, Outcome

_TRIED: tuple[Effort, ...] = ("test", "build", "lint", "deploy")


def outcomes(turn: Sequence[Acted], earlier: Sequence[Acted]) -> list[Outcome]:
    """Return how each effort of a turn stood in the end; `earlier` is what was done before it.

    An effort was before as it last was in an earlier turn, else as the turn's first try was.
    """
    found = []
    for effort in _TRIED:
        tries = _tries(turn, effort)
        if tries:
            past = _tries(reversed(earlier), effort)
            before = past[0] if past else tries[0] if len(tries) > 1 else None
            found.append(Outcome(effort=effort, passed=tries[-1], before=before))
    return found


def _tries(acted: Iterable[Acted], effort: Effort) -> list[bool]:
    return [one.passed for one in acted if one.effort == effort and one.passed is not None]
