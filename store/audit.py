"""
Audits: what must hold of a rebuilt candidate before anybody is served from it.

Each looks at the candidate by another way than the one that made it, and says in one sentence what
it found. They run as Dagster's blocking asset checks and in every other build alike.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store import frame, redact, text
from store.events import Archived, Forgotten, Recorded, Revised, Superseded
from store.log import EventLog
from store.manifest import CheckResult
from store.projection import Built, Part, Tables
from store.projections import memories, postings
from store.projections.fields import FieldRows
from store.projections.lexical import bm25
from store.vectors.rows import PartRows

_SAMPLE = 500  # documents whose BM25 scores are computed again
_TOLERANCE = 1e-4
_TEXTS = ("content", "context", "action", "result", "metadata")


@dataclass(frozen=True, slots=True)
class Audited:
    """A candidate's projection, and what it is held against.

    `seen` are the files of the one that is served, which were looked at before it was published.
    """

    log: EventLog
    watermark: int
    tables: Built
    memories: pa.Table
    published: Tables | None
    published_watermark: int
    seen: frozenset[str] = frozenset()

    def saw(self, part: Part) -> bool:
        """Whether a part of the candidate is one that is served."""
        return part.file is not None and part.file.path in self.seen


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


def rows_match_log(audited: Audited) -> tuple[bool, str]:
    """Every recorded memory has its row, in order, with the text last given to it."""
    contents: dict[str, str] = {}
    for event in audited.log.read(0, audited.watermark):
        if isinstance(event.body, Recorded):
            contents[event.id] = event.body.content
        elif isinstance(event.body, Revised) and event.body.content is not None:
            if event.subject in contents:
                contents[event.subject] = event.body.content
    ids = audited.memories.column("id").to_pylist()
    if ids != list(contents):
        gone = list(islice((id_ for id_ in contents if id_ not in set(ids)), 3))
        return False, f"{len(ids)} rows for {len(contents)} recorded memories; missing: {gone}"
    rows = zip(ids, audited.memories.column("content").to_pylist(), strict=True)
    wrong = [id_ for id_, content in rows if contents[id_] != content]
    if wrong:
        return False, f"{len(wrong)} rows do not say what the log says, first {wrong[0]}"
    return True, f"{len(ids)} rows, as the log says"


def no_duplicate_ids(audited: Audited) -> tuple[bool, str]:
    rows, distinct = len(audited.memories), pc.count_distinct(audited.memories.column("id")).as_py()
    return rows == distinct, f"{distinct} ids in {rows} rows"


def did_not_shrink(audited: Audited) -> tuple[bool, str]:
    """There are never fewer rows than served now, and fewer active ones only by an event."""
    if audited.published is None:
        return True, f"first build, {len(audited.memories)} rows"
    before, after = audited.published["memories"], audited.memories
    if len(after) < len(before):
        return False, f"{len(after)} rows, {len(before)} are served now"
    lost = _active(before) - _active(after)
    excused = sum(
        isinstance(event.body, (Archived, Forgotten, Superseded))
        or (isinstance(event.body, Recorded) and event.body.key is not None)
        for event in audited.log.read(audited.published_watermark, audited.watermark)
    )
    detail = f"{_active(after)} active memories, {_active(before)} served now"
    return lost <= excused, f"{detail}, {excused} events that put one away"


def no_secrets(audited: Audited) -> tuple[bool, str]:
    found: list[str] = []
    for id_, name, value in _all_texts(audited.memories):
        if name != "metadata":
            found += (f"{secret.kind} in {id_}" for secret in redact.find(value))
        # by value and key, as it was redacted: a pattern may lie across two of them
        elif redact.redact_value(metadata := msgspec.json.decode(value)) != metadata:
            found.append(f"in the metadata of {id_}")
    detail = "no secret pattern in any text"
    return not found, f"{len(found)} secrets, first {found[0]}" if found else detail


def no_self_injection(audited: Audited) -> tuple[bool, str]:
    found = [id_ for id_, _, value in _all_texts(audited.memories) if frame.contains(value)]
    detail = "no memory is a block of ours"
    return (
        not found,
        f"{len(found)} memories hold our own block, first {found[0]}" if found else detail,
    )


def bm25_parity(audited: Audited) -> tuple[bool, str]:
    """A sample of documents scores as rank_bm25's BM25Okapi scores it."""
    from rank_bm25 import BM25Okapi  # jobs only

    index = postings.PostingsIndex.open(audited.tables)
    rows = np.flatnonzero(index.lengths > 0)
    if not len(rows):
        return True, "nothing is indexed"
    sample = rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE]
    texts = list(memories.searched_texts(audited.memories.take(pa.array(sample))))
    documents = [text.terms(one) for one in texts]
    reference = BM25Okapi(documents, k1=bm25.K1, b=bm25.B, epsilon=bm25.EPSILON)
    # the sample's own statistics are not the corpus's: those are put in, from the counts
    idf, _ = bm25.okapi_idf(np.asarray(index.frequencies, np.int64), index.size)
    places = {term: index.find(term) for term in reference.idf}
    if lost := [term for term, place in places.items() if place is None]:
        return False, f"{len(lost)} terms are not in the index, first {lost[0]!r}"
    reference.idf = {term: float(idf[place]) for term, place in places.items() if place is not None}
    reference.avgdl = index.average_length
    if index.average_length != bm25.rounded(float(index.lengths[index.lengths >= 0].mean())):
        return False, f"{index.average_length} is not the average length"
    worst = 0.0
    for query in documents[:: max(1, len(documents) // 20)]:
        gap = np.abs(index.scores(query)[sample] - reference.get_scores(query))
        worst = max(worst, float(gap.max() / (1 + np.abs(reference.get_scores(query)).max())))
    return worst <= _TOLERANCE, f"{len(sample)} documents, largest difference {worst:.1e}"


def vectors_are_unit(audited: Audited) -> tuple[bool, str]:
    """Every memory has a row, and every row that is not empty has length 1."""
    count = audited.tables.rows["rows"]
    if count != len(audited.memories):
        return False, f"{count} vectors for {len(audited.memories)} memories"
    return _are_unit(audited, "codes")


def fields_are_unit(audited: Audited) -> tuple[bool, str]:
    """Every field's row is of a memory there is, and has length 1 if it is not empty."""
    of = FieldRows.open(audited.tables).documents
    if len(of) and not 0 <= of.min() <= of.max() < len(audited.memories):
        return False, f"fields of memories {of.min()} to {of.max()} of {len(audited.memories)}"
    return _are_unit(audited, "rows")


def mentions_in_range(audited: Audited) -> tuple[bool, str]:
    documents = audited.tables["mentions"].column("document")
    least, highest = pc.min_max(documents).as_py().values()
    ok = highest is None or 0 <= least <= highest < len(audited.memories)
    return ok, f"{len(documents)} mentions of {len(audited.tables['entities'])} entities"


def _are_unit(audited: Audited, codes: str) -> tuple[bool, str]:
    """Look at the halves of each new part, and at the int8 rows beside them, of table `codes`."""
    parts = zip(audited.tables.parts[codes], audited.tables.parts["rows"], strict=True)
    new = [(code, row) for code, row in parts if not (audited.saw(code) and audited.saw(row))]
    wrong = sum(
        len(rows.not_unit()) for code, row in new for rows in PartRows.of(code.table, row.table)
    )
    detail = f"{sum(row.rows for _, row in new)} new vectors, {wrong} not of length 1"
    waiting = audited.tables.rows["missing"]
    return wrong == 0, f"{detail}, {waiting} texts wait for the model" if waiting else detail


def _active(table: pa.Table) -> int:
    return memories.states(table).count(memories.ACTIVE)


def _all_texts(table: pa.Table) -> Iterator[tuple[str, str, str]]:
    """Yield the row's id, the column and the text for every text of every row."""
    names = ("id", *_TEXTS, "tags")
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        for id_, *values, tags in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            yield from ((id_, "tags", tag) for tag in tags)
            for name, value in zip(_TEXTS, values, strict=True):
                if value:
                    yield id_, name, value


AUDITS: tuple[Audit, ...] = tuple(
    Audit(run.__name__, projection, (run.__doc__ or run.__name__.replace("_", " ")).strip(), run)
    for projection, runs in {
        "memories": (
            rows_match_log,
            no_duplicate_ids,
            did_not_shrink,
            no_secrets,
            no_self_injection,
        ),
        "postings": (bm25_parity,),
        "vectors": (vectors_are_unit,),
        "fields": (fields_are_unit,),
        "entities": (mentions_in_range,),
    }.items()
    for run in runs
)
