"""
The vector cache: vectors of earlier builds by the hash of their text, and new ones in batches.

A text hash is two 64-bit words, so that a million are compared and found at once. Two zero words
mean no text.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.embedders.embedder import Embedder
from store.embedders.lexical import LexicalEmbedder
from store.home.errors import EmbedderError
from store.index.vector_scan import Halves, vector_matrix
from store.snapshots import parallel
from store.snapshots.projection import Inputs

Hashes = npt.NDArray[np.uint64]  # [n, 2]
Places = npt.NDArray[np.int64]


def column_hashes(column: pa.ChunkedArray) -> Hashes:
    """Return a column of 16-byte hashes as numbers [n, 2]; one chunk is not copied."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], "<u8").reshape(-1, 2)[chunk.offset :][: len(chunk)]
        for chunk in column.chunks
        if len(chunk)
    ]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate(chunks) if chunks else np.empty((0, 2), np.uint64)


def hash_column(hashes: Hashes) -> pa.Array:
    """Return hashes as an Arrow column of 16 bytes each."""
    data = pa.py_buffer(np.ascontiguousarray(hashes, "<u8"))
    return pa.Array.from_buffers(pa.binary(16), len(hashes), [None, data])


def has_text(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Return a mask of the hashes that are of a text, [n]."""
    return np.asarray(hashes.any(axis=1), np.bool_)


def hashes_differ(one: Hashes, other: Hashes) -> npt.NDArray[np.bool_]:
    """Return a mask of the differences between two arrays of as many hashes, [n]."""
    return np.asarray((one != other).any(axis=1), np.bool_)


def first_places(hashes: Hashes) -> Places:
    """Return the first place of each hash, [n]."""
    order = np.lexsort((np.arange(len(hashes)), hashes[:, 1], hashes[:, 0]))
    begins = np.ones(len(hashes), np.bool_)
    begins[1:] = hashes_differ(hashes[order[1:]], hashes[order[:-1]])
    first = np.empty(len(hashes), np.int64)
    first[order] = order[begins][np.cumsum(begins) - 1]
    return first


class HashFinder:
    """Finds the place of a hash among many; hashes of no text are not found."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        places = np.flatnonzero(has_text(hashes))
        order = places[np.argsort(hashes[places, 0], kind="stable")]
        self._places, self._words = order, hashes[order, 0]

    def find(self, wanted: Hashes) -> Places:
        """Return a place of each wanted hash, [m]; -1 if it is not there."""
        found_at = np.full(len(wanted), -1, np.int64)
        at = np.searchsorted(self._words, wanted[:, 0])
        open_ = np.arange(len(wanted))
        while len(open_):  # more than once where two hashes begin alike
            open_ = open_[at[open_] < len(self._words)]
            open_ = open_[self._words[at[open_]] == wanted[open_, 0]]
            places = self._places[at[open_]]
            is_it = self._hashes[places, 1] == wanted[open_, 1]
            found_at[open_[is_it]] = places[is_it]
            open_ = open_[~is_it]
            at[open_] += 1
        return found_at


# Known: the vectors that were made before, found by their text's hash, so none is made twice.


@dataclass(frozen=True)
class VectorCache:
    """Runs of vectors [n, d] and the hashes of their texts [all]; zeros for no text."""

    hashes: Hashes
    runs: Sequence[Halves]

    @classmethod
    def of(cls, tables: Iterable[pa.Table]) -> "VectorCache":
        """Return the cache of tables with the columns `text_hash` and `half`, in their order."""
        some = [table for table in tables if table.num_rows]
        columns = [chunk for table in some for chunk in table.column("text_hash").chunks]
        halves = [chunk for table in some for chunk in table.column("half").chunks]
        return cls(
            column_hashes(pa.chunked_array(columns, pa.binary(16))),
            [vector_matrix(chunk) for chunk in halves if len(chunk)],
        )

    def find(self, wanted: Hashes) -> Places:
        """Return a place of each wanted hash, [m]; -1 if it is not there."""
        if not len(wanted) or not len(self.hashes):
            return np.full(len(wanted), -1, np.int64)
        return self._finder.find(wanted)

    @cached_property
    def _finder(self) -> HashFinder:
        return HashFinder(self.hashes)

    @cached_property
    def _starts(self) -> Places:
        return np.cumsum([0, *map(len, self.runs)])

    def copy(self, places: Places, into: Halves, at: Places) -> None:
        """Write the vectors of some places into rows `at` of `into`."""
        for run, start in zip(self.runs, self._starts, strict=False):
            here = np.flatnonzero((places >= start) & (places < start + len(run)))
            if len(here):
                into[at[here]] = run[places[here] - start]


def vector_column(rows: npt.NDArray[Any]) -> pa.FixedSizeListArray:
    """Return vectors [n, d] as a column; nothing is copied."""
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


# The vectors of an embedder, batch by batch, until it fails.

log = logging.getLogger("mnemolog")

Texts = Callable[[pa.Table], Iterable[str]]  # of the rows of a batch, in order

_BATCH = 256  # texts a call of a model: the loss of a failure
_CHEAP_BATCH = 16_384  # texts a task for another process: a second of work


def batch_size(embedder: Embedder) -> int:
    return _CHEAP_BATCH if isinstance(embedder, LexicalEmbedder) else _BATCH


def embed_batches(
    embedder: Embedder,
    hashes: Sequence[Hashes],
    batches: Iterable[pa.Table],
    texts: Texts,
    inputs: Inputs,
) -> Iterator[Halves | None]:
    """Yield the vectors [n, d] of each batch; None from the first on that gets no answer.

    `hashes` are of the texts of each batch; `texts` is a function of a module, as other processes
    call it. Raise EmbedderError if the answer has another shape than the model's.
    """
    done, total = 0, sum(map(len, hashes))
    some: Iterator[Halves | None]
    if isinstance(embedder, LexicalEmbedder) and total > _CHEAP_BATCH:
        # it is pure Python: only processes use all processors
        some = inputs.map(partial(_halves, embedder, texts), map(parallel.pack_table, batches))
    else:
        some = _answers(embedder, batches, texts)
    for of, vectors in zip(hashes, some, strict=True):
        if vectors is not None:
            done += len(of)
            inputs.report(done, total)
            if not embedder.is_cheap:
                columns = {"text_hash": hash_column(of), "half": vector_column(vectors)}
                inputs.journal.add(pa.table(columns))
        yield vectors


def vector_cache(inputs: Inputs, tables: Iterable[pa.Table]) -> VectorCache:
    """Return the vectors of tables of rows, and those made by an interrupted build."""
    return VectorCache.of([*tables, *inputs.journal.read()])


def _answers(
    embedder: Embedder, batches: Iterable[pa.Table], texts: Texts
) -> Iterator[Halves | None]:
    answers = bool(embedder.dimension)
    for batch in batches:
        try:
            vectors = _vectors(embedder, list(texts(batch))) if answers else None
        except NoAnswer as error:
            log.warning("texts are waiting for a vector: %s", error)
            answers, vectors = False, None
        yield vectors


class NoAnswer(EmbedderError):
    """The model did not answer: the missing vectors are requested again."""


def _halves(embedder: Embedder, texts: Texts, batch: pa.Buffer) -> Halves:
    return _vectors(embedder, list(texts(parallel.unpack_table(batch))))


def _vectors(embedder: Embedder, texts: list[str]) -> Halves:
    try:
        vectors = embedder.embed(texts)
    except EmbedderError as error:
        raise NoAnswer(str(error)) from error
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbedderError(f"{embedder.model} gave {vectors.shape} for {len(texts)} texts")
    return vectors.astype(np.float16)
