"""The receipt of an arbitrary recall."""

from typing import Any

from store.log.event_kinds import Recalled


def plain_receipt(**fields: Any) -> Recalled:
    """Return the body of a receipt; pass only the fields that matter to a test."""
    usual = {"query": "q", "mode": "auto", "manifest": None, "watermark": 0, "took_us": 1}
    return Recalled(**{**usual, "hits": (), "dropped": {}, **fields})
