"""
Caller: the sender of a request, the memory it may use, and its permissions there.
"""

import base64
import hashlib
import hmac
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from store.home import tokens
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.files import FileStamp
from store.home.http_access import is_owner
from store.home.tokens import SCOPES, Scope, Token

__all__ = ["OWNER", "OWNER_NAME", "SCOPES", "Caller", "Scope", "caller_of_token"]

OWNER_NAME = "owner"


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request. `tenant` is None only for the owner's token: every tenant is theirs.

    `token_id` names the token that was sent; `per_minute` is its rate limit, None without one.
    """

    name: str
    tenant: str | None
    scopes: frozenset[Scope]
    token_id: str | None = None
    per_minute: int | None = None

    def __post_init__(self) -> None:
        is_whole = self.name == OWNER_NAME and self.token_id is None
        if self.tenant == "" or (self.tenant is None and not is_whole):
            raise ValueError("only the owner has every tenant: name one")

    @property
    def is_owner(self) -> bool:
        return self.tenant is None

    @property
    def is_here(self) -> bool:
        """Return True if a folder the caller names is on this machine and may be read.

        A tenant's token may be sent from another machine, and gives access only to its tenant.
        """
        return self.token_id is None

    def may(self, scope: Scope) -> bool:
        """Return True if the caller has a scope; `admin` includes every scope in its tenant."""
        return scope in self.scopes or "admin" in self.scopes

    def tenant_for(self, named: str | None) -> str | None:
        """Return the tenant of a request: a token's own tenant overrides a named tenant."""
        return named if self.tenant is None else self.tenant


OWNER = Caller(OWNER_NAME, None, frozenset(SCOPES))


def caller_of_token(token: Token) -> Caller:
    """Return the caller of a tenant's token."""
    return Caller(
        token.name or token.id, token.tenant, frozenset(token.scopes), token.id, token.per_minute
    )


# Callers: the sender of a bearer token, which is the owner's, a tenant's or a host's hook key.

log = logging.getLogger("mnemolog")

_NEVER: FileStamp = (-1,)


class Callers:
    """The callers by their bearer tokens. Threads may share it."""

    def __init__(self, settings: Settings, owners: str, clock: Callable[[], int]) -> None:
        """`owners` is the owner's token; `clock` gives microseconds UTC."""
        self._owners, self._clock = owners, clock
        self._default = settings.choices.tenant
        self._known = _KnownTokens(settings.home)

    def of(self, sent: str, path: str, tenant: str | None) -> Caller | None:
        """Return the sender of a bearer token to a path; None if the token is not valid there.

        `tenant` is the tenant in a hook's address, which its key is bound to.
        """
        if is_owner(sent, self._owners):
            return OWNER
        if (token := tokens.find_active(sent, self._known.tokens(), self._clock())) is not None:
            return caller_of_token(token)
        if opens_hook(path, tenant, sent, self._owners):
            return Caller("hook", tenant or self._default, frozenset({"read", "write"}))
        return None


class _KnownTokens:
    """The tokens of a home, read again when their file changes: a revoked token is dead at once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._read: tuple[FileStamp | None, Sequence[Token]] = (_NEVER, ())

    def tokens(self) -> Sequence[Token]:
        """Return the tokens in the file; none if the file cannot be trusted."""
        stamp = tokens.stamp(self._home)  # before reading: a later change is seen next time
        if stamp != self._read[0]:
            try:
                self._read = (stamp, tokens.every(self._home))
            except ConfigError as error:
                log.error("no tenant's token is taken: %s", error)
                self._read = (stamp, ())
        return self._read[1]


# Hook keys: a host's key opens its one hook route and tenant.
#
# A hook key is derived from the token, so nothing is stored, and a new token ends all of them. It
# may be in an agent host's settings, which other tools read: its holder can send events and receive
# an agent's context, and cannot list, change or delete anything.


def hook_key(token: str, host: str, tenant: str | None = None) -> str:
    """Return the key that opens only `POST /v1/hooks/<host>`, of that tenant."""
    opened = f"hooks/{host}" + (f"?tenant={tenant}" if tenant else "")
    digest = hmac.digest(token.encode(), opened.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def opens_hook(path: str, tenant: str | None, sent: str, token: str) -> bool:
    """Return True if a bearer token is the key of the hook route at a path, of that tenant."""
    prefix, _, host = path.rpartition("/")
    is_hook = prefix == "/v1/hooks"
    return is_hook and hmac.compare_digest(sent.encode(), hook_key(token, host, tenant).encode())


# Rate: how often a token may send requests, as a bucket that refills over time.
#
# https://en.wikipedia.org/wiki/Token_bucket; a bucket contains ten seconds' requests, so that at
# most seven sixths of `per_minute` are answered in any minute.

BURST_S = 10.0


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rates:
    """The rate buckets of the tokens in use. Threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, _Bucket] = {}

    def wait_s(self, caller: Caller) -> float:
        """Count a request; return 0, or the seconds until the next request would be answered."""
        if caller.per_minute is None or caller.token_id is None:
            return 0.0
        a_second = caller.per_minute / 60
        most, now = max(1.0, a_second * BURST_S), self._clock()
        with self._lock:
            bucket = self._buckets.setdefault(caller.token_id, _Bucket(most, now))
            bucket.left = min(most, bucket.left + (now - bucket.at) * a_second)
            bucket.at = now
            if bucket.left >= 1.0:
                bucket.left -= 1.0
                return 0.0
            return (1.0 - bucket.left) / a_second
