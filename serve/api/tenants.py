"""
Tenants and their tokens: made, listed, counted, revoked and deleted.
"""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.server import tenant_admin
from serve.server.tenant_admin import NewToken, ShownTenant, ShownToken
from serve.summaries.tenant_stats import TenantStats, tenant_stats
from store.home.tenant import Deleted, Tenant
from store.home.tokens import Wanted

_SECRET = {"Cache-Control": "no-store"}


class NewTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant that is to be."""

    tenant: Annotated[
        str,
        Meta(
            description="1 to 63 of a-z 0-9 _ -, a letter or digit first.",
            examples=["acme"],
            extra_json_schema={"pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
        ),
    ]


class Tenants(msgspec.Struct, frozen=True, kw_only=True):
    tenants: tuple[ShownTenant, ...]


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first; one that ended is listed for thirty days more."""

    tokens: tuple[ShownToken, ...]


def listed(call: Call[Nothing, Nothing]) -> Reply:
    return Reply(
        {"tenants": tenant_admin.list_tenants(call.service.tenants.settings, call.caller, call.now)}
    )


def create(call: Call[Nothing, NewTenant]) -> Reply:
    opened, name = call.service.tenants, call.body.tenant
    is_new = opened.make(name)
    made = tenant_admin.find_tenant(opened.settings, call.caller, name)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return Reply(tenant_admin.summarize_tenant(opened.settings, made, call.now), status)


def show(call: Call[Nothing, Nothing]) -> Reply:
    settings = call.service.tenants.settings
    return Reply(tenant_admin.summarize_tenant(settings, _named(call), call.now))


def stats(call: Call[Nothing, Nothing]) -> Reply:
    opened = call.service.tenants.get(_named(call).name)
    opened.notes.write_if_possible()  # what was answered until now is counted
    return Reply(
        opened.reader.answered(lambda view: tenant_stats(opened.tenant, opened.log, view, call.now))
    )


def delete(call: Call[Nothing, Nothing]) -> Reply:
    return Reply(call.service.tenants.delete(call.path["tenant"], call.now))


def tokens_of(call: Call[Nothing, Nothing]) -> Reply:
    settings = call.service.tenants.settings
    return Reply({"tokens": tenant_admin.list_tokens(settings, _named(call), call.now)})


def make_token(call: Call[Nothing, Wanted]) -> Reply:
    settings = call.service.tenants.settings
    made = tenant_admin.make_token(settings, call.caller, _named(call), call.body, call.now)
    return Reply(made, HTTPStatus.CREATED, _SECRET)


def revoke_token(call: Call[Nothing, Nothing]) -> Reply:
    settings = call.service.tenants.settings
    return Reply(tenant_admin.revoke_token(settings, _named(call), call.path["id"], call.now))


def _named(call: Call[Nothing, Nothing] | Call[Nothing, Wanted]) -> Tenant:
    return tenant_admin.find_tenant(call.service.tenants.settings, call.caller, call.path["tenant"])


_MISSING = ("not_found", "invalid_name")

OPERATIONS = (
    Operation(
        "GET",
        "/v1/tenants",
        "listTenants",
        "List the tenants: all for the owner, its own for a tenant's token.",
        listed,
        tag="tenants",
        answers={HTTPStatus.OK: Tenants},
    ),
    Operation(
        "POST",
        "/v1/tenants",
        "createTenant",
        "Make a tenant; one that is there is answered with 200.",
        create,
        "owner",
        tag="tenants",
        body=NewTenant,
        answers={HTTPStatus.CREATED: ShownTenant, HTTPStatus.OK: ShownTenant},
        problems=("invalid_name",),
    ),
    Operation(
        "GET",
        "/v1/tenants/{tenant}",
        "getTenant",
        "Show a tenant in short.",
        show,
        tag="tenants",
        answers={HTTPStatus.OK: ShownTenant},
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/v1/tenants/{tenant}/stats",
        "getTenantStats",
        "Show a tenant in figures: memories, log, what is served, the recalls of a day.",
        stats,
        tag="tenants",
        answers={HTTPStatus.OK: TenantStats},
        problems=_MISSING,
    ),
    Operation(
        "DELETE",
        "/v1/tenants/{tenant}",
        "deleteTenant",
        "Put a tenant's folder away to `deleted`, and revoke its tokens. Nothing is destroyed.",
        delete,
        "owner",
        tag="tenants",
        answers={HTTPStatus.OK: Deleted},
        problems=(*_MISSING, "conflict", "build_busy"),
    ),
    Operation(
        "GET",
        "/v1/tenants/{tenant}/tokens",
        "listTokens",
        "List a tenant's tokens, without what opens it.",
        tokens_of,
        "admin",
        tag="tenants",
        answers={HTTPStatus.OK: Tokens},
        problems=_MISSING,
    ),
    Operation(
        "POST",
        "/v1/tenants/{tenant}/tokens",
        "createToken",
        "Make a token of a tenant; what opens it is in this answer and nowhere else.",
        make_token,
        "admin",
        tag="tenants",
        body=Wanted,
        answers={HTTPStatus.CREATED: NewToken},
        problems=(*_MISSING, "conflict"),
    ),
    Operation(
        "DELETE",
        "/v1/tenants/{tenant}/tokens/{id}",
        "revokeToken",
        "End a token at once and for good; again changes nothing.",
        revoke_token,
        "admin",
        tag="tenants",
        answers={HTTPStatus.OK: ShownToken},
        problems=_MISSING,
    ),
)
