"""
Hooks of a session: its context at the start and after a compaction, its record when a turn stops.

One source renders a session's context, minus the notes still before its model (`model_context`): a
new session gets the brief of its project; a resumed session the news since its last brief, or the
brief if the host keeps no notes; a fork nothing, because it has all. A session that lost its
context gets the rules and the user's statements, its own first, and its own work, from its events.
The host's own summary is not repeated.

When the agent stops, three things are recorded: which lessons were followed, how tests and builds
stood, and the agent's last message, which ends its episode. Nothing is said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec.structs import replace

from serve.hooks.brief import BYTES as BRIEF_BYTES
from serve.hooks.brief import brief, goal_note, standing_parts
from serve.hooks.call import Call
from serve.hooks.earlier_turns import recent_turns
from serve.hooks.habits import commands
from serve.hooks.model_context import ModelContext, keeps_notes, model_context
from serve.hosts.event import SILENCE, Reply, Start
from serve.lessons.matching import judge_lesson, outcomes
from serve.lessons.rule_parser import parse_wording
from serve.reader.goals import set_goals
from serve.reader.held import is_held
from serve.reader.memory_json import is_lesson, role
from serve.reader.view import View
from serve.recall.context_block import Block, Note, Part, note, render_parts
from store.agents.work import Work, work
from store.home.projects import branch_of
from store.log.event_kinds import (
    STATEMENT,
    Acted,
    Effort,
    Followed,
    Outcome,
    SessionTold,
    Stage,
    Surfaced,
)
from store.log.events import Event
from store.memories.memory import FORGOTTEN, Memory
from store.text.excerpt import one_line

DIGEST_BYTES, DIGEST_STANDING = 4_000, 1_600  # of it, for rules and statements
_PROMPT = 200  # characters
_ASKED, _RECORDED, _EDITED, _RULES, _GOALS = 8, 8, 12, 6, 3
_SHORT = 240  # characters of a memory's text

_STAGES: Mapping[Start, Stage] = {
    "startup": "started",
    "resume": "resumed",
    "clear": "cleared",
    "compact": "compacted",
    "fork": "started",
}


def answer_session_start(call: Call) -> Reply:
    """Return the context of a session that begins."""
    share = 0.0  # of new sessions, drawn by their ids, that get no context
    if (
        call.choices.holdout > 0.0
        and call.event.start in ("startup", "clear")
        and call.journal.beginning is None
    ):
        share = call.choices.holdout
    drawn = int.from_bytes(sha256(call.event.session.encode()).digest()[:8])
    is_held_out = call.is_held_out or drawn < share * 2**64
    block = Block()
    if call.is_awaited and not is_held_out:
        block = _session_block(call, call.event.start)
    if not call.is_in_time:
        block = Block()
    session_told = SessionTold(
        stage=_STAGES[call.event.start],
        characters=len(block.text) or None,
        drawn=share or None,
        is_held_out=is_held_out and share > 0.0,
    )
    call.write_later(
        call.new_event(session_told),
        *(call.new_event(Surfaced(place="session"), subject=id_) for id_ in block.ids),
    )
    return Reply(block.text)


def _session_block(call: Call, start: Start) -> Block:
    """Return this session's context, minus the notes that its model still has."""
    if start == "fork":
        return Block()  # the model has the whole context of the session it comes from
    context = ModelContext()
    if start == "compact":
        session_work = work(call.journal.events, call.event.cwd)
        if session_work.asked or session_work.edited or session_work.recorded:
            digest = call.ask(lambda view: _digest(view, call, session_work))
            return render_parts(digest, DIGEST_BYTES)
    elif start != "clear":
        is_again = start == "startup" or not keeps_notes(call.event.host)
        context = model_context(call.journal, is_started_again=is_again)
    return render_parts(call.ask(lambda view: _news(view, call, context)), BRIEF_BYTES)


def _news(view: View, call: Call, context: ModelContext) -> list[Part]:
    """Return the brief of the project; after an earlier brief, only the news since."""
    conditions = call.filter
    if context.briefed_at is not None:
        conditions = replace(conditions, since=context.briefed_at + 1)
    said_here = context.own | context.recorded
    parts = brief(view, conditions, said_here, branch_of(call.event.cwd))
    before_it = said_here | context.known.keys()
    return [
        Part(part.heading, new)
        for part in parts
        if (new := tuple(line for line in part.notes if line.get("id") not in before_it))
    ]


