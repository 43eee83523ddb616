"""
What a turn came to, once the agent stops: which lessons were followed, how tests and builds stood,
and what the agent said last, which ends its episode. Nothing is said.
"""

from collections.abc import Sequence

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from serve.lessons.following import judged
from serve.lessons.outcomes import outcomes
from serve.lessons.wording import wording
from serve.rules import role
from store.log.event_kinds import STATEMENT, Acted, Effort, Followed, Outcome, SessionTold, Surfaced
from store.log.events import Event
from store.memories.memory import FORGOTTEN


def answered(call: Call) -> Reply:
    """Keep what the agent said last and what its turn came to; nothing is said to it."""
    stopped = call.told(SessionTold(stage="stopped", said=call.event.said or None))
    if call.event.is_subagent:  # the turn goes on without it
        call.write_later(stopped)
        return SILENCE
    turn = call.journal.turn
    came = _outcomes(call, turn)
    told = [call.told(one) for one in came]
    told += _followed(call, turn, {one.effort: one.passed for one in came})
    call.write(*told, stopped)
    return SILENCE


def _outcomes(call: Call, turn: Sequence[Event]) -> list[Outcome]:
    """Return how the efforts stand that were made since the turn last stopped."""
    here = len(turn)
    while here and not _is_stop(turn[here - 1]):
        here -= 1
    there = len(call.journal.events) - len(turn) + here
    return outcomes(_acted(turn[here:]), _acted(call.journal.events[:there]))


def _is_stop(event: Event) -> bool:
    return isinstance(event.body, SessionTold) and event.body.stage == "stopped"


def _followed(call: Call, turn: Sequence[Event], stood: dict[Effort, bool]) -> list[Event]:
    """Return the verdicts on the lessons that the turn was shown and that have none yet."""
    judged_before = {event.subject for event in turn if isinstance(event.body, Followed)}
    found: dict[str, Event] = {}
    for place, event in enumerate(turn):
        if not isinstance(event.body, Surfaced) or event.subject in judged_before | found.keys():
            continue
        text = _text(call, event.subject)
        if text is None:
            continue
        before, after = _acted(turn[:place]), _acted(turn[place:])
        if (verdict := judged(wording(text), event.body, before, after)) is not None:
            body = Followed(
                verdict=verdict[0], place=event.body.place, evidence=verdict[1], stood=stood
            )
            found[event.subject] = call.told(body, subject=event.subject)
    return list(found.values())


def _text(call: Call, id_: str) -> str | None:
    memory = call.tenant.reader.answered(lambda view: view.tail.find(id_))
    if memory is None or memory.state == FORGOTTEN:
        return None
    return memory.content if role(memory) == "rule" or memory.kind == STATEMENT else None


def _acted(events: Sequence[Event]) -> list[Acted]:
    return [event.body for event in events if isinstance(event.body, Acted)]
