"""
Tokens: each opens one tenant to a program, for what its scopes allow, until it ends or is revoked.

A token is `mnemo_<id>_<secret>` and is shown once, when it is made: `<home>/tokens.json` keeps the
SHA-256 of it. The secret is 32 random bytes, so a slow hash would protect nothing more. The file is
replaced whole under a lock, as a command and a server may both change it.

A token made by a token ends with its maker: revoked, one takes along all that descend from it.
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
from store.redaction.redact import redact

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
State = Literal["active", "expired", "revoked"]

PREFIX = "mnemo"
PER_MINUTE = 6_000
MOST_PER_MINUTE = 1_000_000
LONGEST_S = 100 * 366 * 86_400  # of a token's life
MOST_OF_TOKENS = 1_000  # of a tenant, listed, when a token makes one more: all are looked through
KEPT_US = 30 * 86_400 * 1_000_000  # that a token is listed after its end
_NOBODY = sha256(b"").hexdigest()


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new token is to be."""

    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1, max_length=len(SCOPES))]
    name: Annotated[str, msgspec.Meta(max_length=100)] = ""
    ttl_s: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_S)] | None = None
    per_minute: Annotated[int, msgspec.Meta(ge=1, le=MOST_PER_MINUTE)] | None = None


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is kept; moments are microseconds UTC. `made_by` None: by the owner."""

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


# made once, before there are threads: msgspec 0.22 crashes where two meet a type for the first time
_decoder = msgspec.json.Decoder(_File)


def every(home: Path, tenant: str | None = None) -> tuple[Token, ...]:
    """Return the tokens of a tenant, or of all, in the order of their making; raise ConfigError."""
    return tuple(token for token in _read(_path(home)) if tenant in (None, token.tenant))


def make(
    home: Path, tenant: str, wanted: Wanted, now: int, made_by: str | None = None
) -> tuple[Token, str]:
    """Keep a new token; return it, and the text that opens the tenant, which is kept nowhere.

    `made_by` is the id of the token that asks for it, which the new one does not outlive. Raise
    InvalidInput where it would, Conflict where that one has ended or its tenant has too many.
    """
    if not wanted.name.isprintable():
        raise InvalidInput("a token's name is one line of text")
    id_ = secrets.token_hex(6)
    text = f"{PREFIX}_{id_}_{secrets.token_urlsafe(32)}"
    token = Token(
        id=id_,
        name=redact(wanted.name),  # whoever pastes the wrong line
        tenant=tenant,
        scopes=tuple(scope for scope in SCOPES if scope in wanted.scopes),
        created_at=now,
        per_minute=wanted.per_minute or PER_MINUTE,
        sha256=_hash(text),
        expires_at=None if wanted.ttl_s is None else now + wanted.ttl_s * 1_000_000,
        made_by=made_by,
    )
    # checked where the file is written: who is revoked meanwhile makes no more
    tokens = _change(home, now, lambda tokens: (*tokens, _limit_to_maker(token, tokens)))
    return tokens[-1], text


def revoke(home: Path, id_: str, now: int, tenant: str | None = None) -> Token:
    """End a token and all that descend from it for good; return it. Again changes nothing.

    Raise NotFound for an id that is no token's, or of another tenant than the one given.
    """
    if (token := _find(every(home, tenant), id_)) is None:
        raise NotFound(f"no token {id_!r}: `mnemolog tokens list` names them")
    if token.revoked_at is not None:
        return token
    _change(home, now, lambda tokens: [_end(other, now, other.id == id_) for other in tokens])
    return _find(every(home), id_) or token


def revoke_all(home: Path, tenant: str, now: int) -> int:
    """End every token of a tenant; return how many there were."""
    ended = [token for token in every(home, tenant) if token.state(now) == "active"]
    if ended:
        _change(
            home, now, lambda tokens: [_end(token, now, token.tenant == tenant) for token in tokens]
        )
    return len(ended)


def find_active(sent: str, tokens: Sequence[Token], now: int) -> Token | None:
    """Return the token that was sent, if it still opens anything.

    Hashes are compared whole, and one is where no token has the id: the time taken tells nothing.
    """
    prefix, _, rest = sent.partition("_")
    id_ = rest.partition("_")[0]
    named = _find(tokens, id_)
    is_it = compare_digest(_hash(sent), named.sha256 if named else _NOBODY)
    if named is None or not is_it or prefix != PREFIX or named.state(now) != "active":
        return None
    return named


def stamp(home: Path) -> FileStamp | None:
    """Return what changes with the file, None where there is none; costs microseconds."""
    return file_stamp(_path(home))


def _find(tokens: Iterable[Token], id_: str) -> Token | None:
    return next((token for token in tokens if token.id == id_), None)


def _path(home: Path) -> Path:
    return home / "tokens.json"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _limit_to_maker(token: Token, others: Sequence[Token]) -> Token:
    """Return a new token as it may be: one that a token makes ends when its maker does."""
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
    """Return the tokens that a token made, and those that these made, in the order given."""
    makers, made = {id_}, []
    for token in tokens:  # a token is listed behind its maker
        if token.made_by in makers:
            makers.add(token.id)
            made.append(token)
    return tuple(made)


def _revoke_with_makers(tokens: Iterable[Token]) -> tuple[Token, ...]:
    """Return the tokens, those revoked whose maker was; makers are listed before what they made.

    A maker that is listed no more was revoked: what it made would have expired with it.
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
        # also what an earlier version left open when it revoked a maker
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
    """Replace the file; return what it holds now."""
    with file_lock(_path(home)):
        tokens = _revoke_with_makers(change(_read(_path(home))))
        listed = tuple(token for token in tokens if _is_listed(token, now))
        try:
            replace_file(_path(home), msgspec.json.encode(_File(listed)))
        except OSError as error:
            raise ConfigError(f"{_path(home)} cannot be written ({error.strerror})") from error
    return listed
