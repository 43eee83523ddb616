"""
Asking: a server, and the tenant every request is about.

Decoders are made at import, one a shape: msgspec 0.22 crashes where two threads meet a type for the
first time.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.json import Decoder

from mnemolog.connection import Answer, Connection
from mnemolog.errors import Unreadable

Shape = TypeVar("Shape")


class Paged(Protocol):
    """A page of a list, and the cursor of the one after it."""

    @property
    def next(self) -> str | None: ...


Page = TypeVar("Page", bound=Paged)


@dataclass(frozen=True, slots=True)
class Asking:
    """Without a tenant the server's default one is meant; a token's own beats what is named."""

    connection: Connection
    tenant: str | None = None

    def get(self, shape: Decoder[Shape], path: str, **query: Any) -> Shape:
        """Return what a GET is answered with."""
        return decoded(shape, self.connection.ask("GET", path, query=self._of(query)).body)

    def pages(self, shape: Decoder[Page], path: str, query: Mapping[str, Any]) -> Iterator[Page]:
        """Yield the pages of a list, each asked for when it is come to."""
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
        """Return what a POST is answered with.

        `is_safe` says that it changes nothing when it comes twice. With `is_keyed` an idempotency
        key makes it so: the one given, or one that is drawn.
        """
        headers = {"Idempotency-Key": f'"{key or uuid.uuid4()}"'} if is_keyed else {}
        answer = self.connection.ask(
            "POST", path, body=self._of(body), headers=headers, is_safe=is_safe or is_keyed
        )
        return decoded(shape, answer.body)

    def delete(self, shape: Decoder[Shape], path: str, *, is_safe: bool = True) -> Shape:
        """Return what a DELETE is answered with."""
        return decoded(shape, self.connection.ask("DELETE", path, is_safe=is_safe).body)

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
        """Return the answer to a request that may depend on what was read: its `etag`."""
        return self.connection.ask(
            method,
            path,
            query=None if query is None else self._of(query),
            body=None if body is None else self._of(body),
            headers={"If-Match": etag} if etag else {},
            is_safe=is_safe,
        )

    def _of(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        said = {name: one for name, one in fields.items() if one is not None}
        return said | ({"tenant": self.tenant} if self.tenant else {})


def decoded(shape: Decoder[Shape], data: bytes) -> Shape:
    """Return what was sent, as a shape; raise Unreadable."""
    try:
        return shape.decode(data)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise Unreadable(f"this is no answer of a memory's server: {error}") from error
