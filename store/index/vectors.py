"""
The projection `vectors`: a vector for each memory.

`rows` has the hash of each vector's text and the vector in half precision, both zero if a memory is
forgotten or has no vector yet. `codes` has the same vectors as int8 with a scale, derived from the
halves, for the server's scan; `signs`, only with many memories, has 512 bits of each, which select
the rows to scan. They are stored in parts of fixed ranges of documents: only the ranges with a
changed text are made again, and no text is embedded twice. `calibration` has the scale of the
model's cosines.

If a model does not answer, nothing is lost: the texts without a vector are listed in `missing`, and
the next build asks for them again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import asdict

from store.embedders.embedder import Embedder
from store.embedders.model_facts import calibrate
from store.home.errors import EmbedderError
from store.index import vector_cache as text_hashes
from store.index import vector_scan
from store.index.vector_cache import (
    Hashes,
    Places,
    VectorCache,
    batch_size,
    embed_batches,
    vector_cache,
    vector_column,
)
from store.index.vector_scan import Halves, quantize, vector_matrix
from store.memories.memory import STATES, TEXT_FIELDS, UNSEEN
from store.memories.table import indexed_texts
from store.snapshots.projection import Inputs, Keep, Made, Part, Previous, Projection, Tables

PART = 65_536  # documents of a part
SIGNED_FROM = 4 * PART  # documents; from this number on the signs are scanned before the codes
CALIBRATION = pa.schema(
    [
        ("unrelated", pa.float64()),
        ("related", pa.float64()),
        ("knows_meaning", pa.bool_()),
        ("stretch", pa.float64()),
    ]
)
MISSING = pa.schema([("text_hash", pa.binary(16))])


def vectors_projection(embedder: Embedder) -> Projection:
    """Return the vectors projection of one model; another model is another version."""

    schemas = _schemas(embedder.dimension or 1)  # of a model that never answered: rows are zero

    def build(inputs: Inputs, previous: Previous | None) -> Made:
        of_memories = inputs.tables["memories"]
        before = [] if previous is None else [previous.tables["rows"]]
        known = vector_cache(inputs, before)
        plan = _plan(text_hashes_of(of_memories["columns"]), known, sum(map(len, before)))
        parts: dict[str, list[Part]] = {"rows": [], "codes": []}
        missing = [np.empty((0, 2), np.uint64)]
        fresh = _fresh(embedder, of_memories["memories"], plan, inputs)
        for number in range(-(-len(plan.wanted) // PART)):
            if previous is not None and number not in plan.changed:
                for name, some in parts.items():
                    some.append(previous.tables.parts[name][number])
                continue
            part = _make_part(plan, number, known, fresh, parts["rows"], schemas)
            missing.append(plan.wanted[part.missing])
            for name, some in parts.items():
                some.append(inputs.keep(name, part.tables[name]))
        parts["signs"] = _code_parts(parts["rows"], previous, inputs.keep, schemas["signs"])
        owed = text_hashes.hash_column(np.concatenate(missing))
        calibration = _calibration(embedder, previous, is_down=bool(len(owed)))
        return {
            **parts,
            "missing": pa.table([owed], schema=MISSING),
            "calibration": pa.Table.from_pylist(calibration, CALIBRATION),
        }

    return Projection(
        name="vectors",
        version=f"6/{embedder.model}/{embedder.dimension}",
        inputs=("memories",),
        schemas=schemas,
        build=build,
        for_builds=frozenset({"missing"}),
        grows=False,  # no text is embedded twice
    )


@cache
def _schemas(width: int) -> Mapping[str, pa.Schema]:
    halves, bytes_ = pa.list_(pa.float16(), width), pa.list_(pa.int8(), width)
    return {
        "rows": pa.schema([("text_hash", pa.binary(16)), ("half", halves)]),
        "codes": pa.schema([("vector", bytes_), ("scale", pa.float32())]),
        "signs": pa.schema(
            [(f"word{number}", pa.uint64()) for number in range(vector_scan.CODE_WORDS)]
        ),
        "missing": MISSING,
        "calibration": CALIBRATION,
    }


def text_hashes_of(columns: pa.Table) -> Hashes:
    """Return the hash of each memory's text, in order; zeros if it is forgotten."""
    wanted = text_hashes.column_hashes(columns.column("text_hash")).copy()
    wanted[is_forgotten(columns)] = 0
    return wanted


