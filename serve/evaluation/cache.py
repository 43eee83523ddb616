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
from store.errors import InvalidInput
from store.files import replace_file
from store.text import text_hash

Vector = npt.NDArray[np.float32]


class CachedEmbedder:
    """An embedder and what it said before. `save` keeps what is new for the next run."""

    def __init__(self, embedder: Embedder, cache: Path) -> None:
        self.model, self.is_cheap = embedder.model, embedder.is_cheap
        self.is_local = embedder.is_local
        self._embedder = embedder
        self._folder = cache / _folder_name(embedder.model)
        self._known = dict(_read(self._folder))
        self._new: dict[bytes, Vector] = {}

    @property
    def dimension(self) -> int:
        known = next(iter(self._known.values()), None)
        return self._embedder.dimension if known is None else len(known)

    def embed(self, texts: Sequence[str]) -> Matrix:
        hashes = [text_hash(one) for one in texts]
        missing = {
            hash_: one for hash_, one in zip(hashes, texts, strict=True) if hash_ not in self._known
        }
        if missing:
            made = self._embedder.embed(list(missing.values()))
            new = dict(zip(missing, made, strict=True))
            self._known |= new
            self._new |= new
        found = [self._known[hash_] for hash_ in hashes]
        return np.stack(found) if found else np.zeros((0, self.dimension), np.float32)

    def save(self) -> None:
        """Write what is new; raise InvalidInput where the folder cannot be written."""
        if not self._new:
            return
        flat = pa.array(np.concatenate(list(self._new.values())))
        columns = {
            "hash": pa.array(list(self._new), pa.binary(16)),
            "vector": pa.FixedSizeListArray.from_arrays(flat, self.dimension),
        }
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, (table := pa.table(columns)).schema) as writer:
            writer.write_table(table)
        try:
            replace_file(self._folder / f"{uuid4().hex}.arrow", sink.getvalue().to_pybytes())
        except OSError as error:
            raise InvalidInput(f"{self._folder} cannot be written ({error.strerror})") from error
        self._new.clear()


def _folder_name(model: str) -> str:
    """Return a name that says which model, and is another for every id."""
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[-40:]
    return f"{slug}-{sha256(model.encode()).hexdigest()[:12]}"


def _read(folder: Path) -> Iterator[tuple[bytes, Vector]]:
    """Yield what earlier runs saved; a file that is not as it was written is dropped."""
    for path in sorted(folder.glob("*.arrow")):
        try:
            table = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
        except pa.ArrowInvalid:
            path.unlink(missing_ok=True)
            continue
        vectors = table.column("vector").combine_chunks()
        rows = vectors.flatten().to_numpy().reshape(len(vectors), -1)
        yield from zip(table.column("hash").to_pylist(), rows, strict=True)
