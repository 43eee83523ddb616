"""
Installed models: those in the home's `models` and in packages, and a trial of one.

Only file names and headers are looked at; nothing is imported or loaded.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from store.embedders import model_folder, onnx_model, packed_model, token_table
from store.embedders.embedder import Embedder
from store.home.errors import EmbedderError


class InstalledModel(msgspec.Struct, frozen=True):
    """An installed model. `name` is its value for the setting `embedder`."""

    name: str
    bytes: int


def installed_models(home: Path) -> list[InstalledModel]:
    """Return every model found, those of the home first, each by name."""
    own = home / "models"
    named = [(str(path), path) for path in (sorted(own.iterdir()) if own.is_dir() else [])]
    named += sorted(_packages())
    models = (_model_in(name, folder) for name, folder in named if folder.is_dir())
    return [model for model in models if model is not None]


def _packages() -> Iterator[tuple[str, Path]]:
    """Yield the top-level packages that are installed; the working directory is none."""
    for place in {Path(place) for place in sys.path if place}:
        if place.name in ("site-packages", "dist-packages") and place.is_dir():
            yield from ((path.name, path) for path in place.iterdir() if path.name.isidentifier())


def _model_in(name: str, folder: Path) -> InstalledModel | None:
    for place in (folder, *sorted(other for other in folder.iterdir() if other.is_dir())):
        for file in dict.fromkeys((*onnx_model.FILES, *token_table.FILES, packed_model.FILE)):
            path = place / file
            if path.is_file() and (kind := _kind(place, path)):
                return InstalledModel(f"{kind}:{name}", path.stat().st_size)
    return None


def _kind(folder: Path, weights: Path) -> str | None:
    if weights.name == packed_model.FILE:
        return "onnx"
    has_tokenizer = (folder / "tokenizer.json").is_file()
    if weights.suffix == ".onnx":
        return "onnx" if has_tokenizer else None
    try:
        names = model_folder.tensor_header(weights).keys()
    except EmbedderError:
        return None
    if names & {"embeddings", "embedding.weight"}:
        return "table" if weights.with_name("tokenizer.json").is_file() else None
    is_bert = any(name.endswith("embeddings.word_embeddings.weight") for name in names)
    return "onnx" if has_tokenizer and is_bert else None


# A trial: does a model answer, how fast, and does it know a paraphrase from another topic?

_TEXTS = (
    "The deploy failed because the signing key had expired.",
    "An expired signing key broke the release.",
    "We had noodles for lunch in the garden.",
)


class Trial(msgspec.Struct, frozen=True):
    """The results of a trial, with a text's cosines to its paraphrase and to an unrelated text."""

    model: str
    dimension: int
    load_ms: float
    ms_per_text: float
    paraphrase: float
    unrelated: float

    @property
    def ok(self) -> bool:
        return self.paraphrase > self.unrelated


def try_model(embedder: Embedder) -> Trial:
    """Try a model on three texts; raise EmbedderError if it does not answer."""
    began = time.perf_counter()
    embedder.embed(_TEXTS[:1])
    loaded = time.perf_counter()
    text, paraphrase, other = embedder.embed(_TEXTS)
    seconds = time.perf_counter() - loaded
    return Trial(
        embedder.model,
        embedder.dimension,
        round((loaded - began) * 1000, 1),
        round(seconds * 1000 / len(_TEXTS), 2),
        round(float(text @ paraphrase), 3),
        round(float(text @ other), 3),
    )


def estimate_seconds(embedder: Embedder, texts: Sequence[str], sample: int = 24) -> float:
    """Return about how long embedding the texts takes, by a sample spread over them.

    Raise EmbedderError if the model does not answer.
    """
    if not texts:
        return 0.0
    chosen = texts[:: -(-len(texts) // sample)]
    began = time.perf_counter()
    embedder.embed(chosen)
    return (time.perf_counter() - began) * len(texts) / len(chosen)
