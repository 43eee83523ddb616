"""
The methods of MCP over a registry: their parameters and their results.

Params come from untrusted clients: each is checked before use, and an invalid one is an RpcError.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import msgspec

from serve.mcp_server.protocol import (
    INVALID_PARAMS,
    LEGACY,
    LEGACY_NOT_FOUND,
    META,
    METHOD_NOT_FOUND,
    OUT_OF_SCOPE,
    VERSIONS,
    Caller,
    Params,
    RpcError,
    object_of,
    text_of,
)
from serve.server.callers import SCOPES, Scope

# Registry: the offer of an MCP server, as frozen values, independent of the wire format.
#
# A tool that returns a result is answered with JSON. A tool that returns a generator is answered
# with a stream: its messages as they are yielded, and its result last.

Result = dict[str, Any]
Outcome = Result | Generator[Result, None, Result]


class Call(msgspec.Struct, frozen=True):
    """One request and its context.

    `tenant`, `scopes` and `cwd` come from the token, or from the stdio bridge on behalf of its
    host.
    """

    params: Params
    caller: Caller
    agent: str | None = None
    cwd: str | None = None
    tenant: str | None = None
    scopes: frozenset[Scope] = frozenset(SCOPES)
    is_off: bool = False  # this run of the agent is not recorded

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    @property
    def meta(self) -> Params:
        payload: Params = self.params.get("_meta") or {}
        return payload


Complete = Callable[[Call, str], Sequence[str]]  # completions of the beginning of a value


class Tool(msgspec.Struct, frozen=True):
    """`listed` is its entry in `tools/list`; `run` takes the arguments as they came.

    A caller without all of its `scopes` can neither see nor run it.
    """

    listed: Result
    run: Callable[[Call, Params], Outcome]
    scopes: tuple[Scope, ...] = ("read",)


class Prompt(msgspec.Struct, frozen=True):
    listed: Result
    run: Callable[[Call, Params], Outcome]
    completes: Mapping[str, Complete] = {}


class Template(msgspec.Struct, frozen=True):
    listed: Result
    completes: Mapping[str, Complete] = {}


class Registry(msgspec.Struct, frozen=True):
    """All that a server offers. `read` returns the contents at an address, None if there are none.

    `legacy_methods` and `capabilities` go beyond tools, resources, prompts and completion, for a
    client that sent `initialize`; `heard` is called with the client's responses.
    """

    info: Callable[[], Result]  # name, title, version
    instructions: str
    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    templates: tuple[Template, ...] = ()
    resources: Callable[[Call], Sequence[Result]] = lambda call: ()
    read: Callable[[Call, str], Sequence[Result] | None] = lambda call, uri: None
    legacy_methods: Mapping[str, Callable[[Call], Result]] = {}
    capabilities: Result = {}
    heard: Callable[[Params], None] = lambda response: None


Method = Callable[[Registry, Call], Outcome]

_MOST_COMPLETIONS = 100  # the specification's maximum
_CONSTANT = (300_000, "public")  # ms: a new version of ours may list other tools
_OF_A_TOKEN = (300_000, "private")  # the list depends on the token's scopes
_CHANGING = (0, "private")
_READING = frozenset({"resources/list", "resources/read", "prompts/get", "completion/complete"})
_FRESH: Mapping[str, tuple[int, str]] = {
    "server/discover": _CONSTANT,
    "tools/list": _OF_A_TOKEN,
    "prompts/list": _CONSTANT,
    "resources/templates/list": _CONSTANT,
    "resources/list": _CHANGING,
    "resources/read": _CHANGING,
}


def answer(registry: Registry, method: str, call: Call) -> Outcome:
    """Return the result of a method; raise RpcError, METHOD_NOT_FOUND for an unknown method."""
    if method in _READING:
        _check(call, "read", method)
    of_era = _MODERN if call.caller.is_modern else _LEGACY
    if (run := of_era.get(method) or _COMMON.get(method)) is not None:
        return run(registry, call)
    if not call.caller.is_modern and method in registry.legacy_methods:
        return registry.legacy_methods[method](call)
    raise RpcError(METHOD_NOT_FOUND, f"unknown method {method[:100]!r}")


def finish_result(registry: Registry, method: str, call: Call, result: Result) -> Result:
    """Return a result with the fields that its era requires in every result."""
    if not call.caller.is_modern:
        return result
    meta = {**result.get("_meta", {}), META + "serverInfo": registry.info()}
    fresh = _FRESH.get(method)
    hints = {} if fresh is None else {"ttlMs": fresh[0], "cacheScope": fresh[1]}
    return {"resultType": "complete", **hints, **result, "_meta": meta}


def _discover(registry: Registry, call: Call) -> Result:
    return {
        "supportedVersions": list(VERSIONS),
        "capabilities": _capabilities(),
        "instructions": registry.instructions,
    }


def _initialize(registry: Registry, call: Call) -> Result:
    version = text_of(call.params, "protocolVersion")
    return {
        "protocolVersion": version if version in LEGACY else LEGACY[0],
        "capabilities": _capabilities() | registry.capabilities,
        "serverInfo": registry.info(),
        "instructions": registry.instructions,
    }


def _capabilities() -> Result:
    """Return the capabilities; no list ever changes, so that no stream occupies a thread."""
    return {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}


def _list_tools(registry: Registry, call: Call) -> Result:
    allowed = [tool.listed for tool in registry.tools if all(map(call.may, tool.scopes))]
    return _list_result(call, "tools", allowed)


def _check(call: Call, scope: Scope, what: str) -> None:
    if not call.may(scope):
        raise RpcError(
            OUT_OF_SCOPE, f"{what} needs the scope `{scope}`, which this token does not have"
        )


def _list_prompts(registry: Registry, call: Call) -> Result:
    return _list_result(call, "prompts", [prompt.listed for prompt in registry.prompts])


def _list_templates(registry: Registry, call: Call) -> Result:
    return _list_result(
        call, "resourceTemplates", [template.listed for template in registry.templates]
    )


def _list_resources(registry: Registry, call: Call) -> Result:
    return _list_result(call, "resources", list(registry.resources(call)))


def _list_result(call: Call, name: str, listed: list[Result]) -> Result:
    if call.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "invalid cursor: lists have one page")
    return {name: listed}


def _call_tool(registry: Registry, call: Call) -> Outcome:
    name = text_of(call.params, "name")
    for tool in registry.tools:
        if tool.listed["name"] == name:
            for scope in tool.scopes:
                _check(call, scope, f"the tool {name}")
            return tool.run(call, object_of(call.params, "arguments"))
    there = ", ".join(other.listed["name"] for other in registry.tools)
    raise RpcError(INVALID_PARAMS, f"unknown tool {name[:100]!r}: use {there}")


def _get_prompt(registry: Registry, call: Call) -> Outcome:
    name = text_of(call.params, "name")
    arguments = object_of(call.params, "arguments")
    for prompt in registry.prompts:
        if prompt.listed["name"] == name:
            if not all(isinstance(value, str) for value in arguments.values()):
                raise RpcError(INVALID_PARAMS, "a prompt's arguments are strings")
            return prompt.run(call, arguments)
    raise RpcError(INVALID_PARAMS, f"unknown prompt {name[:100]!r}")


def _read_resource(registry: Registry, call: Call) -> Result:
    uri = text_of(call.params, "uri")
    contents = registry.read(call, uri)
    if contents is None:
        code = INVALID_PARAMS if call.caller.is_modern else LEGACY_NOT_FOUND
        raise RpcError(code, "unknown resource", {"uri": uri})
    return {"contents": list(contents)}


def _complete(registry: Registry, call: Call) -> Result:
    ref, argument = object_of(call.params, "ref"), object_of(call.params, "argument")
    name, beginning = text_of(argument, "name"), text_of(argument, "value")
    complete = _completes(registry, ref).get(name)
    values = list(complete(call, beginning)) if complete is not None else []
    first = values[:_MOST_COMPLETIONS]
    has_more = len(values) > len(first)
    return {"completion": {"values": first, "total": len(values), "hasMore": has_more}}


def _completes(registry: Registry, ref: Params) -> Mapping[str, Complete]:
    kind = text_of(ref, "type")
    if kind == "ref/prompt":
        name = text_of(ref, "name")
        for prompt in registry.prompts:
            if prompt.listed["name"] == name:
                return prompt.completes
    elif kind == "ref/resource":
        uri = text_of(ref, "uri")
        for template in registry.templates:
            if template.listed["uriTemplate"] == uri:
                return template.completes
    raise RpcError(INVALID_PARAMS, "`ref` is not a known prompt or resource template")


def _ping(registry: Registry, call: Call) -> dict[str, Any]:
    return {}


_COMMON: Mapping[str, Method] = {
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "prompts/list": _list_prompts,
    "prompts/get": _get_prompt,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
    "completion/complete": _complete,
}
_MODERN: Mapping[str, Method] = {"server/discover": _discover}
_LEGACY: Mapping[str, Method] = {"initialize": _initialize, "ping": _ping}
