"""The answers: HTTP and CLI over one read path. Opens snapshots, appends events, starts jobs as
processes.
"""

from functools import cache


@cache
def version() -> str:
    """Return the version of mnemolog that is installed, "unknown" in a checkout that was not."""
    from importlib import metadata  # 20 ms of a start

    try:
        return metadata.version("mnemolog-core")
    except metadata.PackageNotFoundError:
        return "unknown"
