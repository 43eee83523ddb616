"""
mnemolog for programs: a memory's server, asked over HTTP.

    from mnemolog import Client

    with Client() as memory:
        memory.record("Deploys go out from eu-west-1 only", kind="decision")
        for hit in memory.recall("where do deploys go out from").hits:
            print(hit.text, hit.confidence)

It imports nothing of the server: neither numpy nor Flask.
"""

from typing import TYPE_CHECKING, Any

from mnemolog.client import Client
from mnemolog.errors import (
    Changed,
    Conflict,
    Error,
    Failed,
    Forbidden,
    Invalid,
    JobFailed,
    NoServer,
    NotFound,
    RateLimited,
    Refused,
    StillRunning,
    Unauthorized,
    Unavailable,
    Unreachable,
    Unreadable,
)
from mnemolog.wire import Draft

if TYPE_CHECKING:
    from mnemolog.async_client import AsyncClient

__all__ = [
    "AsyncClient",
    "Changed",
    "Client",
    "Conflict",
    "Draft",
    "Error",
    "Failed",
    "Forbidden",
    "Invalid",
    "JobFailed",
    "NoServer",
    "NotFound",
    "RateLimited",
    "Refused",
    "StillRunning",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "Unreadable",
]


def __getattr__(name: str) -> Any:
    """Import AsyncClient when it is used: asyncio would slow every other start down."""
    if name != "AsyncClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mnemolog.async_client import AsyncClient

    return AsyncClient
