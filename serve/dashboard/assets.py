"""
The static files: read once, served under an address that holds their content's hash, so a browser
may keep them for ever.
"""

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    data: bytes
    mimetype: str
    digest: str


def assets(folder: Path = FOLDER) -> Mapping[str, Asset]:
    """Return the files of a folder by name."""
    return {path.name: _asset(path) for path in sorted(folder.iterdir()) if path.is_file()}


def _asset(path: Path) -> Asset:
    data = path.read_bytes()
    # not the system's table first: it may say anything of .js, which is not run then
    mimetype = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return Asset(data, mimetype or "application/octet-stream", sha256(data).hexdigest()[:12])
