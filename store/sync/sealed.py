"""
Sealed: a remote whose files can be read only with the key of the person's machines.

Each file is encrypted with ChaCha20-Poly1305 (RFC 8439) and bound to its own name, so a file that
was changed, cut, put under another's name or written without the key is refused, not read. Names
and sizes stay readable: how many events a machine sent, and when.
"""

import secrets
from base64 import b32decode, b32encode
from collections.abc import Iterable
from hashlib import sha256

from store.home.errors import InvalidInput, RemoteError
from store.home.packages import require
from store.replica.parts import DamagedPart
from store.replica.remote import Entry, Remote

_MARK = b"MNS1"
_NONCE = 12  # bytes; random: a key would seal 2**32 files before two were likely to share one
_KEY, _CHECK = 32, 3  # bytes
_PREFIX = "mnemolog-key-"
_FIRST = "sync.json"  # of a place that was begun; a machine that cannot open it has another key
_FORMAT = b'{"format":1}'
_GROUP = 7  # letters of a written key


def new_key() -> bytes:
    return secrets.token_bytes(_KEY)


def write_key(key: bytes) -> str:
    """Return a key as a person keeps it: letters and digits in groups, the last of them a check."""
    text = b32encode(key + sha256(key).digest()[:_CHECK]).decode().lower()
    return _PREFIX + "-".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))


def read_key(text: str) -> bytes:
    """Return the key that a person gave; raise InvalidInput if it has a typing error."""
    letters = text.strip().lower().removeprefix(_PREFIX).replace("-", "").replace(" ", "")
    try:
        data = b32decode(letters.upper())
    except ValueError:
        data = b""
    key, check = data[:_KEY], data[_KEY:]
    if len(key) != _KEY or check != sha256(key).digest()[:_CHECK]:
        raise InvalidInput(
            "this is no key of ours, or has a typing error: copy what `mnemolog sync key` prints "
            "on a machine that syncs already"
        )
    return key


def is_begun(remote: Remote) -> bool:
    """Return True if machines already sync through a place, as far as its files have arrived; raise
    RemoteError.
    """
    return any(entry.name == _FIRST or "/" in entry.name for entry in remote.list(""))


def begin(remote: "Sealed") -> None:
    """Mark a place as one that machines sync through, with this key from now on."""
    remote.put(_FIRST, _FORMAT)


def has_key_of(remote: Remote) -> bool:
    """Return False if a place was begun with, or changed to, another key than the given one.

    Raise RemoteError also if the file that tells has not arrived.
    """
    try:
        remote.get(_FIRST)
    except DamagedPart:
        return False
    return True


class Sealed:
    """A remote that encrypts files on put and decrypts them on get."""

    def __init__(self, remote: Remote, key: bytes) -> None:
        require("cryptography", RemoteError)
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        self._remote = remote
        self._cipher = ChaCha20Poly1305(key)

    @property
    def url(self) -> str:
        return self._remote.url

    def list(self, folder: str) -> list[Entry]:
        return self._remote.list(folder)

    def get(self, name: str) -> bytes:
        """Return a file's bytes; raise DamagedPart if it was not sealed so with the key."""
        from cryptography.exceptions import InvalidTag

        data = self._remote.get(name)
        start = len(_MARK) + _NONCE
        try:
            if not data.startswith(_MARK) or len(data) < start:
                raise InvalidTag
            return self._cipher.decrypt(data[len(_MARK) : start], data[start:], name.encode())
        except InvalidTag as error:
            raise DamagedPart(
                f"{self.url}: {name} was not written with our key, or was changed: delete it, and "
                "the machine that wrote it sends it again"
            ) from error

    def put(self, name: str, data: bytes) -> None:
        nonce = secrets.token_bytes(_NONCE)
        self._remote.put(name, _MARK + nonce + self._cipher.encrypt(nonce, data, name.encode()))

    def delete(self, names: Iterable[str]) -> None:
        self._remote.delete(names)
