"""
CachedEmbedder: an embedder that asks its model once for each text, also over many runs.

A slow model makes an experiment slow only the first time. The vectors lie in a folder for each
model, keyed by the text's hash, in Arrow files to which none is ever added: every `save` writes
one more. All of it can be deleted at any time.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from store.embedding import Embedder, Matrix
from store.errors import EmbedderError, InvalidInput
from store.files import replace_file
from store.text import text_hash

Vector = npt.NDArray[np.float32]


class CachedEmbedder:
    """An embedder and what it said before. `save` keeps what is new for the next run."""

    def __init__(self, embedder: Embedder, cache: Path) -> None:
        self.model, self.dimension = embedder.model, embedder.dimension
        self.is_cheap = embedder.is_cheap
        self._embedder = embedder
        self._folder = cache / _folder_name(embedder)
        self._known = dict(_read(self._folder, self.dimension))
        self._new: dict[bytes, Vector] = {}

    def embed(self, texts: Sequence[str]) -> Matrix:
        hashes = [text_hash(one) for one in texts]
        missing = {
            hash_: one for hash_, one in zip(hashes, texts, strict=True) if hash_ not in self._known
        }
        if missing:
            made = self._embedder.embed(list(missing.values()))
            if made.shape != (len(missing), self.dimension):
                raise EmbedderError(f"{self.model} gave {made.shape} for {len(missing)} texts")
            self._new |= dict(zip(missing, made, strict=True))
            self._known |= self._new
        found = [self._known[hash_] for hash_ in hashes]
        return np.stack(found) if found else np.zeros((0, self.dimension), np.float32)

    def save(self) -> None:
        """Write what is new; raise InvalidInput where the folder cannot be written."""
        if not self._new:
            return
        columns = [
            pa.array(list(self._new), pa.binary(16)),
            pa.FixedSizeListArray.from_arrays(
                pa.array(np.concatenate(list(self._new.values()))), self.dimension
            ),
        ]
        sink = pa.BufferOutputStream()
        table = pa.table(columns, schema=_schema(self.dimension))
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        try:
            replace_file(self._folder / f"{uuid4().hex}.arrow", sink.getvalue().to_pybytes())
        except OSError as error:
            raise InvalidInput(f"{self._folder} cannot be written ({error.strerror})") from error
        self._new.clear()


def _schema(dimension: int) -> pa.Schema:
    return pa.schema([("hash", pa.binary(16)), ("vector", pa.list_(pa.float32(), dimension))])


def _folder_name(embedder: Embedder) -> str:
    """Return a name that says which model, and is another for every id and dimension."""
    slug = re.sub(r"[^a-z0-9]+", "-", embedder.model.lower()).strip("-")[-40:]
    digest = sha256(f"{embedder.model}/{embedder.dimension}".encode()).hexdigest()[:12]
    return f"{slug}-{digest}"


def _read(folder: Path, dimension: int) -> Iterator[tuple[bytes, Vector]]:
    """Yield what earlier runs saved; a file that is not as it was written is dropped."""
    for path in sorted(folder.glob("*.arrow")):
        try:
            table = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
        except (pa.ArrowInvalid, OSError):
            path.unlink(missing_ok=True)
            continue
        if table.schema != _schema(dimension):
            path.unlink(missing_ok=True)
            continue
        flat = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        yield from zip(table.column("hash").to_pylist(), flat.reshape(-1, dimension), strict=True)
