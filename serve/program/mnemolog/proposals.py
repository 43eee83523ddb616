"""
Proposals: what waits for a person's yes or no.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import Decoder

from mnemolog.connection import TenantConnection, part


class ProposalInShort(Struct, frozen=True, kw_only=True):
    """Something that waits for a person's word, or was answered."""

    id: str
    sort: str
    job: str | None
    state: str
    at: datetime
    project: str | None
    title: str
    because: tuple[str, ...]
    stale_because: tuple[str, ...]
    changes: int
    left: int
    plan: str | None
    memory: str | None
    model: str | None
    cost_usd: float


class Listed(Struct, frozen=True, kw_only=True):
    """The newest first; `more` were left out."""

    proposals: tuple[ProposalInShort, ...]
    more: int


class Change(Struct, frozen=True, kw_only=True):
    """A field before and after; None where it had no value, or has none."""

    field: str
    before: Any
    after: Any


class Step(Struct, frozen=True, kw_only=True):
    """What a yes does to one memory."""

    verb: str
    event: str
    subject: str
    why: str
    text: str | None
    changes: tuple[Change, ...]
    other: str | None
    relation: str | None
    evidence: dict[str, Any]


class Proposal(ProposalInShort, frozen=True, kw_only=True):
    """A proposal with all it would do, or did."""

    steps: tuple[Step, ...]


_PROPOSAL, _LISTED = Decoder(Proposal), Decoder(Listed)


@dataclass(frozen=True, slots=True)
class Proposals:
    """`client.proposals`; to answer one needs the scope `admin`."""

    _asking: TenantConnection

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
        return self._asking.get(_LISTED, "/v1/proposals", **asked).proposals

    def get(self, id_: str) -> Proposal:
        """Return what a proposal would change, before and after."""
        return self._asking.get(_PROPOSAL, _path(id_))

    def accept(self, id_: str) -> Proposal:
        """Say yes: all of it is done, or nothing; said twice it is done once."""
        return self._asking.post(_PROPOSAL, f"{_path(id_)}/accept", {}, is_safe=True)

    def reject(self, id_: str, *, reason: str | None = None) -> Proposal:
        """Say no: the same is not proposed again."""
        return self._asking.post(_PROPOSAL, f"{_path(id_)}/reject", {"reason": reason})

    def undo(self, id_: str) -> Proposal:
        """Take back what was accepted."""
        return self._asking.post(_PROPOSAL, f"{_path(id_)}/undo", {})


def _path(id_: str) -> str:
    return f"/v1/proposals/{part(id_)}"
