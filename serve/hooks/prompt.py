"""
What is put before the model with a prompt: what the memory knows of it, or nothing.

Small talk and commands are answered by silence, and so is a prompt of which nothing is known for
sure: the best that recall finds must pass a bar of the hook's own, for nobody asked. A rule that
names a program or file of the prompt needs no bar, nor do goals where the prompt asks for them.
What was put before this session's model stays there, so it is said again only if it changed since,
or once the session was compacted or cleared.

The router says how high the bar is (passive or proactive), how sure recall must be, and whether
notes come whole or as one sentence each. Rules and goals come as ever.
"""

import time
from dataclasses import dataclass, replace

from serve.hooks.block import Block, Note, block, note, short_note
from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from serve.journal import Journal
from serve.lessons.index import named_by_text, rests
from serve.query.analysis import usual
from serve.query.intent import asks_for_open, intent
from serve.reader import View
from serve.recall import Answer, Hit, recall
from serve.router import Router
from serve.rules import may_come_unasked
from serve.summaries.brief import goal_note
from serve.summaries.goals import open_goals
from store.agent_events import Prompted, SessionTold, Surfaced
from store.events import Event, Recalled, new_id
from store.events import Hit as Told
from store.projections.memories import Memory

KEPT = 2_000  # characters of a prompt in the log
# The least confidence of the best memory, where vectors know meaning and where they know letters:
# either keeps .87 of the right answers. docs/recall.md has what they let through.
MEANING_BAR, LETTERS_BAR = 0.6, 0.5
PASSIVE = 0.2  # more, where the router wants less said unasked
_LEVELS = ("search", "context", "proactivity")
GOALS, RULES = 8, 3  # that were asked for; that the prompt names


@dataclass(frozen=True, slots=True)
class Found:
    """What the memory knows of a prompt: what recall says, rules it names, goals it asks for.

    `resting` are the ids of those recalled that are lessons nobody goes by.
    """

    answer: Answer
    bar: float
    is_short: bool
    rules: tuple[Memory, ...]
    goals: tuple[Memory, ...]
    resting: frozenset[str]


def answered(call: Call) -> Reply:
    """Return what the memory has to say to a prompt."""
    prompt = call.event.prompt
    wanted = intent(prompt)
    prompted = call.told(Prompted(prompt=prompt[:KEPT], intent=wanted, turn=call.event.turn))
    is_silent = wanted in ("small_talk", "command") and not asks_for_open(prompt)
    if is_silent:
        call.write_later(prompted)
        return SILENCE
    began = time.perf_counter()
    receipt_id = new_id(call.now)
    found = call.answered(lambda view: _found(view, call, receipt_id))
    said = _block(call, found)
    took_us = round((time.perf_counter() - began) * 1e6)
    if not call.is_in_time:
        call.write_later(prompted)
        return SILENCE
    receipt = replace(
        _receipt(call, found.answer, said, took_us), id=receipt_id, subject=receipt_id
    )
    call.write_later(prompted, receipt, *_surfaced(call, said))
    return Reply(said.text)


def _found(view: View, call: Call, receipt: str) -> Found:
    prompt = call.event.prompt
    router = Router(view.snapshots.policy(), _LEVELS, call.choices.explore, receipt)
    question = replace(usual(prompt, call.filter, call.choices), router=router)
    named = named_by_text(view, call.filter, prompt)
    answer = recall(view, question, call.embedder)
    chosen = answer.route.actions if answer.route else {}
    bar = MEANING_BAR if view.snapshots.calibration.knows_meaning else LETTERS_BAR
    return Found(
        answer=answer,
        bar=bar + PASSIVE if chosen.get("proactivity") == "passive" else bar,
        is_short=chosen.get("context") == "summarize",
        rules=tuple(one.memory for one in named[:RULES]),
        goals=tuple(_goals(view, call)) if asks_for_open(prompt) else (),
        resting=frozenset(hit.memory.id for hit in answer.hits if rests(view, hit.memory)),
    )


def _goals(view: View, call: Call) -> list[Memory]:
    return [one for one in open_goals(view, call.filter) if may_come_unasked(one)][:GOALS]


def _block(call: Call, found: Found) -> Block:
    """Return the block for what was found, the best first; empty where nothing is sure or new.

    A lesson at rest is no reason to speak, and comes last where there is another.
    """
    hits = [hit for hit in found.answer.hits if may_come_unasked(hit.memory)]
    awake = (hit.confidence for hit in hits if hit.memory.id not in found.resting)
    if max(awake, default=0.0) < found.bar:
        hits = []
    hits.sort(key=lambda hit: hit.memory.id in found.resting)
    of_rules = {one.id: (one, note(one, call.project)) for one in found.rules}
    of_hits = {
        hit.memory.id: (hit.memory, _note(hit, call.project, is_short=found.is_short))
        for hit in hits
    }
    background = of_rules | of_hits
    known = said_before(call.journal) if background else {}
    new = {
        id_: one
        for id_, (memory, one) in background.items()
        if memory.updated_at > known.get(id_, -1)
    }
    goals = {one.id: goal_note(one, call.filter) for one in found.goals}  # asked for: said again
    return block((new | goals).values())


def _note(hit: Hit, project: str, *, is_short: bool) -> Note:
    if is_short:
        return short_note(hit.memory, project, conflicts_with=hit.conflicts_with)
    return note(
        hit.memory,
        project,
        conflicts_with=hit.conflicts_with,
        history=hit.history,
    )


def said_before(journal: Journal) -> dict[str, int]:
    """Return when each memory that the session's model still has before it was put there."""
    said: dict[str, int] = {}
    for event in journal.events:
        match event.body:
            case SessionTold(stage="compacted" | "cleared"):
                said.clear()
            case Recalled(hits=hits):
                said |= {hit.id: event.at for hit in hits}
            case Surfaced():
                said[event.subject] = event.at
    return said


def _receipt(call: Call, found: Answer, said: Block, took_us: int) -> Event:
    """Return the receipt of a recall: what was put before the model, and how many were not."""
    hits = [hit for hit in found.hits if hit.memory.id in said.ids]
    unsaid = len(found.hits) - len(hits)
    return call.told(
        Recalled(
            query=call.event.prompt[:KEPT],
            mode="auto",
            manifest=found.manifest,
            watermark=found.watermark,
            hits=tuple(Told(hit.memory.id, hit.score, hit.confidence) for hit in hits),
            dropped=found.dropped | ({"unsaid": unsaid} if unsaid else {}),
            took_us=took_us,
            route=found.route,
        )
    )


def _surfaced(call: Call, said: Block) -> list[Event]:
    rules = (one["id"] for one in said.notes if one["role"] == "rule")
    return [call.told(Surfaced(place="prompt"), subject=id_) for id_ in rules]
