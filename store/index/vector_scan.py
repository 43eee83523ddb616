"""
Vector scan: the mapped vectors of the server, and the search for those nearest to a query.

Every int8 row is looked at, or of very many only those whose signs are near the query's; where a
filter leaves few, these alone. The filter holds before any cut. The best few are then weighed by
their half-precision rows, so what comes back is ordered as the floats themselves would order it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.embedders.model_facts import Calibration
from store.index import quantization
from store.index.quantization import Bytes, Floats, Halves, Words, half_dots, int8_dots, quantize
from store.index.top_k import Docs, Mask, top_k
from store.index.vector_cache import vector_matrix
from store.snapshots.projection import Tables

Places = npt.NDArray[np.int64]

_UNKNOWN = Calibration()
_RESCORED = 40  # at least so many are weighed by their halves, and four for each that is wanted
_FEW = 4_096  # documents: where no more pass, their halves are looked at and nothing else
# one in so many has signs near enough for a look at its int8 row: of a million memories' vectors,
# the lexical embedder's, .99 of the nearest ten are among them; of a sentence model's, all
_SIGNED = 64
_STRIDE = 17  # every so manieth row tells how near the nearest signs are
_BLOCK = 8_192  # rows whose products stay in the processor's cache


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of one part: int8 [n, d] with their scales [n], and halves [n, d]."""

    vectors: Bytes
    scale: Floats
    halves: Halves
    bits: tuple[Words, ...] = ()  # by word, [n] each; none where there are few rows

    @classmethod
    def of(
        cls, codes: pa.Table, rows: pa.Table, signed: pa.Table | None = None
    ) -> Iterator["PartRows"]:
        """Yield the parts of some tables, into the mapped files."""
        columns = [codes.column("vector"), codes.column("scale"), rows.column("half")]
        if signed is not None and len(signed):
            columns += signed.columns
        for vector, scale, half, *words in zip(*(one.chunks for one in columns), strict=True):
            if len(vector):
                found = tuple(word.to_numpy() for word in words)
                yield cls(vector_matrix(vector), scale.to_numpy(), vector_matrix(half), found)

    def __len__(self) -> int:
        return len(self.vectors)

    def not_unit(self) -> Places:
        """Return the rows that are neither zero nor of length 1, or not what their halves are."""
        found = []
        for start in range(0, len(self), _BLOCK):
            halves = self.halves[start : start + _BLOCK].astype(np.float32)
            codes = self.vectors[start : start + _BLOCK].astype(np.float32)
            squares = np.einsum("nd,nd->n", halves, halves)
            products = np.einsum("nd,nd->n", halves, codes) * self.scale[start : start + _BLOCK]
            is_zero = ~(halves.any(axis=1) | codes.any(axis=1))
            is_unit = (np.abs(squares - 1) < 0.05) & (np.abs(products - 1) < 0.05)
            found.append(np.flatnonzero(~(is_zero | is_unit)) + start)
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class VectorRows:
    """All parts, one after the other: row n is of document n."""

    parts: tuple[PartRows, ...]
    calibration: Calibration = _UNKNOWN
    starts: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        starts = tuple(accumulate(map(len, self.parts), initial=0))
        object.__setattr__(self, "starts", starts)

    @classmethod
    def open(cls, tables: Tables) -> "VectorRows":
        calibration = Calibration(**next(iter(tables["calibration"].to_pylist()), {}))
        parts = PartRows.of(tables["codes"], tables["rows"], tables["signs"])
        return cls(tuple(parts), calibration)

    @classmethod
    def of(cls, vectors: Floats) -> "VectorRows":
        """Return vectors [n, d] as rows of one part."""
        halves = vectors.astype(np.float16)
        return cls((PartRows(*quantize(halves), halves),))

    def __len__(self) -> int:
        return self.starts[-1]

    def floats(self, row: int) -> Floats:
        """Return one row as floats, of about length 1; zeros where it has no vector."""
        floats: Floats = self.gather(np.array([row]))[0].astype(np.float32)
        return floats

    def gather(self, rows: Places) -> Halves:
        """Return the half-precision vectors of some rows, in the order asked."""
        width = self.parts[0].halves.shape[1] if self.parts else 0
        found = np.empty((len(rows), width), np.float16)
        order = np.argsort(rows, kind="stable")
        for part, some, within in self.split(rows[order]):
            found[order[some]] = part.halves[within]
        return found

    def split(self, rows: Places) -> Iterator[tuple[PartRows, slice, Places]]:
        """Yield each part that holds some of the rows, which ascend: which, and where in it."""
        bounds = np.searchsorted(rows, self.starts).tolist()
        for part, start, first, end in zip(
            self.parts, self.starts, bounds[:-1], bounds[1:], strict=False
        ):
            if first < end:
                yield part, slice(first, end), rows[first:end] - start

    @property
    def has_signs(self) -> bool:
        return bool(self.parts and self.parts[0].bits)

    def scan(self, query: Floats) -> "Scan":
        """Return what a unit query [d] finds here."""
        return Scan(self, query)

    def cosines(self, query: Floats) -> Floats:
        """Return the cosine of a unit query with every row, [rows], to about 0.01."""
        return self.scan(query).all()


