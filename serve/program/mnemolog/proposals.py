"""
Proposals: what waits for a person's yes or no.
"""

from dataclasses import dataclass
from typing import Literal

from mnemolog.asking import Asking
from mnemolog.connection import part
from mnemolog.shapes import Proposal, ProposalInShort
from mnemolog.shapes import Proposals as Listed


@dataclass(frozen=True, slots=True)
class Proposals:
    """`client.proposals`; to answer one needs the scope `admin`."""

    _asking: Asking

    def list(
        self,
        *,
        state: Literal["waiting", "stale", "accepted", "rejected", "undone"] | None = None,
        sort: Literal["plan", "recommendation", "lesson"] | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> tuple[ProposalInShort, ...]:
        """Return what jobs proposed, the newest first; up to 100 where `limit` says nothing."""
        asked = {"state": state, "sort": sort, "project": project, "limit": limit}
        return self._asking.get(Listed, "/v1/proposals", **asked).proposals

    def get(self, id_: str) -> Proposal:
        """Return what a proposal would change, before and after."""
        return self._asking.get(Proposal, _path(id_))

    def accept(self, id_: str) -> Proposal:
        """Say yes: all of it is done, or nothing; said twice it is done once."""
        return self._asking.post(Proposal, f"{_path(id_)}/accept", {}, is_safe=True)

    def reject(self, id_: str, *, reason: str | None = None) -> Proposal:
        """Say no: the same is not proposed again."""
        return self._asking.post(Proposal, f"{_path(id_)}/reject", {"reason": reason})

    def undo(self, id_: str) -> Proposal:
        """Take back what was accepted."""
        return self._asking.post(Proposal, f"{_path(id_)}/undo", {})


def _path(id_: str) -> str:
    return f"/v1/proposals/{part(id_)}"
