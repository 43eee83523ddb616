"""
Sessions: a browser is let in by a link that works once, and shows a signed cookie from then on.

`mnemolog dashboard` asks for a key with the owner's token; the key stands in the server's memory,
hashed, for two minutes. The cookie is signed with a key derived from the owner's token, so nothing
is kept, a restart ends no session, and a new token ends all of them. One that was logged out is
remembered as long as the server runs, so that a copy of its cookie opens nothing. A browser sends
cookies to every port of 127.0.0.1: the cookie's name tells homes apart, and nothing in it opens the
API.
"""

import base64
import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

KEY_LIVES_US = 2 * 60 * 1_000_000
MOST_KEYS = 8  # that wait to be used; one more ends the oldest
SESSION_LIVES_S = 12 * 3_600


@dataclass(frozen=True, slots=True)
class Session:
    """A browser the owner is logged in at: until when (seconds UTC), what its forms must carry."""

    csrf: str
    ends_at: int


class Keys:
    """The one-time keys that wait to be used. Threads may share it."""

    def __init__(self) -> None:
        self._ends: dict[bytes, int] = {}  # a key's hash, and when it ends in microseconds UTC
        self._lock = threading.Lock()

    def make(self, now: int) -> tuple[str, int]:
        """Return a new key and when it ends; `now` and that are microseconds UTC."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._sweep(now)
            while len(self._ends) >= MOST_KEYS:
                del self._ends[next(iter(self._ends))]
            self._ends[_hash(key)] = now + KEY_LIVES_US
        return key, now + KEY_LIVES_US

    def take(self, key: str, now: int) -> bool:
        """Return whether a key opens the dashboard; it does so once."""
        sent = _hash(key)
        with self._lock:
            self._sweep(now)
            # all are compared, so that the time it takes tells nothing
            found = [one for one in self._ends if hmac.compare_digest(one, sent)]
            for one in found:
                del self._ends[one]
        return bool(found)

    def _sweep(self, now: int) -> None:
        for one in [one for one, ends in self._ends.items() if ends <= now]:
            del self._ends[one]


@dataclass(frozen=True, slots=True)
class Signer:
    """Makes and reads the cookie of a session. `cookie` is its name. Threads may share it."""

    cookie: str
    _sign: Callable[[str], str]
    _ended: dict[str, int] = field(default_factory=dict)  # what was logged out: by its csrf

    def value(self, now: int) -> str:
        """Return the cookie of a new session; `now` is microseconds UTC."""
        said = f"{now // 1_000_000 + SESSION_LIVES_S}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._sign(f'session.{said}')}"

    def session(self, cookie: str | None, now: int) -> Session | None:
        """Return the session a cookie stands for; None where it is not ours or has ended."""
        ends, _, rest = (cookie or "").partition(".")
        nonce, _, mark = rest.partition(".")
        expected = self._sign(f"session.{ends}.{nonce}")
        if not hmac.compare_digest(mark.encode("utf-8", "replace"), expected.encode()):
            return None
        if int(ends) <= now // 1_000_000:
            return None
        csrf = self._sign(f"csrf.{ends}.{nonce}")
        return None if csrf in self._ended else Session(csrf, int(ends))

    def end(self, session: Session, now: int) -> None:
        """Let a session's cookie open nothing more; `now` is microseconds UTC."""
        for csrf, ends in list(self._ended.items()):
            if ends <= now // 1_000_000:
                self._ended.pop(csrf, None)
        self._ended[session.csrf] = session.ends_at


def signer(token: str) -> Signer:
    """Return what signs with a key that follows from the owner's token, and does not tell it."""
    key = hmac.digest(token.encode(), b"dashboard/session", hashlib.sha256)
    name = hmac.digest(token.encode(), b"dashboard/cookie", hashlib.sha256).hex()[:8]
    return Signer(f"mnemolog_{name}", partial(_signed, key))


def _signed(key: bytes, said: str) -> str:
    digest = hmac.digest(key, said.encode("utf-8", "replace"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