@dataclass(frozen=True, slots=True)
class Scan:
    """One query's cosines with the rows, as far as they are asked for."""

    rows: VectorRows
    query: Floats

    def best(self, mask: Mask | None, k: int, *, above: float = 0.0) -> tuple[Docs, Floats]:
        """Return the `k` nearest documents that the mask [rows] leaves, best first; their cosines.

        Of equals the newer one comes first; a cosine is more than `above`.
        """
        docs = self._candidates(mask, max(_RESCORED, 4 * k))
        cosines = self.of(docs)
        docs, cosines = docs[cosines > above], cosines[cosines > above]
        order = np.lexsort((-docs, -cosines))[:k]
        return docs[order], cosines[order]

    def _candidates(self, mask: Mask | None, count: int) -> Docs:
        """Return the documents among which the best are: `count`, or all where they are few."""
        passing = len(self.rows) if mask is None else int(np.count_nonzero(mask))
        if mask is not None and passing <= max(count, _FEW):
            return np.flatnonzero(mask)
        if not self.rows.has_signs:
            return top_k(self.all(), mask, count, above=-np.inf)
        near = self._nearest_codes(mask, _FEW + passing // _SIGNED + 10 * count)
        quantized, _ = quantize(self.query[None, :])
        scores = np.empty(len(near), np.float32)

        def score(one: tuple[PartRows, slice, Places]) -> None:
            part, some, within = one
            dots = int8_dots(quantized[0], part.vectors.take(within, axis=0))
            np.multiply(dots, part.scale[within], out=scores[some], casting="unsafe")

        parallel_scan(score, list(self.rows.split(near)))
        return near[top_k(scores, None, count, above=-np.inf)]

    def _nearest_codes(self, mask: Mask | None, count: int) -> Docs:
        """Return about `count` documents or more whose signs differ least, ascending."""
        asked = quantization.query_code(self.query)
        differ = np.empty(len(self.rows), np.uint16)

        def compare(one: tuple[PartRows, int]) -> None:
            part, start = one
            quantization.count_differences(asked, part.bits, differ[start : start + len(part)])

        parallel_scan(compare, list(zip(self.rows.parts, self.rows.starts, strict=False)))
        if mask is not None:
            np.putmask(differ, ~mask, np.uint16(quantization.CODE_BITS + 1))
        sample = differ[::_STRIDE]
        place = min(len(sample) - 1, count // _STRIDE + 1)
        most = min(int(np.partition(sample, place)[place]), quantization.CODE_BITS)
        return np.flatnonzero(differ <= most)

    def of(self, docs: Docs) -> Floats:
        """Return the cosines of some documents, in the order asked."""
        return half_dots(self.query, self.rows.gather(docs))

    def all(self) -> Floats:
        """Return the cosine with every row, [rows], to about 0.01."""
        near = np.empty(len(self.rows), np.float32)
        quantized, scale = quantize(self.query[None, :])
        for part, start in zip(self.rows.parts, self.rows.starts, strict=False):
            for at in range(0, len(part), _BLOCK):
                some = slice(at, min(at + _BLOCK, len(part)))
                dots = int8_dots(quantized[0], part.vectors[some])
                into = near[start + some.start : start + some.stop]
                np.multiply(dots, part.scale[some], out=into, casting="unsafe")
        near *= scale[0]
        return near


# Work on several processors in one answer, for a scan of more than one of them can do in time.
#
# The work must be numpy's, which lets go of Python's lock. The asking thread takes its share, so
# that
# many askers at once wait for no one.

T = TypeVar("T")

THREADS = min(4, os.cpu_count() or 1)  # memory gives no more than that


def parallel_scan(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Do some work on each item; raise what the first failing one raised."""
    shares = [share for number in range(THREADS) if (share := items[number::THREADS])]
    others = [_pool().submit(_one_by_one, work, share) for share in shares[1:]]
    try:
        for share in shares[:1]:
            _one_by_one(work, share)
    finally:
        for other in others:
            other.result()


def _one_by_one(work: Callable[[T], None], items: Sequence[T]) -> None:
    for item in items:
        work(item)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="mnemolog-scan")
