"""
Growth: new memories of the user's own sessions, distinguished from those of other sources.

A memory grows by the turns of sessions, the notes of people and agents during work, and the
insights of jobs from these: these are never poison, however often they are hits. An import, a batch
too large to be notes, and the text of a tool or a page may be. They are distinguished by the author
of an event and the number of others at the same moment; the text itself is not examined.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from store.agents.prompt_statements import FROM_PROMPT
from store.log.event_kinds import Prompted, Recorded
from store.log.event_log import EventLog
from store.log.events import Event

NOTED_AT_ONCE = 20  # memories of one moment: more are an import, not notes

_OTHERS = frozenset(("tool", "web", "repository"))  # as trust or author: foreign text


class Arrival(msgspec.Struct, frozen=True):
    """The first event of a memory, and whether it is from the user's own sessions."""

    seq: int
    is_own: bool


def list_arrivals(log: EventLog, after: int, until: int) -> Mapping[str, Arrival]:
    """Return the arrival of each memory of the events with `after` < seq <= `until`, by its id.

    An insight of a job came in as its sources did; those of older memories as the user's own.
    """
    begun = [
        event
        for event in log.read(after, until, cold=False)
        if isinstance(event.body, Recorded | Prompted)
    ]
    at_once = Counter(event.at for event in begun if _is_note(event))
    arrivals: dict[str, Arrival] = {}
    for event in begun:
        is_own = _OTHERS.isdisjoint((event.trust, event.author))
        if isinstance(body := event.body, Recorded) and body.made is not None:
            sources = (arrivals.get(id_) for id_ in body.source_ids)
            is_own = all(arrival is None or arrival.is_own for arrival in sources)
        elif isinstance(body, Recorded) and body.source != FROM_PROMPT:
            is_import = body.created_at is not None or body.source is not None
            is_own = is_own and not is_import and at_once[event.at] <= NOTED_AT_ONCE
        arrivals[event.id] = Arrival(event.seq, is_own)
    return arrivals


def _is_note(event: Event) -> bool:
    """Return True if an event records a memory from neither a job nor a prompt."""
    body = event.body
    return isinstance(body, Recorded) and body.made is None and body.source != FROM_PROMPT
