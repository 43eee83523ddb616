"""
create_app(): the Flask application: the request guard, the blueprints and the error responses.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

import msgspec
from flask import Flask, Request, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from serve import version
from serve.api.blueprint import blueprint as api_blueprint
from serve.dashboard import shell
from serve.hooks import endpoint as hook_endpoint
from serve.hooks.answer import DEADLINE_S, Hooks
from serve.mcp_server import endpoint as mcp_endpoint
from serve.mcp_server.endpoint import mnemolog_registry
from serve.server import request_guard
from serve.server.callers import Caller, Callers, Rates
from serve.server.open_tenants import OpenTenants, RequestsInFlight
from serve.server.problems import code_of, problem, status_of
from serve.server.request_guard import MAX_BODY
from store.home import files
from store.home.errors import MnemologError
from store.home.http_access import signer

log = logging.getLogger("mnemolog")

_CODES = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large"}


def create_app(
    tenants: OpenTenants,
    token: str,
    clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    seconds: Callable[[], float] = time.monotonic,
    hook_deadline_s: float = DEADLINE_S,
) -> Flask:
    """Return the application over open tenants. `clock` gives microseconds UTC, `seconds` those of
    a monotonic clock. A hook that takes longer than `hook_deadline_s` gets an empty answer.
    """
    app = Flask("serve", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY  # a memory's 64 KiB, each byte written as %XX
    callers = Callers(tenants.settings, token, clock)

    def caller_of(request: Request, sent: str) -> Caller | None:
        return callers.of(sent, request.path, request.args.get("tenant"))

    owners = signer(token, tenants.settings)
    request_guard.guard(app, caller_of, shell.login_of(owners, clock), Rates(seconds).wait_s)
    _count(app, tenants.requests)
    app.register_error_handler(MnemologError, _error_response)
    app.register_error_handler(OSError, _system_failed)
    app.register_error_handler(msgspec.MsgspecError, _unreadable)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _internal_error)
    app.register_blueprint(api_blueprint(tenants, clock))
    app.register_blueprint(mcp_endpoint.blueprint(mnemolog_registry(tenants, clock, version)))
    hooks = Hooks(tenants, clock, hook_deadline_s)
    tenants.add_chore(hooks.take_in_spool)
    app.register_blueprint(hook_endpoint.blueprint(hooks))
    shell.register(app, tenants, owners, clock)
    return app


def _count(app: Flask, requests: RequestsInFlight) -> None:
    """Track the requests in flight, a stream until it is sent, and count the answers."""

    def end_request(answer: Response) -> Response:
        requests.count(answer.status_code)
        if answer.is_streamed and not answer.direct_passthrough:
            answer.call_on_close(partial(requests.end, threading.get_ident()))
        else:
            requests.end()
        return answer

    app.before_request(requests.begin)
    app.after_request(end_request)


def _error_response(failure: MnemologError) -> Response:
    status = status_of(failure)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("%s: %s", type(failure).__name__, failure)
    return problem(code_of(failure), str(failure), status)


def _system_failed(failure: OSError) -> Response:
    disk_error = files.disk_error(failure)
    return _internal_error(failure) if disk_error is None else _error_response(disk_error)


def _unreadable(failure: msgspec.MsgspecError) -> Response:
    return problem("invalid_input", str(failure))


def _http_error(failure: HTTPException) -> Response:
    status = HTTPStatus(failure.code or 500)
    # not from the phrase: Python 3.13 renamed some, and a code is for programs
    code = _CODES.get(status, status.name.lower())
    answer = problem(code, failure.description or status.phrase, status)
    if isinstance(failure, MethodNotAllowed) and failure.valid_methods:
        answer.headers["Allow"] = ", ".join(sorted(failure.valid_methods))
    return answer


def _internal_error(failure: Exception) -> Response:
    # the outermost handler: the traceback goes to the log, never to the caller
    log.error("unexpected failure", exc_info=failure)
    return problem("internal", "a defect of mnemolog: see the server's log")
