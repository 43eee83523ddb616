"""
Host: one agent host's dialect, as two functions. Everything a host does its own way lies in them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from serve.hooks.event import HookEvent, Reply

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Host:
    """`read` gives None for an event we do not use.

    `read` raises InvalidInput for a payload that is not the host's. `write` is only asked for
    replies that say something, at events where the host hears us, and gives nothing that the
    host's schema does not know; an empty answer where it shows its user no notice.
    """

    name: str
    read: Callable[[Payload], HookEvent | None]
    write: Callable[[HookEvent, Reply], dict[str, Any]]
