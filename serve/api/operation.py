"""
Operation: one declared request of the API; its declaration routes, decodes and documents it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import unquote

import msgspec
from flask import Blueprint, Response, g, request
from msgspec.structs import replace

from serve.reader.reader import Known
from serve.server.callers import OWNER, Caller, Scope
from serve.server.open_tenants import OpenTenant, OpenTenants
from serve.server.problems import problem
from serve.server.request_guard import owner_only
from store.home.config import Choices
from store.home.errors import InvalidInput

# Service: the objects the routes work on; Call: one decoded request; Reply: its response.

EXPORTS = 2  # at once: a slow reader occupies a thread, and the others go on answering

Query = TypeVar("Query", bound=msgspec.Struct)
Body = TypeVar("Body", bound=msgspec.Struct)


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


class Service(msgspec.Struct, frozen=True):
    """Open tenants and a clock in microseconds UTC. `exports` is held while an export is sent."""

    tenants: OpenTenants
    clock: Callable[[], int]
    exports: threading.BoundedSemaphore = msgspec.field(
        default_factory=lambda: threading.BoundedSemaphore(EXPORTS)
    )

    @property
    def choices(self) -> Choices:
        return self.tenants.settings.choices

    def tenant(self, caller: Caller, named: str | None) -> OpenTenant:
        """Return the tenant that is meant; raise InvalidName or NotFound."""
        return self.tenants.get(caller.tenant_for(named) or self.choices.tenant)


class Call(msgspec.Struct, Generic[Query, Body], frozen=True):
    """One request of an operation: its caller, and the path's parts, query and body, decoded.

    `tenant` is the token's own, else the one named; it, `now` and the settings are those of the
    `past`, if that is requested.
    """

    service: Service
    caller: Caller
    path: Mapping[str, str]
    query: Query
    body: Body
    header: Callable[[str], str | None] = lambda name: None
    past: Known | None = None  # the memory to answer from, if not the current one

    @property
    def tenant(self) -> OpenTenant:
        if self.past is not None:
            return OpenTenant(self.past.tenant, self.past.log, self.past.reader)
        named = getattr(self.body, "tenant", None) or getattr(self.query, "tenant", None)
        return self.service.tenant(self.caller, named)

    def shared(self, tenant: OpenTenant) -> tuple[str, ...]:
        """Return the scopes shared by the caller's work tree, if the caller is on this machine."""
        cwd = self.header("X-Mnemolog-Cwd") if self.caller.is_here else None
        trees = self.service.tenants.trees
        return trees.scopes(tenant.log, unquote(cwd), self.now) if cwd else ()

    @property
    def now(self) -> int:
        return self.service.clock() if self.past is None else self.past.now

    @property
    def choices(self) -> Choices:
        return self.service.choices if self.past is None else self.past.choices


class Reply(msgspec.Struct, frozen=True):
    """A JSON value to send, or chunks as they come; `after` is called when all was sent or the
    client left.
    """

    value: Any = None
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = {}
    chunks: Iterator[bytes] | None = None
    mimetype: str = "application/json"
    after: Callable[[], None] | None = None


Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Struct = type[msgspec.Struct]


@dataclass(frozen=True)
class Operation:
    """`path` is written as in OpenAPI: /v1/memories/{id}. `run` takes the decoded call.

    `scope` is the permission a token needs; "owner" requires the owner's token, "open" none. If the
    answer to a change shows stored content, the token needs `read` as well. `answers` are the
    response types by status (None: no body), `problems` the operation's own error codes, beside
    those of every operation.
    """

    method: Method
    path: str
    id: str
    summary: str
    run: Callable[[Call[Any, Any]], Reply]
    scope: Scope | Literal["owner", "open"] = "read"
    tells_kept: bool = False
    tag: str = "memories"
    query: Struct = Nothing
    body: Struct | None = None
    answers: Mapping[HTTPStatus, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()  # of the request, beside Authorization: If-Match
    tells: tuple[str, ...] = ()  # headers of an answer: ETag
    sends: str = "application/json"

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes a token needs; none if scopes do not decide."""
        if self.scope == "owner" or self.scope == "open":
            return ()
        return (self.scope, "read") if self.tells_kept else (self.scope,)

    @property
    def rule(self) -> str:
        """The path in Flask's syntax; a key may contain slashes."""
        rule = self.path.replace("{key}", "<path:key>")
        return rule.replace("{", "<").replace("}", ">")


def route(blueprint: Blueprint, operation: Operation, service: Service) -> None:
    """Register the route of an operation."""
    # decoders are made before threads start: msgspec crashes when two threads meet a type first
    query = msgspec.json.Decoder(operation.query, strict=False)
    body = msgspec.json.Decoder(operation.body) if operation.body else None
    listed = _list_parameters(operation.query)

    def view(**path: str) -> Response:
        caller = OWNER if operation.scope == "open" else g.caller
        if operation.scope == "owner" and (refused := owner_only()) is not None:
            return refused
        for scope in operation.scopes:
            if not caller.may(scope):
                return problem("out_of_scope", f"this token has no scope `{scope}`")
        call = Call(
            service,
            caller,
            path,
            _decode_query(query, listed),
            _decode(body, request.get_data(cache=False)) if body else Nothing(),
            request.headers.get,
        )
        with _as_known(call) as call:
            return _respond(operation.run(call))

    blueprint.add_url_rule(operation.rule, operation.id, view, methods=[operation.method])


@contextmanager
def _as_known(call: Call[Any, Any]) -> Iterator[Call[Any, Any]]:
    """Yield a call with its memory: that of the past if it sets `known_at`.

    Raise as `OpenTenant.known_at`.
    """
    places = [getattr(sent, "known_at", None) for sent in (call.body, call.query)]
    place = next((place for place in places if place is not None), None)
    if place is None:
        yield call
        return
    with call.tenant.known_at(place, call.choices, call.now) as past:
        yield replace(call, past=past)


def _decode_query(decoder: "msgspec.json.Decoder[Any]", listed: frozenset[str]) -> Any:
    """Return the checked query parameters; those in `listed` may repeat. Raise InvalidInput."""
    sent: dict[str, Any] = {}
    for name, values in request.args.lists():
        if len(values) > 1 and name not in listed:
            raise InvalidInput(f"`{name}` was sent {len(values)} times: send it once")
        sent[name] = values if name in listed else values[0]
    query = _decode(decoder, msgspec.json.encode(sent))
    for name in sent:
        if getattr(query, name, name) is None:  # msgspec reads the word "null" as null
            raise InvalidInput(f"`{name}` cannot be null: omit it")
    return query


@cache
def _list_parameters(of: Struct) -> frozenset[str]:
    schema = msgspec.json.schema_components([of])[1][of.__name__]
    return frozenset(
        name for name, field in schema.get("properties", {}).items() if field.get("type") == "array"
    )


def _decode(decoder: "msgspec.json.Decoder[Any]", data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: {error}") from error
    except RecursionError as error:
        raise InvalidInput("the body is nested too deeply") from error
    except msgspec.MsgspecError as error:
        raise InvalidInput(str(error)) from error


def _respond(reply: Reply) -> Response:
    if reply.chunks is not None:
        streamed = Response(reply.chunks, reply.status, reply.headers, mimetype=reply.mimetype)
        if reply.after is not None:
            streamed.call_on_close(reply.after)
        return streamed
    has_body = reply.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
    data = b"" if not has_body else msgspec.json.encode(reply.value)
    answer = Response(data, reply.status, reply.headers, mimetype=reply.mimetype)
    if not has_body:
        del answer.headers["Content-Type"]
    return answer
