"""An OpenAI-compatible /v1/embeddings on loopback: slow, broken, killed and restarted at will."""

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from store.embedders.lexical import LexicalEmbedder

DIMENSION = 32


def vectors(texts: Sequence[str], width: int = DIMENSION) -> np.ndarray:
    """Return the server's vectors: not of length 1, like those of some real servers."""
    return 3 * LexicalEmbedder().embed(texts)[:, :width]


class EmbeddingServer:
    """An embedding server; `answer` sets how it answers: normally or with a fault."""

    def __init__(self) -> None:
        self.answer = "well"
        self.asked: list[list[str]] = []
        self.most_characters = 1_000_000
        self.width = DIMENSION
        self.slow_after: int | None = None  # requests answered before the rest wait
        self.released = threading.Event()  # ends the wait of a slow answer
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = _Listening(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.released.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that no longer wait."""


def _handler(of: EmbeddingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            of.asked.append(body["input"])
            is_slow = of.slow_after is not None and len(of.asked) > of.slow_after
            if of.answer == "slowly" or is_slow:
                of.released.wait(30)
            if of.answer == "error":
                self.send(500, {"error": {"message": "out of memory", "type": "server_error"}})
            elif of.answer == "refusal":
                key = self.headers["Authorization"]
                self.send(401, {"error": {"message": f"Incorrect API key provided: {key}"}})
            elif of.answer == "nonsense":
                self.send(200, {"hello": "world"})
            elif any(len(text) > of.most_characters for text in body["input"]):
                self.send(400, {"error": {"message": "input is too long", "code": "too_long"}})
            else:
                data = [
                    {"object": "embedding", "index": number, "embedding": vector.tolist()}
                    for number, vector in enumerate(vectors(body["input"], of.width))
                ]
                usage = {"prompt_tokens": 1, "total_tokens": 1}
                self.send(
                    200,
                    {"object": "list", "model": body["model"], "usage": usage, "data": data[::-1]},
                )

        def send(self, status: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
