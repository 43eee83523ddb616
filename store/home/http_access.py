"""
HTTP access: access control of our servers, the recall server and that of Dagster's pages.

The Host header is checked against DNS rebinding, where a foreign page reaches us under its own
name; Origin and Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata/) against pages of other sites
and ports. The owner's token opens everything. A browser is let in by a link that works once and
then by a signed cookie. Connections without an accepted request share a part of all, so that idle
clients keep nobody out.
"""

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from store.home import files
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.files import FileStamp, file_lock, file_stamp, replace_file

_OURS = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)


def is_own_host(host: str) -> bool:
    """Return True if a Host header names this machine's loopback, with a port or without."""
    return _OURS.fullmatch(host) is not None


def is_own_origin(host: str, origin: str | None, fetch_site: str | None) -> bool:
    """Return True if a request sent to `host` did not come from another site's page.

    `origin` and `fetch_site` are the headers Origin and Sec-Fetch-Site, None if missing: a program
    sends neither.
    """
    is_same_site = fetch_site in (None, "none", "same-origin")
    return is_same_site and origin in (None, f"http://{host}")


# The owner's token: the secret in the home that opens everything and signs sessions.


def owner_token(settings: Settings) -> str:
    """Return the owner's token, made on first use, readable by the owner alone."""
    path = settings.token_file
    if not path.exists():
        replace_file(path, secrets.token_urlsafe(32).encode())
    elif os.name == "posix" and path.stat().st_mode & 0o077:
        raise ConfigError(f"{path} can be read by others: run `chmod 600 {path}`")
    token = path.read_text(errors="replace").strip()
    if not token or not token.isprintable() or "\ufffd" in token:  # else everybody gets in
        raise ConfigError(
            f"{path} is empty or damaged: delete it, and the next start makes a new one"
        )
    return token


def is_owner(sent: str, token: str) -> bool:
    """Return True if `sent` is the owner's token, compared in constant time."""
    return hmac.compare_digest(sent.encode("utf-8", "replace"), token.encode())


# Sessions: a browser is let in by a link that works once, and then by a signed cookie.
#
# `mnemolog dashboard` requests a key with the owner's token; the server keeps the key in memory,
# hashed, for two minutes. The cookie is signed with a key derived from the owner's token, so that a
# restart ends no session and a new token ends all of them. A logged-out session is kept in
# `<home>/sessions.json` until its cookie would have expired: a copy of the cookie opens nothing,
# after a restart too, nor on the home's other port. A browser sends cookies to every port of
# 127.0.0.1: the cookie's name tells homes apart, and nothing in it opens the API.

log = logging.getLogger("mnemolog")

KEY_LIVES_US = 2 * 60 * 1_000_000
MOST_KEYS = 8  # unused ones; one more ends the oldest
SESSION_LIVES_S = 12 * 3_600


class Session(msgspec.Struct, frozen=True):
    """A browser logged in as the owner: its expiry (seconds UTC), and the token for its forms."""

    nonce: str
    csrf: str
    ends_at: int


class Keys:
    """The unused one-time keys. Threads may share it."""

    def __init__(self) -> None:
        self._ends: dict[bytes, int] = {}  # a key's hash, and its expiry in microseconds UTC
        self._lock = threading.Lock()

    def make(self, now: int) -> tuple[str, int]:
        """Return a new key and its expiry; both times are microseconds UTC."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._sweep(now)
            while len(self._ends) >= MOST_KEYS:
                del self._ends[next(iter(self._ends))]
            self._ends[_hash(key)] = now + KEY_LIVES_US
        return key, now + KEY_LIVES_US

    def take(self, key: str, now: int) -> bool:
        """Return True if a key opens the dashboard; it does so once."""
        sent = _hash(key)
        with self._lock:
            self._sweep(now)
            # all are compared, for constant time
            matches = [end for end in self._ends if hmac.compare_digest(end, sent)]
            for data in matches:
                del self._ends[data]
        return bool(matches)

    def _sweep(self, now: int) -> None:
        for data in [data for data, ends in self._ends.items() if ends <= now]:
            del self._ends[data]


class _Ended(msgspec.Struct, frozen=True):
    """`sessions.json`: the logged-out sessions, by nonce with the second their cookie expires at.

    Sessions that began before `since` (seconds UTC) are ended, too.
    """

    ended: dict[str, int] = {}
    since: int = 0


# made once, before any threads start: msgspec 0.22 crashes if two use a new type at once
_decoder = msgspec.json.Decoder(_Ended)
_NEVER: FileStamp = (-1,)


class EndedSessions:
    """The logged-out sessions, in a file that every server of the home reads.

    It is read again when it has changed. A damaged file ends every session, as the logged-out ones
    are unknown; the next login writes a sound one. Threads may share it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[FileStamp | None, _Ended | None] = (_NEVER, None)

    def has(self, session: Session) -> bool:
        """Return True if a session was logged out."""
        record = self._known()
        began = session.ends_at - SESSION_LIVES_S
        return record is None or session.nonce in record.ended or began < record.since

    def add(self, session: Session, now_s: int) -> None:
        """Record that a session was logged out; raise LogError for disk errors.

        Sessions that expired before `now_s`, seconds UTC, are dropped.
        """
        with file_lock(self._path):
            before = self._known() or _Ended(since=now_s)
            ended = {nonce: ends for nonce, ends in before.ended.items() if ends > now_s}
            self._write(_Ended(ended | {session.nonce: session.ends_at}, before.since))

    def mend(self, now_s: int) -> None:
        """Replace a damaged file by one that ends all sessions from before `now_s`, seconds UTC."""
        if self._known() is None:
            with file_lock(self._path):
                if self._known() is None:
                    self._write(_Ended(since=now_s))

    def _known(self) -> _Ended | None:
        """Return the file's current contents; no ended sessions if there is no file, None if
        damaged.
        """
        stamp = file_stamp(self._path)  # before reading: a change meanwhile is seen next time
        if stamp != self._read[0]:
            self._read = (stamp, self._now())
        return self._read[1]

    def _now(self) -> _Ended | None:
        try:
            return _decoder.decode(self._path.read_bytes())
        except FileNotFoundError:
            return _Ended()
        except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
            log.error("every session is ended, as %s cannot be read: %s", self._path, error)
            return None

    def _write(self, ended: _Ended) -> None:
        with files.translate_disk_errors(self._path):
            replace_file(self._path, msgspec.json.encode(ended))


