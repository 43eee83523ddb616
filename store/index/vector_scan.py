"""
Vector scan: the mapped vectors of the server, and the search for those nearest to a query.

Every int8 row is scanned, or of very many only those whose binary codes are near the query's; if a
filter leaves few, only these. The filter is applied before any cut. The best few are then weighed
by their half-precision rows, so the results are ordered as the floats themselves would order them.

An int8 row has its largest number at 127, and a scale turns it back. A binary code has 512 bits of
a vector: its side of the middle in each of 512 directions. The number of bits in which two vectors
differ is about proportional to their angle (Charikar 2002), so of a million rows the few per cent
with the fewest differences include the nearest ones, and finding them reads a fraction of the int8
rows' bytes. The directions are those of a Hadamard matrix under random signs (Ailon and Chazelle
2009); the middle is that of a part's own rows. All arithmetic is in whole numbers that 32-bit
floats represent exactly, so the bits are the same everywhere.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from hashlib import shake_128
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.embedders.model_facts import Calibration
from store.index.top_k import Docs, Mask, top_k
from store.snapshots.projection import Tables

try:
    from numkong import cdist
except ImportError:  # no wheel for this platform: numpy is a few times slower and as exact
    cdist = None  # type: ignore[assignment]

Bytes = npt.NDArray[np.int8]
Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]

_ROW_BLOCK = 4_096  # rows that stay in the processor's cache as floats


def quantize(vectors: Floats | Halves) -> tuple[Bytes, Floats]:
    """Return int8 rows [n, d] and the scale [n] that turns each back; zero rows stay zero."""
    rows = np.empty(vectors.shape, np.int8)
    scale = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _ROW_BLOCK):
        block = vectors[start : start + _ROW_BLOCK].astype(np.float32)
        largest = np.abs(block).max(axis=1, initial=0.0)
        scale[start : start + _ROW_BLOCK] = np.where(largest > 0, largest, 1.0) / np.float32(127.0)
        block /= scale[start : start + _ROW_BLOCK, None]
        rows[start : start + _ROW_BLOCK] = np.rint(block, out=block)
    return rows, scale


def int8_dots(query: Bytes, rows: Bytes) -> npt.NDArray[np.floating]:
    """Return the dot products of one int8 row [d] with many [n, d]: [n], exact; n is not 0."""
    if cdist is not None:
        dots: npt.NDArray[np.floating] = np.asarray(cdist(query[None, :], rows, "dot")).ravel()
        return dots
    dots = np.empty(len(rows), np.float32)
    asked = query.astype(np.float32)
    block = np.empty((_ROW_BLOCK, rows.shape[1]), np.float32)
    for start in range(0, len(rows), _ROW_BLOCK):
        part = rows[start : start + _ROW_BLOCK]
        block[: len(part)] = part
        np.dot(block[: len(part)], asked, out=dots[start : start + len(part)])
    return dots


def half_dots(query: Floats, rows: Halves) -> Floats:
    """Return the dot products of a vector [d] with half-precision rows [n, d]: [n]."""
    if not len(rows):
        return np.empty(0, np.float32)
    if cdist is None:
        products: Floats = rows.astype(np.float32) @ query
        return products
    # the kernel needs one type on both sides: the query's rounding error is a second query
    asked = np.zeros((2, len(query)), np.float16)
    asked[0] = query
    asked[1] = query - asked[0]
    both = np.asarray(cdist(asked, rows, "dot"))
    dots: Floats = (both[0] + both[1]).astype(np.float32)
    return dots


CODE_WORDS = 8  # of 64 bits
CODE_BITS = 64 * CODE_WORDS
Words = npt.NDArray[np.uint64]
Differences = npt.NDArray[np.uint16]

_GRAINS = 4_096  # of a number between 0 and 1
_PROJECTED = 8_192  # rows whose directions are in memory: 16 MB
_SAMPLED = 8  # the middle is computed from every 8th row
_CODE_BLOCK = 65_536  # rows at a time: the work for each word stays in the second cache


def binary_codes(halves: Halves) -> Words:
    """Return the bits of rows [n, d] by word: [WORDS, n]; n is not 0."""
    sample = _project(halves[::_SAMPLED])
    middle = sample.sum(axis=0, dtype=np.float64) / len(sample)
    words = np.empty((CODE_WORDS, len(halves)), np.uint64)
    for start in range(0, len(halves), _PROJECTED):
        is_above = _project(halves[start : start + _PROJECTED]) > middle
        words[:, start : start + _PROJECTED] = _pack_bits(is_above).T
    return words


def query_code(query: Floats) -> Words:
    """Return the bits of a query's vector [d]: [WORDS]."""
    bits: Words = _pack_bits(_project(query[None, :]) > 0)[0]
    return bits


