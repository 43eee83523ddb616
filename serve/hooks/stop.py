"""
What a turn came to, once the agent stops: which lessons were followed, how tests and builds stood,
a note of it if the agent made none, and drafts of what the person corrected. Nothing is said.
"""

from collections.abc import Iterator, Sequence

from serve.hooks import ambient
from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from serve.lessons.following import judged
from serve.lessons.index import rules
from serve.lessons.outcomes import outcomes
from serve.lessons.wording import wording
from serve.query.intent import corrections
from store import lesson_commands
from store.agent_events import Acted, Effort, Followed, Outcome, Prompted, SessionTold, Surfaced
from store.errors import InvalidInput
from store.events import Event
from store.importers.excerpt import one_line
from store.importers.rules import Rule, is_passing
from store.importers.rules import rules as lasting_sentences
from store.projections.memories import FORGOTTEN

MAX_DRAFTS = 3  # of one prompt


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
    told += [made] if (made := ambient.note(call, turn)) is not None else []
    call.write(*told, stopped)
    if drafts := list(_drafts(call, turn)):
        call.write(*drafts)
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
    return None if memory is None or memory.state == FORGOTTEN else memory.content


def _acted(events: Sequence[Event]) -> list[Acted]:
    return [event.body for event in events if isinstance(event.body, Acted)]


def _drafts(call: Call, turn: Sequence[Event]) -> Iterator[Event]:
    """Yield a draft for each lasting sentence of the prompt that is no lesson and no draft yet."""
    asked = turn[0] if turn else None
    if asked is None or not isinstance(asked.body, Prompted):
        return
    found = _lasting(asked.body.prompt)[:MAX_DRAFTS]
    known = _known(call) if found else set()
    for rule in found:
        try:
            event = lesson_commands.proposal(
                lesson_commands.lasting(rule.text),
                rule.kind,
                call.now,
                because=one_line(asked.body.prompt, 300),
                project=call.project or None,
                session=call.event.session,
                agent=call.event.host,
                source_ids=(asked.id,),
            )
        except InvalidInput:  # its words make no memory
            continue
        if event.id not in known and not call.tenant.log.known([event.id]):
            yield event


def _lasting(prompt: str) -> list[Rule]:
    """Return the sentences of a prompt that hold beyond it: what it corrects, and what it prefers
    or forbids by name. What speaks of this one thing, or of now, does not.
    """
    found = corrections(prompt) or [
        one
        for one in lasting_sentences(prompt)
        if one.kind == "preference" or (one.kind == "lesson" and wording(one.text).names_anything)
    ]
    return [one for one in found if not is_passing(one.text)]


def _known(call: Call) -> set[str]:
    """Return what the ids of drafts would be that say what a lesson says already."""
    there = call.tenant.reader.answered(lambda view: rules(view, call.filter))
    return {lesson_commands.draft_id(call.project or None, one.content) for one in there}
