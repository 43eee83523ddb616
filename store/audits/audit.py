"""
Audits: what must hold of a rebuilt candidate before anybody is served from it.

Each looks at the candidate by another way than the one that made it, and says in one sentence what
it found. They run as Dagster's blocking asset checks and in every other build alike.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow.compute as pc

from store import text
from store.audits import memories as memory_audits
from store.audits.audited import Audited
from store.manifest import CheckResult
from store.projections import memories, postings
from store.projections.duplicates import Duplicates
from store.projections.fields import FieldRows
from store.projections.lexical import bm25
from store.projections.memory.memory import FORGOTTEN
from store.projections.memory.parts import fields_of
from store.projections.statements import TEXTS
from store.vectors.rows import PartRows

_SAMPLE = 200  # documents whose BM25 scores are computed again
_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Audit:
    name: str
    projection: str
    description: str
    run: Callable[[Audited], tuple[bool, str]]


def audit(projection: str, audited: Audited) -> list[CheckResult]:
    """Run the audits of one projection; a failing one hides no other."""
    results = []
    for one in AUDITS:
        if one.projection == projection:
            passed, detail = one.run(audited)
            results.append(CheckResult(one.name, passed, detail, projection))
    return results


def bm25_parity(audited: Audited) -> tuple[bool, str]:
    """A sample of documents scores as rank_bm25's BM25Okapi scores it."""
    from rank_bm25 import BM25Okapi  # jobs only

    index = postings.PostingsIndex.open(audited.tables)
    repeated = memories.repeated(audited.memories)
    rows = np.flatnonzero(index.lengths > 0)
    if not len(rows):
        return True, "nothing is indexed"
    sample = rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE]
    texts = memories.searched_texts(fields_of(audited.of_memories, sample, postings.TEXTS))
    documents = [text.terms(one) for one in texts]
    queries = documents[:: max(1, len(documents) // 10)]
    for term in set(chain.from_iterable(queries)):
        listed = index.posting_list(term)[0]
        if np.count_nonzero(~repeated[listed]) != index.frequency(term):
            return False, f"{term!r} is not in {index.frequency(term)} memories"
    reference = BM25Okapi(documents, k1=bm25.K1, b=bm25.B, epsilon=bm25.EPSILON)
    # the sample's own statistics are not the corpus's: those are put in, from the counts
    idf, _ = bm25.okapi_idf(np.asarray(index.frequencies, np.int64), index.size)
    places = {term: index.find(term) for term in reference.idf}
    if lost := [term for term, place in places.items() if place is None]:
        return False, f"{len(lost)} terms are not in the index, first {lost[0]!r}"
    reference.idf = {term: float(idf[place]) for term, place in places.items() if place is not None}
    reference.avgdl = index.average_length
    counting = index.lengths[(index.lengths >= 0) & ~repeated]
    if index.average_length != bm25.rounded(float(counting.mean()) if len(counting) else 0.0):
        return False, f"{index.average_length} is not the average length"
    worst = 0.0
    for query in queries:
        wanted = reference.get_scores(query)
        gap = np.abs(index.scores(query)[sample] - wanted)
        worst = max(worst, float(gap.max() / (1 + np.abs(wanted).max())))
    return worst <= _TOLERANCE, f"{len(sample)} documents, largest difference {worst:.1e}"


def vectors_are_unit(audited: Audited) -> tuple[bool, str]:
    """Every memory has a row, and every row that is not empty has length 1."""
    count = len(audited.tables["rows"])
    if count != audited.count:
        return False, f"{count} vectors for {audited.count} memories"
    return _are_unit(audited, "codes")


def fields_are_unit(audited: Audited) -> tuple[bool, str]:
    """Every field's row is of a memory there is, and has length 1 if it is not empty."""
    of = FieldRows.open(audited.tables).documents
    if len(of) and not 0 <= of.min() <= of.max() < audited.count:
        return False, f"fields of memories {of.min()} to {of.max()} of {audited.count}"
    return _are_unit(audited, "rows")


def mentions_in_range(audited: Audited) -> tuple[bool, str]:
    documents = audited.tables["mentions"].column("document")
    least, highest = pc.min_max(documents).as_py().values()
    ok = highest is None or 0 <= least <= highest < audited.count
    return ok, f"{len(documents)} mentions of {len(audited.tables['entities'])} entities"


def picture_holds(audited: Audited) -> tuple[bool, str]:
    """Every node lies within 1 of the middle, and every line joins two of them."""
    nodes, lines = audited.tables["nodes"], audited.tables["lines"]
    square = sum(nodes.column(axis).to_numpy().astype(np.float64) ** 2 for axis in ("x", "y"))
    ends = [end for name in ("source", "target") for end in pc.min_max(lines.column(name)).values()]
    is_joined = not len(lines) or all(0 <= end.as_py() < len(nodes) for end in ends)
    ok = is_joined and bool(np.all(square < 1.1))
    return ok, f"{len(nodes)} entities and {len(lines)} of their edges are drawn"


def links_hold(audited: Audited) -> tuple[bool, str]:
    """What a sample of links joins is not forgotten and says the same, or another value."""
    links = Duplicates.open(audited.tables).links
    ends = {end for one in links for end in (one.document, one.of)}
    if not all(0 <= end < audited.count for end in ends):
        return False, f"links lead outside of {audited.count} memories"
    sample = links[:: max(1, len(links) // _SAMPLE)][:_SAMPLE]
    rows = sorted({end for one in sample for end in (one.document, one.of)})
    table = fields_of(audited.of_memories, np.array(rows, np.int64), (*TEXTS, "state"))
    columns = (column.to_pylist() for column in table.columns)
    told = dict(zip(rows, zip(*columns, strict=True), strict=True))
    for one in sample:
        older, newer = told[one.of], told[one.document]
        texts = ["\n".join(filter(None, fields)) for *fields, _ in (older, newer)]
        if FORGOTTEN in (older[-1], newer[-1]) or not one.holds(*texts):
            return False, f"memory {one.document} is no {one.kind} of {one.of}"
    return True, f"{len(links)} links, {len(sample)} of them read again"


def lessons_match_log(audited: Audited) -> tuple[bool, str]:
    """As many lessons were shown and judged, and drafts are open, as the log tells."""
    told: Counter[str] = Counter()
    for (kind, _), count in audited.log.counts(audited.watermark).items():
        told[kind] += count
    table = audited.tables["lessons"]
    shown, judged = (
        sum(pc.sum(table.column(name)).as_py() or 0 for name in names)
        for names in (("surfaced",), ("followed", "ignored", "not_applicable"))
    )
    drafts = len(audited.tables["drafts"])
    ok = (shown, judged) == (told["surfaced"], told["followed"]) and drafts <= told["proposed"]
    return ok, f"{shown} times shown, {judged} verdicts, {drafts} open drafts"


def _are_unit(audited: Audited, codes: str) -> tuple[bool, str]:
    """Look at the halves of each new part, and at the int8 rows beside them, of table `codes`."""
    fresh = {start for name in (codes, "rows") for start, _ in audited.fresh(name)}
    start = count = wrong = 0
    for rows in PartRows.of(audited.tables[codes], audited.tables["rows"]):
        if start in fresh:
            count += len(rows)
            wrong += len(rows.not_unit())
        start += len(rows)
    detail = f"{count} new vectors, {wrong} not of length 1"
    waiting = len(audited.tables["missing"])
    return wrong == 0, f"{detail}, {waiting} texts wait for the model" if waiting else detail


AUDITS: tuple[Audit, ...] = tuple(
    Audit(run.__name__, projection, (run.__doc__ or run.__name__.replace("_", " ")).strip(), run)
    for projection, runs in {
        "memories": (
            memory_audits.rows_match_log,
            memory_audits.no_duplicate_ids,
            memory_audits.did_not_shrink,
            memory_audits.no_secrets,
            memory_audits.no_self_injection,
        ),
        "postings": (bm25_parity,),
        "vectors": (vectors_are_unit,),
        "fields": (fields_are_unit,),
        "entities": (mentions_in_range,),
        "duplicates": (links_hold,),
        "lessons": (lessons_match_log,),
        "layout": (picture_holds,),
    }.items()
    for run in runs
)
