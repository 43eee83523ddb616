"""
What is ours in a host's settings, known by a mark that survives a move of our code or port.
"""

import re
from collections.abc import Iterator
from typing import Any

SERVER = "mnemolog"  # the name of our MCP server in every host

_CLIENT = r"[\\/]serve[\\/]+client\.py['\"]*\s+{}(?![\w-])"
_ROUTE = r"^https?://[^/]+/v1/hooks/{}(?![\w-])"


def is_hook(handler: Any, host: str) -> bool:
    """Whether a hook runs our client for this host, or posts to its route."""
    if not isinstance(handler, dict):
        return False
    url = handler.get("url")
    if isinstance(url, str) and re.match(_ROUTE.format(host), url):
        return True
    return re.search(_CLIENT.format(host), " ".join(_words(handler))) is not None


def _words(handler: dict[str, Any]) -> Iterator[str]:
    for name in ("command", "args", "bash", "powershell"):
        value = handler.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, str))
