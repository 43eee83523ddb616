"""
A model API on loopback that answers from a test's script: Anthropic's Messages, OpenAI's Responses
and Gemini's generateContent.

It answers as a stream, as the agents expect, and keeps every request. A script is a list of tools
to use, in order, and the words that end the turn; its position follows from the tool results in the
request, so that any number of sessions may run at once.
https://docs.anthropic.com/en/api/messages-streaming,
https://platform.openai.com/docs/api-reference/responses-streaming,
https://ai.google.dev/api/generate-content.
"""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = dict[str, Any]


@dataclass(frozen=True)
class Script:
    """The model's answer to every prompt: `tools` are names and arguments.

    `tokens` is the reported size of a request that is answered with the last words.
    """

    tools: tuple[tuple[str, JSON], ...] = ()
    text: str = "FINAL-ANSWER"
    tokens: int = 10


@dataclass
class Models:
    """The running API; `requests` are the bodies of a turn's requests, oldest first."""

    script: Script = field(default_factory=Script)
    requests: list[JSON] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # all other requests
    bare: list[JSON] = field(default_factory=list)  # bodies that offer no tools
    says: str = "a title"  # the answer to those
    tokens: JSON = field(default_factory=dict)  # of a login that is renewed
    ending: str = "end_turn"  # the stop reason of the end, in Anthropic's terms
    meanwhile: Callable[[], object] = lambda: None  # called while the model thinks

    def __enter__(self) -> "Models":
        models = self

        class Handler(_Handler):
            told = models

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_address[1]


def parts(body: JSON) -> list[tuple[str, str]]:
    """Return the role and text of every piece of a request, in order; the system prompt first."""
    system = body.get("system") or body.get("instructions") or body.get("systemInstruction")
    items = [("system", text) for text in _texts(system)]
    for item in _items(body):
        content = item.get("content", item.get("output", item.get("parts")))
        items += [(item.get("role") or item["type"], text) for text in _texts(content)]
    return items


def _items(body: JSON) -> list[JSON]:
    """Return the conversation so far, oldest first."""
    return body.get("messages") or body.get("input") or body.get("contents") or []


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):  # of Gemini: an instruction, or a tool's result
        yield from _texts(content.get("parts") or content.get("output"))
    for block in content if isinstance(content, list) else ():
        if isinstance(block.get("text"), str):
            yield block["text"]
        elif "functionResponse" in block:
            yield from _texts(block["functionResponse"]["response"])
        else:
            yield from _texts(block.get("content"))


class _Handler(BaseHTTPRequestHandler):
    told: Models

    def do_HEAD(self) -> None:
        self._answer({})

    def do_GET(self) -> None:
        self.told.others.append(f"GET {self.path}")
        if self.headers.get("Upgrade"):  # Codex prefers a WebSocket
            self.protocol_version = "HTTP/1.1"
            self.send_error(426)
            return
        self._answer({"data": [], "models": [], "object": "list"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        if path.endswith("/messages"):
            self._stream(list(_messages(body, self._next(body), self.told.ending)))
        elif path.endswith("/responses"):
            self._stream(list(_responses(body, self._next(body), self.told.script.tokens)))
        elif path.endswith(":streamGenerateContent"):
            self._stream([_content(self._next(body))])
        elif path.endswith(":generateContent"):
            self._answer(_content(self._next(body)))
        else:
            self.told.others.append(f"POST {self.path}")
            self._answer({"input_tokens": 10, **self.told.tokens})

    def _next(self, body: JSON) -> tuple[str, JSON] | str:
        """Return the next tool to use, or the words that end the turn."""
        if not body.get("tools"):
            self.told.bare.append(body)
            self.told.meanwhile()
            return self.told.says
        self.told.requests.append(body)
        self.told.meanwhile()
        script = self.told.script
        results = sum(map(_results, _turn(_items(body))))
        return script.tools[results] if results < len(script.tools) else script.text

    def _stream(self, events: list[JSON]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())

    def _answer(self, body: JSON) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass


def _turn(items: list[JSON]) -> list[JSON]:
    """Return the items after the last prompt, found by the results of tools."""
    for place in range(len(items) - 1, -1, -1):
        is_call = any(
            piece.get("type") == "tool_use" or "functionCall" in piece
            for piece in _pieces(items[place])
        )
        if items[place].get("role") in ("assistant", "model") and not is_call:
            return items[place:]
    return items


def _pieces(item: JSON) -> list[JSON]:
    content = item.get("content", item.get("parts"))
    return content if isinstance(content, list) else []


def _results(item: JSON) -> int:
    """Return the number of tool results in an item."""
    if item.get("type", "").endswith("_call_output"):
        return 1
    pieces = _pieces(item)
    return sum(
        piece.get("type") == "tool_result" or "functionResponse" in piece for piece in pieces
    )


def _messages(body: JSON, step: tuple[str, JSON] | str, ending: str) -> Iterator[JSON]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    # a resumed session merges messages with the same id
    id_ = f"msg_{len(json.dumps(body))}"
    start = {"id": id_, "type": "message", "role": "assistant", "content": []}
    start |= {"model": body.get("model", "mock"), "usage": usage}
    yield {"type": "message_start", "message": start | {"stop_reason": None}}
    if isinstance(step, str):
        block: JSON = {"type": "text", "text": ""}
        delta: JSON = {"type": "text_delta", "text": step}
    else:
        name = f"toolu_{len(json.dumps(body))}"
        block = {"type": "tool_use", "id": name, "name": step[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = ending if isinstance(step, str) else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    yield {"type": "message_stop"}


def _responses(body: JSON, step: tuple[str, JSON] | str, tokens: int) -> Iterator[JSON]:
    answer = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": answer}
    if isinstance(step, str):
        text = {"type": "output_text", "text": step, "annotations": []}
        item: JSON = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    else:
        name = f"call_{len(json.dumps(body))}"
        item = {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": step[0]}
        item["arguments"] = json.dumps(step[1])
        if step[0].startswith("mcp__"):  # a server's tools have a namespace of their own
            item["namespace"], _, item["name"] = step[0].rpartition("__")
        if set(step[1]) == {"input"}:  # a tool that takes plain text
            item = {"type": "custom_tool_call", "id": f"ctc_{name}", "call_id": name}
            item |= {"name": step[0], "input": step[1]["input"], "status": "completed"}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    count = tokens if isinstance(step, str) else 10
    usage = {"input_tokens": count, "output_tokens": 5, "total_tokens": count + 5}
    details = {"input_tokens_details": {"cached_tokens": 0}}
    details |= {"output_tokens_details": {"reasoning_tokens": 0}}
    event = answer | {"status": "completed", "output": [item], "usage": usage | details}
    yield {"type": "response.completed", "response": event}


def _content(step: tuple[str, JSON] | str) -> JSON:
    piece: JSON = {"text": step}
    if not isinstance(step, str):
        piece = {"functionCall": {"name": step[0], "args": step[1]}}
    candidate = {"content": {"role": "model", "parts": [piece]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage}
