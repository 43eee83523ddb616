"""
The owner's token: the secret in the home that opens everything, and that sessions are signed with.
"""

import hmac
import os
import secrets

from store.config import Settings
from store.errors import ConfigError
from store.files import replace_file


def owner_token(settings: Settings) -> str:
    """Return the owner's token, made on first use, readable by the owner alone."""
    path = settings.token_file
    if not path.exists():
        replace_file(path, secrets.token_urlsafe(32).encode())
    elif os.name == "posix" and path.stat().st_mode & 0o077:
        raise ConfigError(f"{path} can be read by others: run `chmod 600 {path}`")
    token = path.read_text(errors="replace").strip()
    if not token or not token.isprintable() or "\ufffd" in token:  # none would let everybody in
        raise ConfigError(
            f"{path} is empty or damaged: delete it, and the next start makes a new one"
        )
    return token


def is_owner(sent: str, token: str) -> bool:
    """Return whether what was sent is the owner's token; a wrong one tells nothing by time."""
    return hmac.compare_digest(sent.encode("utf-8", "replace"), token.encode())
