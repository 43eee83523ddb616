"""The API's document is valid and complete, and REST and MCP share their bounds."""

import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from serve.api.blueprint import OPERATIONS
from serve.api.openapi import TAGS, document
from serve.mcp_server.tools import TOOLS
from serve.server.problems import TITLES

DOCUMENT = document(OPERATIONS, "1.0.0")
SCHEMAS = DOCUMENT["components"]["schemas"]
EVERY = [
    pytest.param(path, method, operation, id=operation["operationId"])
    for path, some in DOCUMENT["paths"].items()
    for method, operation in some.items()
]


def test_the_document_is_one_of_openapi():
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_every_name_is_a_short_one():
    assert [name for name in SCHEMAS if not re.fullmatch(r"[A-Za-z_]+", name)] == []
    assert len({operation.id for operation in OPERATIONS}) == len(OPERATIONS)


def test_every_tag_is_described():
    assert all(DOCUMENT["tags"][n]["description"] for n in range(len(DOCUMENT["tags"])))
    assert {operation.tag for operation in OPERATIONS} <= TAGS.keys()


@pytest.mark.parametrize(("path", "method", "said"), EVERY)
def test_an_operation_tells_what_it_takes_and_sends(path: str, method: str, said: dict[str, Any]):
    assert said["summary"].endswith(".") and said["tags"]
    assert all(parameter.get("description") for parameter in said["parameters"])
    assert all(
        "null" not in str(parameter["schema"].get("type")) for parameter in said["parameters"]
    )
    named = {parameter["name"] for parameter in said["parameters"] if parameter["in"] == "path"}
    assert named == set(re.findall(r"{(\w+)}", path))
    assert any(status.startswith("2") for status in said["responses"])
    # a response that may be anything tells a program nothing
    for status, answer in said["responses"].items():
        for content in answer.get("content", {}).values():
            is_told = "$ref" in content["schema"] or "allOf" in content["schema"]
            is_text = content["schema"].get("type") == "string"
            assert is_told or is_text or path == "/v1/openapi.json", status


@pytest.mark.parametrize(("path", "method", "said"), EVERY)
def test_error_responses_declare_codes_and_retry_after(
    path: str, method: str, said: dict[str, Any]
):
    responses = said["responses"]
    codes = {
        code
        for answer in responses.values()
        for content in answer.get("content", {}).values()
        for code in content["schema"]
        .get("allOf", ({}, {}))[1]
        .get("properties", {})
        .get("code", {})
        .get("enum", ())
    }
    assert {"invalid_input", "wrong_host", "foreign_origin", "internal"} <= codes <= TITLES.keys()
    assert "Retry-After" in responses["503"]["headers"]
    if said["security"]:
        assert said["security"][0]["token"][0] in ("read", "write", "admin", "owner")
        assert "WWW-Authenticate" in responses["401"]["headers"]
        assert "Retry-After" in responses["429"]["headers"]


BOUNDS = (
    "enum minimum maximum minLength maxLength exclusiveMinimum exclusiveMaximum minItems maxItems"
)


def bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds of a value, or of a list's items, without nulls."""
    some = [kind for kind in schema.get("anyOf", [schema]) if kind != {"type": "null"}]
    limits = {name: value for name, value in some[0].items() if name in BOUNDS.split()}
    if "items" in some[0]:
        limits["items"] = bounds(some[0]["items"])
    return limits


SHARED = [
    ("recall", "query", "RecallRequest", "query"),
    ("recall", "kinds", "RecallRequest", "kinds"),
    ("remember", "kind", "NewMemory", "kind"),
    ("remember", "importance", "NewMemory", "importance"),
    ("remember", "key", "NewMemory", "key"),
    ("update_memory", "reason", "ChangedMemory", "reason"),
    ("update_memory", "importance", "ChangedMemory", "importance"),
    ("forget", "reason", "Rejection", "reason"),
    ("feedback", "reason", "RateRequest", "reason"),
    ("goals", "status", "ChangedMemory", "status"),
    ("goals", "progress", "ChangedMemory", "progress"),
]


@pytest.mark.parametrize(("tool", "argument", "shape", "name"), SHARED)
def test_rest_and_mcp_share_a_bound(tool: str, argument: str, shape: str, name: str):
    (spec,) = [other for other in TOOLS if other.name == tool]
    of_mcp = spec.takes.schema["properties"][argument]
    of_rest = SCHEMAS[shape]["properties"][name]
    assert bounds(of_mcp) == bounds(of_rest)
