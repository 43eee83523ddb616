"""
What was learned of a setting's model: its id and dimension, kept in the home's cache.

So a model that is not there at the moment still has its name, and a build keeps the vectors it
made. Nothing is lost with the file: it is learned again.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from store.home.files import replace_file


class Learned(msgspec.Struct, frozen=True):
    model: str
    dimension: int


class Acquaintance:
    """The file of one home; without a home it remembers for this process alone."""

    def __init__(self, home: Path | None) -> None:
        self._path = home / "cache" / "embedders.json" if home else None
        self._here: dict[str, Learned] = {}

    def of(self, name: str) -> Learned | None:
        """Return what is known of the model a setting names."""
        return self._all().get(name)

    def keep(self, name: str, model: str, dimension: int) -> None:
        """Remember; a file that says so already is left alone."""
        learned = Learned(model, dimension)
        if self._all().get(name) != learned:
            self._write(self._all() | {name: learned})

    def forget(self, name: str) -> None:
        if name in (known := self._all()):
            self._write({other: one for other, one in known.items() if other != name})

    def _all(self) -> dict[str, Learned]:
        if self._path is None:
            return self._here
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Learned])
        except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
            return {}

    def _write(self, known: dict[str, Learned]) -> None:
        if self._path is None:
            self._here = known
        else:
            with suppress(OSError):  # where nothing can be written it is learned again
                replace_file(self._path, msgspec.json.encode(known))
