"""
The tools, resources and prompts that the official conformance suite tests a server with.

Not part of the product: it shows that the endpoint speaks all of the protocol, including the parts
that our own tools do not need (progress, log messages, questions to the client).
"""

import base64
import hmac
import itertools
import json
import queue
import secrets
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from serve.mcp_server.methods import Call, Prompt, Registry, Template, Tool
from serve.mcp_server.protocol import INVALID_PARAMS, MISSING_CAPABILITY, RpcError

Json = dict[str, Any]
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV = base64.b64encode(
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00"
    b"\x02\x00\x10\x00data\x00\x00\x00\x00"
).decode()
WAIT_S = 10
_KEY = secrets.token_bytes(32)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def image() -> Json:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, words: str, kind: str = "text/plain") -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


def content(*blocks: Json) -> Json:
    return {"content": list(blocks)}


def tool(name: str, run: Callable[[Call, Json], Any], *required: str) -> Tool:
    fields = {one: {"type": "string"} for one in required}
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return Tool({"name": name, "description": f"For {name}.", "inputSchema": schema}, run)


# Messages during a call


def with_progress(call: Call, arguments: Json) -> Generator[Json, None, Json]:
    token = call.meta.get("progressToken")
    for done in (0, 50, 100):
        if token is not None:
            payload = {"progressToken": token, "progress": done, "total": 100}
            yield {"jsonrpc": "2.0", "method": "notifications/progress", "params": payload}
        time.sleep(0.02)
    return content(text("done"))


def with_logging(call: Call, arguments: Json) -> Generator[Json, None, Json]:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        told = {"level": "info", "data": words}
        yield {"jsonrpc": "2.0", "method": "notifications/message", "params": told}
        time.sleep(0.02)
    return content(text("done"))


def failing(call: Call, arguments: Json) -> Json:
    return content(text("This tool intentionally returns an error for testing")) | {"isError": True}


# Questions to a client that sent `initialize`: asked on the stream, answered by a separate post

_numbers = itertools.count()
_asked: dict[str, "queue.SimpleQueue[Json]"] = {}


def heard(response: Json) -> None:
    waiting = _asked.get(str(response["id"]))
    if waiting is not None:
        waiting.put(response)


