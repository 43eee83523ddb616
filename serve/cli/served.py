"""
Served: what the server of the home answers in a command's place.

It has the model and the snapshots open already; a command that loads them itself takes ten times as
long. Whatever the server does not answer, for whatever reason, the command does itself: so what it
prints, and what it says is wrong, are the same either way.
"""

import http.client
from collections.abc import Mapping
from typing import Any

from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.registry import HOST, Server, registered

_PATIENCE_S = 10.0


def recalled(settings: Settings, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a server recalls that was started under these settings; None where none does."""
    server = registered(settings)
    if server is None or server.answers_by != settings.choices.answers_by:
        return None
    return _asked(settings, "POST", "/v1/recall", question)


def keep_receipt(settings: Settings, id_: str) -> None:
    """Have the server write a receipt before it would: who ends next may rate it at once."""
    _asked(settings, "GET", f"/v1/receipts/{id_}")


def owners_answer(
    settings: Settings, server: Server, method: str, path: str, timeout_s: float
) -> tuple[int, bytes]:
    """Return the status and body of what a server answers the owner; raise ConfigError for none."""
    from store.home.http_access import owner_token

    headers = {
        "Authorization": f"Bearer {owner_token(settings)}",
        "Content-Type": "application/json",
    }
    connection = http.client.HTTPConnection(HOST, server.port, timeout=timeout_s)
    try:
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(f"the server on port {server.port} does not answer: {error}") from error
    finally:
        connection.close()


def _asked(
    settings: Settings, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    from mnemolog import Client, Error  # 40 ms, where there is a server

    tenant = settings.choices.tenant
    try:
        with Client(home=settings.home, tenant=tenant, timeout_s=_PATIENCE_S, retries=0) as client:
            is_asked = body is None  # the tenant goes into the query, else into the body
            answer: dict[str, Any] = client.ask(
                method, path, query={} if is_asked else None, body=body
            )
    except Error:
        return None
    return answer
