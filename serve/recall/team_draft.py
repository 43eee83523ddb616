"""
Team draft: two rankings interleaved into one, and who brought what of it.

Two captains pick in turn, each the best that is not there yet; who begins a turn is drawn. What is
used then speaks for the team that picked it, whatever its place: Radlinski, Kurup and Joachims,
CIKM 2008, https://doi.org/10.1145/1458082.1458092. The draw follows from a receipt's id, so that
the same recall is always interleaved in the same way.
"""

from collections.abc import Sequence
from hashlib import sha256

from serve.recall.recall import Hit

A, B = "A", "B"


def team_draft(a: Sequence[Hit], b: Sequence[Hit], receipt: str) -> tuple[tuple[Hit, ...], str]:
    """Return as many hits as the longer of two rankings has, interleaved, and the team of each.

    What one ranking folds into a copy is not brought by the other again.
    """
    found: list[Hit] = []
    teams = ""
    known: set[str] = set()
    while len(found) < max(len(a), len(b)):
        left = {
            team: next((hit for hit in hits if known.isdisjoint(_names(hit))), None)
            for team, hits in ((A, a), (B, b))
        }
        team = _next_team(teams, receipt)
        if (hit := left[team] or left[B if team == A else A]) is None:
            break
        teams += team if left[team] else B if team == A else A
        found.append(hit)
        known |= _names(hit)
    return tuple(found), teams


def _names(hit: Hit) -> set[str]:
    return {hit.memory.id, *hit.copies}


def _next_team(teams: str, receipt: str) -> str:
    """Return who picks: the team that picked less, else the one that is drawn."""
    if teams.count(A) != teams.count(B):
        return A if teams.count(A) < teams.count(B) else B
    drawn = sha256(f"trial\x00{receipt}\x00{len(teams)}".encode()).digest()[0]
    return A if drawn % 2 else B
