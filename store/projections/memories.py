"""
memories: one row for each memory ever recorded and each turn of an agent, as they stand at the
watermark.

A fold over the log (`memory.fold`), as tables (`memory.table`). Rows keep the order in which
memories were recorded, so a row's number is the document number in every other projection. Whether
a ttl has run out depends on the clock and is asked at recall, by `expires_at`.
"""

from store.agent_events import Prompted
from store.events import Recorded
from store.projection import Inputs, Made, Previous, Projection
from store.projections.memory.fold import Fold
from store.projections.memory.growth import Growth
from store.projections.memory.table import (
    COLUMNS,
    EDGES,
    MEMORIES,
    PROJECTS,
)
from store.projections.places import PLACES
from store.redaction import redact

SCHEMAS = {
    "memories": MEMORIES,  # in parts
    "columns": COLUMNS,
    "projects": PROJECTS,
    "ids": PLACES,
    "keys": PLACES,  # of a project and a key
    "episodes": PLACES,  # of the session
    "replaced": PLACES,  # of the id that a row's `superseded_by` names
    "made_of": PLACES,  # of each source of a row that a job made
    "edges": EDGES,  # in parts
}
MOST_CHANGED = 16_384  # rows of earlier parts that are held until their parts are made again


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Fold the log up to the watermark; from `previous` on where there is one."""
    growth = Growth(inputs.keep, previous.tables if previous else None)
    fold = Fold(beneath=growth)
    made: dict[str, None] = {}
    room = growth.room
    for event in inputs.read(previous.watermark if previous else 0):
        fold.apply(event)
        if isinstance(event.body, (Recorded, Prompted)):
            made[event.id] = None
            if len(made) == room:
                growth.add(fold.settle(made))
                made.clear()
                room = growth.room
        elif len(fold.rows) - len(made) > MOST_CHANGED:
            growth.change(fold.settle(fold.rows.keys() - made.keys()))
    changed = fold.settle(fold.rows.keys() - made.keys())
    growth.change(changed)  # first: the last part, which may yet grow, may be among theirs
    growth.add(fold.settle(made))
    growth.link(fold.edges)
    return growth.tables()


MEMORIES_PROJECTION = Projection(
    name="memories",
    version=f"8.{redact.VERSION}",
    inputs=("log",),
    schemas=SCHEMAS,
    build=build,
)
