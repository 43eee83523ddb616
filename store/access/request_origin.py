"""
Request origin: whether a request came from this machine's programs or from our own pages.

Host is checked against DNS rebinding, where a foreign page reaches us under its own name; Origin
and Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata/) against pages of other sites and ports.
"""

import re

_OURS = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)


def is_own_host(host: str) -> bool:
    """Return whether a Host header names this machine's loopback, with a port or without."""
    return _OURS.fullmatch(host) is not None


def is_own_origin(host: str, origin: str | None, fetch_site: str | None) -> bool:
    """Return whether a request that was sent to `host` came from no other site's page.

    `origin` and `fetch_site` are the headers Origin and Sec-Fetch-Site, None where there is none: a
    program sends neither.
    """
    is_same_site = fetch_site in (None, "none", "same-origin")
    return is_same_site and origin in (None, f"http://{host}")
