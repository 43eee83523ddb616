"""
Hook keys: a host's key opens its one hook route and tenant.

A hook key follows from the token, so nothing has to be kept, and a new token ends all of them. It
may stand in an agent host's settings, which other tools read: who has it can tell events and hear
what an agent would be told, and cannot list, change or delete anything.
"""

import base64
import hashlib
import hmac


def hook_key(token: str, host: str, tenant: str | None = None) -> str:
    """Return the key that opens `POST /v1/hooks/<host>`, of that tenant, and nothing else."""
    opened = f"hooks/{host}" + (f"?tenant={tenant}" if tenant else "")
    digest = hmac.digest(token.encode(), opened.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def opens_hook(path: str, tenant: str | None, sent: str, token: str) -> bool:
    """Return whether what was sent is the key of the hook route at a path, of that tenant."""
    prefix, _, host = path.rpartition("/")
    is_hook = prefix == "/v1/hooks"
    return is_hook and hmac.compare_digest(sent.encode(), hook_key(token, host, tenant).encode())
