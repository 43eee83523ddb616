"""Client: asks a server on loopback over one kept connection, as JSON, with its token."""

import http.client
import json
import sys
import time
from typing import Any

_IDLE_S = 2.0  # a server may close a connection idle for 5 s, as uvicorn does


class Client:
    """One connection, for use by one thread."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(1_000):
            try:
                self._connection.connect()
                self._used = time.monotonic()
                return
            except ConnectionRefusedError:  # a server prints its address a little early
                time.sleep(0.01)
        sys.exit("the server does not listen where it says it does")

    def asked(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """Return the status of the answer and its body."""
        content = None if body is None else json.dumps(body)
        if time.monotonic() - self._used > _IDLE_S:
            self._connection.close()  # the request opens it again
        self._connection.request(method, path, content, self.headers)
        response = self._connection.getresponse()
        self.answered, data = response.headers, response.read()
        self._used = time.monotonic()
        return response.status, data

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; exit if it is an error."""
        status, reply = self.asked("POST", path, body)
        if status >= 400:
            sys.exit(f"POST {path} gave {status}: {reply[:400]!r}")
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def close(self) -> None:
        self._connection.close()
