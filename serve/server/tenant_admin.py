"""
Administration of a home's tenants and tokens, shared by the API, the commands and the pages.

The holder of a tenant's token sees only that tenant: another tenant's name and an unknown name get
the same answer.
"""

from datetime import datetime

import msgspec
from mnemolog.wire import NewToken, ShownTenant, ShownToken

from serve.server.callers import Caller
from store.home import tenant as tenants
from store.home import tokens
from store.home.config import Settings
from store.home.errors import InvalidInput, NotFound
from store.home.instants import moment
from store.home.tenant import Tenant
from store.home.tokens import PER_MINUTE, Token, Wanted


def find_tenant(settings: Settings, caller: Caller, name: str) -> Tenant:
    """Return the tenant of a name; raise InvalidName or NotFound; a token's holder gets NotFound
    for every name but its own.
    """
    if not caller.is_owner and name != caller.tenant:
        raise NotFound(f"no tenant {name!r}")
    return tenants.find_tenant(settings.home, name)


def list_tenants(settings: Settings, caller: Caller, now: int) -> list[ShownTenant]:
    """Return the tenants a caller may see, by name."""
    every = tenants.list_tenants(settings.home)
    known = (tenant for tenant in every if caller.is_owner or tenant.name == caller.tenant)
    return [summarize_tenant(settings, tenant, now) for tenant in known]


def summarize_tenant(settings: Settings, tenant: Tenant, now: int) -> ShownTenant:
    active = [
        token for token in tokens.every(settings.home, tenant.name) if token.state(now) == "active"
    ]
    return ShownTenant(
        tenant=tenant.name,
        is_default=tenant.name == settings.choices.tenant,
        log_bytes=tenants.log_bytes(tenant),
        tokens=len(active),
    )


def list_tokens(settings: Settings, tenant: Tenant, now: int) -> list[ShownToken]:
    """Return the tokens of a tenant, newest first."""
    return [
        summarize_token(token, now) for token in reversed(tokens.every(settings.home, tenant.name))
    ]


def make_token(
    settings: Settings, caller: Caller, tenant: Tenant, wanted: Wanted, now: int
) -> NewToken:
    """Return a new token of a tenant.

    Raise InvalidInput if it would allow more or live longer than the token that makes it, Conflict
    if that token has ended or the tenant has too many.
    """
    allowed = caller.per_minute
    if allowed is not None:
        if (wanted.per_minute or 0) > allowed:
            raise InvalidInput(f"`per_minute` is at most that of your own token, {allowed:,}")
        wanted = msgspec.structs.replace(
            wanted, per_minute=wanted.per_minute or min(PER_MINUTE, allowed)
        )
    token, text = tokens.make(settings.home, tenant.name, wanted, now, caller.token_id)
    return NewToken(**msgspec.structs.asdict(summarize_token(token, now)), token=text)


def revoke_token(settings: Settings, tenant: Tenant, id_: str, now: int) -> ShownToken:
    """Revoke a token of a tenant and all its descendants, and return it; a second call changes
    nothing. Raise NotFound.
    """
    return summarize_token(tokens.revoke(settings.home, id_, now, tenant.name), now)


def describe_descendants(settings: Settings, id_: str) -> str:
    """Return, as the end of a sentence, the number of descendants revoked with a token, or ""."""
    count = len(tokens.descendants(id_, tokens.every(settings.home)))
    return f", with {count:,} that it made" if count else ""


def summarize_token(token: Token, now: int) -> ShownToken:
    """Return the public view of a token."""
    return ShownToken(
        id=token.id,
        name=token.name,
        tenant=token.tenant,
        scopes=token.scopes,
        state=token.state(now),
        created_at=_second(token.created_at),
        per_minute=token.per_minute,
        expires_at=None if token.expires_at is None else _second(token.expires_at),
        revoked_at=None if token.revoked_at is None else _second(token.revoked_at),
        made_by=token.made_by,
    )


def _second(at: int) -> datetime:
    return moment(at).replace(microsecond=0)
