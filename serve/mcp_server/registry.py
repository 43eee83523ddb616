"""
Registry: what an MCP server offers, as frozen values; what it is made of is none of the wire's.

A tool that returns a result is answered with JSON. One that returns a generator is answered with a
stream: the messages it yields as they come, and what it returns at last.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from serve.mcp_server.protocol import Caller, Params
from serve.server.callers import SCOPES, Scope

Result = dict[str, Any]
Outcome = Result | Generator[Result, None, Result]


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way.

    `tenant` and `scopes` are those of the token, or what the stdio bridge says of its host; so
    is `cwd`.
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
        found: Params = self.params.get("_meta") or {}
        return found


Complete = Callable[[Call, str], Sequence[str]]  # what may be meant by the beginning of a value


@dataclass(frozen=True, slots=True)
class Tool:
    """`listed` is what `tools/list` says of it; `run` takes the arguments as they came.

    Who may not do all that its `scopes` name neither sees nor runs it.
    """

    listed: Result
    run: Callable[[Call, Params], Outcome]
    scopes: tuple[Scope, ...] = ("read",)


@dataclass(frozen=True, slots=True)
class Prompt:
    listed: Result
    run: Callable[[Call, Params], Outcome]
    completes: Mapping[str, Complete] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Template:
    listed: Result
    completes: Mapping[str, Complete] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registry:
    """All that is offered. `read` returns the contents behind an address, None where nothing is.

    `legacy_methods` and `capabilities` are what goes beyond tools, resources, prompts and
    completion for a client that said `initialize`; `heard` is told the client's responses.
    """

    info: Callable[[], Result]  # name, title, version
    instructions: str
    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    templates: tuple[Template, ...] = ()
    resources: Callable[[Call], Sequence[Result]] = lambda call: ()
    read: Callable[[Call, str], Sequence[Result] | None] = lambda call, uri: None
    legacy_methods: Mapping[str, Callable[[Call], Result]] = field(default_factory=dict)
    capabilities: Result = field(default_factory=dict)
    heard: Callable[[Params], None] = lambda response: None
