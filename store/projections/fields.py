"""
fields: a vector for each context, action and result that a memory has, beside that of the whole.

One vector of a long memory means a little of all that is in it; here a query meets the field that
answers it. Made and kept as `vectors` makes and keeps those of whole texts: `rows` has one for each
field that is set, in the order of memories, and `missing` lists the texts a model that does not
answer still owes. Forgotten memories have no row, and a memory without fields costs nothing. `rows`
lies in parts of fixed ranges of documents, one for each range that has fields; `ranges` says what a
part was made from, so that only what changed is made again.

A local model embeds fields in every build, so that the layer `fields` can be switched on and off
without one: that is the text of such a memory a second time, and each field only once. A remote
model embeds none: nobody pays for, or sends away, what is off by default.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.embedding import Embedder
from store.projections.vectors import MISSING, PART, is_forgotten
from store.snapshots.projection import Inputs, Made, Part, Previous, Projection, Tables
from store.text.tokenizer import text_hash
from store.vectors import hashes as text_hashes
from store.vectors.hashes import Hashes
from store.vectors.known import Known, column
from store.vectors.made import batch_size, known_of, made
from store.vectors.quantized import Floats, Halves, quantize
from store.vectors.rows import PartRows, VectorRows

FIELDS = ("context", "action", "result")
_RANGES = pa.schema([("start", pa.int32()), ("sha256", pa.binary(32))])
_TEXT = pa.schema([("text", pa.string())])


def projection(embedder: Embedder) -> Projection:
    """Return the fields projection of one model; another model is another version."""

    width = embedder.dimension or 1

    def build(inputs: Inputs, previous: Previous | None) -> Made:
        kept = _kept(previous)
        parts: list[Part] = []
        ranges: list[dict[str, object]] = []
        missing: dict[bytes, None] = {}
        known = [] if previous is None else [previous.tables["rows"]]
        for start, table in _ranges(embedder, inputs.tables["memories"]):
            mark = bytes.fromhex(Part.of(table).digest)
            if (part := kept.get((start, mark))) is None:
                documents, texts = _fields(table)
                found = _Found.of(texts, width, known_of(inputs, known))
                if not missing:  # who did not answer for a range is not asked for the next
                    found.embed(embedder, inputs)
                missing |= dict.fromkeys(found.missing())
                part = inputs.keep("rows", found.rows(documents + start, schemas["rows"]))
                known.append(part.table)
            parts.append(part)
            ranges.append({"start": start, "sha256": mark})
        return {
            "rows": parts,
            "ranges": pa.Table.from_pylist(ranges, _RANGES),
            "missing": pa.table([pa.array([*missing], pa.binary(16))], schema=MISSING),
        }

    columns = [
        ("document", pa.int32()),
        ("text_hash", pa.binary(16)),
        ("half", pa.list_(pa.float16(), width)),
        ("vector", pa.list_(pa.int8(), width)),
        ("scale", pa.float32()),
    ]
    schemas = {"rows": pa.schema(columns), "ranges": _RANGES, "missing": MISSING}
    return Projection(
        name="fields",
        version=f"2/{embedder.model}/{embedder.dimension}",
        inputs=("memories",),
        schemas=schemas,
        build=build,
        for_builds=frozenset({"ranges", "missing"}),
        grows=False,  # no text is embedded twice
    )


def embedded_fields(embedder: Embedder, tables: Tables) -> Iterator[tuple[int, str]]:
    """Yield the row and text of each field a model embeds of the tables of memories, row by row.

    A remote model embeds none; forgotten memories are left out.
    """
    for start, fields in _ranges(embedder, tables):
        documents, texts = _fields(fields)
        yield from zip((documents + start).tolist(), texts, strict=True)


def _ranges(embedder: Embedder, tables: Tables) -> Iterator[tuple[int, pa.Table]]:
    """Yield where each range begins that has fields to embed, and its fields, null where none."""
    if not embedder.is_local:
        return
    for start in range(0, len(tables["memories"]), PART):
        some = tables["memories"].slice(start, PART)
        if all(some.column(name).null_count == len(some) for name in FIELDS):
            continue
        import pyarrow.compute as pc  # builds only

        forgotten = pa.array(is_forgotten(tables["columns"].slice(start, PART)))
        columns = [pc.if_else(forgotten, None, some.column(name)) for name in FIELDS]
        if any(column.null_count < len(some) for column in columns):
            yield start, pa.table(columns, names=list(FIELDS))


def _fields(table: pa.Table) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Return the row of each field that is set, and its text, row by row."""
    is_set = reduce(np.logical_or, (column.is_valid().to_numpy() for column in table.columns))
    rows = np.flatnonzero(is_set)
    columns = (column.to_pylist() for column in table.take(pa.array(rows)).columns)
    found = [
        (row, text)
        for row, *texts in zip(rows.tolist(), *columns, strict=True)
        for text in texts
        if text
    ]
    return np.array([row for row, _ in found], np.int32), [text for _, text in found]


