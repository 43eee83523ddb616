"""
The server itself: whether it lives and can work, what it counted, and the document of its API.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from serve.api.openapi import document
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.server.metrics import MIMETYPE, exposition
from serve.server.open_tenants import OpenTenants
from serve.version import version
from store.home.errors import LogError, NotReady

LEAST_SPACE = 16 << 20  # bytes free: less is as good as none


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    version: str


def health(call: Call[Any, Any]) -> Reply:
    return Reply(Health(status="ok", version=version()))


def ready(call: Call[Any, Any]) -> Reply:
    tenants = call.service.tenants
    problems = list(_problems(tenants))
    if problems:
        raise NotReady("; ".join(problems))
    return Reply(Health(status="ready", version=version()))


def _problems(tenants: OpenTenants) -> Iterator[str]:
    """Yield what keeps the server from its work; nothing is written to find out."""
    settings = tenants.settings
    if not tenants.is_alive:
        yield "a thread behind the requests has ended: restart the server"
    if shutil.disk_usage(settings.home).free < LEAST_SPACE:
        yield "the disk is full"
    default = next(
        (one for one in tenants.opened if one.tenant.name == settings.choices.tenant), None
    )
    if default is None:
        yield "the default tenant is not open"
    elif not os.access(default.log.path, os.W_OK):
        yield "the default tenant's log cannot be written"
    else:
        try:
            default.log.head()
        except LogError:  # who asks showed no token: no path of this machine is told
            yield "the default tenant's log cannot be read"


def metrics(call: Call[Nothing, Nothing]) -> Reply:
    caller, tenants = call.caller, call.service.tenants
    shown = tenants.opened if caller.is_owner else [call.tenant]
    text = exposition(tenants, shown, call.now, whole_server=caller.is_owner)
    return Reply(chunks=iter([text.encode()]), mimetype=MIMETYPE)


HEALTH = Operation(
    "GET",
    "/health",
    "getHealth",
    "Say that the server lives.",
    health,
    "open",
    tag="server",
    answers={HTTPStatus.OK: Health},
)

READY = Operation(
    "GET",
    "/ready",
    "getReadiness",
    "Say whether the server can recall and record.",
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
    "Return counters for Prometheus: of a token's tenant, or of all that are open for the owner.",
    metrics,
    tag="server",
    answers={HTTPStatus.OK: str},
    sends="text/plain",
)


def operations(others: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return these operations; the document tells of all of them and the others."""
    made: list[bytes] = []  # once, when it is first asked for

    def openapi(call: Call[Any, Any]) -> Reply:
        if not made:
            made.append(msgspec.json.encode(document(all_of_them, version())))
        return Reply(msgspec.Raw(made[0]))

    shown = Operation(
        "GET",
        "/v1/openapi.json",
        "getOpenApi",
        "Return this document.",
        openapi,
        "open",
        tag="server",
        answers={HTTPStatus.OK: dict[str, Any]},
    )
    all_of_them = (*others, HEALTH, READY, METRICS, shown)
    return (HEALTH, READY, METRICS, shown)
