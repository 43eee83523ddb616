"""
The code that decides answers: its folders, and a digest of their files.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

# they include the fitted coefficients and weights
_FOLDERS = (
    *("serve/hooks", "serve/reader", "serve/recall", "store/agents", "store/derived"),
    *("store/embedders", "store/index", "store/memories", "store/text"),
)


@cache
def code() -> str:
    """Return a digest, 8 hex digits, of the files that decide answers: if one has changed, the same
    version may answer differently. It takes some ten milliseconds, once.
    """
    return digest_files(Path(__file__).parents[2])


def digest_files(root: Path) -> str:
    """Return the `code` of the files below a folder that contains `serve` and `store`."""
    found = sha256()
    for folder in _FOLDERS:
        for path in sorted((root / folder).iterdir()):
            if path.suffix in (".py", ".npz"):
                found.update(path.read_bytes())
    return found.hexdigest()[:8]