def _digest(view: View, call: Call, session_work: Work) -> tuple[Part, ...]:
    """Return the project's rules and statements, this session's first, and the session's work, the
    most important first: the end may be cut.
    """
    surfaced = _find_eligible(view, call, sorted(call.journal.lesson_ids))
    ruling = [memory for memory in surfaced if role(memory) == "rule"][-_RULES:]
    own = _find_eligible(view, call, reversed(session_work.recorded))
    stated = [memory for memory in (*own, *reversed(surfaced)) if memory.kind == STATEMENT]
    standing = standing_parts(view, call.filter, (*ruling, *stated), DIGEST_STANDING)
    there = {line["id"] for part in standing for line in part.notes}
    recorded = [memory for memory in own if memory.kind != "raw_turn" and memory.id not in there]
    goals = [memory for memory in set_goals(view, call.filter) if not is_held(memory)][:_GOALS]
    answered = session_work.asked if session_work.is_answered else session_work.asked[:-1]
    edits: list[Note] = [
        {"edited": file, "times": times} for file, times in session_work.edited[:_EDITED]
    ]
    return (
        *standing,
        Part(
            "Left open in this session:",
            (*_open_notes(session_work), *(goal_note(memory, call.filter) for memory in goals)),
        ),
        Part(
            "Recorded in this session, the newest first:",
            tuple(note(memory, call.project, longest=_SHORT) for memory in recorded[:_RECORDED]),
        ),
        Part(
            "Asked in this session, the newest first:",
            tuple({"asked": one_line(text, _PROMPT)} for text in reversed(answered[-_ASKED:])),
        ),
        Part("Done in this session:", (*_run_notes(session_work), *edits)),
        Part(
            "Commands that worked here:",
            tuple(commands(recent_turns(view, call.filter), but=session_work.runs)),
        ),
    )


def _find_eligible(view: View, call: Call, ids: Iterable[str]) -> list[Memory]:
    """Return the memories with `ids` that may still be shown, in the given order."""
    memories = (view.tail.find(id_) for id_ in ids)
    return [
        memory
        for memory in memories
        if memory is not None and call.filter.accepts(memory) and not is_held(memory)
    ]


def _open_notes(session_work: Work) -> Iterator[Note]:
    if session_work.asked and not session_work.is_answered:
        yield {"asked": one_line(session_work.asked[-1], _PROMPT), "answered": False}
    for effort, act in session_work.failures:
        failed = {"failing": effort, "ran": one_line(act.command or act.tool, _PROMPT)}
        if act.error:  # a tool's own words, and marked as such
            failed |= {"error": one_line(act.error[-_PROMPT:], _PROMPT), "trust": "tool"}
        yield failed


def _run_notes(session_work: Work) -> Iterator[Note]:
    for effort, runs in session_work.runs.items():
        last = one_line(runs.last.command or runs.last.tool, _PROMPT)
        yield {
            "ran": last,
            "for": effort,
            "passed": runs.last.passed,
            "times": runs.passed + runs.failed,
        }


def record_compaction(call: Call) -> Reply:
    """Record the summary of a compaction; a host takes no answer at this moment."""
    call.write_later(call.new_event(SessionTold(stage="compacted", said=call.event.said or None)))
    return SILENCE


def record_session_end(call: Call) -> Reply:
    """Record the end of a session."""
    call.write_later(call.new_event(SessionTold(stage="ended")))
    return SILENCE


def record_stop(call: Call) -> Reply:
    """Record the agent's last message and the outcomes of its turn; the agent gets no answer."""
    stopped = call.new_event(SessionTold(stage="stopped", said=call.event.said or None))
    if call.event.is_subagent:  # the turn goes on without it
        call.write_later(stopped)
        return SILENCE
    turn = call.journal.turn
    efforts = _outcomes(call, turn)
    events = [call.new_event(outcome) for outcome in efforts]
    events += _verdict_events(call, turn, {outcome.effort: outcome.passed for outcome in efforts})
    call.write(*events, stopped)
    return SILENCE


def _outcomes(call: Call, turn: Sequence[Event]) -> list[Outcome]:
    """Return the outcomes of the efforts since the turn last stopped."""
    here = len(turn)
    while here:
        body = turn[here - 1].body
        if isinstance(body, SessionTold) and body.stage == "stopped":
            break
        here -= 1
    there = len(call.journal.events) - len(turn) + here
    return outcomes(_actions(turn[here:]), _actions(call.journal.events[:there]))


def _verdict_events(call: Call, turn: Sequence[Event], stood: dict[Effort, bool]) -> list[Event]:
    """Return the verdicts on the lessons that the turn was shown and that have none yet."""
    judged_before = {event.subject for event in turn if isinstance(event.body, Followed)}
    events: dict[str, Event] = {}
    for place, event in enumerate(turn):
        if not isinstance(event.body, Surfaced) or event.subject in judged_before | events.keys():
            continue
        text = _lesson_text(call, event.subject)
        if text is None:
            continue
        before, after = _actions(turn[:place]), _actions(turn[place:])
        if (verdict := judge_lesson(parse_wording(text), event.body, before, after)) is not None:
            body = Followed(
                verdict=verdict[0], place=event.body.place, evidence=verdict[1], stood=stood
            )
            events[event.subject] = call.new_event(body, subject=event.subject)
    return list(events.values())


def _lesson_text(call: Call, id_: str) -> str | None:
    memory = call.tenant.reader.answer(lambda view: view.tail.find(id_))
    if memory is None or memory.state == FORGOTTEN:
        return None
    return memory.content if is_lesson(memory) or memory.kind == STATEMENT else None


def _actions(events: Sequence[Event]) -> list[Acted]:
    return [event.body for event in events if isinstance(event.body, Acted)]
