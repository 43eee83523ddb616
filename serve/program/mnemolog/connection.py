"""
Connection: requests over kept connections, with timeouts, repeated if that is safe.
"""

import http.client
import os
import random
import select
import ssl
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec.json import Decoder

from mnemolog.errors import Error, NoServer, Refused, Unreachable, Unreadable, refusal

IDLE_S = 60.0  # a server closes connections that are idle for longer
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
_LINES = 1 << 16  # bytes of a stream read at a time

Json = Any  # a JSON value


class _Details(msgspec.Struct):
    code: str = ""
    title: str = ""
    detail: str = ""
    instance: str = ""


_details = msgspec.json.Decoder(_Details)


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of a 2xx, its status, and its header fields by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """A server for any number of threads: each request has a connection to itself.

    `retries` is the number of repeats of a request that is safe to send twice, if the server is
    busy or hung up; the waits between grow, and are at least as long as the server asks for.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float,
        retries: int,
        tls: ssl.SSLContext | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Error(f"{url!r} is no address of a server: http://127.0.0.1:7437")
        host, port = parts.hostname, parts.port

        def make() -> http.client.HTTPConnection:
            if parts.scheme == "http":
                return http.client.HTTPConnection(host, port, timeout=timeout_s)
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)

        self._make_connection = make
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._retries, self._sleep = retries, sleep
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []  # the latest used last
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Json] | None = None,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
        is_safe: bool = False,
    ) -> Answer:
        """Return the answer to a request; raise Unreachable or Refused.

        `is_safe` says that it may be sent twice; a GET always may.
        """
        data = None if body is None else msgspec.json.encode(body)
        tries = 1 + (self._retries if is_safe or method == "GET" else 0)
        for attempt in range(tries):
            is_last = attempt == tries - 1
            # by chance, so that many clients do not come at once
            longest_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt)
            wait_s = random.uniform(longest_s / 2, longest_s)
            try:
                with self._send(method, path, query, data, headers) as response:
                    fields = {name.lower(): value for name, value in response.getheaders()}
                    return Answer(response.status, fields, response.read())
            except Unreachable:
                if is_last:
                    raise
            except Refused as refused:
                if is_last or refused.status not in (429, 503):
                    raise
                wait_s = max(wait_s, refused.retry_after_s or 0.0)
            self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def lines(self, path: str, query: Mapping[str, Json] | None = None) -> Iterator[bytes]:
        """Yield the lines of a streamed answer as they come; raise as `ask` does."""
        with self._send("GET", path, query, None, None) as response:
            rest = b""
            while part := response.read(_LINES):
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
            if rest:
                yield rest

    def close(self) -> None:
        """Close the idle connections; the next request opens a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    @contextmanager
    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Json] | None,
        data: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield the response of a 2xx; the connection is kept if all of it was read."""
        connection, response = self._take_connection(), None
        fields = self._headers | ({"Content-Type": "application/json"} if data is not None else {})
        try:
            connection.request(method, self._url(path, query), data, fields | dict(headers or {}))
            response = connection.getresponse()
            if response.status >= 300:
                raise _refusal(response)
            yield response
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"the server did not answer {method} {path}: {error!r}") from error
        finally:
            if response is None or not response.isclosed():
                connection.close()  # the rest of an answer would be taken for the next one's
            with self._lock:
                self._idle.append((connection, time.monotonic()))

    def _url(self, path: str, query: Mapping[str, Json] | None) -> str:
        text = urlencode(
            [pair for name, value in (query or {}).items() for pair in _query_pairs(name, value)]
        )
        return self._prefix + path + (f"?{text}" if text else "")

    def _take_connection(self) -> http.client.HTTPConnection:
        """Return an idle connection, or a new one."""
        with self._lock:
            connection, used_at = self._idle.pop() if self._idle else (None, 0.0)
        if connection is None:
            return self._make_connection()
        if time.monotonic() - used_at > IDLE_S or _is_dropped(connection):
            connection.close()  # the next request opens it again
        return connection


def part(value: str) -> str:
    """Return a value as a part of a path."""
    return quote(value, safe="")


def _is_dropped(connection: http.client.HTTPConnection) -> bool:
    """Return True if the server closed an idle connection: then its end can be read."""
    try:
        return bool(connection.sock and select.select([connection.sock], (), (), 0)[0])
    except ValueError:  # more open files than it can look at
        return True


def _query_pairs(name: str, value: Json) -> list[tuple[str, str]]:
    """Return a query parameter's pairs to send: none, one, or one for each item of a list."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, datetime):
        return [(name, value.isoformat())]
    if isinstance(value, (list, tuple)):
        return [(name, str(item)) for item in value]
    return [(name, str(value))]


