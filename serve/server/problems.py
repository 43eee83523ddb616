"""
Problem details: every error of the HTTP API in one form, RFC 9457.

`code` is for programs and never changes; `title` names the kind of problem, `detail` this problem
and its fix. `type` is the code's place in the OpenAPI document's list of problems.
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from flask import Response, request

from store.home.errors import (
    BuildBusy,
    ChangedSince,
    Conflict,
    IdConflict,
    IdempotencyMismatch,
    InvalidInput,
    LogBusy,
    LogClosed,
    LogCorrupt,
    LogError,
    LogForeign,
    LogFull,
    LogReadOnly,
    LogVersion,
    MnemologError,
    NotFound,
    NotReady,
    PlanRefused,
    PlanStale,
    QueueFull,
)

MIMETYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem as it is sent."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str


# each code's status and title; the title fits every problem of that code
TITLES: Mapping[str, tuple[HTTPStatus, str]] = {
    "invalid_input": (HTTPStatus.BAD_REQUEST, "The request cannot be used as it is"),
    "invalid_name": (HTTPStatus.BAD_REQUEST, "This name is not allowed"),
    "junk_text": (HTTPStatus.BAD_REQUEST, "There is nothing in the text to remember"),
    "invalid_cursor": (HTTPStatus.BAD_REQUEST, "The cursor is not one of this list"),
    "no_token": (HTTPStatus.UNAUTHORIZED, "A token is needed"),
    "link_spent": (HTTPStatus.FORBIDDEN, "The link was used or is too old"),
    "no_csrf": (HTTPStatus.FORBIDDEN, "The form did not come from this dashboard"),
    "out_of_scope": (HTTPStatus.FORBIDDEN, "The token may not do this"),
    "foreign_origin": (HTTPStatus.FORBIDDEN, "Requests from other sites are refused"),
    "not_found": (HTTPStatus.NOT_FOUND, "There is no such thing"),
    "method_not_allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "The address takes other methods"),
    "id_conflict": (HTTPStatus.CONFLICT, "The id was already used for something else"),
    "plan_stale": (HTTPStatus.CONFLICT, "What the plan rests on has changed"),
    "plan_refused": (HTTPStatus.CONFLICT, "The plan's checks failed"),
    "conflict": (HTTPStatus.CONFLICT, "It is not in a state that allows this"),
    "build_busy": (HTTPStatus.CONFLICT, "A build or a job of this tenant is at work"),
    "changed_since": (HTTPStatus.PRECONDITION_FAILED, "It has changed since it was read"),
    "too_large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large"),
    "not_json": (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body is not JSON"),
    "wrong_host": (HTTPStatus.MISDIRECTED_REQUEST, "This server is another"),
    "idempotency_mismatch": (
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The idempotency key was used for another request",
    ),
    "too_many_requests": (HTTPStatus.TOO_MANY_REQUESTS, "The token asks too often"),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "A defect of mnemolog"),
    "overloaded": (HTTPStatus.SERVICE_UNAVAILABLE, "The server has too much to do"),
    "log_busy": (HTTPStatus.SERVICE_UNAVAILABLE, "The log is held by another process"),
    "log_closed": (HTTPStatus.SERVICE_UNAVAILABLE, "The log was closed meanwhile"),
    "log_read_only": (HTTPStatus.SERVICE_UNAVAILABLE, "The log cannot be written"),
    "log_error": (HTTPStatus.SERVICE_UNAVAILABLE, "The disk or the system did not do it"),
    "queue_full": (HTTPStatus.SERVICE_UNAVAILABLE, "Too much waits to be ingested"),
    "not_ready": (HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot take everything now"),
    "log_full": (HTTPStatus.INSUFFICIENT_STORAGE, "The disk is full"),
}

_OF_ERRORS: tuple[tuple[type[MnemologError], HTTPStatus], ...] = (
    (IdConflict, HTTPStatus.CONFLICT),
    (IdempotencyMismatch, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ChangedSince, HTTPStatus.PRECONDITION_FAILED),
    (PlanStale, HTTPStatus.CONFLICT),
    (PlanRefused, HTTPStatus.CONFLICT),
    (Conflict, HTTPStatus.CONFLICT),
    (BuildBusy, HTTPStatus.CONFLICT),
    (InvalidInput, HTTPStatus.BAD_REQUEST),
    (NotFound, HTTPStatus.NOT_FOUND),
    (LogFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (LogBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (LogClosed, HTTPStatus.SERVICE_UNAVAILABLE),
    (LogReadOnly, HTTPStatus.SERVICE_UNAVAILABLE),
    # to the caller, an error that no retry fixes is a defect
    (LogCorrupt, HTTPStatus.INTERNAL_SERVER_ERROR),
    (LogForeign, HTTPStatus.INTERNAL_SERVER_ERROR),
    (LogVersion, HTTPStatus.INTERNAL_SERVER_ERROR),
    (LogError, HTTPStatus.SERVICE_UNAVAILABLE),
    (QueueFull, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotReady, HTTPStatus.SERVICE_UNAVAILABLE),
    (MnemologError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
RETRY_AFTER_S = 1


def problem(
    code: str, detail: str, status: HTTPStatus | None = None, retry_after_s: int | None = None
) -> Response:
    """Return the response of a problem; pass `status` if the code is not in `TITLES`."""
    usual, title = TITLES.get(code, (status or HTTPStatus.INTERNAL_SERVER_ERROR, ""))
    body = Problem(
        type=f"/v1/openapi.json#/x-problems/{code}",
        title=title or (status or usual).phrase,
        status=status or usual,
        detail=detail,
        instance=request.path,
        code=code,
    )
    answer = Response(msgspec.json.encode(body), body.status, content_type=MIMETYPE)
    if retry_after_s is None and body.status == HTTPStatus.SERVICE_UNAVAILABLE:
        retry_after_s = RETRY_AFTER_S
    if retry_after_s is not None:
        answer.headers["Retry-After"] = str(retry_after_s)
    return answer


def code_of(failure: MnemologError) -> str:
    """Return the stable code of an error, from its class: `LogBusy` is log_busy."""
    name = type(failure).__name__
    return "".join("_" + char.lower() if char.isupper() else char for char in name).lstrip("_")


def status_of(failure: MnemologError) -> HTTPStatus:
    return next(status for kind, status in _OF_ERRORS if isinstance(failure, kind))
