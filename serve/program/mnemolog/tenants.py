"""
Tenants: isolated memories of one server, and the tokens that open them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.json import Decoder

from mnemolog.connection import TenantConnection, part

Scope = Literal["read", "write", "admin"]


class Tenant(Struct, frozen=True, kw_only=True):
    """A tenant in short; `tokens` counts those that open it."""

    tenant: str
    is_default: bool
    log_bytes: int
    tokens: int


class Served(Struct, frozen=True, kw_only=True):
    """The manifest that is served; `watermark` is the last event it was built from."""

    number: int
    at: datetime
    age_s: int
    watermark: int


class Stats(Struct, frozen=True, kw_only=True):
    """A tenant in figures: `memories` by kind and state; `tail` are the events that wait for the
    next build, `silence_rate` the share of the newest recalls that brought nothing.
    """

    tenant: str
    memories: dict[str, dict[str, int]]
    active: int
    events: int
    tail: int
    log_bytes: int
    snapshot_bytes: int
    manifest: Served | None
    recalls_of_day: int
    silence_rate: float | None


class Deleted(Struct, frozen=True, kw_only=True):
    """A tenant that was put away: where its folder lies now, and how many tokens that ended."""

    tenant: str
    kept_in: str
    tokens: int


class Token(Struct, frozen=True, kw_only=True):
    """What is known of a token; what opens the tenant is not."""

    id: str
    name: str
    tenant: str
    scopes: tuple[str, ...]
    state: str
    created_at: datetime
    per_minute: int
    expires_at: datetime | None
    revoked_at: datetime | None
    made_by: str | None


class NewToken(Token, frozen=True, kw_only=True):
    """A token that was just made: `token` is what opens the tenant, shown this once."""

    token: str


class Listed(Struct, frozen=True, kw_only=True):
    tenants: tuple[Tenant, ...]


class ListedTokens(Struct, frozen=True, kw_only=True):
    tokens: tuple[Token, ...]


_TENANT, _LISTED = Decoder(Tenant), Decoder(Listed)
_STATS, _DELETED = Decoder(Stats), Decoder(Deleted)
_TOKEN, _NEW_TOKEN, _TOKENS = Decoder(Token), Decoder(NewToken), Decoder(ListedTokens)


@dataclass(frozen=True, slots=True)
class Tenants:
    """`client.tenants`; another one's name and one that does not exist are the same to a token."""

    _asking: TenantConnection

    def list(self) -> tuple[Tenant, ...]:
        """Return all tenants; for a tenant's token its own."""
        return self._asking.get(_LISTED, "/v1/tenants").tenants

    def create(self, name: str) -> Tenant:
        """Make a tenant, or return the one that is there; the owner's alone."""
        return self._asking.post(_TENANT, "/v1/tenants", {"tenant": name}, is_safe=True)

    def get(self, name: str) -> Tenant:
        return self._asking.get(_TENANT, _path(name))

    def stats(self, name: str) -> Stats:
        """Return a tenant in figures."""
        return self._asking.get(_STATS, f"{_path(name)}/stats")

    def delete(self, name: str) -> Deleted:
        """Put a tenant's folder away, and end its tokens; nothing is destroyed. The owner's alone.

        It is not sent twice: the second time there is no such tenant.
        """
        return self._asking.delete(_DELETED, _path(name), is_safe=False)

    def tokens(self, name: str) -> tuple[Token, ...]:
        """Return a tenant's tokens, the newest first; needs the scope `admin`."""
        return self._asking.get(_TOKENS, f"{_path(name)}/tokens").tokens

    def create_token(
        self,
        name: str,
        scopes: tuple[Scope, ...],
        *,
        label: str = "",
        ttl_s: int | None = None,
        per_minute: int | None = None,
    ) -> NewToken:
        """Make a token of a tenant; what opens it is told here and nowhere else."""
        body = {"scopes": scopes, "name": label, "ttl_s": ttl_s, "per_minute": per_minute}
        return self._asking.post(_NEW_TOKEN, f"{_path(name)}/tokens", body)

    def revoke_token(self, name: str, id_: str) -> Token:
        """End a token at once and for good; again changes nothing."""
        return self._asking.delete(_TOKEN, f"{_path(name)}/tokens/{part(id_)}")


def _path(name: str) -> str:
    return f"/v1/tenants/{part(name)}"