def count_differences(query: Words, words: Sequence[Words], into: Differences) -> None:
    """Write in how many bits each of some rows differs from a query, [n]."""
    other, count = np.empty(_CODE_BLOCK, np.uint64), np.empty(_CODE_BLOCK, np.uint8)
    into[:] = 0
    for start in range(0, len(into), _CODE_BLOCK):
        found = into[start : start + _CODE_BLOCK]
        size = len(found)
        for bits, word in zip(query, words, strict=True):
            np.bitwise_xor(word[start : start + size], bits, out=other[:size])
            np.add(found, np.bitwise_count(other[:size], out=count[:size]), out=found)


def _project(rows: Halves | Floats) -> Floats:
    whole = np.rint(rows.astype(np.float32) * np.float32(_GRAINS))
    projected: Floats = whole @ _directions(rows.shape[1])
    return projected


def _pack_bits(bits: npt.NDArray[np.bool_]) -> Words:
    packed: Words = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return packed


@cache
def _directions(width: int) -> Floats:
    """Return the directions [width, BITS], of ones and minus ones."""
    size = min(CODE_BITS, 1 << max(0, width - 1).bit_length())
    rows, columns = np.arange(width, dtype=np.uint64), np.arange(size, dtype=np.uint64)
    hadamard = 1.0 - 2.0 * (np.bitwise_count(rows[:, None] & columns) & 1)
    count = CODE_BITS // size
    data = np.frombuffer(shake_128(b"directions").digest(-(-count * width // 8)), np.uint8)
    signs = 1.0 - 2.0 * np.unpackbits(data)[: count * width].reshape(count, width)
    return np.hstack([sign[:, None] * hadamard for sign in signs]).astype(np.float32)


def vector_matrix(column: pa.FixedSizeListArray) -> npt.NDArray[Any]:
    """Return a column of vectors as [n, d], into the mapped file."""
    width = column.type.list_size
    # not `flatten`, which would load pyarrow.compute into the server
    flat = column.values.slice(column.offset * width, len(column) * width)
    rows: npt.NDArray[Any] = flat.to_numpy(zero_copy_only=True).reshape(-1, width)
    return rows


Places = npt.NDArray[np.int64]

_UNKNOWN = Calibration()
_RESCORED = 40  # the least number weighed by their halves; else four for each requested
_ROUGH = 0.01  # the greatest error of a cosine of int8 rows
_FEW = 4_096  # documents: if no more pass, only their halves are read
# one in so many has signs near enough for a look at its int8 row: of a million memories' vectors,
# the lexical embedder's, .99 of the nearest ten are among them; of a sentence model's, all
_SIGNED = 64
_STRIDE = 17  # the distance of the nearest signs is estimated from every 17th row
_SCAN_BLOCK = 8_192  # rows whose products stay in the processor's cache


class PartRows(msgspec.Struct, frozen=True):
    """The rows of one part: int8 [n, d] with their scales [n], and halves [n, d]."""

    vectors: Bytes
    scale: Floats
    halves: Halves
    bits: tuple[Words, ...] = ()  # by word, [n] each; none with few rows

    @classmethod
    def of(
        cls, codes: pa.Table, rows: pa.Table, signed: pa.Table | None = None
    ) -> Iterator["PartRows"]:
        """Yield the parts of some tables, into the mapped files."""
        columns = [codes.column("vector"), codes.column("scale"), rows.column("half")]
        if signed is not None and len(signed):
            columns += signed.columns
        for vector, scale, half, *words in zip(*(column.chunks for column in columns), strict=True):
            if len(vector):
                found = tuple(word.to_numpy() for word in words)
                yield cls(vector_matrix(vector), scale.to_numpy(), vector_matrix(half), found)

    def __len__(self) -> int:
        return len(self.vectors)

    def not_unit(self) -> Places:
        """Return the rows that are neither zero nor of length 1, or differ from their halves."""
        found = []
        for start in range(0, len(self), _SCAN_BLOCK):
            halves = self.halves[start : start + _SCAN_BLOCK].astype(np.float32)
            codes = self.vectors[start : start + _SCAN_BLOCK].astype(np.float32)
            squares = np.einsum("nd,nd->n", halves, halves)
            products = (
                np.einsum("nd,nd->n", halves, codes) * self.scale[start : start + _SCAN_BLOCK]
            )
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
        """Return one row as floats, of about length 1; zeros if it has no vector."""
        floats: Floats = self.gather(np.array([row]))[0].astype(np.float32)
        return floats

    def gather(self, rows: Places) -> Halves:
        """Return the half-precision vectors of some rows, in the order asked."""
        if len(self.parts) == 1:
            return self.parts[0].halves.take(rows, axis=0)
        width = self.parts[0].halves.shape[1] if self.parts else 0
        found = np.empty((len(rows), width), np.float16)
        order = np.argsort(rows, kind="stable")
        for part, some, within in self.split(rows[order]):
            found[order[some]] = part.halves[within]
        return found

    def split(self, rows: Places) -> Iterator[tuple[PartRows, slice, Places]]:
        """Yield each part with some of the ascending rows, their slice and their places in it."""
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
        """Return the scan of a unit query [d] over these rows."""
        return Scan(self, query)

    def cosines(self, query: Floats) -> Floats:
        """Return the cosine of a unit query with every row, [rows], to about 0.01."""
        return self.scan(query).all()


class Scan(msgspec.Struct, frozen=True):
    """One query's cosines with the rows, computed on demand."""

    rows: VectorRows
    query: Floats

    def best(self, mask: Mask | None, k: int, *, above: float = 0.0) -> tuple[Docs, Floats]:
        """Return the `k` nearest documents that the mask [rows] leaves, best first; their cosines.

        Of equals the newer one comes first; a cosine is more than `above`.
        """
        docs, rough = self._candidates(mask, max(_RESCORED, 4 * k), above - 2 * _ROUGH)
        if rough is not None:  # rows that are surely not among them are not weighed
            docs = docs[rough >= max([above - _ROUGH, *(rough[k - 1 : k] - 2 * _ROUGH)])]
        return self.weigh(docs, k, above=above)

    def weigh(self, docs: Docs, k: int, *, above: float = 0.0) -> tuple[Docs, Floats]:
        """Return the `k` nearest of some documents, as `best` does."""
        cosines = self.of(docs)
        docs, cosines = docs[cosines > above], cosines[cosines > above]
        order = np.lexsort((-docs, -cosines))[:k]
        return docs[order], cosines[order]

    def _candidates(
        self, mask: Mask | None, count: int, above: float
    ) -> tuple[Docs, Floats | None]:
        """Return the documents among which the best are: `count`, or all if there are few.

        With `count` of them come their rough cosines, all over `above`, and they are best first.
        """
        passing = len(self.rows) if mask is None else int(np.count_nonzero(mask))
        if mask is not None and passing <= max(count, _FEW):
            return np.flatnonzero(mask), None
        if not self.rows.has_signs:
            rough = self.all()
            docs = top_k(rough, mask, count, above=above)
            return docs, rough[docs]
        near = self._nearest_codes(mask, _FEW + passing // _SIGNED + 10 * count)
        quantized, scale = quantize(self.query[None, :])
        scores = np.empty(len(near), np.float32)

        def score(one: tuple[PartRows, slice, Places]) -> None:
            part, some, within = one
            dots = int8_dots(quantized[0], part.vectors.take(within, axis=0))
            np.multiply(dots, part.scale[within], out=scores[some], casting="unsafe")

        parallel_scan(score, list(self.rows.split(near)))
        scores *= scale[0]
        best = top_k(scores, None, count, above=above)
        return near[best], scores[best]

    def _nearest_codes(self, mask: Mask | None, count: int) -> Docs:
        """Return about `count` documents or more with the fewest differing signs, ascending."""
        code = query_code(self.query)
        differ = np.empty(len(self.rows), np.uint16)

        def compare(one: tuple[PartRows, int]) -> None:
            part, start = one
            count_differences(code, part.bits, differ[start : start + len(part)])

        parallel_scan(compare, list(zip(self.rows.parts, self.rows.starts, strict=False)))
        if mask is not None:
            np.putmask(differ, ~mask, np.uint16(CODE_BITS + 1))
        sample = differ[::_STRIDE]
        place = min(len(sample) - 1, count // _STRIDE + 1)
        most = min(int(np.partition(sample, place)[place]), CODE_BITS)
        return np.flatnonzero(differ <= most)

    def of(self, docs: Docs) -> Floats:
        """Return the cosines of some documents, in the order asked."""
        return half_dots(self.query, self.rows.gather(docs))

    def all(self) -> Floats:
        """Return the cosine with every row, [rows], to about 0.01."""
        near = np.empty(len(self.rows), np.float32)
        quantized, scale = quantize(self.query[None, :])
        for part, start in zip(self.rows.parts, self.rows.starts, strict=False):
            for at in range(0, len(part), _SCAN_BLOCK):
                some = slice(at, min(at + _SCAN_BLOCK, len(part)))
                dots = int8_dots(quantized[0], part.vectors[some])
                into = near[start + some.start : start + some.stop]
                np.multiply(dots, part.scale[some], out=into, casting="unsafe")
        near *= scale[0]
        return near


T = TypeVar("T")

THREADS = min(4, os.cpu_count() or 1)  # memory gives no more than that


def parallel_scan(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Do some work on each item, on several processors; raise the exception of the first failure.

    The work must be numpy's, which releases the GIL. The calling thread takes its share, so that
    many callers at once do not wait for each other.
    """
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
