"""
Tokens: each gives a program access to one tenant, within its scopes, until it ends or is revoked.

A token is `mnemo_<id>_<secret>` and is shown once, when it is made: `<home>/tokens.json` keeps its
SHA-256. The secret is 32 random bytes, so a slow hash would protect nothing more. The file is
replaced whole under a lock, as a command and a server may both change it.

A token made by a token ends with its maker: revoking it revokes all its descendants.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from store.home.errors import ConfigError, Conflict, InvalidInput, NotFound
from store.home.files import FileStamp, file_lock, file_stamp, replace_file
from store.home.instants import DAY

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
State = Literal["active", "expired", "revoked"]

PREFIX = "mnemo"
PER_MINUTE = 6_000
MOST_PER_MINUTE = 1_000_000
LONGEST_S = 100 * 366 * 86_400  # the longest life of a token
MOST_OF_TOKENS = 1_000  # listed ones of a tenant, if a token makes one more: all are searched
KEPT_US = 30 * DAY  # that a token is listed after its end
_NOBODY = sha256(b"").hexdigest()


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new token is to be."""

    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1, max_length=len(SCOPES))]
    name: Annotated[str, msgspec.Meta(max_length=100)] = ""
    ttl_s: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_S)] | None = None
    per_minute: Annotated[int, msgspec.Meta(ge=1, le=MOST_PER_MINUTE)] | None = None


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is stored; times are microseconds UTC. `made_by` None: by the owner."""

    id: str
    name: str
    tenant: str
    scopes: tuple[Scope, ...]
    created_at: int
    per_minute: int
    sha256: str
    expires_at: int | None = None
    revoked_at: int | None = None
    made_by: str | None = None

    def state(self, now: int) -> State:
        if self.revoked_at is not None:
            return "revoked"
        is_over = self.expires_at is not None and self.expires_at <= now
        return "expired" if is_over else "active"


class _File(msgspec.Struct, frozen=True):
    tokens: tuple[Token, ...] = ()


# made once, before any threads start: msgspec 0.22 crashes if two use a new type at once
_decoder = msgspec.json.Decoder(_File)


def every(home: Path, tenant: str | None = None) -> tuple[Token, ...]:
    """Return the tokens of a tenant, or of all, in the order they were made; raise ConfigError."""
    return tuple(token for token in _read(_path(home)) if tenant in (None, token.tenant))


def make(
    home: Path, tenant: str, wanted: Wanted, now: int, made_by: str | None = None
) -> tuple[Token, str]:
    """Store a new token; return it, and its text, which is not stored.

    `made_by` is the id of the requesting token, which the new one must not outlive. Raise
    InvalidInput if it would, Conflict if the requesting token has ended or its tenant has too many.
    """
    if not wanted.name.isprintable():
        raise InvalidInput("a token's name is one line of text")
    from store.redaction.redact import redact  # a tenth of a command's start

    id_ = secrets.token_hex(6)
    text = f"{PREFIX}_{id_}_{secrets.token_urlsafe(32)}"
    token = Token(
        id=id_,
        name=redact(wanted.name),  # in case the wrong line was pasted
        tenant=tenant,
        scopes=tuple(scope for scope in SCOPES if scope in wanted.scopes),
        created_at=now,
        per_minute=wanted.per_minute or PER_MINUTE,
        sha256=_hash(text),
        expires_at=None if wanted.ttl_s is None else now + wanted.ttl_s * 1_000_000,
        made_by=made_by,
    )
    # checked when the file is written: a token revoked meanwhile makes no more
    tokens = _change(home, now, lambda tokens: (*tokens, _limit_to_maker(token, tokens)))
    return tokens[-1], text


def revoke(home: Path, id_: str, now: int, tenant: str | None = None) -> Token:
    """End a token and all its descendants for good; return it. Repeating it changes nothing.

    Raise NotFound for an unknown id, or one of another tenant than the given one.
    """
    if (token := _find(every(home, tenant), id_)) is None:
        raise NotFound(f"no token {id_!r}: `mnemolog tokens list` names them")
    if token.revoked_at is not None:
        return token
    _change(home, now, lambda tokens: [_end(other, now, other.id == id_) for other in tokens])
    return _find(every(home), id_) or token


def revoke_all(home: Path, tenant: str, now: int) -> int:
    """End every token of a tenant; return the number of tokens ended."""
    ended = [token for token in every(home, tenant) if token.state(now) == "active"]
    if ended:
        _change(
            home, now, lambda tokens: [_end(token, now, token.tenant == tenant) for token in tokens]
        )
    return len(ended)


def find_active(sent: str, tokens: Sequence[Token], now: int) -> Token | None:
    """Return the token that was sent, if it is still valid.

    Hashes are compared whole, and one is compared even if no token has the id, for constant time.
    """
    prefix, _, rest = sent.partition("_")
    id_ = rest.partition("_")[0]
    named = _find(tokens, id_)
    is_it = compare_digest(_hash(sent), named.sha256 if named else _NOBODY)
    if named is None or not is_it or prefix != PREFIX or named.state(now) != "active":
        return None
    return named


def stamp(home: Path) -> FileStamp | None:
    """Return a value that changes with the file, None if there is no file; costs microseconds."""
    return file_stamp(_path(home))


def _find(tokens: Iterable[Token], id_: str) -> Token | None:
    return next((token for token in tokens if token.id == id_), None)


def _path(home: Path) -> Path:
    return home / "tokens.json"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _limit_to_maker(token: Token, others: Sequence[Token]) -> Token:
    """Return a new token with its limits: one made by a token ends when its maker does."""
    if token.made_by is None:
        return token
    maker = _find(others, token.made_by)
    if maker is None or maker.state(token.created_at) != "active":
        raise Conflict("the token that asks for another has ended")
    if sum(other.tenant == token.tenant for other in others) >= MOST_OF_TOKENS:
        raise Conflict(f"{token.tenant} has {MOST_OF_TOKENS:,} tokens: ask the owner for one more")
    if maker.expires_at is None:
        return token
    ends = token.expires_at or maker.expires_at
    if ends > maker.expires_at:
        raise InvalidInput("`ttl_s` must not go beyond the end of your own token")
    return msgspec.structs.replace(token, expires_at=ends)


def _end(token: Token, now: int, is_meant: bool) -> Token:
    if not is_meant or token.revoked_at is not None:
        return token
    return msgspec.structs.replace(token, revoked_at=now)


def descendants(id_: str, tokens: Iterable[Token]) -> tuple[Token, ...]:
    """Return the tokens that a token made, directly or not, in the order given."""
    makers, made = {id_}, []
    for token in tokens:  # a token is listed after its maker
        if token.made_by in makers:
            makers.add(token.id)
            made.append(token)
    return tuple(made)


def _revoke_with_makers(tokens: Iterable[Token]) -> tuple[Token, ...]:
    """Return the tokens, with those of revoked makers revoked; makers are listed before theirs.

    A maker that is no longer listed was revoked: its tokens would have expired with it.
    """
    revoked_at: dict[str, int | None] = {}
    revoked = []
    for token in tokens:
        if token.revoked_at is None and token.made_by is not None:
            ends = revoked_at.get(token.made_by, token.created_at)
            token = msgspec.structs.replace(token, revoked_at=ends)
        revoked_at[token.id] = token.revoked_at
        revoked.append(token)
    return tuple(revoked)


def _is_listed(token: Token, now: int) -> bool:
    ends = [end for end in (token.expires_at, token.revoked_at) if end is not None]
    return not ends or min(ends) > now - KEPT_US


def _read(path: Path) -> tuple[Token, ...]:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others: run `chmod 600 {path}`")
        # also tokens that an earlier version left valid when it revoked their maker
        return _revoke_with_makers(_decoder.decode(path.read_bytes()).tokens)
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} cannot be used ({error}): restore it, or delete it and make new tokens"
        ) from error


def _change(
    home: Path, now: int, change: Callable[[Sequence[Token]], Sequence[Token]]
) -> tuple[Token, ...]:
    """Replace the file; return its new contents."""
    with file_lock(_path(home)):
        tokens = _revoke_with_makers(change(_read(_path(home))))
        listed = tuple(token for token in tokens if _is_listed(token, now))
        try:
            replace_file(_path(home), msgspec.json.encode(_File(listed)))
        except OSError as error:
            raise ConfigError(f"{_path(home)} cannot be written ({error.strerror})") from error
    return listed
