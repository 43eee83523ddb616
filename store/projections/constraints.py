"""
The constraints of the tables of projections, beyond their schemas.

Rows of one table are numbered by another's, and columns of places (rows, documents, codes) lead
into others: who follows a place that leads nowhere breaks, and one below 0 is counted from the end,
silently. `store.constraints` holds files to this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from store.events import EARLIEST, LATEST, MEMORY_KINDS, TIERS, TRUSTS
from store.memories.memory import STATES

Order = Literal["any", "ascending", "rising", "each once"]  # ascending ones may repeat

# stand for a limit that the manifest says
WATERMARK = "watermark"
HERE = "@"  # behind a table's name: its part of the same number


@dataclass(frozen=True, slots=True)
class Numbers:
    """From `least` up to below a number, or the rows of a table (`projection.table`), and `more`.

    Without `below` there is no limit. No integer is null, but in a column that `may_lack` some.
    """

    least: int | None = 0
    below: int | str | None = None
    more: int = 0
    order: Order = "any"
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class Present:
    """What is never null, nor a list with a null; texts that `are_json` can be read as such."""

    are_json: bool = False


Rule = Numbers | Present

_ROW = "memories.memories"
_DOCUMENT = Numbers(below=_ROW)
_DOCUMENTS = Numbers(below=_ROW, order="ascending")
_OR_NONE = Numbers(-1, _ROW)
_FLAG = Numbers(below=2)
_MOMENT = Numbers(EARLIEST, LATEST + 1)
_SOMEWHEN = Numbers(EARLIEST)  # or NEVER
_COUNT = Numbers()
_PRESENT = Present()
_FILED = {"hash": Numbers(order="ascending"), "document": _DOCUMENT}
_RISING = Numbers(order="rising")


def _codes(values: tuple[str, ...], *, least: int = 0) -> Numbers:
    return Numbers(least, len(values))


def _index(of: str, documents: str) -> dict[str, dict[str, Rule]]:
    """Return what holds of the tables of an index (`lexical.segments`)."""
    return {
        "terms": {
            "hash": _RISING,
            "documents": Numbers(below=documents, more=1),
            "idf": _PRESENT,
        },
        "words": {
            "hash": _RISING,
            "word": _PRESENT,
            "offset": Numbers(below=f"{of}.postings{HERE}", order="rising"),
        },
        "postings": {"document": Numbers(below=documents), "impact": _PRESENT, "count": _COUNT},
        "wide": {"term": Numbers(below=f"{of}.words{HERE}", order="rising")},
        "documents": {"length": Numbers(-1)},
        "kin": {"hash": Numbers(order="ascending"), "term": Numbers(below=f"{of}.words{HERE}")},
        "spread": {"impact": _PRESENT},
        "statistics": {
            "documents": Numbers(below=documents, more=1),
            **dict.fromkeys(("average_length", "average_idf", "sample_coverage"), _PRESENT),
        },
    }


VALUES: Mapping[str, Mapping[str, Mapping[str, Rule]]] = {
    "memories": {
        "memories": {
            "id": _PRESENT,
            "seq": Numbers(1, WATERMARK, 1, "rising"),
            **dict.fromkeys(
                "kind state content tags trust tier source_ids text_hash importance score".split(),
                _PRESENT,
            ),
            "pinned": _PRESENT,
            "metadata": Present(are_json=True),
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "expires_at": Numbers(EARLIEST, may_lack=True),
            "ended_at": Numbers(EARLIEST, LATEST + 1, may_lack=True),
        },
        "columns": {
            "seq": Numbers(1, WATERMARK, 1, "rising"),
            "state": _codes(STATES),
            "kind": _codes(MEMORY_KINDS, least=-1),
            "tier": _codes(TIERS, least=-1),
            "trust": _codes(TRUSTS, least=-1),
            "pinned": _FLAG,
            "project": Numbers(-1, "memories.projects"),
            "importance": _PRESENT,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "expires_at": _SOMEWHEN,
            "ended_at": _SOMEWHEN,
            "text_hash": _PRESENT,
        },
        "projects": {"name": _PRESENT},
        "ids": {**_FILED, "document": Numbers(below=_ROW, order="each once")},
        "keys": _FILED,
        "episodes": _FILED,
        "replaced": _FILED,
        "made_of": _FILED,
        "edges": dict.fromkeys(("source", "target", "relation"), _PRESENT),
    },
    "postings": _index("postings", _ROW),
    "sessions": {
        "turns": {
            "session": Numbers(-1, "sessions.documents"),
            "before": _OR_NONE,
            "after": _OR_NONE,
            "speaker": Numbers(-1, "sessions.speakers"),
            **dict.fromkeys(("asks", "dated", "personal", "rule"), _FLAG),
        },
        "speakers": {"name": _PRESENT},
        "members": {"row": _DOCUMENT},
        "starts": {"start": Numbers(below="sessions.members", more=1, order="ascending")},
        **_index("sessions", "sessions.documents"),
    },
    "vectors": {
        "rows": {"text_hash": _PRESENT},
        "codes": {"vector": _PRESENT, "scale": _PRESENT},
        "calibration": dict.fromkeys(("unrelated", "related", "knows_meaning"), _PRESENT),
    },
    "fields": {
        "rows": {
            "document": _DOCUMENTS,
            **dict.fromkeys(("text_hash", "vector", "scale"), _PRESENT),
        }
    },
    "entities": {
        "entities": {
            "kind": _PRESENT,
            "name": _PRESENT,
            "aliases": _PRESENT,
            "documents": Numbers(below="entities.mentions", more=1),
            "offset": Numbers(below="entities.mentions", more=1, order="ascending"),
        },
        "mentions": {
            "entity": Numbers(below="entities.entities", order="ascending"),
            "document": _DOCUMENT,
        },
        "edges": {
            "source": Numbers(below="entities.entities", order="ascending"),
            "target": Numbers(below="entities.entities"),
            "weight": _PRESENT,
        },
        "aliases": {"alias": _PRESENT, "entity": Numbers(below="entities.entities")},
        "found": {"document": _DOCUMENTS, **dict.fromkeys(("kind", "name", "alias"), _PRESENT)},
    },
    "duplicates": {
        "duplicates": {
            "document": _DOCUMENTS,
            "of": _DOCUMENT,
            **dict.fromkeys(("kind", "likeness", "was", "becomes"), _PRESENT),
        },
    },
    "facts": {
        "facts": {
            "document": _DOCUMENT,
            **dict.fromkeys(("entity", "relation", "value"), _PRESENT),
            "valid_from": _MOMENT,
            "valid_to": _SOMEWHEN,
        },
    },
    "goals": {"goals": {"document": _DOCUMENT}, "milestones": {"document": _DOCUMENT}},
    "usage": {
        "usage": {
            "document": Numbers(below=_ROW, order="rising"),
            "id": _PRESENT,
            **dict.fromkeys(("recalled", "ratings", "judged"), _COUNT),
            "last_recalled_at": Numbers(EARLIEST, LATEST + 1),
            **dict.fromkeys(("verdicts", "judgments"), Numbers(None)),
        },
        "receipts": {"id": _PRESENT, "hits": _PRESENT},
    },
    "lessons": {
        "lessons": {"id": _PRESENT, "last_surfaced_at": Numbers(EARLIEST, LATEST + 1)},
        "efforts": {"id": _PRESENT, "effort": _PRESENT},
        "drafts": {"id": _PRESENT, "at": _MOMENT, "draft": Present(are_json=True)},
    },
    "insights": {
        "insights": {
            "document": Numbers(below=_ROW, order="rising"),
            **dict.fromkeys(("id", "kind", "state"), _PRESENT),
            "sources": _DOCUMENT,
        },
    },
    "routes": {"policies": {"id": _PRESENT, "at": _MOMENT, "policy": Present(are_json=True)}},
    "layout": {
        "nodes": {
            "entity": Numbers(below="entities.entities", order="rising"),
            "community": _COUNT,
            **dict.fromkeys(("x", "y"), _PRESENT),
        },
        "lines": {
            **dict.fromkeys(("source", "target"), Numbers(below="layout.nodes")),
            "weight": _PRESENT,
        },
    },
}

# columns that say where runs begin in another table, and how many rows each has; None: the next run
# begins there, and a last number says where the last one ends
RUNS: Mapping[str, tuple[str, str | None, str]] = {
    "entities.entities": ("offset", "documents", "entities.mentions"),
    "sessions.starts": ("start", None, "sessions.members"),
}

# tables of as many rows as another has
SAME_ROWS: Mapping[str, str] = {
    "memories.columns": _ROW,
    "memories.ids": _ROW,
    "postings.documents": _ROW,
    "vectors.rows": _ROW,
    "vectors.codes": _ROW,
    "sessions.turns": _ROW,
    "sessions.read": _ROW,
    "entities.read": _ROW,
    "duplicates.statements": _ROW,
}
