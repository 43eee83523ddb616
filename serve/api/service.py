"""
Service: what the routes work on; Call: one request, decoded; Reply: what is sent for it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec

from serve.server.callers import Caller
from serve.server.open_tenants import OpenTenant, OpenTenants
from store.home.config import Choices

EXPORTS = 2  # at once: who does not read one holds a thread, and the others go on answering

Query = TypeVar("Query", bound=msgspec.Struct)
Body = TypeVar("Body", bound=msgspec.Struct)


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class Service:
    """Open tenants and a clock; it gives microseconds UTC. `exports` is held while one is sent."""

    tenants: OpenTenants
    clock: Callable[[], int]
    exports: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(EXPORTS)
    )

    @property
    def choices(self) -> Choices:
        return self.tenants.settings.choices

    def tenant(self, caller: Caller, named: str | None) -> OpenTenant:
        """Return the tenant that is meant; raise InvalidName or NotFound."""
        return self.tenants.get(caller.tenant_for(named) or self.choices.tenant)


@dataclass(frozen=True, slots=True)
class Call(Generic[Query, Body]):
    """One request of an operation: who asks, the parts of the path, query and body, decoded.

    `tenant` is the one that is meant, the token's before the one named.
    """

    service: Service
    caller: Caller
    path: Mapping[str, str]
    query: Query
    body: Body
    header: Callable[[str], str | None] = lambda name: None

    @property
    def tenant(self) -> OpenTenant:
        named = getattr(self.body, "tenant", None) or getattr(self.query, "tenant", None)
        return self.service.tenant(self.caller, named)

    @property
    def now(self) -> int:
        return self.service.clock()


@dataclass(frozen=True, slots=True)
class Reply:
    """A value to be sent as JSON, or chunks as they come; `after` is called when all was sent, or
    who asked went away.
    """

    value: Any = None
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Iterator[bytes] | None = None
    mimetype: str = "application/json"
    after: Callable[[], None] | None = None
