"""The damage of rot to a file: bits flip, ends are cut, pages are zeroed, others take its place."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = 4096


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged file below the home, the damage in words, and the new bytes; None: no file."""

    file: Path
    what: str
    data: bytes | None

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"

    def do(self, home: Path) -> None:
        """Write it into a home with the file's times unchanged, as rot leaves them."""
        path = home / self.file
        status = path.stat()
        path.unlink()
        if self.data is not None:
            path.write_bytes(self.data)
            path.chmod(status.st_mode & 0o777)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flips(
    home: Path, file: Path, count: int, chance: random.Random, within: int | None = None
) -> Iterator[Damage]:
    """Yield the file with one bit flipped, at random places in all of it, or in its first `within`
    bytes; no place twice.
    """
    data = (home / file).read_bytes()
    places = range(8 * len(data[:within]))
    for place in chance.sample(places, min(count, len(places))):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        yield Damage(file, f"bit {place % 8} of byte {place // 8} flipped", bytes(flipped))


def mishaps(home: Path, file: Path, others: dict[str, bytes]) -> Iterator[Damage]:
    """Yield the file cut, zeroed, gone, longer, and replaced by each of the `others`, by name."""
    data = (home / file).read_bytes()
    yield Damage(file, "empty", b"")
    yield Damage(file, "half of it", data[: len(data) // 2])
    yield Damage(file, "without its last byte", data[:-1])
    yield Damage(file, "all zeros", bytes(len(data)))
    for start in range(0, len(data), PAGE):
        zeroed = data[:start] + bytes(len(data[start : start + PAGE])) + data[start + PAGE :]
        yield Damage(file, f"page {start // PAGE} zeroed", zeroed)
    yield Damage(file, "with bytes behind it", data + b"\x00more")
    yield Damage(file, "missing", None)
    for name, there in others.items():
        if there != data:
            yield Damage(file, name, there)
