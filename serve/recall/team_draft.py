"""
Team draft: two rankings interleaved into one, with the source of each hit.

Two captains pick in turn, each the best hit not yet picked; the first picker of a turn is drawn. A
used hit counts for the team that picked it, at any place: Radlinski, Kurup and Joachims, CIKM 2008,
https://doi.org/10.1145/1458082.1458092. The draw follows from a receipt's id, so that the same
recall is always interleaved in the same way.
"""

from collections.abc import Sequence
from hashlib import sha256

from serve.recall.recall import Hit

A, B = "A", "B"


def team_draft(a: Sequence[Hit], b: Sequence[Hit], receipt: str) -> tuple[tuple[Hit, ...], str]:
    """Return as many hits as the longer of two rankings has, interleaved, and the team of each.

    A memory that one ranking folds into a hit as a copy is not taken from the other again.
    """
    drafted: list[Hit] = []
    teams = ""
    ids: set[str] = set()
    while len(drafted) < max(len(a), len(b)):
        best = {
            team: next((hit for hit in hits if ids.isdisjoint(_ids(hit))), None)
            for team, hits in ((A, a), (B, b))
        }
        team = _next_team(teams, receipt)
        if best[team] is None:
            team = B if team == A else A
        if (hit := best[team]) is None:
            break
        teams += team
        drafted.append(hit)
        ids |= _ids(hit)
    return tuple(drafted), teams


def _ids(hit: Hit) -> set[str]:
    return {hit.memory.id, *hit.copies}


def _next_team(teams: str, receipt: str) -> str:
    """Return the team that picks: the one with fewer picks, else a drawn one."""
    if teams.count(A) != teams.count(B):
        return A if teams.count(A) < teams.count(B) else B
    drawn = sha256(f"trial\x00{receipt}\x00{len(teams)}".encode()).digest()[0]
    return A if drawn % 2 else B
