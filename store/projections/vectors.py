"""
vectors: every text's embedding, keyed by the text's hash and the model's id.

`vectors` is the Lance table the jobs query, one float row for each distinct text, in the order of
its hash; a text that was embedded before by the same model is never embedded again. `rows` is what
the server maps: one int8 row for each memory, in the order of memories, with the scale that gives
the float back. Rows of forgotten memories are zero. `calibration` says what a cosine of the model
is worth.

A model that does not answer loses nothing: the texts it owes a vector are listed in `missing`,
their rows are zero, and the next build asks for them again.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.columns import view
from store.embedders.calibration import Calibration, calibrate
from store.embedding import Embedder, Matrix
from store.errors import EmbedderError
from store.projection import Inputs, Previous, Projection, Tables
from store.projections import memories

try:
    from numkong import cdist as _kernel
except ImportError:  # no wheel for this platform: numpy is a few times slower and as exact
    _kernel = None  # type: ignore[assignment]

log = logging.getLogger("mnemolog")

_BATCH = 256  # texts a call of the embedder: what a failure takes with it

Bytes = npt.NDArray[np.int8]

CALIBRATION = pa.schema(
    [("unrelated", pa.float64()), ("related", pa.float64()), ("knows_meaning", pa.bool_())]
)


def projection(embedder: Embedder) -> Projection:
    """Return the vectors projection of one model; another model is another version."""

    dimension = embedder.dimension

    def build(inputs: Inputs, previous: Previous | None) -> Tables:
        table = inputs.tables["memories"]["memories"]
        made = stored(embedder, dimension, distinct_texts(table), previous)
        calibration = _calibration(embedder, previous, is_down=bool(made.missing))
        return made.tables | {
            "rows": _rows(schemas["rows"], table, made.hashes, made.vectors),
            "calibration": pa.Table.from_pylist(calibration, CALIBRATION),
        }

    schemas = stored_schemas(dimension) | {
        "rows": pa.schema(row_fields(dimension)),
        "calibration": CALIBRATION,
    }
    return Projection(
        name="vectors",
        version=f"3/{embedder.model}/{dimension}",
        inputs=("memories",),
        schemas=schemas,
        build=build,
        for_builds=frozenset({"vectors", "missing"}),
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """The vectors there are of some texts, in the order of their hashes; and what has none yet."""

    model: str
    hashes: Sequence[bytes]
    vectors: Matrix
    missing: Sequence[bytes]

    @property
    def tables(self) -> dict[str, pa.Table]:
        """Both as tables of `stored_schemas`: the Lance one, and `missing`."""
        schemas = stored_schemas(self.vectors.shape[1])
        return {
            "vectors": _table(schemas["vectors"], self.hashes, self.model, self.vectors),
            "missing": pa.table([pa.array(self.missing, pa.binary(16))], schema=schemas["missing"]),
        }


def stored(
    embedder: Embedder, dimension: int, texts: Mapping[bytes, str], previous: Previous | None
) -> Stored:
    """Return the vectors of texts by their hash; only those `previous` lacks are embedded."""
    known = {} if previous is None else _known(previous.tables["vectors"], embedder.model)
    wanted = {hash_: text for hash_, text in sorted(texts.items()) if hash_ not in known}
    known |= _embedded(embedder, dimension, wanted)
    hashes = sorted(texts.keys() & known.keys())
    vectors = np.zeros((len(hashes), _width(dimension)), np.float32)
    for row, hash_ in enumerate(hashes):
        vectors[row] = known[hash_]
    return Stored(embedder.model, hashes, vectors, sorted(texts.keys() - known.keys()))


def stored_schemas(dimension: int) -> dict[str, pa.Schema]:
    """Return the schemas of what is kept of texts, whatever its rows are."""
    vector = pa.list_(pa.float32(), _width(dimension))
    return {
        "vectors": pa.schema(
            [("text_hash", pa.binary(16)), ("model", pa.string()), ("vector", vector)]
        ),
        "missing": pa.schema([("text_hash", pa.binary(16))]),
    }


def row_fields(dimension: int) -> list[pa.Field]:
    """Return the columns of an int8 row as the server maps it."""
    vector = pa.list_(pa.int8(), _width(dimension))
    return [pa.field("vector", vector), pa.field("scale", pa.float32())]


def row_columns(rows: Bytes, scale: npt.NDArray[np.float32]) -> list[pa.Array]:
    """Return int8 rows as the columns of `row_fields`."""
    vector = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    return [vector, pa.array(scale)]


def mapped_rows(table: pa.Table) -> tuple[Bytes, npt.NDArray[np.float32]]:
    """Return the int8 rows [n, d] and scales [n] of a table, into the mapped file."""
    column = table.column("vector")
    width = column.type.list_size
    if not table.num_rows:
        return np.empty((0, width), np.int8), np.empty(0, np.float32)
    flat = column.chunk(0).values.to_numpy(zero_copy_only=True)
    return flat.reshape(-1, width), view(table, "scale")


def _width(dimension: int) -> int:
    return dimension or 1  # of a model that never answered: its rows are zero


def quantize(vectors: Matrix) -> tuple[Bytes, npt.NDArray[np.float32]]:
    """Return int8 rows [n, d] and the scale [n] that turns each back; zero rows stay zero."""
    largest = np.abs(vectors).max(axis=1) if vectors.size else np.zeros(len(vectors), np.float32)
    scale = (np.where(largest > 0, largest, 1.0) / 127.0).astype(np.float32)
    return np.rint(vectors / scale[:, None]).astype(np.int8), scale


def _calibration(
    embedder: Embedder, previous: Previous | None, *, is_down: bool
) -> list[dict[str, object]]:
    """Return the one row, none while the model does not answer."""
    if previous is not None and len(table := previous.tables["calibration"]):
        kept: list[dict[str, object]] = table.to_pylist()
        return kept  # another model is another version, and has no previous
    if is_down or not embedder.dimension:
        return []
    try:
        return [asdict(calibrate(embedder.embed))]
    except EmbedderError:
        return []


def distinct_texts(table: pa.Table) -> dict[bytes, str]:
    """Return what is embedded of a table of memories, by its hash; forgotten ones are left out."""
    hashes = table.column("text_hash").to_pylist()
    states = memories.states(table)
    return {
        hash_: one
        for hash_, one, state in zip(hashes, memories.texts(table), states, strict=True)
        if state != memories.FORGOTTEN
    }


def _known(table: pa.Table, model: str) -> dict[bytes, npt.NDArray[np.float32]]:
    """Return the vectors of a Lance table that this model made, by text hash."""
    matrix = _matrix(table.column("vector"))
    keys = zip(
        table.column("text_hash").to_pylist(), table.column("model").to_pylist(), strict=True
    )
    return {hash_: matrix[row] for row, (hash_, by) in enumerate(keys) if by == model}


def _matrix(column: pa.ChunkedArray) -> Matrix:
    width = column.type.list_size
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, np.float32).reshape(-1, width)


def _embedded(
    embedder: Embedder, dimension: int, texts: Mapping[bytes, str]
) -> dict[bytes, npt.NDArray[np.float32]]:
    """Return the vectors of texts by their hash, as far as the model gives them."""
    made: dict[bytes, npt.NDArray[np.float32]] = {}
    if not dimension:
        return made
    hashes = list(texts)
    for start in range(0, len(hashes), _BATCH):
        some = hashes[start : start + _BATCH]
        try:
            vectors = embedder.embed([texts[hash_] for hash_ in some])
        except EmbedderError as error:
            log.warning("%d texts wait for a vector: %s", len(hashes) - start, error)
            break
        if vectors.shape != (len(some), dimension):
            raise EmbedderError(f"{embedder.model} gave {vectors.shape} for {len(some)} texts")
        made |= zip(some, vectors, strict=True)
    return made


def _table(schema: pa.Schema, hashes: Sequence[bytes], model: str, vectors: Matrix) -> pa.Table:
    columns = [
        pa.array(hashes, pa.binary(16)),
        pa.array([model] * len(hashes), pa.string()),
        pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]),
    ]
    return pa.table(columns, schema=schema)


def _rows(schema: pa.Schema, table: pa.Table, hashes: Sequence[bytes], vectors: Matrix) -> pa.Table:
    place = {hash_: row for row, hash_ in enumerate(hashes)}
    states = memories.states(table)
    wanted = [
        place.get(hash_, -1) if state != memories.FORGOTTEN else -1
        for hash_, state in zip(table.column("text_hash").to_pylist(), states, strict=True)
    ]
    quantized, scale = quantize(vectors)
    # place -1 is the row of zeros put at the end
    quantized = np.vstack([quantized, np.zeros((1, vectors.shape[1]), np.int8)])
    scale = np.append(scale, np.float32(0.0))
    chosen = np.asarray(wanted, np.int64)
    return pa.table(row_columns(quantized[chosen], scale[chosen]), schema=schema)


@dataclass(frozen=True, slots=True)
class VectorRows:
    """The int8 rows as the server maps them."""

    rows: Bytes
    scale: npt.NDArray[np.float32]
    calibration: Calibration

    @classmethod
    def open(cls, tables: Tables) -> "VectorRows":
        calibration = Calibration(**next(iter(tables["calibration"].to_pylist()), {}))
        return cls(*mapped_rows(tables["rows"]), calibration)

    def floats(self, row: int) -> npt.NDArray[np.float32]:
        """Return one row as floats, of about length 1; zeros where it has no vector."""
        floats: npt.NDArray[np.float32] = self.rows[row] * self.scale[row]
        return floats

    def cosines(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the cosine of a unit query with every row, [rows], to about 0.01."""
        if not len(self.rows):
            return np.empty(0, np.float32)
        quantized, scale = quantize(query[None, :])
        dots = _int8_dots(quantized, self.rows)
        cosines: npt.NDArray[np.float32] = dots * (self.scale * scale[0])
        return cosines


def _int8_dots(query: Bytes, rows: Bytes) -> npt.NDArray[np.float32]:
    """Return the dot products of one int8 row with many, [n]."""
    if _kernel is not None:
        return np.asarray(_kernel(query, rows, "dot"), np.float32).ravel()
    dots = np.empty(len(rows), np.float32)
    block = np.empty((4_096, rows.shape[1]), np.float32)  # stays in the processor's cache
    for start in range(0, len(rows), len(block)):
        part = rows[start : start + len(block)]
        block[: len(part)] = part
        np.dot(block[: len(part)], query[0].astype(np.float32), out=dots[start : start + len(part)])
    return dots
