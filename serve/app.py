"""
create_app(): the Flask application, its loopback gate and its errors.

Bound to this machine and guarded against the browser on it: a Host that is not ours is answered
421, a foreign Origin or a cross-site fetch 403, a body that is not JSON 415, a missing or wrong
token 401. No CORS header is ever sent and a GET changes nothing.
"""

import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec
from flask import Flask, Request, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from serve import api
from serve.access import may_enter
from serve.hooks import routes as hook_routes
from serve.hooks.answer import Hooks
from serve.mcp_server import endpoint as mcp_endpoint
from serve.mcp_server.product import product
from serve.process.tenants import OpenTenants
from store.errors import (
    IdConflict,
    InvalidInput,
    LogBusy,
    LogFull,
    LogReadOnly,
    MnemologError,
    NotFound,
)

log = logging.getLogger("mnemolog")

MAX_BODY = 4 << 20
_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_OPEN_PATHS = frozenset({"/health"})

_STATUS: tuple[tuple[type[MnemologError], HTTPStatus], ...] = (
    (IdConflict, HTTPStatus.CONFLICT),
    (InvalidInput, HTTPStatus.BAD_REQUEST),
    (NotFound, HTTPStatus.NOT_FOUND),
    (LogFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (LogBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (LogReadOnly, HTTPStatus.SERVICE_UNAVAILABLE),
    (MnemologError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
_CODES = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large"}


def create_app(
    tenants: OpenTenants, token: str, clock: Callable[[], int] = lambda: time.time_ns() // 1000
) -> Flask:
    """Return the application over open tenants. `clock` gives microseconds UTC."""
    app = Flask("serve", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.before_request(lambda: _gate(request, token))
    app.register_error_handler(MnemologError, _refused)
    app.register_error_handler(msgspec.MsgspecError, _unreadable)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected)
    app.register_blueprint(api.blueprint(tenants, clock))
    app.register_blueprint(mcp_endpoint.blueprint(product(tenants, clock, api.version)))
    app.register_blueprint(hook_routes.blueprint(Hooks(tenants, clock)))
    return app


def error(status: HTTPStatus, code: str, message: str) -> Response:
    """Return a typed error: a stable code for programs and a sentence for people."""
    body = msgspec.json.encode({"error": {"code": code, "message": message}})
    return Response(body, status, mimetype="application/json")


def _gate(asked: Request, token: str) -> Response | None:
    if _hostname(asked.host) not in _NAMES:
        return error(
            HTTPStatus.MISDIRECTED_REQUEST, "wrong_host", f"this server is not {asked.host!r}"
        )
    origin = asked.headers.get("Origin")
    cross_site = asked.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    if cross_site or (origin is not None and origin != f"http://{asked.host}"):
        return error(
            HTTPStatus.FORBIDDEN, "foreign_origin", "requests from other sites are refused"
        )
    if asked.path not in _OPEN_PATHS:
        scheme, _, sent = asked.headers.get("Authorization", "").partition(" ")
        tenant = asked.args.get("tenant")
        if scheme.lower() != "bearer" or not may_enter(asked.path, tenant, sent, token):
            return error(
                HTTPStatus.UNAUTHORIZED,
                "no_token",
                "send `Authorization: Bearer TOKEN`; the token is in the file `token` of the home",
            )
    if asked.method in ("POST", "PUT", "PATCH") and asked.mimetype != "application/json":
        return error(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", "send `Content-Type: application/json`"
        )
    return None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # an IPv6 address without its bracket
        return None


def _refused(failure: MnemologError) -> Response:
    status = next(status for kind, status in _STATUS if isinstance(failure, kind))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("%s: %s", type(failure).__name__, failure)
    return error(status, _code(type(failure).__name__), str(failure))


def _unreadable(failure: msgspec.MsgspecError) -> Response:
    return error(HTTPStatus.BAD_REQUEST, "invalid_input", str(failure))


def _http_error(failure: HTTPException) -> Response:
    status = HTTPStatus(failure.code or 500)
    # not from the phrase: Python 3.13 renamed some, and a code is for programs
    answer = error(status, _CODES.get(status, status.name.lower()), failure.description or "")
    if isinstance(failure, MethodNotAllowed) and failure.valid_methods:
        answer.headers["Allow"] = ", ".join(sorted(failure.valid_methods))
    return answer


def _unexpected(failure: Exception) -> Response:
    # the outermost edge: the traceback goes to the log, and the caller learns no inside of ours
    log.error("unexpected failure", exc_info=failure)
    return error(
        HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "a defect of mnemolog: see the server's log"
    )


def _code(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip(
        "_"
    )
