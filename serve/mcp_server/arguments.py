"""
The arguments of a tool: one declaration gives the schema that is listed and the check of what came.

Models guess names: what they commonly send for one of ours is taken, and not advertised.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from serve.mcp_server.protocol import Params
from store.home.errors import InvalidInput

Asked = TypeVar("Asked", bound=msgspec.Struct)

# what is taken for a parameter, where the tool has none of that name
_ALSO: Mapping[str, str] = {
    "action": "operation op command",
    "content": "text fact memory note body message observation statement goal",
    "id": "memory_id memoryId ulid uuid identifier goal_id",
    "kind": "type category memory_type",
    "kinds": "kind type types category categories memory_types",
    "limit": "top_k topK k n page_size pageSize size count max_results num_results",
    "memories": "items facts entries records notes contents",
    "project": "project_name project_id repo repository workspace",
    "query": "q search text question search_query keywords prompt topic",
    "reason": "why comment note explanation",
    "since": "after from start from_date start_date newer_than",
    "status": "state",
    "tags": "tag labels label",
    "topic": "query q subject about search text",
    "until": "before to end to_date end_date older_than",
    "verdict": "rating vote feedback score helpful",
}


@dataclass(frozen=True, slots=True)
class Parameters(Generic[Asked]):
    """What a tool takes. Made once at import: threads that meet a type first crash msgspec."""

    schema: dict[str, Any]
    aliases: Mapping[str, str]
    decoder: "msgspec.json.Decoder[Asked]"
    items: Mapping[str, "Parameters[Any]"]  # of the lists of objects among them

    @property
    def names(self) -> list[str]:
        return list(self.schema["properties"])


def parameters(of: type[Asked], **items: Parameters[Any]) -> Parameters[Asked]:
    """Return what a tool takes, declared by a struct; None is what was not said."""
    schema = inline_schema(of)
    names = list(schema["properties"])
    aliases = {
        alias: name
        for name in reversed(names)  # the first to claim an alias has it
        for alias in _ALSO.get(name, "").split()
        if alias not in names
    }
    return Parameters(schema, aliases, msgspec.json.Decoder(of, strict=False), items)


def taken(of: Parameters[Asked], given: Params) -> Asked:
    """Return the arguments that came, checked; raise InvalidInput, which names what is wrong."""
    try:
        return of.decoder.decode(msgspec.json.encode(_named(of, given)))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        there = ", ".join(_described(of.schema, name) for name in of.names)
        raise InvalidInput(f"{error}. The parameters are: {there}") from error


def _described(schema: Mapping[str, Any], name: str) -> str:
    choices = schema["properties"][name].get("enum", [])
    notes = ["required"] if name in schema.get("required", []) else []
    notes += ["one of " + " ".join(choices)] if choices else []
    return f"{name} ({', '.join(notes)})" if notes else name


def _named(of: Parameters[Any], given: Params) -> dict[str, Any]:
    """Return arguments under our names; null is none, and one of a list is a list of one."""
    named: dict[str, Any] = {}
    for sent, value in given.items():
        name = sent if sent in of.names else of.aliases.get(sent)
        if name is None:
            there = ", ".join(of.names)
            raise InvalidInput(f"there is no parameter {sent[:60]!r}: there are {there}")
        if value is None:
            continue
        if name in named:
            raise InvalidInput(f"{name!r} came twice, once as {sent!r}: send one of them")
        named[name] = _fitting(of, name, value)
    return named


def _fitting(of: Parameters[Any], name: str, value: Any) -> Any:
    if of.schema["properties"][name].get("type") != "array":
        return value
    listed = value if isinstance(value, list) else [value]
    inner = of.items.get(name)
    if inner is None:
        return listed
    objects = ({"content": one} if isinstance(one, str) else one for one in listed)
    return [_named(inner, one) if isinstance(one, dict) else one for one in objects]


def inline_schema(of: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a struct without references, which not every host follows."""
    schemas, parts = msgspec.json.schema_components([of], ref_template="{name}")
    found = _inlined(schemas[0], parts)
    assert isinstance(found, dict)
    return found


def _inlined(schema: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[schema["$ref"]], parts)
    if "anyOf" in schema:  # what may be left out: a null for it is taken, and not advertised
        least = [one for one in schema["anyOf"] if one != {"type": "null"}]
        if len(least) == 1:
            rest = {name: value for name, value in schema.items() if name != "anyOf"}
            return _inlined(rest | least[0], parts)
    if schema.get("default", ...) is None:
        schema = {name: value for name, value in schema.items() if name != "default"}
    is_named = isinstance(schema.get("title"), str)  # the struct's name, which tells nobody a thing
    left_out = ("pattern", "title", "description") if is_named else ("pattern",)  # Python's own
    typed = {"type": "string"} if isinstance(schema.get("enum"), list) else {}
    return typed | {
        name: _inlined(value, parts) for name, value in schema.items() if name not in left_out
    }
