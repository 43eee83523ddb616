"""
Recalls nobody has said anything of yet: they brought memories, and were neither rated nor judged.
"""

from collections.abc import Sequence

from store.events import Event, Rated, Recalled
from store.log import EventLog
from store.text.text_features import MAY_RULE

SOON_US = 86_400 * 1_000_000  # a rating of a memory speaks of what brought it within a day
DAY_US = 86_400 * 1_000_000


def pending(log: EventLog, since: int, until: int) -> list[Event]:
    """Return the receipts that wait for a word, with `since` <= at < `until`, the oldest first.

    One is answered by a rating of its own or, within a day, of what it brought, and by a judgment;
    a judgment that was undone counts as said: a person did not want it.
    """
    told = log.told(("recalled",), since, until)
    judged = {event.subject for event in log.of_jobs(("judged",))}
    rated = log.told(("rated",), since, until + SOON_US)
    return [
        one
        for one in told
        if isinstance(one.body, Recalled)
        and one.body.hits
        and one.id not in judged
        and not _is_rated(one, one.body, rated)
    ]


def may_rate(event: Event) -> bool:
    """Return whether an event may say how good a memory is: a tool's or the web's may not."""
    return event.trust in MAY_RULE


def _is_rated(recall: Event, body: Recalled, ratings: Sequence[Event]) -> bool:
    brought = {hit.id for hit in body.hits}
    return any(
        one.subject == recall.id
        or (one.subject in brought and recall.at <= one.at <= recall.at + SOON_US)
        for one in ratings
        if isinstance(one.body, Rated) and may_rate(one)
    )
