"""
The OpenAPI 3.1 document of the API, made of the operations' declarations.

https://spec.openapis.org/oas/v3.1.1.html. A schema is that of the struct that checks the request;
null, which a query cannot express, is left out, and patterns are in ECMAScript's syntax.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from serve.api.operation import Operation
from serve.server.problems import MIMETYPE, TITLES, Problem
from store.log.event_kinds import Id, Key

_EVERYWHERE = (
    "invalid_input",
    "foreign_origin",
    "wrong_host",
    "internal",
    "overloaded",
    "log_busy",
    "log_closed",
)
_BEHIND_A_TOKEN = ("no_token", "out_of_scope", "too_many_requests")
_WITH_A_BODY = ("too_large", "not_json")
_AFTER_A_BODY = ("log_full", "log_read_only")
# Python's white space in ECMAScript's syntax, but for U+FEFF. Generators of clients decode \u2028,
# which ends a line, so it cannot be spelled out.
_SPACES = r"\s\x1c-\x1f\x85"
_REF = "#/components/schemas/{name}"

Json = dict[str, Any]

TAGS: Mapping[str, str] = {
    "recall": "Ask for memories, and rate whether they helped.",
    "memories": "Record, read and change memories; nothing is ever overwritten.",
    "summaries": "Summaries of a topic, a period, and lessons.",
    "facts": "Facts about entities with their dates, and contradictions.",
    "goals": "Goals and their milestones.",
    "graph": "The entities that memories mention, and their connections.",
    "proposals": "Changes that wait for a person's decision.",
    "receipts": "Queries, their results, and whether they helped.",
    "jobs": "Accepted batches, which are recorded in the background.",
    "tenants": "Isolated memories, each with a log of its own.",
    "server": "The server itself.",
}

_PARTS: Mapping[str, Any] = {  # of a path
    "id": Annotated[Id, Meta(description="A full id.", examples=["01KAQ3ZJ0V7Y2M4N6P8R0S2T4V"])],
    "key": Annotated[Key, Meta(description="The key of a value.", examples=["deploy.region"])],
    "tenant": Annotated[
        str,
        Meta(
            description="A tenant's name.",
            examples=["acme"],
            extra_json_schema={"pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
        ),
    ],
}
_TAGS_PATTERN = r'^(\*|(W/)?"[!#-~]*"(, (W/)?"[!#-~]*")*)$'
_ASKED: Mapping[str, Json] = {  # request headers
    "If-Match": {
        "description": "Refuse the change (412) unless the memory's ETag is one of these.",
        "schema": {"type": "string", "pattern": _TAGS_PATTERN},
        "example": '"12-9f3a2c1b"',
    },
    "If-None-Match": {
        "description": "Send nothing (304) if the ETag is one of these.",
        "schema": {"type": "string"},
        "example": '"12-9f3a2c1b"',
    },
    "Idempotency-Key": {
        "description": "Your own name for this request: if repeated, it is carried out only once.",
        "schema": {
            "type": "string",
            "pattern": r'^("[ !#-\[\]-~]+"|[!#-+\--~]+)$',
            "maxLength": 255,
        },
        "example": '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
    },
}
_TOLD: Mapping[str, Json] = {  # response headers
    "ETag": {
        "description": "Identifies the state that was sent; for `If-Match`.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "The address of what was created.",
        "required": True,
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Idempotency-Replayed": {
        "description": "true if the request was carried out before.",
        "schema": {"type": "string", "const": "true"},
    },
    "Retry-After": {
        "description": "Seconds to wait before a retry.",
        "required": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {
        "description": "How to send a token.",
        "required": True,
        "schema": {"type": "string"},
    },
}
_WITH_PROBLEMS: Mapping[HTTPStatus, tuple[str, ...]] = {
    HTTPStatus.UNAUTHORIZED: ("WWW-Authenticate",),
    HTTPStatus.TOO_MANY_REQUESTS: ("Retry-After",),
    HTTPStatus.SERVICE_UNAVAILABLE: ("Retry-After",),
}


def document(operations: Sequence[Operation], version: str) -> Json:
    """Return the OpenAPI document of some operations."""
    parts = tuple(_PARTS.values())
    types = [Problem, *parts, *dict.fromkeys(_types(operations))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    shapes = dict(zip(types, schemas, strict=True))
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(
            operation, shapes, components
        )
    queries = {other.query.__name__ for other in operations}  # listed parameter by parameter
    payload: Json = _ecma(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "mnemolog",
                "version": version,
                "summary": "Long-term memory for coding agents.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"token": []}],
            "tags": [
                {"name": name, "description": TAGS[name]}
                for name in dict.fromkeys(other.tag for other in operations)
            ],
            "paths": paths,
            "components": {
                "schemas": {k: v for k, v in components.items() if k not in queries},
                "headers": dict(_TOLD),
                "securitySchemes": {
                    "token": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "The owner's token, or one of a tenant with scopes: read, "
                        "write, admin (both, and answering proposals).",
                    }
                },
            },
            "x-problems": {
                code: {"status": status, "title": title} for code, (status, title) in TITLES.items()
            },
        }
    )
    return payload


def _types(operations: Iterable[Operation]) -> Iterable[Any]:
    for operation in operations:
        yield operation.query
        if operation.body is not None:
            yield operation.body
        yield from (shape for shape in operation.answers.values() if shape is not None)


def _operation(
    operation: Operation, shapes: Mapping[Any, Json], components: Mapping[str, Json]
) -> Json:
    scopes: list[str] = [*operation.scopes] or [operation.scope]
    payload: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [
            *(
                _parameter(name, "path", dict(shapes[_PARTS[name]]), required=True)
                for name in re.findall(r"{(\w+)}", operation.path)
            ),
            *_query(operation, components),
            *(
                {"name": name, "in": "header", "required": False, **_ASKED[name]}
                for name in operation.headers
            ),
        ],
        "responses": {**_answers(operation, shapes), **_problems(operation)},
        "security": [] if operation.scope == "open" else [{"token": scopes}],
    }
    if operation.body is not None:
        payload["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": shapes[operation.body]}},
        }
    return payload


def _query(operation: Operation, components: Mapping[str, Json]) -> list[Json]:
    schema = components[operation.query.__name__]
    required = schema.get("required", ())
    return [
        _parameter(name, "query", _without_null(of), required=name in required)
        for name, of in schema.get("properties", {}).items()
    ]


def _parameter(name: str, where: str, schema: Json, *, required: bool) -> Json:
    """Return a parameter; its value's description becomes its own."""
    payload = {"description": schema.pop("description")} if "description" in schema else {}
    return {"name": name, "in": where, "required": required, **payload, "schema": schema}


