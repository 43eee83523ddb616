"""
What a session is given when it begins, or goes on after a compaction.

A session that lost its context gets a digest of what it did, from its journal; a new one the brief
of its project. One that is taken up again has all that was said in it, and gets what came to be in
the project since. The host's own summary is not said a second time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply, Start
from serve.reader.reader import View
from serve.recall.context_block import Block, Note, Part, note, rendered
from serve.rules import role
from serve.summaries.brief import BYTES as BRIEF_BYTES
from serve.summaries.brief import brief, goal_note
from serve.summaries.goals import set_goals
from serve.summaries.work import Work, work
from store.log.event_kinds import SessionTold, Stage, Surfaced
from store.memories.memory import Memory
from store.text.excerpt import one_line

DIGEST_BYTES = 4_000
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


def answered(call: Call) -> Reply:
    """Return what a session is to know when it begins."""
    said = _said(call, call.event.start)
    if not call.is_in_time:
        said = Block()
    call.write_later(
        call.told(SessionTold(stage=_STAGES[call.event.start], characters=len(said.text) or None)),
        *(call.told(Surfaced(place="session"), subject=id_) for id_ in said.ids),
    )
    return Reply(said.text)


def _said(call: Call, start: Start) -> Block:
    if start == "fork":
        return Block()  # the model has all that was said in the session it comes from
    if start == "resume" and call.journal.events:
        since = replace(call.filter, since=call.journal.events[-1].at + 1)
        return rendered(call.answered(lambda view: brief(view, since)), BRIEF_BYTES)
    if start == "compact":
        done = work(call.journal.events, call.event.cwd)
        if done.asked or done.edited or done.recorded:
            return rendered(call.answered(lambda view: _digest(view, call, done)), DIGEST_BYTES)
    return rendered(call.answered(lambda view: brief(view, call.filter)), BRIEF_BYTES)


def _digest(view: View, call: Call, done: Work) -> tuple[Part, ...]:
    """Return what this session did, what matters most first: the end may be cut."""
    surfaced = _living(view, call, sorted(call.journal.surfaced))
    shown = [one for one in surfaced if role(one) == "rule"]
    recorded = [
        one for one in _living(view, call, reversed(done.recorded)) if one.kind != "raw_turn"
    ]
    goals = set_goals(view, call.filter)[:_GOALS]
    return (
        Part("Rules this session was shown:", _notes(shown[-_RULES:], call)),
        Part(
            "Left open in this session:",
            (*_left(done), *(goal_note(one, call.filter) for one in goals)),
        ),
        Part("Recorded in this session, the newest first:", _notes(recorded[:_RECORDED], call)),
        Part("Asked in this session, the newest first:", tuple(_asked(done))),
        Part("Done in this session:", (*_ran(done), *_edited(done))),
    )


def _living(view: View, call: Call, ids: Iterable[str]) -> list[Memory]:
    """Return those of some memories that may still come back, in the order given."""
    found = (view.tail.find(id_) for id_ in ids)
    return [one for one in found if one is not None and call.filter.accepts(one)]


def _notes(memories: Iterable[Memory], call: Call) -> tuple[Note, ...]:
    return tuple(note(one, call.project, longest=_SHORT) for one in memories)


def _left(done: Work) -> Iterator[Note]:
    if done.asked and not done.is_answered:
        yield {"asked": one_line(done.asked[-1], _PROMPT), "answered": False}
    for effort, act in done.failing:
        failed = {"failing": effort, "ran": one_line(act.command or act.tool, _PROMPT)}
        if act.error:  # a tool's own words, and marked as such
            failed |= {"error": one_line(act.error[-_PROMPT:], _PROMPT), "trust": "tool"}
        yield failed


def _asked(done: Work) -> Iterator[Note]:
    answered = done.asked if done.is_answered else done.asked[:-1]  # the last one is left open
    for prompt in reversed(answered[-_ASKED:]):
        yield {"asked": one_line(prompt, _PROMPT)}


def _ran(done: Work) -> Iterator[Note]:
    for effort, runs in done.runs.items():
        last = one_line(runs.last.command or runs.last.tool, _PROMPT)
        yield {
            "ran": last,
            "for": effort,
            "passed": runs.last.passed,
            "times": runs.passed + runs.failed,
        }


def _edited(done: Work) -> Iterator[Note]:
    for file, times in done.edited[:_EDITED]:
        yield {"edited": file, "times": times}


def compacted(call: Call) -> Reply:
    """Keep the summary of what was compacted; nothing can be said at this moment."""
    call.write_later(call.told(SessionTold(stage="compacted", said=call.event.said or None)))
    return SILENCE


def ended(call: Call) -> Reply:
    """Keep that a session ended."""
    call.write_later(call.told(SessionTold(stage="ended")))
    return SILENCE
