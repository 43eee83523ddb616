"""
The version of mnemolog that runs.
"""

from functools import cache


@cache
def version() -> str:
    """Return the version that is installed, "unknown" in a checkout that was not."""
    from importlib import metadata  # 20 ms of a start

    try:
        return metadata.version("mnemolog")
    except metadata.PackageNotFoundError:
        return "unknown"
