"""
Callers: who shows a bearer token, the owner, a tenant's token or a host's hook key.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from serve.access.caller import OWNER, Caller, of_token
from serve.access.owner import opens_hook
from store import tokens
from store.access.owner_token import is_owner
from store.config import Settings
from store.errors import ConfigError
from store.files import FileStamp
from store.tokens import Token

log = logging.getLogger("mnemolog")

_NEVER: FileStamp = (-1,)


class Callers:
    """Who is who, by what they show. Threads may share it."""

    def __init__(self, settings: Settings, owners: str, clock: Callable[[], int]) -> None:
        """`owners` is the owner's token; `clock` gives microseconds UTC."""
        self._owners, self._clock = owners, clock
        self._default = settings.choices.tenant
        self._known = _KnownTokens(settings.home)

    def of(self, sent: str, path: str, tenant: str | None) -> Caller | None:
        """Return who sent a bearer token to a path; None where it opens nothing there.

        `tenant` is the one a hook's address names, which its key is bound to.
        """
        if is_owner(sent, self._owners):
            return OWNER
        if (token := tokens.opened_by(sent, self._known.tokens(), self._clock())) is not None:
            return of_token(token)
        if opens_hook(path, tenant, sent, self._owners):
            return Caller("hook", tenant or self._default, frozenset({"read", "write"}))
        return None


class _KnownTokens:
    """The tokens of a home, read again when their file has changed: one revoked is dead at once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._read: tuple[FileStamp | None, Sequence[Token]] = (_NEVER, ())

    def tokens(self) -> Sequence[Token]:
        """Return what the file says now; nothing where it cannot be trusted."""
        stamp = tokens.stamp(self._home)  # before reading: a change meanwhile is seen next time
        if stamp != self._read[0]:
            self._read = (stamp, self._now())
        return self._read[1]

    def _now(self) -> Sequence[Token]:
        try:
            return tokens.every(self._home)
        except ConfigError as error:
            log.error("no tenant's token is taken: %s", error)
            return ()
