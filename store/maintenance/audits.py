"""
Audits: the requirements of a candidate before it is published.

Each checks the candidate in another way than it was made, and reports its finding in one sentence,
with the memories it fails on and the cure. They run as Dagster's blocking asset checks, and in
every other build.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from store.derived.duplicates import TEXTS, Duplicates
from store.index import bm25, postings
from store.index.bm25 import MAX_BATCH_POSTINGS
from store.index.vector_cache import column_hashes, has_text
from store.index.vector_scan import PartRows
from store.log import log_queries
from store.log.event_kinds import Followed, Surfaced
from store.maintenance.memory_audits import (
    ANEW,
    ASK_MODEL,
    KNOWN,
    NAMED,
    Audit,
    AuditInput,
    AuditResult,
    audit_of,
)
from store.memories.memory import FORGOTTEN
from store.memories.parts import fields_of
from store.memories.table import insight_mask, searched_texts
from store.snapshots.manifest import CheckResult
from store.text import tokenizer
from store.text.excerpt import plural

_SAMPLE = 200  # documents whose BM25 scores are computed again
_QUERIES = 10  # taken from these documents
_PIECES, _PIECE = 4, 64  # runs of so many terms of each: rounding error grows with their number
_ROUNDING = 2.0**-24  # of a float32
_FEW = 20  # memories whose numbers alone may be wrong, or one in a hundred


def run_audits(projection: str, audited: AuditInput) -> list[CheckResult]:
    """Run the audits of one projection; a failing one hides no other."""
    results = []
    for audit in AUDITS:
        if audit.projection == projection:
            result = audit.run(audited)
            results.append(
                CheckResult(
                    audit.name,
                    result.passed,
                    result.sentence,
                    projection,
                    alone=tuple(result.rows) if result.isolates else (),
                    cure="" if result.passed or result.warns else audit.cure,
                    warns=result.warns,
                    memories=tuple(result.rows[:NAMED]),
                )
            )
    return results


@audit_of("postings", cure=ANEW)
def bm25_parity(audited: AuditInput) -> AuditResult:
    """A sample of documents scores the same as with rank_bm25's BM25Okapi.

    The queries are runs of the sample's own terms. A score is a sum of float32, so it may differ by
    as many roundings as it has terms, in proportion to the terms' absolute sum.
    """
    from rank_bm25 import BM25Okapi  # jobs only

    index = postings.PostingsIndex.open(audited.tables)
    repeated = insight_mask(audited.memories)
    rows = np.flatnonzero(index.lengths > 0)
    if not len(rows):
        return AuditResult(True, "nothing is indexed")
    sample = rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE]
    texts = searched_texts(fields_of(audited.of_memories, sample, postings.TEXTS))
    documents = [tokenizer.terms(text) for text in texts]
    step = max(1, len(documents) // _QUERIES)
    queries = [run for document in documents[::step] for run in _runs(document)]
    for term in dict.fromkeys(chain.from_iterable(queries)):
        listed = index.posting_list(term)[0]
        if np.count_nonzero(~repeated[listed]) != index.frequency(term):
            text = f"{term!r} is not in {index.frequency(term)} memories"
            return AuditResult(False, text, audited.ids(listed))
    reference = BM25Okapi(documents, k1=bm25.K1, b=bm25.B, epsilon=bm25.EPSILON)
    # the sample's own statistics are not the corpus's: use those, from the counts
    idf, _ = bm25.okapi_idf(np.asarray(index.frequencies, np.int64), index.size)
    places = {term: index.find(term) for term in reference.idf}
    if lost := {term for term, place in places.items() if place is None}:
        holding = [not lost.isdisjoint(document) for document in documents]
        text = f"{len(lost)} terms are not in the index, one is {min(lost)!r}"
        return AuditResult(False, text, audited.ids(sample[holding]))
    reference.idf = {term: float(idf[place]) for term, place in places.items() if place is not None}
    reference.avgdl = index.average_length
    reference.doc_freqs = [
        {term: min(count, MAX_BATCH_POSTINGS) for term, count in counts.items()}
        for counts in reference.doc_freqs
    ]
    counting = index.lengths[(index.lengths >= 0) & ~repeated]
    if index.average_length != bm25.round_impacts(float(counting.mean()) if len(counting) else 0.0):
        return AuditResult(False, f"{index.average_length} is not the average length")
    wanted = [reference.get_scores(query) for query in queries]
    # an idf may be below zero: the sum of the absolute terms is then larger than the score
    reference.idf = {term: abs(value) for term, value in reference.idf.items()}
    is_off = np.zeros(len(sample), np.bool_)
    worst = 0.0
    for query, right in zip(queries, wanted, strict=True):
        gap = np.abs(index.scores(query, exact=True)[sample] - right)
        size = reference.get_scores(query)
        is_off |= ~(gap <= 2 * (len(query) + 4) * _ROUNDING * size)
        worst = max(worst, float((gap / np.maximum(size, 1.0)).max()))
    text = f"{len(sample)} documents, largest difference {worst:.1e} of the score"
    return _of_few(audited, sample[is_off], text)


def _runs(terms: Sequence[str]) -> list[Sequence[str]]:
    """Return a few runs of a document's terms, spread over it: all terms of a short one."""
    step = max(_PIECE, len(terms) // _PIECES)
    return [terms[start : start + _PIECE] for start in range(0, len(terms), step)][:_PIECES]


@audit_of("vectors", cure=ASK_MODEL)
def vectors_are_unit(audited: AuditInput) -> AuditResult:
    """Every memory has a row of length 1, but for those without a text or a vector yet."""
    count = len(audited.tables["rows"])
    if count != audited.count:
        return AuditResult(
            False, f"{plural(count, 'vector')} for {plural(audited.count, 'memory')}"
        )
    wrong, empty, text = _not_unit(audited)
    most = max(_FEW, audited.count // 20)
    if len(empty) > most and len(empty := _with_words(audited, empty)) > most:
        return AuditResult(False, f"{text}, {len(empty)} all zero", audited.ids(empty))
    return _of_few(audited, wrong, text)


@audit_of("entities", cure=ANEW)
def mentions_in_range(audited: AuditInput) -> AuditResult:
    """Every mention points to an existing memory."""
    documents = audited.tables["mentions"].column("document")
    least, highest = pc.min_max(documents).as_py().values()
    ok = highest is None or 0 <= least <= highest < audited.count
    entities = plural(len(audited.tables["entities"]), "entity")
    text = f"{plural(len(documents), 'mention')} of {entities}"
    return AuditResult(
        ok, text if ok else f"{text}, of rows {least} to {highest} of {audited.count}"
    )


@audit_of("duplicates", cure=ANEW)
def links_hold(audited: AuditInput) -> AuditResult:
    """A sample of links joins memories that are there and repeat or correct each other."""
    links = Duplicates.open(audited.tables).links
    ends = {end for link in links for end in (link.document, link.of)}
    if not all(0 <= end < audited.count for end in ends):
        text = f"links point outside the {audited.count} memories"
        astray = [link for link in links if not 0 <= link.of < audited.count]
        return AuditResult(False, text, audited.ids(link.document for link in astray))
    sample = links[:: max(1, len(links) // _SAMPLE)][:_SAMPLE]
    rows = sorted({end for link in sample for end in (link.document, link.of)})
    table = fields_of(audited.of_memories, np.array(rows, np.int64), (*TEXTS, "state"))
    columns = (column.to_pylist() for column in table.columns)
    fields_by_row = dict(zip(rows, zip(*columns, strict=True), strict=True))
    for link in sample:
        older, newer = fields_by_row[link.of], fields_by_row[link.document]
        texts = ["\n".join(filter(None, fields)) for *fields, _ in (older, newer)]
        if FORGOTTEN in (older[-1], newer[-1]) or not link.holds(*texts):
            ids = audited.ids([link.document, link.of])
            return AuditResult(False, f"one of {len(links)} links is no {link.kind}", ids)
    return AuditResult(True, f"{len(links)} links, {len(sample)} of them read again")


@audit_of("lessons", cure=ANEW)
def lessons_match_log(audited: AuditInput) -> AuditResult:
    """The counts of lessons shown, verdicts and open drafts match the log."""
    logged: Counter[str] = Counter()
    for (kind, _), count in log_queries.daily_counts(audited.log, audited.watermark).items():
        logged[kind] += count
    table = audited.tables["lessons"]
    shown, judged = (
        sum(pc.sum(table.column(name)).as_py() or 0 for name in names)
        for names in (("surfaced",), _VERDICTS)
    )
    drafts = len(audited.tables["drafts"])
    text = f"{shown} times shown, {judged} verdicts, {drafts} open drafts"
    if (shown, judged) == (logged["surfaced"], logged["followed"]) and drafts <= logged["proposed"]:
        return AuditResult(True, text)
    text += f"; the log has {logged['surfaced']}, {logged['followed']} and {logged['proposed']}"
    return AuditResult(False, text, _lessons_counted_wrong(audited))


_VERDICTS = ("followed", "ignored", "not_applicable")


def _lessons_counted_wrong(audited: AuditInput) -> list[str]:
    """Return the ids of the lessons whose counts differ from the log's."""
    events = audited.log.bodies(0, audited.watermark, cold=False)
    logged = Counter((of, type(body)) for _, of, body in events)
    rows = {row["id"]: row for row in audited.tables["lessons"].to_pylist()}
    lessons = {of for of, kind in logged if kind in (Surfaced, Followed)} | rows.keys()
    wrong = []
    for id_ in sorted(lessons):
        row = rows.get(id_, {})
        counted = row.get("surfaced") or 0, sum(row.get(name) or 0 for name in _VERDICTS)
        if counted != (logged[id_, Surfaced], logged[id_, Followed]):
            wrong.append(id_)
    return wrong


def _of_few(audited: AuditInput, rows: npt.NDArray[np.signedinteger], text: str) -> AuditResult:
    """Return a failure of the rows whose numbers are wrong.

    A few are isolated; with many, the build itself is wrong.
    """
    ids = audited.ids(rows)
    return AuditResult(not ids, text, ids, isolates=len(ids) <= max(_FEW, audited.count // 100))


def _with_words(audited: AuditInput, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows whose texts hold a word: a text of symbols alone may have no vector."""
    table = fields_of(audited.of_memories, np.sort(rows), TEXTS)
    texts = zip(*(column.to_pylist() for column in table.columns), strict=True)
    has_words = [bool(tokenizer.terms("\n".join(filter(None, fields)))) for fields in texts]
    return np.sort(rows)[np.array(has_words, np.bool_)]


def _not_unit(
    audited: AuditInput,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], str]:
    """Return the rows of the new parts that are not of length 1, the zero rows of texts, and a
    sentence that counts the first.

    Both the halves and the int8 rows are checked.
    """
    fresh = {start for name in ("codes", "rows") for start, _ in audited.fresh(name)}
    start = count = 0
    wrong, empty = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    hashes = column_hashes(audited.tables["rows"].column("text_hash"))
    for rows in PartRows.of(audited.tables["codes"], audited.tables["rows"]):
        if start in fresh:
            count += len(rows)
            wrong.append(rows.not_unit() + start)
            is_of_text = has_text(hashes[start : start + len(rows)])
            empty.append(np.flatnonzero(is_of_text & ~rows.halves.any(axis=1)) + start)
        start += len(rows)
    off_unit = np.concatenate(wrong)
    detail = f"{count} new vectors, {len(off_unit)} not of length 1"
    waiting = len(audited.tables["missing"])
    if waiting:
        detail += f", {plural(waiting, 'text')} without a vector yet"
    return off_unit, np.concatenate(empty), detail


AUDITS: tuple[Audit, ...] = tuple(KNOWN)