def _kept(previous: Previous | None) -> dict[tuple[int, bytes], Part]:
    """Return the parts there are, by where they begin and what they were made from.

    None where texts wait for the model: it may answer this time.
    """
    if previous is None or len(previous.tables["missing"]):
        return {}
    ranges = previous.tables["ranges"].to_pylist()
    parts = previous.tables.parts["rows"]
    return {(one["start"], one["sha256"]): part for one, part in zip(ranges, parts, strict=True)}


@dataclass(frozen=True, slots=True)
class _Found:
    """Texts with their hashes and vectors; `has` says which there are, all [n]."""

    texts: list[str]
    hashes: Hashes
    halves: Halves
    has: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, texts: list[str], width: int, known: Known) -> "_Found":
        """Return texts with the vectors that are known of them."""
        hashes = text_hashes.of_bytes(list(map(text_hash, texts)))
        places = known.find(hashes)
        halves = np.zeros((len(texts), width), np.float16)
        known.copy(places[places >= 0], halves, np.flatnonzero(places >= 0))
        return cls(texts, hashes, halves, places >= 0)

    def embed(self, embedder: Embedder, inputs: Inputs) -> None:
        """Embed each text that has no vector once, as far as the model answers."""
        first = text_hashes.first_of_each(self.hashes)
        new = np.flatnonzero(~self.has & (first == np.arange(len(first))))
        size = batch_size(embedder)
        batches = [new[start : start + size] for start in range(0, len(new), size)]
        tables = (pa.table([[self.texts[at] for at in some]], schema=_TEXT) for some in batches)
        hashes = [self.hashes[some] for some in batches]
        vectors_of = made(embedder, hashes, tables, _texts, inputs)
        for some, vectors in zip(batches, vectors_of, strict=True):
            if vectors is not None:
                self.halves[some], self.has[some] = vectors, True
        self.halves[:], self.has[:] = self.halves[first], self.has[first]

    def missing(self) -> list[bytes]:
        """Return the hashes of the texts without a vector, each once."""
        found = text_hashes.as_column(self.hashes[~self.has]).to_pylist()
        return list(dict.fromkeys(found))

    def rows(self, documents: npt.NDArray[np.int32], schema: pa.Schema) -> pa.Table:
        """Return the rows of those texts that have a vector."""
        halves = self.halves[self.has]
        vectors, scale = quantize(halves)
        columns = [
            pa.array(documents[self.has]),
            text_hashes.as_column(self.hashes[self.has]),
            column(halves),
            column(vectors),
            pa.array(scale),
        ]
        return pa.table(columns, schema=schema)


def _texts(table: pa.Table) -> list[str]:
    found: list[str] = table.column("text").to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class FieldRows:
    """The vectors as the server maps them, and the document that each is of, ascending [fields]."""

    documents: npt.NDArray[np.int32]
    vectors: VectorRows

    @classmethod
    def open(cls, tables: Tables) -> "FieldRows":
        rows = tables["rows"]
        return cls(rows.column("document").to_numpy(), VectorRows(tuple(PartRows.of(rows, rows))))

    def cosines(self, query: Floats, documents: int) -> Floats:
        """Return the best cosine of a unit query with the fields of each document, [documents].

        -1 where there is none.
        """
        best = np.full(documents, -1.0, np.float32)
        if len(self.documents):
            begins = np.flatnonzero(np.diff(self.documents, prepend=-1))
            found = np.maximum.reduceat(self.vectors.cosines(query), begins)
            best[self.documents[begins]] = found
        return best
