"""
The vectors that an embedder makes, batch by batch, as far as it answers.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from store.embedders.lexical import LexicalEmbedder
from store.embedding import Embedder
from store.errors import EmbedderError
from store.snapshots import parallel
from store.snapshots.projection import Inputs
from store.vectors.hashes import Hashes, as_column
from store.vectors.known import Known, column
from store.vectors.quantized import Halves

log = logging.getLogger("mnemolog")

Texts = Callable[[pa.Table], Iterable[str]]  # of the rows of a batch, in order

_BATCH = 256  # texts a call of a model: what a failure takes with it
_CHEAP_BATCH = 16_384  # texts a task for another process: a second of work


def batch_size(embedder: Embedder) -> int:
    return _CHEAP_BATCH if isinstance(embedder, LexicalEmbedder) else _BATCH


def made(
    embedder: Embedder,
    hashes: Sequence[Hashes],
    batches: Iterable[pa.Table],
    texts: Texts,
    inputs: Inputs,
) -> Iterator[Halves | None]:
    """Yield the vectors [n, d] of each batch; None from the first on that gets no answer.

    `hashes` are of the texts of each batch; `texts` is a function of a module, as other processes
    call it. Raise EmbedderError where the answer has another shape than the model's.
    """
    done, total = 0, sum(map(len, hashes))
    some: Iterator[Halves | None]
    if isinstance(embedder, LexicalEmbedder) and total > _CHEAP_BATCH:
        # it is pure Python: only processes use all processors
        some = inputs.map(partial(_halves, embedder, texts), map(parallel.packed, batches))
    else:
        some = _answers(embedder, batches, texts)
    for of, vectors in zip(hashes, some, strict=True):
        if vectors is not None:
            done += len(of)
            inputs.report(done, total)
            if not embedder.is_cheap:
                inputs.journal.add(_table(of, vectors))
        yield vectors


def known_of(inputs: Inputs, tables: Iterable[pa.Table]) -> Known:
    """Return the vectors of tables of rows, and those that a build which was ended had made."""
    return Known.of([*tables, *inputs.journal.read()])


def _table(hashes: Hashes, vectors: Halves) -> pa.Table:
    return pa.table({"text_hash": as_column(hashes), "half": column(vectors)})


def _answers(
    embedder: Embedder, batches: Iterable[pa.Table], texts: Texts
) -> Iterator[Halves | None]:
    answers = bool(embedder.dimension)
    for batch in batches:
        try:
            vectors = _vectors(embedder, list(texts(batch))) if answers else None
        except NoAnswer as error:
            log.warning("texts wait for a vector: %s", error)
            answers, vectors = False, None
        yield vectors


class NoAnswer(EmbedderError):
    """The model did not answer: what it owes is asked for again."""


def _halves(embedder: Embedder, texts: Texts, batch: pa.Buffer) -> Halves:
    return _vectors(embedder, list(texts(parallel.unpacked(batch))))


def _vectors(embedder: Embedder, texts: list[str]) -> Halves:
    try:
        vectors = embedder.embed(texts)
    except EmbedderError as error:
        raise NoAnswer(str(error)) from error
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbedderError(f"{embedder.model} gave {vectors.shape} for {len(texts)} texts")
    return vectors.astype(np.float16)
