"""
The projection `usage`: recalls, ratings and judgements of each memory.

Folded from the receipts, ratings and judgments in the log; memories nobody ever recalled or rated
have no row. What is said of a recall is said of all it brought, for the newest KEPT recalls. A
judgment that nothing tells of a memory counts as none, and what a tool or the web says of one too.
Reading changes nothing here: a recall counts from the next build on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.log.event_kinds import Judged, Rated, Recalled
from store.log.events import Event
from store.memories.parts import MemoryParts
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables, column_view
from store.text.text_features import MAY_RULE

USAGE = pa.schema(
    [
        ("document", pa.int32()),
        ("id", pa.string()),
        ("recalled", pa.int64()),
        ("last_recalled_at", pa.int64()),  # microseconds UTC; 0 for never
        ("ratings", pa.int64()),
        ("verdicts", pa.int64()),  # the sum of the ratings, in thousandths: sums stay exact
        ("judged", pa.int64()),  # by a job, from what was done afterwards
        ("judgments", pa.int64()),  # the sum of these, in thousandths
    ]
)
RECEIPTS = pa.schema([("id", pa.string()), ("hits", pa.list_(pa.string()))])  # the oldest first
_COUNTS = ("recalled", "last_recalled_at", "ratings", "verdicts", "judged", "judgments")

KEPT = 2_000  # receipts that a rating may still speak of

_Use = tuple[str, int, int, int, int, int, int, int]  # id, seq, and the counts


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Add the receipts and ratings since `previous` to what it counted."""
    receipts = {} if previous is None else _receipts(previous.tables)
    uses: list[_Use] = []
    for event in inputs.read(0 if previous is None else previous.watermark):
        uses.extend(_uses(event, receipts))
    if not uses:
        if previous is not None:
            return previous.tables.parts
        return {"usage": USAGE.empty_table(), "receipts": RECEIPTS.empty_table()}
    import polars as pl  # jobs only

    columns = ("id", "used", *_COUNTS)
    types = [pl.String, *[pl.Int64] * (1 + len(_COUNTS))]
    frame = pl.DataFrame(uses, schema=dict(zip(columns, types, strict=True)), orient="row")
    # what was used before it was recorded was not this memory: an earlier build saw no row of it
    known = _memory_rows(inputs.tables["memories"], frame["id"].unique().to_list())
    frame = frame.join(pl.DataFrame(known), on="id").filter(pl.col("used") > pl.col("seq"))
    frame = frame.select("document", "id", *_COUNTS)
    if previous is not None:
        frame = pl.concat([pl.DataFrame(previous.tables["usage"]).select(frame.columns), frame])
    usage = (
        frame.group_by("document", "id")
        .agg(
            pl.col("recalled").sum(),
            pl.col("last_recalled_at").max(),
            pl.col("ratings").sum(),
            pl.col("verdicts").sum(),
            pl.col("judged").sum(),
            pl.col("judgments").sum(),
        )
        .sort("document")
    )
    kept = [{"id": id_, "hits": hits} for id_, hits in receipts.items()]
    return {
        "usage": usage.select(USAGE.names).to_arrow().cast(USAGE),
        "receipts": pa.Table.from_pylist(kept, RECEIPTS),
    }


def _uses(event: Event, receipts: dict[str, list[str]]) -> Iterable[_Use]:
    """Yield what an event says of memories; keep the newest of the `receipts`."""
    match event.body:
        case Recalled(hits=hits) if hits:
            receipts[event.id] = [hit.id for hit in hits]
            if len(receipts) > KEPT:
                del receipts[next(iter(receipts))]
            yield from ((hit.id, event.seq, 1, event.at, 0, 0, 0, 0) for hit in hits)
        case Rated(verdict=verdict) if event.trust in MAY_RULE:
            said = round(verdict * 1_000)
            for id_ in receipts.get(event.subject, [event.subject]):
                yield (id_, event.seq, 0, 0, 1, said, 0, 0)
        case Judged(verdicts=verdicts) if event.trust in MAY_RULE:
            for id_, one in verdicts.items():
                if one:
                    yield (id_, event.seq, 0, 0, 0, 0, 1, round(one * 1_000))


def _receipts(tables: Tables) -> dict[str, list[str]]:
    return {row["id"]: row["hits"] for row in tables["receipts"].to_pylist()}


def _memory_rows(tables: Tables, ids: Sequence[str]) -> pa.Table:
    """Return those of some ids that are memories: id, document and the seq of its recording."""
    memories = MemoryParts.open(tables)
    found = [(id_, row) for id_ in ids if (row := memories.row(id_)) is not None]
    rows = np.array([row for _, row in found], np.int64)
    return pa.table(
        {
            "id": pa.array([id_ for id_, _ in found], pa.string()),
            "document": pa.array(rows, pa.int32()),
            "seq": tables["columns"].column("seq").take(pa.array(rows)),
        }
    )


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used, by document number; all arrays have one entry for each used memory."""

    documents: npt.NDArray[np.int32]
    recalled: npt.NDArray[np.int64]
    last_recalled_at: npt.NDArray[np.int64]
    ratings: npt.NDArray[np.int64]
    verdicts: npt.NDArray[np.int64]
    judged: npt.NDArray[np.int64]
    judgments: npt.NDArray[np.int64]

    @classmethod
    def open(cls, tables: Tables) -> "Usage":
        table = tables["usage"]
        return cls(*(column_view(table, name) for name in ("document", *_COUNTS)))

    def of(self, document: int) -> tuple[int, int]:
        """Return how often a memory was recalled, and when last (0: never)."""
        place = int(np.searchsorted(self.documents, document))
        if place == len(self.documents) or int(self.documents[place]) != document:
            return 0, 0
        return int(self.recalled[place]), int(self.last_recalled_at[place])

    def counts(self, name: str, documents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return a column for some documents, [documents]; 0 for one that was never used."""
        counts = np.zeros(len(documents), np.int64)
        if len(self.documents):
            places = np.searchsorted(self.documents, documents)
            places = np.minimum(places, len(self.documents) - 1)
            used = self.documents[places] == documents
            counts[used] = getattr(self, name)[places[used]]
        return counts


USAGE_PROJECTION = Projection(
    name="usage",
    version="2",
    inputs=("log", "memories"),
    schemas={"usage": USAGE, "receipts": RECEIPTS},
    build=build,
    for_builds=frozenset({"receipts"}),
)
