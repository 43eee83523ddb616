"""
Connections: who is connected, and who has to go so that others find room.

A stranger is a connection on which nothing passed the gate yet. Strangers share a part of all
connections: where they are more, the one that has waited longest without a request goes. The rest
is kept for those who showed a token or a login. A stranger that sends no request is hung up on.
"""

from collections.abc import Callable
from typing import Any

CONNECTIONS = 512  # at once
STRANGERS = 256  # of these; the others are for who passed the gate
FIRST_S = 5.0  # for the first request of a connection to begin
REQUEST_S = 20.0  # for a request to come whole: who dribbles it keeps a connection no longer


class Connections:
    """The open connections, `channels` as waitress has them, in the order of their opening.

    One thread looks at them. Of a channel, `request` is what is coming, `requests` are those that
    are to be answered.
    """

    def __init__(self, channels: dict[Any, Any], clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._channels, self._clock = channels, clock
        self._known: set[Any] = set()
        self._since: dict[Any, float] = {}  # of what is being waited for

    def know(self, channel: Any) -> None:
        """Remember that something on a connection passed the gate. Any thread may say so."""
        self._known.add(channel)

    def make_room(self) -> None:
        """Hang up on the strangers that are too many, who are not being answered, oldest first."""
        if len(self._channels) <= STRANGERS:
            return
        strangers = [one for one in list(self._channels.values()) if one not in self._known]
        idle = [one for one in strangers if not one.requests]
        for one in idle[: max(0, len(strangers) - STRANGERS)]:
            one.handle_close()

    def look(self) -> None:
        """Hang up on who takes too long to send a request, or to begin with the first."""
        now, still = self._clock(), {}
        for one in list(self._channels.values()):
            awaited = one.request
            if awaited is None and one not in self._known and not one.requests:
                awaited = one
            if awaited is not None:
                since = still[awaited] = self._since.get(awaited, now)
                patience_s = FIRST_S if awaited is one else REQUEST_S
                one.will_close = one.will_close or now - since >= patience_s
        self._since = still
        self._known.intersection_update(self._channels.values())