def _without_null(schema: Json) -> Json:
    """Return the schema of a query parameter's value: without null."""
    some = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    rest = {
        name: value
        for name, value in schema.items()
        if name != "anyOf" and not (name == "default" and value is None)
    }
    if len(some) == 1:
        return {**rest, **some[0]}
    return {**rest, "anyOf": some} if some else rest


def _answers(operation: Operation, shapes: Mapping[Any, Json]) -> Json:
    answers: Json = {}
    replayed = ("Idempotency-Replayed",) if "Idempotency-Key" in operation.headers else ()
    for status, shape in operation.answers.items():
        answer: Json = {"description": status.phrase, **_with((*operation.tells, *replayed))}
        if shape is not None:
            answer["content"] = {operation.sends: {"schema": shapes[shape]}}
        answers[str(int(status))] = answer
    return answers


def _problems(operation: Operation) -> Json:
    """Return the error responses by status; each names its codes."""
    codes = [*_EVERYWHERE, *operation.problems]
    codes += () if operation.scope == "open" else _BEHIND_A_TOKEN
    codes += (*_WITH_A_BODY, *_AFTER_A_BODY) if operation.body is not None else ()
    by_status: dict[HTTPStatus, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(TITLES[code][0], []).append(code)
    return {
        str(int(status)): {
            "description": "; ".join(f"`{code}`: {TITLES[code][1]}" for code in those),
            **_with(_WITH_PROBLEMS.get(status, ())),
            "content": {
                MIMETYPE: {
                    "schema": {
                        "allOf": [
                            {"$ref": _REF.format(name="Problem")},
                            {"properties": {"code": {"enum": those}}},
                        ]
                    }
                }
            },
        }
        for status, those in by_status.items()
    }


def _with(headers: Iterable[str]) -> Json:
    refs = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
    return {"headers": refs} if refs else {}


def _ecma(value: Any) -> Any:
    r"""Return a schema with ECMAScript patterns, and tuples as arrays of a fixed length.

    ECMAScript has no \A or \Z, and its \s matches other characters than Python's. Generators of
    clients reject `"items": false`.
    """
    if isinstance(value, list | tuple):
        return [_ecma(member) for member in value]
    if not isinstance(value, dict):
        return value
    if value.get("items") is False:
        places = value["prefixItems"]
        items = places[0] if all(place == places[0] for place in places) else {"anyOf": places}
        value = {name: of for name, of in value.items() if name != "prefixItems"}
        value["items"] = items
    choices = (value, *value.get("anyOf", ()))
    is_word = value.get("type") == "string" and any("enum" in choice for choice in choices)
    return {
        name: _pattern(of)
        if name == "pattern" and isinstance(of, str)
        else _flatten(_ecma(of))
        if name == "anyOf"
        else _ecma(of)
        for name, of in value.items()
        if not (name == "type" and is_word) and not (name == "format" and of is None)
    }


def _flatten(choices: Sequence[Any]) -> list[Any]:
    """Return choices with nested choices flattened."""
    return [
        inner
        for choice in choices
        for inner in (
            choice["anyOf"] if isinstance(choice, dict) and set(choice) == {"anyOf"} else [choice]
        )
    ]


def _pattern(python: str) -> str:
    """Return a pattern in ECMAScript's syntax; `\\s` only among the characters of a class."""
    parts = {r"\A": "^", r"\Z": "$", r"\S": f"[^{_SPACES}]", r"\s": _SPACES}
    return re.sub(r"\\[AZsS]", lambda match: parts[match[0]], python)