def is_forgotten(columns: pa.Table) -> npt.NDArray[np.bool_]:
    """Return a mask of the memories in an `UNSEEN` state, [rows]."""
    unseen = [STATES.index(state) for state in UNSEEN]
    return np.isin(columns.column("state").to_numpy(), unseen)


def distinct_texts(tables: Tables) -> list[str]:
    """Return the embedded texts of the tables of memories, each once."""
    wanted = text_hashes_of(tables["columns"])
    is_first = text_hashes.first_places(wanted) == np.arange(len(wanted))
    chosen = np.flatnonzero(is_first & text_hashes.has_text(wanted))
    return list(indexed_texts(tables["memories"].take(pa.array(chosen))))


def embed_missing(
    embedder: Embedder, of_memories: Tables, before: Iterable[pa.Table], inputs: Inputs
) -> Iterator[tuple[int, int]]:
    """Embed into the journal the texts of the tables of memories that are not in the `before` rows,
    for the build that will need them; after each batch yield the done and the total number.

    Raise EmbedderError if the model does not answer.
    """
    known = vector_cache(inputs, before)
    plan = _plan(text_hashes_of(of_memories["columns"]), known, 0)
    total = int(np.count_nonzero(plan.first == np.arange(len(plan.first))))
    done = 0
    for documents, vectors in _fresh(embedder, of_memories["memories"], plan, inputs):
        if vectors is None:
            raise EmbedderError(f"{embedder.model} did not answer: {total - done:,} texts wait")
        done += len(documents)
        yield done, total


class _Plan(msgspec.Struct, frozen=True):
    """The source of each memory's vector, [n] each, and the parts with a changed one.

    `source` is a place among the known vectors. For a memory without one, `first` is the first
    memory of the same text, which is embedded; -1 in both: forgotten.
    """

    wanted: Hashes
    source: Places
    first: Places
    changed: frozenset[int]


