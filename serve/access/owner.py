"""
Who may ask for what: the owner's token opens every route, a host's hook key its one hook route
and tenant.

A hook key follows from the token, so nothing has to be kept, and a new token ends all of them. It
may stand in an agent host's settings, which other tools read: who has it can tell events and hear
what an agent would be told, and cannot list, change or delete anything.
"""

import base64
import hashlib
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


def hook_key(token: str, host: str, tenant: str | None = None) -> str:
    """Return the key that opens `POST /v1/hooks/<host>`, of that tenant, and nothing else."""
    opened = f"hooks/{host}" + (f"?tenant={tenant}" if tenant else "")
    digest = hmac.digest(token.encode(), opened.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_owner(sent: str, token: str) -> bool:
    """Return whether what was sent is the owner's token; a wrong one tells nothing by time."""
    return hmac.compare_digest(sent.encode(), token.encode())


def opens_hook(path: str, tenant: str | None, sent: str, token: str) -> bool:
    """Return whether what was sent is the key of the hook route at a path, of that tenant."""
    prefix, _, host = path.rpartition("/")
    is_hook = prefix == "/v1/hooks"
    return is_hook and hmac.compare_digest(sent.encode(), hook_key(token, host, tenant).encode())
