"""
Receipts: what was asked of a memory, what came back, and whether it helped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.json import Decoder

from mnemolog.connection import TenantConnection, part
from mnemolog.shapes import Memory


class AsHit(Struct, frozen=True, kw_only=True):
    """The place of a memory among the hits, from 1."""

    rank: int
    score: float
    confidence: float


class ReceiptInShort(Struct, frozen=True, kw_only=True):
    """A recall: `hits` came back, the surest with this `confidence`, `dropped` did not. `as_hit` is
    told where a memory was asked for.
    """

    id: str
    seq: int
    at: datetime
    query: str
    mode: str
    project: str | None
    session: str | None
    agent: str | None
    hits: int
    confidence: float | None
    dropped: int
    took_ms: float
    rated: float | None
    as_hit: AsHit | None = None


class ReceiptPage(Struct, frozen=True, kw_only=True):
    """A page of a list; `looked_at` were read for it."""

    receipts: tuple[ReceiptInShort, ...]
    next: str | None
    looked_at: int


class HitOfReceipt(AsHit, frozen=True, kw_only=True):
    """What came back, and the memory as it is now; None where it is no more."""

    id: str
    memory: Memory | None


class Rating(Struct, frozen=True, kw_only=True):
    of: str
    at: datetime
    verdict: float
    reason: str | None
    trust: str


class OneVerdict(Struct, frozen=True, kw_only=True):
    id: str
    verdict: float
    evidence: str | None


class Judgment(Struct, frozen=True, kw_only=True):
    """How the hits turned out, by what was done afterwards."""

    at: datetime
    by: str
    verdicts: tuple[OneVerdict, ...]


class Outcome(Struct, frozen=True, kw_only=True):
    """How tests, a build, ... came out in the turn that the recall was part of."""

    at: datetime
    effort: str
    passed: bool
    before: bool | None


class Receipt(Struct, frozen=True, kw_only=True):
    """All there is of a recall: `dropped` counts what did not come back, by the reason; `route` is
    what the router chose.
    """

    id: str
    seq: int
    at: datetime
    query: str
    mode: str
    project: str | None
    session: str | None
    agent: str | None
    manifest: int | None
    watermark: int
    took_ms: float
    hits: tuple[HitOfReceipt, ...]
    dropped: dict[str, int]
    route: dict[str, Any] | None
    ratings: tuple[Rating, ...]
    judged: Judgment | None
    outcomes: tuple[Outcome, ...]


class Filters(TypedDict, total=False):
    """Which receipts. `memory` asks for those that brought it, `silent` for those without hits."""

    project: str
    since: datetime
    until: datetime
    session: str
    memory: str
    silent: bool


_PAGE, _RECEIPT = Decoder(ReceiptPage), Decoder(Receipt)


@dataclass(frozen=True, slots=True)
class Receipts:
    """`client.receipts`."""

    _asking: TenantConnection

    def list(self, **filters: Unpack[Filters]) -> Iterator[ReceiptInShort]:
        """Yield recalls, the newest first; pages are asked for as they are come to."""
        for page in self._asking.pages(_PAGE, "/v1/receipts", filters):
            yield from page.receipts

    def get(self, id_: str) -> Receipt:
        """Return what a recall brought, what was said of it and how it ended."""
        return self._asking.get(_RECEIPT, f"/v1/receipts/{part(id_)}")
