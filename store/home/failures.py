"""
Failures: background errors, kept until the same thing succeeds.

One small file for each kind of work, so that two processes never write one; there are as many as
there are kinds. `mnemolog doctor` shows them.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from store.home.files import replace_file
from store.redaction import redact

_LONGEST = 500  # characters of an error


class Failure(msgspec.Struct, frozen=True):
    """The last failure of something, its time (microseconds UTC), its error, and the number of
    failures since the last success.

    `run` is the Dagster run, if it was one.
    """

    what: str
    at: int
    said: str
    run: str = ""
    times: int = 1


_decoder = msgspec.json.Decoder(Failure)


def keep(root: Path, what: str, at: int, text: str, run: str = "") -> None:
    """Record that something failed, below a tenant's folder or the home; secrets are removed.

    `what` must be usable as a file name. The same run is counted once.
    """
    path = _path(root, what)
    before = _read(path)
    times = 1 if before is None else before.times + (not run or before.run != run)
    text = redact.redact(" ".join(text.split()))[:_LONGEST]
    replace_file(path, msgspec.json.encode(Failure(what, at, text, run, times)))


def forget(root: Path, what: str) -> None:
    """Drop the failure of something that has succeeded."""
    _path(root, what).unlink(missing_ok=True)


def every(root: Path) -> Iterator[Failure]:
    """Yield the failures without a success since, by name."""
    for path in sorted((root / "failures").glob("*.json")):
        if (failure := _read(path)) is not None:
            yield failure


def _path(root: Path, what: str) -> Path:
    return root / "failures" / f"{what}.json"


def _read(path: Path) -> Failure | None:
    """Return the failure in a file; if it cannot be read, a failure that states this."""
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        return Failure(path.stem, 0, f"it failed, and {path} cannot be read: {error}")
