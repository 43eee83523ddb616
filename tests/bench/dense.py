"""Vectors: our int8 scan beside LanceDB's flat scan and its indexes, over the same vectors."""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from corpus import questions, texts
from figure import OURS, Figure, Note, cpu_s, interleaved

from store.embedders.lexical import LexicalEmbedder
from store.index.vector_scan import VectorRows

NEAREST = "vectors, the nearest ten"
ALONE = f"{NEAREST}, each by itself"
INDEX = "vectors, index all"
TOP = 10
QUERIES = 100
BUDGET_S, ALONE_S = 15.0, 5.0
LARGEST_INDEX = 100_000  # vectors: above, LanceDB's indexes take many minutes to build
LEAST_INDEX = 256  # the fewest that product quantization can be trained on

Matrix = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float32]
Search = Callable[[Vector], npt.NDArray[np.int64]]

# rival: its index options, None for no index. LanceDB's default of sub-vectors, a quarter as many,
# finds half of the nearest ten.
RIVALS: dict[str, dict[str, Any] | None] = {
    "LanceDB flat": None,
    "LanceDB IVF_PQ": {"index_type": "IVF_PQ", "num_sub_vectors": LexicalEmbedder.dimension // 4},
    "LanceDB HNSW_SQ": {"index_type": "IVF_HNSW_SQ"},
}


def ours(vectors: Matrix) -> Search:
    """Return the server's search: every int8 row, no index."""
    index = VectorRows.of(vectors)
    return lambda query: index.scan(query).best(None, TOP, above=-2.0)[0]


def lance(vectors: Matrix, folder: Path, index: dict[str, Any] | None) -> Search:
    """Return LanceDB's search; with an index, ten candidates a hit are rescored by their floats."""
    import lancedb
    import pyarrow as pa

    width = vectors.shape[1]
    rows = pa.table(
        {
            "id": np.arange(len(vectors)),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width),
        }
    )
    table = lancedb.connect(folder).create_table("memories", rows)
    if index is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows make its k-means complain
            table.create_index(metric="cosine", vector_column_name="vector", **index)

    def search(asked: Vector) -> npt.NDArray[np.int64]:
        query = table.search(asked).distance_type("cosine").select(["id", "_distance"]).limit(TOP)
        if index is not None:
            query = query.nprobes(20).ef(200).refine_factor(10)
        return np.asarray(query.to_arrow()["id"].to_numpy(), np.int64)

    return search


def figures(size: int) -> Iterator[Figure | Note]:
    """Time indexing and the TOP nearest of a query's vector, with recall against exact floats."""
    corpus = list(texts(size))
    embedder = LexicalEmbedder()
    vectors = embedder.embed(corpus)
    vectors_ = list(embedder.embed(questions(corpus, QUERIES)))
    del corpus
    yield Note(f"vectors: the lexical embedder's, {embedder.dimension} wide, of the same memories")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        seconds, search = cpu_s(lambda: ours(vectors))
        searches = {OURS: search}
        yield Figure(size, INDEX, OURS, seconds, "s")
        for who, index in RIVALS.items():
            if (reason := _missing(size, index)) is not None:
                yield Note(f"{who}, {size:,}: left out, {reason}")
                continue
            place = Path(folder) / str(len(searches))
            seconds, searches[who] = cpu_s(partial(lance, vectors, place, index))
            yield Figure(size, INDEX, who, seconds, "s")
        recalls = {who: recall(vectors, vectors_, search) for who, search in searches.items()}
        for who, ms in interleaved(searches, vectors_, BUDGET_S).items():
            yield Figure(size, NEAREST, who, ms, "ms", recalls[who])
        for who, search in searches.items():
            ms = interleaved({who: search}, vectors_, ALONE_S)[who]
            yield Figure(size, ALONE, who, ms, "ms")


def recall(vectors: Matrix, queries: Sequence[Vector], search: Search) -> float:
    """Return the mean share of the exact TOP that a search finds; ties with them count."""
    shares = []
    for vector in queries:
        exact = vectors @ vector
        least = np.sort(exact)[-min(TOP, len(exact))]
        shares.append(np.mean(exact[search(vector)] >= least - 1e-6))
    return float(np.mean(shares))


def _missing(size: int, index: dict[str, Any] | None) -> str | None:
    try:
        import_module("lancedb")  # untimed: importing is not indexing
    except ImportError:
        return "`pip install lancedb`"
    if index is not None and not LEAST_INDEX <= size <= LARGEST_INDEX:
        return f"an index is built from {LEAST_INDEX} to {LARGEST_INDEX:,} vectors"
    return None
