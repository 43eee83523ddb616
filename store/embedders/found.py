"""
The models on this machine: folders in the home's `models`, and installed packages that ship one.

Only file names and headers are looked at; nothing is imported or loaded.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from store.embedders import onnx_model, tensor_file, token_table
from store.home.errors import EmbedderError


@dataclass(frozen=True, slots=True)
class Found:
    """A model that is there. `name` is what the setting `embedder` takes."""

    name: str
    bytes: int


def models(home: Path) -> list[Found]:
    """Return every model found, those of the home first, each by name."""
    own = home / "models"
    named = [(str(one), one) for one in (sorted(own.iterdir()) if own.is_dir() else [])]
    named += sorted(_packages())
    made = (_found(name, folder) for name, folder in named if folder.is_dir())
    return [one for one in made if one is not None]


def _packages() -> Iterator[tuple[str, Path]]:
    """Yield the top-level packages that are installed; the working directory is none."""
    for place in {Path(place) for place in sys.path if place}:
        if place.name in ("site-packages", "dist-packages") and place.is_dir():
            yield from ((one.name, one) for one in place.iterdir() if one.name.isidentifier())


def _found(name: str, folder: Path) -> Found | None:
    for place in (folder, *sorted(one for one in folder.iterdir() if one.is_dir())):
        for file in dict.fromkeys((*onnx_model.FILES, *token_table.FILES)):
            path = place / file
            if path.is_file() and (kind := _kind(place, path)):
                return Found(f"{kind}:{name}", path.stat().st_size)
    return None


def _kind(folder: Path, weights: Path) -> str | None:
    has_tokenizer = (folder / "tokenizer.json").is_file()
    if weights.suffix == ".onnx":
        return "onnx" if has_tokenizer else None
    try:
        names = tensor_file.header(weights).keys()
    except EmbedderError:
        return None
    if names & {"embeddings", "embedding.weight"}:
        return "table" if weights.with_name("tokenizer.json").is_file() else None
    is_bert = any(name.endswith("embeddings.word_embeddings.weight") for name in names)
    return "onnx" if has_tokenizer and is_bert else None
