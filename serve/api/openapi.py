"""
The OpenAPI 3.1 document of the API, made of the operations' declarations.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from serve.api.operation import Operation
from serve.problem import MIMETYPE, TITLES, Problem

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
_REF = "#/components/schemas/{name}"

Json = dict[str, Any]


def document(operations: Sequence[Operation], version: str) -> Json:
    """Return the document of some operations."""
    types = [Problem, *dict.fromkeys(_types(operations))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    shapes = dict(zip(types, schemas, strict=True))
    paths: dict[str, Json] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, shapes, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mnemolog",
            "version": version,
            "summary": "Long-term memory for coding agents.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name} for name in dict.fromkeys(one.tag for one in operations)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "x-problems": {
            code: {"status": status, "title": title} for code, (status, title) in TITLES.items()
        },
    }


def _types(operations: Iterable[Operation]) -> Iterable[Any]:
    for one in operations:
        yield one.query
        if one.body is not None:
            yield one.body
        yield from (shape for shape in one.answers.values() if shape is not None)


def _operation(one: Operation, shapes: Mapping[Any, Json], components: Mapping[str, Json]) -> Json:
    said: Json = {
        "operationId": one.id,
        "summary": one.summary,
        "tags": [one.tag],
        "parameters": [*_path(one), *_query(one, components), *_headers(one)],
        "responses": {**_answers(one, shapes), **_problems(one)},
    }
    if one.scope == "open":
        said["security"] = []
    else:
        said["x-scope"] = one.scope
    if one.body is not None:
        said["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": shapes[one.body]}},
        }
    return said


def _path(one: Operation) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", one.path)
    ]


def _query(one: Operation, components: Mapping[str, Json]) -> list[Json]:
    schema = components[one.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": of}
        for name, of in schema.get("properties", {}).items()
    ]


def _headers(one: Operation) -> list[Json]:
    return [{"name": name, "in": "header", "schema": {"type": "string"}} for name in one.headers]


def _answers(one: Operation, shapes: Mapping[Any, Json]) -> Json:
    said: Json = {}
    for status, shape in one.answers.items():
        said[str(int(status))] = {"description": status.phrase}
        if shape is not None:
            said[str(int(status))]["content"] = {one.sends: {"schema": shapes[shape]}}
    return said


def _problems(one: Operation) -> Json:
    """Return what can go wrong, by status; each names its codes."""
    codes = [*_EVERYWHERE, *one.problems]
    codes += () if one.scope == "open" else _BEHIND_A_TOKEN
    codes += (*_WITH_A_BODY, *_AFTER_A_BODY) if one.body is not None else ()
    by_status: dict[HTTPStatus, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(TITLES[code][0], []).append(code)
    return {
        str(int(status)): {
            "description": ", ".join(those),
            "content": {MIMETYPE: {"schema": {"$ref": _REF.format(name="Problem")}}},
        }
        for status, those in by_status.items()
    }
