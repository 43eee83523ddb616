"""
The connections of Dagster's pages, bounded as the recall server's are.

uvicorn waits for a request for ever and counts strangers among all: whoever opens enough
connections keeps the owner out. So each connection of its HTTP protocol is looked at as one of
`store.access.connections`. One that became a WebSocket passed the guard and is looked at no more.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from store.access.connections import CONNECTIONS, Connections

_LOOK_EVERY = 10  # of uvicorn's ticks: a second


class Channels:
    """The open connections by their peer's address, in the order of their opening."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go back."""
        self._open: dict[Any, Channel] = {}
        self._connections = Connections(self._open, clock)
        self.look = self._connections.look

    def add(self, channel: "Channel") -> None:
        self._open[channel.client] = channel
        self._connections.make_room()

    def drop(self, channel: "Channel") -> None:
        if self._open.get(channel.client) is channel:
            del self._open[channel.client]

    def know(self, client: object) -> None:
        """Remember that something from a peer's address passed the guard."""
        if (channel := self._open.get(client)) is not None:
            self._connections.know(channel)


class Channel(H11Protocol):
    """A connection that says of itself what `Connections` asks: what comes, what is answered."""

    channels: Channels  # a server's, set by `server`
    _coming: object | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.channels.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.channels.drop(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.channels.drop(self)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._coming = None
        super().on_response_complete()

    @property
    def request(self) -> object | None:
        """The request that is coming and not whole, the same object as long as it is."""
        state = self.conn.their_state
        is_begun = state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not is_begun and state is not h11.SEND_BODY:
            self._coming = None
        elif self._coming is None:
            self._coming = object()
        return self._coming

    @property
    def requests(self) -> bool:
        """Whether one is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def will_close(self) -> bool:
        return self.transport.is_closing()

    @will_close.setter
    def will_close(self, wanted: bool) -> None:
        if wanted:
            self.handle_close()

    def handle_close(self) -> None:
        """Hang up, whatever is left to send."""
        self.transport.abort()


class Server(uvicorn.Server):
    """A server that looks at its connections every second."""

    def __init__(self, config: uvicorn.Config, channels: Channels) -> None:
        super().__init__(config)
        self._channels = channels

    async def on_tick(self, counter: int) -> bool:
        if counter % _LOOK_EVERY == 0:
            self._channels.look()
        return await super().on_tick(counter)


def server(app: Any, channels: Channels, *, finish_s: int) -> Server:
    """Return a server of `app`; when told to end it waits `finish_s` for what is being answered."""
    config = uvicorn.Config(
        app,
        http=type("Channel", (Channel,), {"channels": channels}),
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=finish_s,
    )
    return Server(config, channels)