class Signer(msgspec.Struct, frozen=True):
    """Makes and reads the cookie of a session. `cookie` is its name. Threads may share it."""

    cookie: str
    _sign: Callable[[str], str]
    _ended: EndedSessions

    def value(self, now: int) -> str:
        """Return the cookie of a new session; `now` is microseconds UTC. Raise LogError."""
        self._ended.mend(now // 1_000_000)
        text = f"{now // 1_000_000 + SESSION_LIVES_S}.{secrets.token_urlsafe(16)}"
        return f"{text}.{self._sign(f'session.{text}')}"

    def session(self, cookie: str | None, now: int) -> Session | None:
        """Return the session of a cookie; None if it is not ours or has ended."""
        ends, _, rest = (cookie or "").partition(".")
        nonce, _, mark = rest.partition(".")
        expected = self._sign(f"session.{ends}.{nonce}")
        if not hmac.compare_digest(mark.encode("utf-8", "replace"), expected.encode()):
            return None
        if int(ends) <= now // 1_000_000:
            return None
        session = Session(nonce, self._sign(f"csrf.{ends}.{nonce}"), int(ends))
        return None if self._ended.has(session) else session

    def end(self, session: Session, now: int) -> None:
        """End a session: its cookie opens nothing at any port of the home, after a restart too.

        `now` is microseconds UTC. Raise LogError if that cannot be recorded.
        """
        self._ended.add(session, now // 1_000_000)


def signer(token: str, settings: Settings) -> Signer:
    """Return a signer whose key is derived from the owner's token without revealing it."""
    key = hmac.digest(token.encode(), b"dashboard/session", hashlib.sha256)
    name = hmac.digest(token.encode(), b"dashboard/cookie", hashlib.sha256).hex()[:8]
    ended = EndedSessions(settings.sessions_file)
    return Signer(f"mnemolog_{name}", partial(_digest, key), ended)


def _digest(key: bytes, text: str) -> str:
    digest = hmac.digest(key, text.encode("utf-8", "replace"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


# Connections: the open connections, and those to close so that others find room.
#
# A stranger is a connection on which nothing passed the gate yet. Strangers share a part of all
# connections: beyond it, the stranger that has waited longest without a request is closed. The rest
# is kept for connections with a token or a login. A stranger that sends no request is closed.

CONNECTIONS = 512  # at once
STRANGERS = 256  # of these; the rest is for those past the gate
FIRST_S = 5.0  # for the first request of a connection to begin
REQUEST_S = 20.0  # for a request to arrive whole: a slow sender keeps a connection no longer


class Connections:
    """The open connections, `channels` as waitress has them, in the order of their opening.

    One thread calls it. Of a channel, `request` is the one being received, `requests` are those to
    be answered.
    """

    def __init__(self, channels: dict[Any, Any], clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._channels, self._clock = channels, clock
        self._known: set[Any] = set()
        self._since: dict[Any, float] = {}  # since when each request or first request is awaited

    def know(self, channel: Any) -> None:
        """Record that a request on a connection passed the gate. Any thread may call it."""
        self._known.add(channel)

    def make_room(self) -> None:
        """Close excess strangers without a request being answered, oldest first."""
        if len(self._channels) <= STRANGERS:
            return
        strangers = [
            channel for channel in list(self._channels.values()) if channel not in self._known
        ]
        idle = [stranger for stranger in strangers if not stranger.requests]
        for stranger in idle[: max(0, len(strangers) - STRANGERS)]:
            stranger.handle_close()

    def look(self) -> None:
        """Close connections that take too long to send a request, or to begin with the first."""
        now, still = self._clock(), {}
        for channel in list(self._channels.values()):
            awaited = channel.request
            if awaited is None and channel not in self._known and not channel.requests:
                awaited = channel
            if awaited is not None:
                since = still[awaited] = self._since.get(awaited, now)
                patience_s = FIRST_S if awaited is channel else REQUEST_S
                channel.will_close = channel.will_close or now - since >= patience_s
        self._since = still
        self._known.intersection_update(self._channels.values())
