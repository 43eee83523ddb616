"""
Sample: the past recalls by which a change is judged, if there are too many to ask all of them.

The newest alone are of one day, one project and one door, and would miss a fault of another. So a
sample first takes recalls that helped and repeated questions, then goes round the doors and
projects, and takes recalls with and without hits of each in turns, the newest first. A repeated
question counts once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from serve.evaluation.drift import find_verdicts
from serve.evaluation.replay import askable, recalled
from store.embedders.embedder import Embedder
from store.log import receipts
from store.log.event_log import EventLog
from store.log.events import Event

_CHOSEN_FROM = 1_000  # receipts
_FIRST = 0.5  # the greatest share of a sample for recalls that helped or were asked again


def choose_newest(log: EventLog, embedder: Embedder, most: int) -> list[Event]:
    """Return up to `most` of the newest receipts that can be asked again, newest first."""
    newest = receipts.page(log, receipts.Wanted(), _CHOSEN_FROM).receipts
    return choose_recalls(log, askable(newest, embedder), most)


def choose_recalls(log: EventLog, events: Sequence[Event], most: int) -> list[Event]:
    """Return up to `most` of some receipts, newest first; the same ones give the same sample."""
    if len(events) <= most:
        return list(events)
    times = Counter(map(_question, events))
    different = list({_question(event): event for event in reversed(events)}.values())[::-1]
    helped = {recall for (recall, _), verdict in find_verdicts(log, events).items() if verdict > 0}
    telling = [event for event in different if event.id in helped]
    telling += [
        event for event in different if event.id not in helped and times[_question(event)] > 1
    ]
    first = list(islice(_take_turns(telling), int(_FIRST * most)))
    first_ids = {event.id for event in first}
    others = (event for event in _take_turns(different) if event.id not in first_ids)
    chosen = {event.id for event in (*first, *islice(others, most - len(first)))}
    return [event for event in events if event.id in chosen]


def _take_turns(events: Iterable[Event]) -> Iterator[Event]:
    """Yield receipts, one of each door, project and outcome in turns, each the newest first."""
    groups: dict[tuple[str | None, bool, str | None], list[Event]] = {}
    for event in events:
        body = recalled(event)
        groups.setdefault((body.door, bool(body.hits), event.project), []).append(event)
    # the projects of a door and outcome share its turn, so that many of them do not dominate
    queues: dict[tuple[str | None, bool], Iterator[Event]] = {}
    for door, spoke in dict.fromkeys(key[:2] for key in groups):
        of = [group for key, group in groups.items() if key[:2] == (door, spoke)]
        queues[door, spoke] = _round_robin([iter(group) for group in of])
    yield from _round_robin(list(queues.values()))


def _round_robin(queues: Sequence[Iterator[Event]]) -> Iterator[Event]:
    waiting = list(queues)
    while waiting:
        unfinished = []
        for queue in waiting:
            if (event := next(queue, None)) is not None:
                yield event
                unfinished.append(queue)
        waiting = unfinished


def _question(receipt: Event) -> tuple[str, str | None, str | None]:
    body = recalled(receipt)
    return body.query.strip(), receipt.project, body.door