def _plan(wanted: Hashes, known: VectorCache, before: int) -> _Plan:
    """Return the plan of the memories whose texts have these hashes; the first known vectors are
    those of the `before` first memories, from an earlier build.
    """
    count, was, before = len(wanted), before, min(len(wanted), before)
    is_same = np.zeros(count, np.bool_)
    is_same[:before] = ~text_hashes.hashes_differ(wanted[:before], known.hashes[:before])
    is_text = text_hashes.has_text(wanted)
    source = np.where(is_same & is_text, np.arange(count), -1)
    unknown = np.flatnonzero(is_text & ~is_same)
    source[unknown] = known.find(wanted[unknown])
    new = unknown[source[unknown] < 0]
    first = np.full(count, -1)
    first[new] = new[text_hashes.first_places(wanted[new])]
    changed = set((np.flatnonzero(~is_same) // PART).tolist())
    if count % PART and was > count:
        changed.add(count // PART)  # its rows went on
    return _Plan(wanted, source, first, frozenset(changed))


def _fresh(
    embedder: Embedder, table: pa.Table, plan: _Plan, inputs: Inputs
) -> Iterator[tuple[Places, Halves | None]]:
    """Yield the memories that are embedded, some at a time and of one part, and their vectors."""
    new = np.flatnonzero(plan.first == np.arange(len(plan.first)))
    size = batch_size(embedder)
    batches = [
        part[start : start + size]
        for part in np.split(new, np.searchsorted(new, np.arange(PART, len(plan.first), PART)))
        for start in range(0, len(part), size)
    ]
    hashes = [plan.wanted[documents] for documents in batches]
    texts = (_slice(table, documents) for documents in batches)
    yield from zip(
        batches, embed_batches(embedder, hashes, texts, indexed_texts, inputs), strict=True
    )


def _slice(table: pa.Table, documents: Places) -> pa.Table:
    """Return the text fields of some memories of one part."""
    start = int(documents[0])
    near = table.select(TEXT_FIELDS).slice(start, int(documents[-1]) - start + 1)
    return near if len(near) == len(documents) else near.take(pa.array(documents - start))


class _MadePart(msgspec.Struct, frozen=True):
    tables: Mapping[str, pa.Table]
    missing: Places  # memories whose text could not be embedded


def _make_part(
    plan: _Plan,
    number: int,
    known: VectorCache,
    fresh: Iterator[tuple[Places, Halves | None]],
    before: Sequence[Part],
    schemas: Mapping[str, pa.Schema],
) -> _MadePart:
    """Return the tables of a part, taking from `fresh` the vectors that it is the first to need.

    `before` are the parts of `rows` that come before it.
    """
    start, end = number * PART, min((number + 1) * PART, len(plan.wanted))
    width = schemas["rows"].field("half").type.list_size
    halves = np.zeros((end - start, width), np.float16)
    hashes = plan.wanted[start:end].copy()
    source, first = plan.source[start:end], plan.first[start:end]
    at = np.flatnonzero(source >= 0)
    known.copy(source[at], halves, at)
    missing = [np.empty(0, np.int64)]
    rest = int(np.count_nonzero(first == np.arange(start, end)))
    while rest:
        documents, vectors = next(fresh)
        rest -= len(documents)
        if vectors is None:
            missing.append(documents)
            hashes[documents - start] = 0
        else:
            halves[documents - start] = vectors
    own = np.flatnonzero(first >= start)
    halves[own], hashes[own] = halves[first[own] - start], hashes[first[own] - start]
    for other in np.unique(first[(first >= 0) & (first < start)] // PART).tolist():
        at = np.flatnonzero((first >= 0) & (first // PART == other))
        made_before = VectorCache.of([before[other].table])
        made_before.copy(first[at] - other * PART, halves, at)
        hashes[at] = made_before.hashes[first[at] - other * PART]
    rows, scale = quantize(halves)
    tables = {
        "rows": [text_hashes.hash_column(hashes), vector_column(halves)],
        "codes": [vector_column(rows), pa.array(scale)],
    }
    return _MadePart(
        {name: pa.table(columns, schema=schemas[name]) for name, columns in tables.items()},
        np.concatenate(missing),
    )


def _code_parts(
    rows: Sequence[Part], previous: Previous | None, keep: Keep, schema: pa.Schema
) -> list[Part]:
    """Return the signs of each part of rows; none while there are few memories."""
    if sum(part.rows for part in rows) < SIGNED_FROM:
        return []
    before = previous.tables.parts if previous else {"rows": (), "signs": ()}
    made = zip(before["rows"], before["signs"], strict=False)
    by_digest = {part.digest: codes for part, codes in made}
    parts = []
    for part in rows:
        if (codes := by_digest.get(part.digest)) is None:
            halves = part.table.column("half").chunk(0)
            words = vector_scan.binary_codes(vector_matrix(halves))
            codes = keep("signs", pa.table([*map(pa.array, words)], schema=schema))
        parts.append(codes)
    return parts


def _calibration(
    embedder: Embedder, previous: Previous | None, *, is_down: bool
) -> list[dict[str, object]]:
    """Return the one row, none while the model does not answer."""
    if previous is not None and len(table := previous.tables["calibration"]):
        rows: list[dict[str, object]] = table.to_pylist()
        return rows  # another model is another version, and has no previous
    if is_down or not embedder.dimension:
        return []
    try:
        return [asdict(calibrate(embedder.embed, embedder.embed_queries))]
    except EmbedderError:
        return []
