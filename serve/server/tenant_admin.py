"""
The tenants and tokens of a home as they are administered: what API, commands and pages share.

Whoever shows a tenant's token sees that tenant and no other: another one's name and a name that
nobody has are answered alike.
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
    """Return the tenant of a name; raise InvalidName or NotFound, for a token's holder NotFound
    for every name but its own.
    """
    if not caller.is_owner and name != caller.tenant:
        raise NotFound(f"no tenant {name!r}")
    return tenants.find_tenant(settings.home, name)


def list_tenants(settings: Settings, caller: Caller, now: int) -> list[ShownTenant]:
    """Return the tenants a caller may know of, by name."""
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
    """Return the tokens of a tenant, the newest first."""
    return [
        summarize_token(token, now) for token in reversed(tokens.every(settings.home, tenant.name))
    ]


def make_token(
    settings: Settings, caller: Caller, tenant: Tenant, wanted: Wanted, now: int
) -> NewToken:
    """Return a new token of a tenant.

    Raise InvalidInput where it would ask more or live longer than the token that makes it, Conflict
    where that one has ended or the tenant has too many.
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
    """End a token of a tenant with all that descend from it, and return it; a second time changes
    nothing. Raise NotFound.
    """
    return summarize_token(tokens.revoke(settings.home, id_, now, tenant.name), now)


def describe_descendants(settings: Settings, id_: str) -> str:
    """Return, as the end of a sentence, how many tokens ended with one; "" where it made none."""
    count = len(tokens.descendants(id_, tokens.every(settings.home)))
    return f", with {count:,} that it made" if count else ""


def summarize_token(token: Token, now: int) -> ShownToken:
    """Return a token as it may be seen."""
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
