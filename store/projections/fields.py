"""
fields: a vector for each context, action and result that a memory has, beside that of the whole.

One vector of a long memory means a little of all that is in it; here a query meets the field that
answers it. Kept as vectors keeps texts: `vectors` is keyed by the field's hash and the model's id,
so nothing is embedded twice, `rows` has an int8 row for each field that is set, in the order of
memories, and `missing` lists the texts a model that does not answer still owes. Forgotten memories
have no row, and a memory without fields costs nothing.

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

from store.columns import view
from store.embedders.calibration import Calibration
from store.embedding import Embedder
from store.projection import Inputs, Previous, Projection, Tables
from store.projections import memories
from store.projections.vectors import (
    VectorRows,
    mapped_rows,
    quantize,
    row_columns,
    row_fields,
    stored,
    stored_schemas,
)
from store.text import text_hash

FIELDS = ("context", "action", "result")


def projection(embedder: Embedder) -> Projection:
    """Return the fields projection of one model; another model is another version."""

    dimension = embedder.dimension

    def build(inputs: Inputs, previous: Previous | None) -> Tables:
        found = list(embedded_fields(embedder, inputs.tables["memories"]["memories"]))
        hashes = [text_hash(text) for _, text in found]
        texts = {hash_: text for hash_, (_, text) in zip(hashes, found, strict=True)}
        made = stored(embedder, dimension, texts, previous)
        place = {hash_: row for row, hash_ in enumerate(made.hashes)}
        has_vector = [number for number, hash_ in enumerate(hashes) if hash_ in place]
        documents = np.array([found[number][0] for number in has_vector], np.int32)
        chosen = np.array([place[hashes[number]] for number in has_vector], np.int64)
        quantized, scale = quantize(made.vectors)
        columns = [pa.array(documents), *row_columns(quantized[chosen], scale[chosen])]
        return made.tables | {"rows": pa.table(columns, schema=schemas["rows"])}

    rows = pa.schema([("document", pa.int32()), *row_fields(dimension)])
    schemas = stored_schemas(dimension) | {"rows": rows}
    return Projection(
        name="fields",
        version=f"1/{embedder.model}/{dimension}",
        inputs=("memories",),
        schemas=schemas,
        build=build,
        for_builds=frozenset({"vectors", "missing"}),
    )


def embedded_fields(embedder: Embedder, table: pa.Table) -> Iterator[tuple[int, str]]:
    """Yield the row and text of each field a model embeds of a table of memories, row by row.

    A remote model embeds none; forgotten memories are left out.
    """
    if not embedder.is_local:
        return
    import pyarrow.compute as pc

    is_set = reduce(pc.or_, (pc.is_valid(table.column(name)) for name in FIELDS))
    rows = np.flatnonzero(is_set.to_numpy())
    chosen = table.select([*FIELDS, "state"]).take(pa.array(rows, pa.int64()))
    columns = (column.to_pylist() for column in chosen.columns)
    for row, *texts, state in zip(rows.tolist(), *columns, strict=True):
        if state != memories.FORGOTTEN:
            yield from ((row, text) for text in texts if text)


@dataclass(frozen=True, slots=True)
class FieldRows:
    """The int8 rows as the server maps them, and the document that each is of, [fields]."""

    documents: npt.NDArray[np.int32]
    vectors: VectorRows

    @classmethod
    def open(cls, tables: Tables) -> "FieldRows":
        rows, scale = mapped_rows(tables["rows"])
        return cls(view(tables["rows"], "document"), VectorRows(rows, scale, Calibration()))

    def cosines(self, query: npt.NDArray[np.float32], documents: int) -> npt.NDArray[np.float32]:
        """Return the best cosine of a unit query with the fields of each document, [documents].

        -1 where there is none.
        """
        best = np.full(documents, -1.0, np.float32)
        np.maximum.at(best, self.documents, self.vectors.cosines(query))
        return best
