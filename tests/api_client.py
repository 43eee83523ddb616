"""The API as its owner calls it, through Flask's test client, and checks of its answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

NOW = 1_800_000_000_000_000
TOKEN = "the-owner's-token"
OURS = {"Host": "127.0.0.1:7437", "Authorization": f"Bearer {TOKEN}"}


class Api:
    """A client; `ok` fails if the answer is a problem, `problem` fails if it is not."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def send(self, method: str, path: str, body: object = None, **headers: str) -> TestResponse:
        """Send JSON; bytes are sent unchanged; `If_Match` stands for the header If-Match."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named = {"Content-Type": "application/json"} | named
        return self.client.open(path, method=method, data=data, headers=OURS | named)

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str) -> TestResponse:
        return self.send("POST", path, body, **headers)

    def ok(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = self.send(method, path, body, **headers)
        assert answer.status_code < 300, answer.text
        return answer.json

    def problem(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, str]:
        """Return the status and code of a refusal, after checking its shape."""
        return code(self.send(method, path, body, **headers))


def code(answer: TestResponse) -> tuple[int, str]:
    """Return an error's status and code, after checking its shape."""
    assert answer.content_type == "application/problem+json", answer.text
    assert answer.json.keys() == {"type", "title", "status", "detail", "instance", "code"}
    assert answer.json["status"] == answer.status_code
    assert answer.json["title"] and answer.json["detail"]
    return answer.status_code, answer.json["code"]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a log's write lock, as another process would."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()
