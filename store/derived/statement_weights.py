"""
The projection `statement_weights`: how much each statement of the user matters, by its text.

Of a statement the classifier says how likely it is to last beyond its prompt; what the user said
again in another session, in whatever words, matters more. Counts of what was followed are those of
`lessons`; readers add them up (`weigh`). A statement that is not in the table yet is read by
`read_lasting`, so the tail's weigh as much.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.agents import prompt_classifier
from store.agents.prompt_classifier import Said
from store.log.event_kinds import MEMORY_KINDS, STATEMENT
from store.memories.memory import ACTIVE, STATES
from store.memories.parts import fields_of
from store.snapshots.projection import Inputs, Previous, Projection, Tables, column_view
from store.text import tokenizer

WEIGHTS = pa.schema(
    [
        ("document", pa.int32()),
        ("lasting", pa.float64()),  # probability that the text holds beyond its prompt
        ("restated", pa.int32()),  # other sessions in which the same was said
    ]
)

SAME = 0.6  # cosine of the words of two statements, rare ones counting more, that say the same
RAREST = 6  # words of a statement by which others are looked up
RESTATED, FOLLOWED, DECLINED = 0.8, 0.5, 0.5  # log-odds for each doubling
_SUREST = 0.99  # of the classifier: its odds beyond that are no evidence


def build_statement_weights(inputs: Inputs, previous: Previous | None) -> Tables:
    """Weigh the active statements; few enough that `previous` would save little."""
    memories = inputs.tables["memories"]
    documents = _statement_documents(memories["columns"])
    rows = fields_of(memories, documents, ["content", "project", "session"]).to_pylist()
    texts = [row["content"] for row in rows]
    scopes = [(row["project"], row["session"]) for row in rows]
    columns = [
        pa.array(documents, pa.int32()),
        pa.array([read_lasting(text) for text in texts], pa.float64()),
        pa.array(_count_restatements(texts, scopes), pa.int32()),
    ]
    return {"statement_weights": pa.table(columns, schema=WEIGHTS)}


def _statement_documents(columns: pa.Table) -> npt.NDArray[np.int64]:
    """Return the rows of the active statements, ascending."""
    kinds, states = column_view(columns, "kind"), column_view(columns, "state")
    is_statement = kinds == MEMORY_KINDS.index(STATEMENT)
    return np.flatnonzero(is_statement & (states == STATES.index(ACTIVE)))


def read_lasting(text: str) -> float:
    """Return how likely a statement lasts: as its likeliest sentence."""
    return max((sentence.lasts for sentence in prompt_classifier.read(text)), default=0.0)


def lasting_sentences(text: str, least: float) -> list[Said]:
    """Return the sentences of a statement that last, in order; the likeliest where none does."""
    sentences = prompt_classifier.read(text)
    lasting = [sentence for sentence in sentences if sentence.lasts >= least]
    return lasting or sorted(sentences, key=lambda sentence: -sentence.lasts)[:1]


def _count_restatements(
    texts: Sequence[str], scopes: Sequence[tuple[str | None, str | None]]
) -> list[int]:
    """Return in how many other sessions of its project each text was said, [texts]."""
    terms = [frozenset(tokenizer.terms(text)) for text in texts]
    held = Counter(term for some in terms for term in some)
    rarity = {term: math.log(1 + len(texts) / count) for term, count in held.items()}
    by_term: dict[str, list[int]] = defaultdict(list)
    for place, some in enumerate(terms):
        for term in some:
            by_term[term].append(place)
    lengths = [sum(rarity[term] ** 2 for term in some) for some in terms]
    counts = []
    for place, (some, (project, session)) in enumerate(zip(terms, scopes, strict=True)):
        rarest = sorted(some, key=lambda term: (held[term], term))[:RAREST]
        near = {other for term in rarest for other in by_term[term]} - {place}
        sessions = {
            scopes[other][1]
            for other in near
            if scopes[other][0] == project
            and sum(rarity[term] ** 2 for term in some & terms[other])
            >= SAME * math.sqrt(lengths[place] * lengths[other])
        }
        counts.append(len(sessions - {session}))
    return counts


def weigh(lasting: float, restated: int, counts: Mapping[str, int]) -> float:
    """Return the weight of a statement, as log-odds; `counts` are those of `lessons`."""
    sure = min(max(lasting, 1 - _SUREST), _SUREST)
    return (
        math.log(sure / (1 - sure))
        + RESTATED * math.log2(1 + restated)
        + FOLLOWED * math.log2(1 + counts["followed"])
        - DECLINED * math.log2(1 + counts["ignored"])
    )


@dataclass(frozen=True, slots=True)
class StatementWeights:
    """The weights of a snapshot's statements by row."""

    rows: Mapping[int, tuple[float, int]]  # lasting, restated

    @classmethod
    def open(cls, tables: Tables) -> "StatementWeights":
        table = tables["statement_weights"]
        documents, lasting, restated = (column_view(table, name).tolist() for name in WEIGHTS.names)
        return cls(dict(zip(documents, zip(lasting, restated, strict=True), strict=True)))


STATEMENT_WEIGHTS_PROJECTION = Projection(
    name="statement_weights",
    version=f"1-{crc32(prompt_classifier.WEIGHTS.read_bytes()):08x}",
    inputs=("memories",),
    schemas={"statement_weights": WEIGHTS},
    build=build_statement_weights,
)
