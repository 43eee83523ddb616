"""
Operation: one declared request of the API; its declaration routes, decodes and documents it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from flask import Blueprint, Response, g, request

from serve.api.service import Call, Nothing, Reply, Service
from serve.server.callers import OWNER, Scope
from serve.server.problems import problem
from serve.server.request_guard import owner_only
from store.home.errors import InvalidInput

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Struct = type[msgspec.Struct]


@dataclass(frozen=True)
class Operation:
    """`path` is written as OpenAPI does: /v1/memories/{id}. `run` takes the decoded call.

    `scope` is what a token must be allowed to do; "owner" asks for the owner's, "open" for none.
    Where the answer to a change tells what is kept, the token must be allowed to `read` it too.
    `answers` are the shapes sent by status (None: no body), `problems` the codes of its own, beside
    those every operation has.
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
        """What a token must be allowed to do; nothing where that does not decide."""
        if self.scope == "owner" or self.scope == "open":
            return ()
        return (self.scope, "read") if self.tells_kept else (self.scope,)

    @property
    def rule(self) -> str:
        """The path as Flask writes it; a key may hold slashes."""
        rule = self.path.replace("{key}", "<path:key>")
        return rule.replace("{", "<").replace("}", ">")


def route(blueprint: Blueprint, operation: Operation, service: Service) -> None:
    """Answer an operation's requests."""
    # decoders are made before there are threads: msgspec crashes where two meet a type first
    query = msgspec.json.Decoder(operation.query, strict=False)
    body = msgspec.json.Decoder(operation.body) if operation.body else None
    listed = _listed(operation.query)

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
            _asked(query, listed),
            _decoded(body, request.get_data(cache=False)) if body else Nothing(),
            request.headers.get,
        )
        return _sent(operation.run(call))

    blueprint.add_url_rule(operation.rule, operation.id, view, methods=[operation.method])


def _asked(decoder: "msgspec.json.Decoder[Any]", listed: frozenset[str]) -> Any:
    """Return the parameters behind the `?`, checked; raise InvalidInput."""
    sent = _query(listed)
    found = _decoded(decoder, msgspec.json.encode(sent))
    for name in sent:
        if getattr(found, name, name) is None:  # msgspec takes the word "null" for one
            raise InvalidInput(f"`{name}` cannot be null: leave it out")
    return found


def _query(listed: frozenset[str]) -> dict[str, Any]:
    """Return the parameters behind the `?`; one that may come often as a list."""
    for name, values in request.args.lists():
        if len(values) > 1 and name not in listed:
            raise InvalidInput(f"`{name}` came {len(values)} times: send it once")
    return {name: values if name in listed else values[0] for name, values in request.args.lists()}


def _listed(of: Struct) -> frozenset[str]:
    schema = msgspec.json.schema_components([of])[1][of.__name__]
    return frozenset(
        name for name, one in schema.get("properties", {}).items() if one.get("type") == "array"
    )


def _decoded(decoder: "msgspec.json.Decoder[Any]", data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: {error}") from error
    except RecursionError as error:
        raise InvalidInput("the body is nested too deeply") from error
    except msgspec.MsgspecError as error:
        raise InvalidInput(str(error)) from error


def _sent(reply: Reply) -> Response:
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
