"""A Qdrant server on loopback with the routes that mnemolog uses: the client's own local mode
behind
HTTP, stopped, started and slowed down at will.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client.models import CreateCollection, PointsList, QueryRequest, ScrollRequest


class QdrantServer:
    """A Qdrant server; while `is_mute`, it takes requests and answers none, until `released`."""

    def __init__(self) -> None:
        self.held = QdrantClient(":memory:")
        self.lock = threading.Lock()
        self.is_mute, self.released = False, threading.Event()
        self.queries = 0
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def collections(self) -> list[str]:
        return [collection.name for collection in self.held.get_collections().collections]

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = _Listening(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """Return the result of a request; raise ValueError for an unknown route or collection."""
        held, (name, rest) = self.held, _parts(path)
        match method, rest:
            case "GET", "" if not name:
                return held.get_collections()
            case "PUT", "":
                return held.create_collection(name, CreateCollection(**body).vectors)
            case "DELETE", "":
                return held.delete_collection(name)
            case "PUT", "points":
                return held.upsert(name, PointsList(**body).points)
            case "POST", "points/delete":
                return held.delete(name, body["points"])
            case "POST", "points/scroll":
                asked = ScrollRequest(**body)
                points, offset = held.scroll(name, limit=asked.limit or 10, offset=asked.offset)
                return {
                    "points": [point.model_dump() for point in points],
                    "next_page_offset": offset,
                }
            case "POST", "points/query":
                self.queries += 1
                wanted = QueryRequest(**body)
                return held.query_points(
                    name, query=wanted.query.nearest, limit=wanted.limit or 10, with_payload=False
                )
        raise ValueError(f"no route {method} {path}")


def _parts(path: str) -> tuple[str, str]:
    match = re.fullmatch(r"/collections(?:/([^/?]+))?/?([^?]*)(?:\?.*)?", path)
    return (match[1] or "", match[2]) if match else ("", path)


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that no longer wait."""


def _handler(of: QdrantServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            if of.is_mute:
                of.released.wait(30)
                return
            try:
                with of.lock:
                    result = of.answer(self.command, self.path, body)
            except ValueError as error:
                return self.send(404, {"status": {"error": str(error)}, "time": 0.0})
            if hasattr(result, "model_dump"):
                result = result.model_dump()
            self.send(200, {"result": result, "status": "ok", "time": 0.0})

        do_GET = do_PUT = do_POST = do_DELETE = handle_any

        def send(self, code: int, body: dict[str, Any]) -> None:
            data = json.dumps(body, default=str).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
