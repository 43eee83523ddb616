"""Traces: a search for many secrets in files, in any encoding."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

# kinds that are recognized in any context
KNOWN = (
    "github token",
    "anthropic key",
    "slack token",
    "gitlab token",
    "npm token",
    "linear key",
    "url password",
    "our own token",
)


def traces(planted: Sequence[tuple[str, str]], texts: Mapping[str, bytes]) -> list[str]:
    """Return the planted secrets found in each text, named by their door."""
    sought = {
        data: f"{door}, {form}" for door, core in planted for form, data in forms(core).items()
    }
    return [
        f"{secret} in {name}"
        for name, content in texts.items()
        for secret in _occurrences(sought, content)
    ]


def files_below(*folders: Path) -> dict[str, bytes]:
    """Return the bytes of every file below some folders, by path."""
    paths = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    return {str(path): path.read_bytes() for path in sorted(paths)}


def forms(core: str) -> Mapping[str, bytes]:
    """Return the encodings of a secret in a file."""
    encoded = {
        f"base64 at {start}": base64.b64encode(b"x" * start + core.encode())[start + 2 : -4]
        for start in range(3)
    }
    return {
        "as it is": core.encode(),
        "in JSON": json.dumps(core)[1:-1].encode(),
        "in UTF-16": core.encode("utf-16-le"),
        **encoded,
    }


def _occurrences(sought: Mapping[bytes, str], content: bytes) -> Iterator[str]:
    """Yield the names of the sought bytes found in `content`; each is at least eight bytes long."""
    first = np.array([np.frombuffer(other[:8], np.uint64)[0] for other in sought])
    by_first: dict[bytes, list[bytes]] = {}
    for data in sought:
        by_first.setdefault(data[:8], []).append(data)
    for start in range(8):
        count = (len(content) - start) // 8
        words = np.frombuffer(content, np.uint64, max(0, count), start) if count > 0 else first[:0]
        for place in (np.flatnonzero(np.isin(words, first)) * 8 + start).tolist():
            for data in by_first[content[place : place + 8]]:
                if content.startswith(data, place):
                    yield sought[data]
