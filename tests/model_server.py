"""
An OpenAI-compatible /v1/chat/completions on loopback, started by tests: a model whose answers are a
function of the request, healthy or faulty.
"""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request: its headers, body, and the texts of its messages."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def instructions(self) -> str:
        return self.body["messages"][0]["content"]

    @property
    def data(self) -> str:
        """The text between the data markers."""
        return self.body["messages"][1]["content"].split("\n", 1)[1].rpartition("\nEND OF DATA ")[0]

    @property
    def schema(self) -> dict[str, Any]:
        """The requested response schema; empty if none was sent."""
        return self.body.get("response_format", {}).get("json_schema", {}).get("schema", {})

    @property
    def schema_name(self) -> str:
        """The name of the requested struct."""
        return self.body.get("response_format", {}).get("json_schema", {}).get("name", "")


# a value to encode as JSON, a text sent unchanged, or bytes that are the whole HTTP body
Answers = Callable[[Asked], object]


class ModelServer:
    """A model server. `answers` computes its answer to a request; `mode` sets its behaviour.

    well, slow (half a second), broken (no JSON), wrong (another schema), fenced (in a code fence),
    429, 500, 401, 400, 404, hang (until `released`), cut (in the middle of an answer), uncounted
    (reports no tokens), schemaless (refuses schemas). `modes` are those of the next requests;
    after them, `mode` applies.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.mode = "well"
        self.modes: list[str] = []
        self.retry_after = "0"
        self.usage = (100, 20)  # input and output tokens, as it counts them
        self.asked: list[Asked] = []
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = _Listening(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> "ModelServer":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The value of `llm.api_base`."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def settings(self, **more: object) -> str:
        """Return a `[llm]` table for config.toml that uses this server, as a model with a price."""
        values = {"cheap": "openai/gpt-5-mini", "api_base": self.url, "timeout_s": 5.0} | more
        return "[llm]\n" + "".join(f"{key} = {json.dumps(one)}\n" for key, one in values.items())

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, asked: Asked) -> str:
        """Keep a request; return the mode in which to answer it."""
        with self._lock:
            self.asked.append(asked)
            return self.modes.pop(0) if self.modes else self.mode


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that no longer wait."""


def _handler(of: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(dict(self.headers), body)
            mode = of.take(asked)
            if mode == "slow":
                of.released.wait(0.5)
            elif mode == "hang":
                of.released.wait(60)
            if mode == "schemaless":
                mode = "400" if asked.schema else "well"
            if mode in ("429", "500", "401", "400", "404"):
                # as some providers do, it quotes the key
                error = {"message": f"no: {self.headers['Authorization']}", "type": "refused"}
                more = {"Retry-After": of.retry_after} if mode == "429" else {}
                self.send(int(mode), {"error": error}, more)
            else:
                value = of.answers(asked)
                body = value if isinstance(value, bytes) else self.completion(asked, mode, value)
                self.send(200, body, {}, is_cut=mode == "cut")

        def completion(self, asked: Asked, mode: str, value: object) -> dict[str, Any]:
            text = value if isinstance(value, str) else json.dumps(value)
            words = {
                "broken": '{"this is": ',
                "wrong": '{"something": "else"}',
                "fenced": f"Here you are:\n```json\n{text}\n```\n",
            }.get(mode, text)
            prompt, answer = of.usage
            usage = {
                "prompt_tokens": prompt,
                "completion_tokens": answer,
                "total_tokens": prompt + answer,
            }
            message = {"role": "assistant", "content": words}
            return {
                "id": "chat",
                "object": "chat.completion",
                "created": 1,
                "model": asked.body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            } | ({} if mode == "uncounted" else {"usage": usage})

        def send(
            self, status: int, value: object, more: dict[str, str], *, is_cut: bool = False
        ) -> None:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, one in more.items():
                self.send_header(name, one)
            self.end_headers()
            if is_cut:
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            else:
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
