"""
Flashes: what a page says after a form was sent, across the redirect, and how it can be undone.

They stand in the server's memory and the address only names one, so no link can make a page say
anything. A page shown again within the time says it again; a restart forgets them.
"""

import secrets
import threading
from dataclasses import dataclass
from typing import Literal

LIVES_US = 10 * 60 * 1_000_000
MOST = 256
Tone = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Undo:
    """The form that takes an action back: where it is sent, and its fields."""

    action: str
    fields: tuple[tuple[str, str], ...]
    label: str = "Undo"


@dataclass(frozen=True, slots=True)
class Flash:
    text: str
    tone: Tone = "ok"
    undo: Undo | None = None


class Flashes:
    """What waits to be shown. Threads may share it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Flash]] = {}
        self._lock = threading.Lock()

    def keep(self, flash: Flash, now: int) -> str:
        """Return the name under which a page finds the flash."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            while len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[name] = (now + LIVES_US, flash)
        return name

    def get(self, name: str | None, now: int) -> Flash | None:
        ends, flash = self._kept.get(name or "", (0, None))
        return flash if ends > now else None
