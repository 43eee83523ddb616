"""
The server itself: whether it lives, and the document of its API.
"""

from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from serve.api.openapi import document
from serve.api.operation import Operation
from serve.api.service import Call, Reply


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    version: str


@cache
def version() -> str:
    from importlib import metadata  # 20 ms of a start

    try:
        return metadata.version("mnemolog")
    except metadata.PackageNotFoundError:  # run from a checkout that was not installed
        return "unknown"


def health(call: Call[Any, Any]) -> Reply:
    return Reply(Health(status="ok", version=version()))


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
    all_of_them = (*others, HEALTH, shown)
    return (HEALTH, shown)
