"""Checks that a value holds only the declared fields; `msgspec.convert` lets more through."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect


def undeclared(value: Any, shape: Any) -> list[str]:
    """Return the paths in a JSON value that a shape does not declare.

    Raise msgspec.ValidationError if a declared field is missing or of another type.
    """
    msgspec.convert(value, shape)
    return list(_beyond(value, inspect.type_info(shape), "$"))


def _beyond(value: Any, of: inspect.Type, path: str) -> Iterator[str]:
    if isinstance(of, inspect.Metadata):  # documented constraints, which no decoder checks
        yield from [] if _fits(value, of.extra_json_schema or {}) else [path]
        yield from _beyond(value, of.type, path)
    elif isinstance(of, inspect.UnionType):
        if value is not None:
            fitting = [one for one in of.types if not isinstance(one, inspect.NoneType)]
            found = [list(_beyond(value, one, path)) for one in fitting]
            yield from min(found, key=len)
    elif isinstance(of, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field.type for field in of.fields}
        for name, inner in value.items():
            if name in fields:
                yield from _beyond(inner, fields[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(of, inspect.VarTupleType | inspect.ListType) and isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _beyond(inner, of.item_type, f"{path}[{place}]")
    elif isinstance(of, inspect.DictType) and isinstance(value, dict):
        for name, inner in value.items():
            yield from _beyond(inner, of.value_type, f"{path}.{name}")


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Return True if a value is in a schema's enum, within its bounds, and matches its pattern."""
    choices = [one for part in (schema, *schema.get("anyOf", ())) for one in part.get("enum", ())]
    is_word = not choices or value in choices
    is_within = not isinstance(value, int | float) or (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    )
    pattern = schema.get("pattern")
    return is_word and is_within and (not pattern or bool(re.search(pattern, str(value))))
