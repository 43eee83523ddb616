"""
What becomes of a goal: its status, how far it is, the day it is due.
"""

from datetime import date
from typing import Any

from msgspec import structs

from store import commands
from store.events import Event, Recorded, Revised, Trust
from store.home.errors import InvalidInput
from store.log import EventLog


def change_goal(
    log: EventLog,
    id_: str,
    changes: Revised,
    now: int,
    due: date | None = None,
    trust: Trust = "user",
) -> Event:
    """Change a goal; `due` joins its metadata. Raise NotFound, and InvalidInput for another kind.

    It raises what a revision does, too.
    """
    metadata = _metadata(log, id_)
    if due is not None:
        changes = structs.replace(changes, metadata=metadata | {"due": due.isoformat()})
    return commands.revise(log, id_, changes, now, trust)


def _metadata(log: EventLog, id_: str) -> dict[str, Any]:
    """Return a goal's metadata as it stands."""
    bodies = [event.body for event in log.about(id_)]
    if bodies and not (isinstance(bodies[0], Recorded) and bodies[0].kind == "goal"):
        raise InvalidInput(f"{id_} is no goal: `mnemolog list --kind goal` shows them")
    found: dict[str, Any] = {}
    for body in bodies:
        if isinstance(body, Recorded | Revised) and body.metadata is not None:
            found = body.metadata
    return found
