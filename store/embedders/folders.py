"""
A model's folder: where it lies, its tokenizer, and a digest that changes with what is in it.
"""

import sys
from collections.abc import Sequence
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from store.home.errors import EmbedderError

_SAMPLES, _SAMPLE = 256, 4_096  # blocks and their bytes: 1 MiB of a file of any size


def folder(named: str, files: Sequence[str]) -> Path:
    """Return the folder a setting names: a path with a / in it, or a package that ships a model.

    Of a package, the folder that holds the first of `files` that is found, at most one level down.
    The package is looked for and never imported: its own code may load far more than its weights.
    """
    path = Path(named).expanduser()
    if path.is_dir() and path.name != named:
        return path
    for home in _package(named):
        for place in (home, *sorted(one for one in home.iterdir() if one.is_dir())):
            if any((place / file).is_file() for file in files):
                return place
    raise EmbedderError(
        f"{named!r} is neither a folder nor an installed package that ships a model: "
        "name one, or install it into mnemolog's own environment"
    )


def _package(named: str) -> list[Path]:
    if not named.isidentifier():
        return []
    # the working directory is whatever the user stands in: it ships no model of ours
    found = PathFinder.find_spec(named, [place for place in sys.path if place])
    places = found.submodule_search_locations if found else None
    return [path for place in places or () if (path := Path(place)).is_dir()]


def name(named: str) -> str:
    """Return the last part of what a setting names, for a model's id."""
    return Path(named).expanduser().absolute().name


def tokenizer(path: Path) -> Any:
    """Return the tokenizer of a file, without the padding it may bake in."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderError("tokenizers is missing: pip install 'mnemolog[onnx]'") from error
    try:
        made = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise EmbedderError(f"{path} is missing or no tokenizer: {error}") from error
    made.no_padding()
    return made


def digest(weights: Path, small: Sequence[Path]) -> str:
    """Return eight hex digits of the weights' size and 256 blocks of them, and of small files.

    A model of 90 MB is known in a millisecond; training on changes every block.
    """
    total = blake2b(digest_size=4)
    try:
        with weights.open("rb") as file:
            size = file.seek(0, 2)
            total.update(f"{size}/".encode())
            for number in range(_SAMPLES):
                file.seek(number * max(_SAMPLE, size - _SAMPLE) // _SAMPLES)
                total.update(file.read(_SAMPLE))
        for path in small:
            data = path.read_bytes() if path.is_file() else b""
            total.update(f"{path.name}/{len(data)}/".encode() + data)
    except OSError as error:
        raise EmbedderError(f"{weights} cannot be read ({error.strerror})") from error
    return total.hexdigest()
