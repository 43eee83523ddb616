"""BM25: our index beside rank_bm25, bm25s, SQLite's FTS5 and LanceDB, over the same terms."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from corpus import keywords, questions, texts
from figure import OURS, Figure, Note, cpu_s, interleaved

from store.index import bm25, postings
from store.index.postings import PostingsIndex
from store.index.top_k import top_k
from store.text import tokenizer

REFERENCE = "rank_bm25 get_scores"
QUESTION = "BM25, ten words with common ones"
ALONE = f"{QUESTION}, each by itself"
KEYWORDS = "BM25, four keywords"
INDEX = "BM25, index all"
TOP = 10
QUERIES = 200
BUDGET_S = 15.0  # of each rival and kind of query: rank_bm25 takes seconds for one at a million
ALONE_S = 5.0
CHECKED = 3  # queries whose scores are compared with rank_bm25's

Terms = Sequence[str]
Search = Callable[[Terms], object]


def ours(documents: Sequence[Terms], folder: Path) -> Search:
    index = PostingsIndex.open(postings.index(documents))
    everything = np.ones(len(documents), np.bool_)

    def search(terms: Terms) -> object:
        scores = index.scores(terms, exact=True)
        best = top_k(scores, everything, TOP)
        return best, scores[best]

    return search


def rank_bm25(documents: Sequence[Terms], folder: Path) -> Search:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi(documents, k1=bm25.K1, b=bm25.B, epsilon=bm25.EPSILON)
    index.avgdl = bm25.round_impacts(index.avgdl)  # as in our index
    return lambda terms: index.get_scores(terms)


def bm25s(documents: Sequence[Terms], folder: Path) -> Search:
    import bm25s

    index = bm25s.BM25(k1=bm25.K1, b=bm25.B)
    index.index(documents, show_progress=False)
    return lambda terms: index.retrieve([terms], k=TOP, show_progress=False)


def fts5(documents: Sequence[Terms], folder: Path) -> Search:
    import apsw

    connection = apsw.Connection(str(folder / "fts.sqlite"))
    connection.execute("CREATE VIRTUAL TABLE memories USING fts5(text)")
    with connection:
        rows = ((number, " ".join(terms)) for number, terms in enumerate(documents))
        connection.executemany("INSERT INTO memories (rowid, text) VALUES (?, ?)", rows)
    connection.execute("INSERT INTO memories (memories) VALUES ('optimize')")

    def search(terms: Terms) -> object:
        any_of = " OR ".join(f'"{term}"' for term in terms)
        sql = "SELECT rowid FROM memories WHERE memories MATCH ? ORDER BY rank LIMIT ?"
        return connection.execute(sql, (any_of, TOP)).fetchall()

    return search


def lance(documents: Sequence[Terms], folder: Path) -> Search:
    import lancedb
    import pyarrow as pa

    joined = [" ".join(terms) for terms in documents]
    rows = pa.table({"id": np.arange(len(joined)), "text": joined})
    table = lancedb.connect(folder).create_table("memories", rows)
    table.create_fts_index("text", base_tokenizer="whitespace", stem=False, remove_stop_words=False)

    def search(terms: Terms) -> object:
        query = table.search(" ".join(terms), query_type="fts").limit(TOP)
        return query.select(["id", "_score"]).to_arrow()

    return search


# rival: the module it needs, and the factory of its search
RIVALS = {
    REFERENCE: ("rank_bm25", rank_bm25),
    "bm25s": ("bm25s", bm25s),
    "SQLite FTS5, OR": ("apsw", fts5),
    "LanceDB full text": ("lancedb", lance),
}


def figures(size: int) -> Iterator[Figure | Note]:
    """Time indexing, and the best TOP of two kinds of query."""
    corpus = list(texts(size))
    documents = [tokenizer.terms(text) for text in corpus]
    searches: dict[str, Search] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for who, (module, make) in {OURS: ("numpy", ours), **RIVALS}.items():
            try:
                import_module(module)  # untimed: importing is not indexing
            except ImportError:
                yield Note(f"{who} is left out: `pip install {module}`")
                continue
            seconds, searches[who] = cpu_s(partial(make, documents, Path(folder)))
            yield Figure(size, INDEX, who, seconds, "s")
        for name, queries in ((QUESTION, questions), (KEYWORDS, keywords)):
            terms = [tokenizer.terms(query) for query in queries(corpus, QUERIES)]
            if REFERENCE in searches:
                yield checked(size, name, searches, terms[:CHECKED])
            for who, ms in interleaved(searches, terms, BUDGET_S).items():
                yield Figure(size, name, who, ms, "ms")
            if name == QUESTION:  # no rival's data in the processor's caches
                for who, search in searches.items():
                    ms = interleaved({who: search}, terms, ALONE_S)[who]
                    yield Figure(size, ALONE, who, ms, "ms")


def checked(size: int, title: str, searches: dict[str, Any], queries: Sequence[Terms]) -> Note:
    """Return a note that our best are rank_bm25's, up to the order of ties; exit if they differ."""
    gap = 0.0
    for terms in queries:
        scores = searches[REFERENCE](terms)
        best, ours = searches[OURS](terms)
        best_of_all = np.sort(scores)[::-1][: len(best)]
        gap = max(gap, np.abs(scores[best] - best_of_all).max(), np.abs(ours - best_of_all).max())
    if gap > 1e-3:
        sys.exit(f"{title} among {size:,}: our best scores are {gap} off rank_bm25's")
    return Note(f"{title}, {size:,}: the best {TOP} are rank_bm25's; scores differ by {gap:.0e}")
