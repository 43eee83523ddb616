"""The catalog of projections: all of them, in the order of a build."""

from store.derived.duplicates import DUPLICATES_PROJECTION
from store.derived.entities import ENTITIES_PROJECTION
from store.derived.facts import FACTS_PROJECTION
from store.derived.feedback import LESSONS_PROJECTION, USAGE_PROJECTION
from store.derived.listings import GOALS_PROJECTION, INSIGHTS_PROJECTION
from store.derived.routing import ROUTES_PROJECTION
from store.derived.sessions import SESSIONS_PROJECTION
from store.derived.state import STATE_PROJECTION
from store.derived.statement_weights import STATEMENT_WEIGHTS_PROJECTION
from store.embedders.embedder import Embedder
from store.index import vectors
from store.index.postings import POSTINGS_PROJECTION
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.snapshots.projection import Projection


def all_projections(embedder: Embedder) -> tuple[Projection, ...]:
    """Return every projection, each after the ones it needs."""
    return (
        MEMORIES_PROJECTION,
        POSTINGS_PROJECTION,
        SESSIONS_PROJECTION,
        vectors.vectors_projection(embedder),
        ENTITIES_PROJECTION,
        DUPLICATES_PROJECTION,
        FACTS_PROJECTION,
        STATE_PROJECTION,
        GOALS_PROJECTION,
        USAGE_PROJECTION,
        LESSONS_PROJECTION,
        STATEMENT_WEIGHTS_PROJECTION,
        INSIGHTS_PROJECTION,
        ROUTES_PROJECTION,
    )