def _refusal(response: http.client.HTTPResponse) -> Refused:
    """Return the error for a response."""
    data = response.read()
    try:
        details = _details.decode(data)
    except (UnicodeDecodeError, msgspec.MsgspecError):  # of a proxy, or of another server
        details = _Details(title=response.reason)
    retry_after_s: float | None = None
    with suppress(ValueError):  # none, or a date
        retry_after_s = max(0.0, float(response.headers.get("Retry-After", "")))
    return refusal(response.status)(
        details.code,
        response.status,
        details.title,
        details.detail,
        details.instance,
        retry_after_s,
    )


# TenantConnection: a server, and the tenant of every request.
#
# Decoders are made at import, one per shape: msgspec 0.22 crashes if two threads meet a type for
# the first time.

Shape = TypeVar("Shape")


class Paged(Protocol):
    """A page of a list, and the cursor of the one after it."""

    @property
    def next(self) -> str | None: ...


Page = TypeVar("Page", bound=Paged)


@dataclass(frozen=True, slots=True)
class TenantConnection:
    """A connection for one tenant, None for the server's default; a token's own tenant wins."""

    connection: Connection
    tenant: str | None = None

    def get(self, shape: Decoder[Shape], path: str, **query: Any) -> Shape:
        """Return the answer to a GET."""
        return decode_answer(shape, self.connection.ask("GET", path, query=self._of(query)).body)

    def pages(self, shape: Decoder[Page], path: str, query: Mapping[str, Any]) -> Iterator[Page]:
        """Yield the pages of a list, each requested when it is reached."""
        cursor: str | None = None
        while True:
            page = self.get(shape, path, **query, cursor=cursor)
            yield page
            if (cursor := page.next) is None:
                return

    def lines(self, path: str, query: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the lines of a streamed answer."""
        return self.connection.lines(path, self._of(query))

    def post(
        self,
        shape: Decoder[Shape],
        path: str,
        body: Mapping[str, Any],
        *,
        key: str | None = None,
        is_keyed: bool = False,
        is_safe: bool = False,
    ) -> Shape:
        """Return the answer to a POST.

        `is_safe` says that it changes nothing when it comes twice. With `is_keyed` an idempotency
        key makes it so: the given key, or a random one.
        """
        headers = {"Idempotency-Key": f'"{key or uuid.uuid4()}"'} if is_keyed else {}
        answer = self.connection.ask(
            "POST", path, body=self._of(body), headers=headers, is_safe=is_safe or is_keyed
        )
        return decode_answer(shape, answer.body)

    def delete(self, shape: Decoder[Shape], path: str, *, is_safe: bool = True) -> Shape:
        """Return the answer to a DELETE."""
        return decode_answer(shape, self.connection.ask("DELETE", path, is_safe=is_safe).body)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        etag: str | None = None,
        is_safe: bool = False,
    ) -> Answer:
        """Return the answer to a request, which may depend on a state read before: its `etag`."""
        return self.connection.ask(
            method,
            path,
            query=None if query is None else self._of(query),
            body=None if body is None else self._of(body),
            headers={"If-Match": etag} if etag else {},
            is_safe=is_safe,
        )

    def _of(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        payload = {name: value for name, value in fields.items() if value is not None}
        return payload | ({"tenant": self.tenant} if self.tenant else {})


def decode_answer(shape: Decoder[Shape], data: bytes) -> Shape:
    """Return a decoded answer; raise Unreadable."""
    try:
        return shape.decode(data)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise Unreadable(f"this is no answer of a memory's server: {error}") from error


# The address of this machine's server, and its owner's token.
#
# Both are in files of the home that only their owner can read. A server is used only if its process
# lives: another program may have the port of a killed server, and must not be sent the token.


class _Server(msgspec.Struct):
    pid: int
    port: int


# made once: msgspec 0.22 crashes if two threads meet a type for the first time
_decoder = msgspec.json.Decoder(_Server)


def find_server(home: Path | None = None) -> tuple[str, str]:
    """Return the address of a home's server and the owner's token; raise NoServer."""
    folder = home or default_home(os.environ)
    try:
        server = _decoder.decode((folder / "server.json").read_bytes())
        token = (folder / "token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        raise NoServer(f"no server of {folder} runs: start one with `mnemolog start`") from None
    if not _lives(server.pid):
        raise NoServer(f"the server of {folder} has ended: start one with `mnemolog start`")
    return f"http://127.0.0.1:{server.port}", token


def default_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's memories, as `mnemolog` itself finds it."""
    if named := environ.get("MNEMOLOG_HOME"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA", ""), "mnemolog")
    data = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(data, "mnemolog").expanduser()


def _lives(pid: int) -> bool:
    if os.name != "posix":  # to ask would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