def ask(method: str, params: Json) -> Generator[Json, None, Json]:
    id_ = f"fixture-{next(_numbers)}"
    _asked[id_] = queue.SimpleQueue()
    try:
        yield {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        return _asked[id_].get(timeout=WAIT_S).get("result", {})
    finally:
        del _asked[id_]


def sampling(call: Call, arguments: Json) -> Generator[Json, None, Json]:
    said = {"role": "user", "content": text(arguments["prompt"])}
    got = yield from ask("sampling/createMessage", {"messages": [said], "maxTokens": 100})
    return content(text(f"LLM response: {got['content']['text']}"))


def elicitation(schema: Json) -> Callable[[Call, Json], Generator[Json, None, Json]]:
    def run(call: Call, arguments: Json) -> Generator[Json, None, Json]:
        message = arguments.get("message", "Please fill this in")
        got = yield from ask("elicitation/create", {"message": message, "requestedSchema": schema})
        done = f"action={got.get('action')}, content={json.dumps(got.get('content'))}"
        return content(text(f"Elicitation completed: {done}"))

    return run


def form(required: Iterable[str] = (), **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
USER = form(("username", "email"), username=STRING, email=STRING)
DEFAULTS = form(
    name=STRING | {"default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status=STRING | {"enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
ENUMS = form(
    untitledSingle=STRING | {"enum": OPTIONS},
    titledSingle=STRING | {"oneOf": TITLED},
    legacyEnum=STRING | {"enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    untitledMulti={"type": "array", "items": STRING | {"enum": OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)


# Questions to a client of 2026-07-28: the result names the missing input; the request is sent again

NAME = {
    "method": "elicitation/create",
    "params": {"message": "What is your name?", "requestedSchema": form(("name",), name=STRING)},
}
COLOR = {
    "method": "elicitation/create",
    "params": {"message": "Which colour?", "requestedSchema": form(("color",), color=STRING)},
}
CONFIRM = {
    "method": "elicitation/create",
    "params": {
        "message": "Please confirm",
        "requestedSchema": form(("ok",), ok={"type": "boolean"}),
    },
}
ROOTS = {"method": "roots/list", "params": {}}
CAPITAL = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": text("What is the capital of France?")}],
        "maxTokens": 100,
    },
}


def sealed(state: str) -> str:
    mark = hmac.new(_KEY, state.encode(), "sha256").digest()
    return base64.urlsafe_b64encode(mark + state.encode()).decode()


def unsealed(call: Call) -> str:
    """Return the sealed state; compared by its canonical text, as Python's decoder is lenient."""
    given = call.params.get("requestState")
    try:
        raw = base64.urlsafe_b64decode(given) if isinstance(given, str) else b""
    except ValueError:
        raw = b""
    state = raw[32:].decode(errors="replace")
    if not isinstance(given, str) or not hmac.compare_digest(sealed(state), given):
        raise RpcError(INVALID_PARAMS, "this `requestState` is not ours")
    return state


def needing(
    done: Callable[[Json], Json], *, state: str | None = None, **wanted: Json
) -> Callable[[Call, Json], Json]:
    def run(call: Call, arguments: Json) -> Json:
        given = call.params.get("inputResponses", {})
        if not isinstance(given, dict):
            raise RpcError(INVALID_PARAMS, "`inputResponses` is an object")
        if given.keys() >= wanted.keys():
            if not all(isinstance(given[name], dict) for name in wanted):
                raise RpcError(INVALID_PARAMS, "a response is an object")
            if state is not None and unsealed(call) != state:
                raise RpcError(INVALID_PARAMS, "this `requestState` is another one's")
            return done(given)
        asked: Json = {"resultType": "input_required", "inputRequests": wanted}
        return asked if state is None else asked | {"requestState": sealed(state)}

    return run


def thanks(given: Json) -> Json:
    return content(text("state-ok, thanks"))


def in_rounds(call: Call, arguments: Json) -> Json:
    first = needing(thanks, state="1", step1=NAME)
    second = needing(thanks, state="2", step2=COLOR)
    if "requestState" not in call.params:
        return first(call, arguments)
    if unsealed(call) == "1":
        return {
            "resultType": "input_required",
            "inputRequests": {"step2": COLOR},
            "requestState": sealed("2"),
        }
    return second(call, arguments)


def by_capability(call: Call, arguments: Json) -> Json:
    able = call.caller.capabilities
    wanted = {"sampling": CAPITAL} if "sampling" in able else {}
    wanted |= {"elicitation": NAME} if "elicitation" in able else {}
    return needing(thanks, **wanted)(call, arguments)


def needs_sampling(call: Call, arguments: Json) -> Json:
    if "sampling" not in call.caller.capabilities:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise RpcError(MISSING_CAPABILITY, "this needs the capability `sampling`", data)
    return content(text("done"))


# Resources and prompts

STATIC = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}


def resources(call: Call) -> list[Json]:
    return [
        {"uri": uri, "name": uri, "description": uri, "mimeType": one["mimeType"]}
        for uri, one in STATIC.items()
    ]


def read(call: Call, uri: str) -> list[Json] | None:
    if uri in STATIC:
        return [{"uri": uri, **STATIC[uri]}]
    head, _, rest = uri.partition("test://template/")
    id_, _, tail = rest.partition("/")
    if head or tail != "data":
        return None
    words = json.dumps({"id": id_, "templateTest": True, "data": f"Data for ID: {id_}"})
    return [{"uri": uri, "mimeType": "application/json", "text": words}]


def messages(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


def prompt(name: str, run: Callable[[Call, Json], Any], *required: str, **completes: Any) -> Prompt:
    arguments = [{"name": one, "description": one, "required": True} for one in required]
    return Prompt({"name": name, "description": name, "arguments": arguments}, run, completes)


def of_a_resource(call: Call, given: Json) -> Json:
    block = embedded(given["resourceUri"], "Embedded resource content for testing.")
    return messages(block, text("Please process the embedded resource above."))


REGISTRY = Registry(
    info=lambda: {"name": "fixture", "version": "1"},
    instructions="For the conformance suite.",
    tools=(
        tool(
            "test_simple_text",
            lambda call, given: content(text("This is a simple text response for testing.")),
        ),
        tool("test_image_content", lambda call, given: content(image())),
        tool(
            "test_audio_content",
            lambda call, given: content({"type": "audio", "data": WAV, "mimeType": "audio/wav"}),
        ),
        tool(
            "test_embedded_resource",
            lambda call, given: content(
                embedded("test://embedded-resource", "This is an embedded resource content.")
            ),
        ),
        tool(
            "test_multiple_content_types",
            lambda call, given: content(
                text("Multiple content types test:"),
                image(),
                embedded("test://mixed-content-resource", '{"test":"data"}', "application/json"),
            ),
        ),
        tool("test_error_handling", failing),
        tool("test_tool_with_progress", with_progress),
        tool("test_tool_with_logging", with_logging),
        tool("test_logging_tool", lambda call, given: content(text("nothing logged"))),
        tool("test_streaming_elicitation", needing(thanks, user_name=NAME)),
        tool("test_sampling", sampling, "prompt"),
        tool("test_elicitation", elicitation(USER), "message"),
        tool("test_elicitation_sep1034_defaults", elicitation(DEFAULTS)),
        tool("test_elicitation_sep1330_enums", elicitation(ENUMS)),
        tool("test_missing_capability", needs_sampling),
        tool("test_input_required_result_elicitation", needing(thanks, user_name=NAME)),
        tool("test_input_required_result_sampling", needing(thanks, capital_question=CAPITAL)),
        tool("test_input_required_result_list_roots", needing(thanks, client_roots=ROOTS)),
        tool(
            "test_input_required_result_request_state",
            needing(thanks, state="one", confirm=CONFIRM),
        ),
        tool(
            "test_input_required_result_multiple_inputs",
            needing(thanks, state="many", user_name=NAME, greeting=CAPITAL, client_roots=ROOTS),
        ),
        tool("test_input_required_result_multi_round", in_rounds),
        tool(
            "test_input_required_result_tampered_state",
            needing(thanks, state="two", confirm=CONFIRM),
        ),
        tool("test_input_required_result_capabilities", by_capability),
    ),
    prompts=(
        prompt(
            "test_simple_prompt",
            lambda call, given: messages(text("This is a simple prompt for testing.")),
        ),
        prompt(
            "test_prompt_with_arguments",
            lambda call, given: messages(
                text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
            ),
            "arg1",
            "arg2",
            arg1=lambda call, beginning: [one for one in ("test", "paris") if beginning in one],
        ),
        prompt("test_prompt_with_embedded_resource", of_a_resource, "resourceUri"),
        prompt(
            "test_prompt_with_image",
            lambda call, given: messages(image(), text("Please analyze the image above.")),
        ),
        prompt(
            "test_input_required_result_prompt",
            needing(lambda given: messages(text("context given")), user_context=NAME),
        ),
    ),
    templates=(
        Template(
            {
                "uriTemplate": "test://template/{id}/data",
                "name": "template",
                "mimeType": "application/json",
            }
        ),
    ),
    resources=resources,
    read=read,
    legacy_methods={
        "logging/setLevel": lambda call: {},
        "resources/subscribe": lambda call: {},
        "resources/unsubscribe": lambda call: {},
    },
    capabilities={"logging": {}, "resources": {"subscribe": True}},
    heard=heard,
)
