"""
Tenants and their tokens: made, listed, counted, revoked and deleted.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from mnemolog.wire import (
    Deleted,
    Health,
    NewToken,
    ShownTenant,
    ShownToken,
    Tenants,
    TenantStats,
    Tokens,
)
from msgspec import Meta

from serve import version
from serve.api.openapi import document
from serve.api.operation import Call, Nothing, Operation, Reply
from serve.reports.tenant_statistics import tenant_stats
from serve.server import tenant_admin
from serve.server.metrics import MIMETYPE, exposition
from serve.server.open_tenants import OpenTenants
from store.home.errors import LogError, NotReady
from store.home.tenant import Tenant
from store.home.tokens import Wanted

_SECRET = {"Cache-Control": "no-store"}


class NewTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant that is to be."""

    tenant: Annotated[
        str,
        Meta(
            description="1 to 63 of a-z 0-9 _ -, starting with a letter or digit.",
            examples=["acme"],
            extra_json_schema={"pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
        ),
    ]


def list_tenants(call: Call[Nothing, Nothing]) -> Reply:
    return Reply(
        {"tenants": tenant_admin.list_tenants(call.service.tenants.settings, call.caller, call.now)}
    )


def create_tenant(call: Call[Nothing, NewTenant]) -> Reply:
    opened, name = call.service.tenants, call.body.tenant
    is_new = opened.make(name)
    tenant = tenant_admin.find_tenant(opened.settings, call.caller, name)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return Reply(tenant_admin.summarize_tenant(opened.settings, tenant, call.now), status)


def show_tenant(call: Call[Nothing, Nothing]) -> Reply:
    settings = call.service.tenants.settings
    return Reply(tenant_admin.summarize_tenant(settings, _find_tenant(call), call.now))


def show_stats(call: Call[Nothing, Nothing]) -> Reply:
    opened = call.service.tenants.get(_find_tenant(call).name)
    opened.notes.write_if_possible()  # so that the latest answers are counted
    return Reply(
        opened.reader.answer(lambda view: tenant_stats(opened.tenant, opened.log, view, call.now))
    )


def delete_tenant(call: Call[Nothing, Nothing]) -> Reply:
    name = call.path["tenant"]
    place, tokens = call.service.tenants.delete(name, call.now)
    return Reply(Deleted(tenant=name, kept_in=str(place), tokens=tokens))


def list_tokens(call: Call[Nothing, Nothing]) -> Reply:
    settings = call.service.tenants.settings
    return Reply({"tokens": tenant_admin.list_tokens(settings, _find_tenant(call), call.now)})


def make_token(call: Call[Nothing, Wanted]) -> Reply:
    settings = call.service.tenants.settings
    token = tenant_admin.make_token(settings, call.caller, _find_tenant(call), call.body, call.now)
    return Reply(token, HTTPStatus.CREATED, _SECRET)


def revoke_token(call: Call[Nothing, Nothing]) -> Reply:
    settings = call.service.tenants.settings
    return Reply(tenant_admin.revoke_token(settings, _find_tenant(call), call.path["id"], call.now))


def _find_tenant(call: Call[Nothing, Nothing] | Call[Nothing, Wanted]) -> Tenant:
    return tenant_admin.find_tenant(call.service.tenants.settings, call.caller, call.path["tenant"])


_MISSING = ("not_found", "invalid_name")

OPERATIONS = (
    Operation(
        "GET",
        "/v1/tenants",
        "listTenants",
        "List the tenants: all for the owner, its own for a tenant's token.",
        list_tenants,
        tag="tenants",
        answers={HTTPStatus.OK: Tenants},
    ),
    Operation(
        "POST",
        "/v1/tenants",
        "createTenant",
        "Create a tenant; for an existing one the answer is 200.",
        create_tenant,
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
        "Show a tenant briefly.",
        show_tenant,
        tag="tenants",
        answers={HTTPStatus.OK: ShownTenant},
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/v1/tenants/{tenant}/stats",
        "getTenantStats",
        "Show a tenant's figures: memories, log, served build, recalls per day.",
        show_stats,
        tag="tenants",
        answers={HTTPStatus.OK: TenantStats},
        problems=_MISSING,
    ),
    Operation(
        "DELETE",
        "/v1/tenants/{tenant}",
        "deleteTenant",
        "Move a tenant's folder to `deleted`, and revoke its tokens. Nothing is destroyed.",
        delete_tenant,
        "owner",
        tag="tenants",
        answers={HTTPStatus.OK: Deleted},
        problems=(*_MISSING, "conflict", "build_busy"),
    ),
    Operation(
        "GET",
        "/v1/tenants/{tenant}/tokens",
        "listTokens",
        "List a tenant's tokens, without the secrets.",
        list_tokens,
        "admin",
        tag="tenants",
        answers={HTTPStatus.OK: Tokens},
        problems=_MISSING,
    ),
    Operation(
        "POST",
        "/v1/tenants/{tenant}/tokens",
        "createToken",
        "Create a token for a tenant; only this answer contains the secret.",
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
        "Revoke a token at once and for good; repeating it changes nothing.",
        revoke_token,
        "admin",
        tag="tenants",
        answers={HTTPStatus.OK: ShownToken},
        problems=_MISSING,
    ),
)


# The server itself: its health and readiness, its metrics, and the document of its API.

LEAST_SPACE = 16 << 20  # bytes free: less counts as a full disk


def health(call: Call[Any, Any]) -> Reply:
    return Reply(Health(status="ok", version=version()))


def ready(call: Call[Any, Any]) -> Reply:
    tenants = call.service.tenants
    problems = list(_readiness_problems(tenants))
    if problems:
        raise NotReady("; ".join(problems))
    return Reply(Health(status="ready", version=version()))


def _readiness_problems(tenants: OpenTenants) -> Iterator[str]:
    """Yield the reasons why the server cannot work; nothing is written to find out."""
    settings = tenants.settings
    if not tenants.is_alive:
        yield "a background thread has ended: restart the server"
    if shutil.disk_usage(settings.home).free < LEAST_SPACE:
        yield "the disk is full"
    default = next(
        (tenant for tenant in tenants.all_open if tenant.tenant.name == settings.choices.tenant),
        None,
    )
    if default is None:
        yield "the default tenant is not open"
    elif not os.access(default.log.path, os.W_OK):
        yield "the default tenant's log cannot be written"
    else:
        try:
            default.log.head()
        except LogError:  # the caller showed no token: no path of this machine is revealed
            yield "the default tenant's log cannot be read"


def metrics(call: Call[Nothing, Nothing]) -> Reply:
    caller, tenants = call.caller, call.service.tenants
    counted = tenants.all_open if caller.is_owner else [call.tenant]
    text = exposition(tenants, counted, call.now, whole_server=caller.is_owner)
    return Reply(chunks=iter([text.encode()]), mimetype=MIMETYPE)


HEALTH = Operation(
    "GET",
    "/health",
    "getHealth",
    "Check that the server is alive.",
    health,
    "open",
    tag="server",
    answers={HTTPStatus.OK: Health},
)

READY = Operation(
    "GET",
    "/ready",
    "getReadiness",
    "Check whether the server can recall and record.",
    ready,
    "open",
    tag="server",
    answers={HTTPStatus.OK: Health},
    problems=("not_ready",),
)

METRICS = Operation(
    "GET",
    "/metrics",
    "getMetrics",
    "Return Prometheus counters: for a token's tenant; for the owner, all open tenants.",
    metrics,
    tag="server",
    answers={HTTPStatus.OK: str},
    sends="text/plain",
)


def server_operations(others: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return these operations; the document describes all of them and the others."""

    @cache  # made on the first request for it
    def encoded() -> bytes:
        return msgspec.json.encode(document(all_of_them, version()))

    description = Operation(
        "GET",
        "/v1/openapi.json",
        "getOpenApi",
        "Return this document.",
        lambda call: Reply(msgspec.Raw(encoded())),
        "open",
        tag="server",
        answers={HTTPStatus.OK: dict[str, Any]},
    )
    all_of_them = (*others, HEALTH, READY, METRICS, description)
    return (HEALTH, READY, METRICS, description)
